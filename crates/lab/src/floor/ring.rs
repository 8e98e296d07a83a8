//! Rings of slots in shared memory, one each way: what the floors of bulk and of many outstanding calls over `shm:` are made of.
//!
//! A word in each slot's first line says whether it has been filled: with small messages the word and the message travel in one
//! cache line, which is faster here than an index for all slots (87 against 113 ns an echo, 32 outstanding).

use super::pipe::Pipe;
use super::segment::Segment;
use super::signal::{SIGNAL_LEN, Signal};
use super::terms::Terms;
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

/// One end of two rings.
#[derive(Debug)]
pub(super) struct Rings {
    segment: Segment,
    signal: Signal,
    out: Ring,
    inward: Ring,
    to_send: Vec<u8>,
    received: Vec<u8>,
}

/// One ring, as either end sees it.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Where it lies: a line whose word counts what its receiver has taken, and then the slots.
    at: usize,
    slots: u32,
    slot_len: usize,
    /// Slots that this end has filled or taken.
    turn: u32,
    /// Of those that this end filled, how many it knows to have been taken.
    known_taken: u32,
}

/// The line before the slots.
const TAKEN_LEN: usize = 4096;
const LINE_LEN: usize = 64;

impl Ring {
    fn new(at: usize, slots: u32, slot_len: usize) -> Self {
        assert!(slots.is_power_of_two(), "numbers wrap around with the slots");
        Ring { at, slots, slot_len, turn: 0, known_taken: 0 }
    }

    /// A message that fits is in the line of its word; a longer one begins at a line, where copying is faster.
    fn body(&self) -> usize {
        if self.slot_len <= LINE_LEN - SIGNAL_LEN { SIGNAL_LEN } else { LINE_LEN }
    }

    fn stride(&self) -> usize {
        (self.body() + self.slot_len).next_multiple_of(LINE_LEN)
    }

    fn end(&self) -> usize {
        self.at + TAKEN_LEN + self.slots as usize * self.stride()
    }

    /// Where the slot of its next turn lies.
    #[inline(always)]
    fn slot(&self) -> usize {
        self.at + TAKEN_LEN + (self.turn & (self.slots - 1)) as usize * self.stride()
    }
}

/// Slots each way for long messages.
const BULK_SLOTS: u32 = 16;
/// The fastest for 1 MiB of 4, 16, 32, 64 and 128 KiB; shorter messages go by smaller slots, so that the two copies overlap.
const BULK_SLOT_MAX: usize = 64 << 10;
const BULK_SLOT_MIN: usize = 16 << 10;

/// Both rings of an exchange, calls first, as they are at its beginning.
fn rings(terms: &Terms) -> (Ring, Ring) {
    let (call, result) = terms.message_lens();
    let ring = |at: usize, message: usize| match terms.bulk {
        true => {
            let quarter = (message / 4).next_multiple_of(4096);
            Ring::new(at, BULK_SLOTS, quarter.clamp(BULK_SLOT_MIN, BULK_SLOT_MAX))
        }
        false => Ring::new(at, u32::from(terms.in_flight).next_power_of_two().max(BULK_SLOTS), message),
    };
    let there = ring(0, call);
    (there, ring(there.end().next_multiple_of(TAKEN_LEN), result))
}

impl Rings {
    pub(super) fn of_caller(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (there, back) = rings(terms);
        Rings::new(memory, Signal::of_caller(terms.waits), there, back)
    }

    pub(super) fn of_server(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (there, back) = rings(terms);
        Rings::new(memory, Signal::of_server(terms.waits), back, there)
    }

    fn new(memory: &OwnedFd, signal: Signal, out: Ring, inward: Ring) -> io::Result<Self> {
        let segment = Segment::map(memory, out.end().max(inward.end()))?;
        let (to_send, received) = (vec![0x5a; out.slot_len], vec![0; inward.slot_len]);
        Ok(Rings { segment, signal, out, inward, to_send, received })
    }

    /// Fills a slot with `len` bytes, when there is one.
    #[inline(always)]
    fn fill(&mut self, len: usize) -> io::Result<()> {
        let Rings { segment, signal, out, .. } = self;
        if out.turn.wrapping_sub(out.known_taken) == out.slots {
            // Half of the ring at once: a sleeping sender is not woken for every slot.
            let enough = |taken: u32| out.turn.wrapping_sub(taken) <= out.slots / 2;
            let one = |taken: u32| taken != out.known_taken;
            out.known_taken = match signal.sleeps() {
                true => signal.wait(segment, out.at, enough)?,
                false => signal.wait(segment, out.at, one)?,
            };
        }
        let slot = out.slot();
        segment.copy_in(slot + out.body(), &self.to_send[..len]);
        out.turn = out.turn.wrapping_add(1);
        signal.give(segment, slot, out.turn)
    }

    /// Whether the next slot has been filled.
    #[inline(always)]
    fn is_there(&self) -> bool {
        Signal::look(&self.segment, self.inward.slot()) == self.inward.turn.wrapping_add(1)
    }

    /// Waits for the next slot and takes `len` bytes out of it.
    #[inline(always)]
    fn empty(&mut self, len: usize) -> io::Result<()> {
        let Rings { segment, signal, inward, .. } = self;
        let (slot, next) = (inward.slot(), inward.turn.wrapping_add(1));
        signal.wait(segment, slot, |turn| turn == next)?;
        segment.copy_out(slot + inward.body(), &mut self.received[..len]);
        black_box(&self.received);
        inward.turn = next;
        Ok(())
    }

    /// Tells the sender how far we are.
    #[inline(always)]
    fn tell_taken(&self) -> io::Result<()> {
        self.signal.give(&self.segment, self.inward.at, self.inward.turn)
    }
}

impl Pipe for Rings {
    #[inline(always)]
    fn push_filled(&mut self, len: usize, mut fill: impl FnMut(&mut [u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let now = left.min(self.out.slot_len);
            fill(&mut self.to_send[..now]);
            self.fill(now)?;
            left -= now;
        }
        Ok(())
    }

    #[inline(always)]
    fn take_read(&mut self, len: usize, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let now = left.min(self.inward.slot_len);
            self.empty(now)?;
            read(&self.received[..now]);
            self.tell_taken()?;
            left -= now;
        }
        Ok(())
    }

    /// Waits for one full slot, and takes all that are there.
    #[inline(always)]
    fn take_some(&mut self) -> io::Result<usize> {
        let len = self.inward.slot_len;
        let mut taken = 0;
        while taken == 0 || self.is_there() {
            self.empty(len)?;
            taken += len;
        }
        self.tell_taken()?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::waits::{Wait, Waits};
    use super::*;
    use crate::args::Transport;
    use std::thread;

    fn ends(bulk: bool, data_lens: (usize, usize), waits: Waits) -> (Rings, Rings) {
        let transport = Transport::Shm;
        let terms = Terms { transport, data_lens, bulk, records: false, in_flight: 5, waits, window: 0 };
        let memory = super::super::segment::memory().expect("a memfd");
        let caller = Rings::of_caller(&memory, &terms).expect("mapped");
        (caller, Rings::of_server(&memory, &terms).expect("mapped"))
    }

    fn there_and_back(waits: Waits, call: usize, result: usize) {
        let (mut caller, mut server) = ends(true, (call, result), waits);
        let serving = thread::spawn(move || {
            for _ in 0..3 {
                server.take(call).and_then(|()| server.push(result)).expect("the caller is there");
            }
        });
        for _ in 0..3 {
            caller.push(call).and_then(|()| caller.take(result)).expect("the server is there");
        }
        serving.join().expect("it served three calls");
        let len = result.min(caller.received.len());
        assert_eq!(caller.received[..len], vec![0x5a; len], "what was sent has come");
    }

    #[test]
    fn messages_longer_than_the_ring_arrive_however_both_ends_wait() {
        let mixed = Waits { caller: Wait::Block, server: Wait::Spin };
        for waits in [Waits::BLOCK, mixed] {
            for (call, result) in [(3 << 20, 32), (32, 3 << 20), (3_000_001, 2_000_003), (1024, 1024)] {
                there_and_back(waits, call, result);
            }
        }
    }

    #[test]
    fn many_small_messages_are_taken_together_and_the_ring_goes_round() {
        let (mut caller, mut server) = ends(false, (0, 1440), Waits::BLOCK);
        for round in 0..100 {
            let messages = 1 + round % 5;
            caller.push(messages * 32).expect("the server is there");
            assert_eq!(server.take_some().expect("they are there"), messages * 32);
            server.push(messages * 1472).expect("the caller is there");
            assert_eq!(caller.take_some().expect("they are there"), messages * 1472);
        }
    }
}
