//! The bare exchange of one cache line there and one back through shared memory, and data behind it.
//!
//! Data are copied into the segment by who sends them and out of it, into private memory, by who receives them: a receiver that
//! does not trust its sender needs both copies.

use super::endpoint::End;
use super::segment::Segment;
use super::turn::{TURN_LEN, Turns};
use super::{HEADER_LEN, Terms};
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// One end.
#[derive(Debug)]
pub(super) struct Line {
    segment: Segment,
    turns: Turns,
    /// Where it sends, and where it receives.
    out: usize,
    inward: usize,
    /// The header and the data, each way.
    to_send: Vec<u8>,
    received: Vec<u8>,
    /// Of the last that was sent, and of the last that came.
    sent: u32,
    taken: u32,
}

/// The header is in the line of the word that says it is there.
const HEADER: usize = TURN_LEN;
/// Data begin at the next line.
const DATA: usize = 64;
const _: () = assert!(HEADER + HEADER_LEN <= DATA);

/// Two pages apart at least: no prefetcher takes both.
const LANE_ALIGN: usize = 8192;

impl Line {
    pub(super) fn of_caller(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (call, result) = terms.packet_lens();
        let (there, back, len) = lanes(call, result);
        Line::new(Segment::map(memory, len)?, Turns::of_caller(terms.waits), (there, call), (back, result))
    }

    pub(super) fn of_server(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (call, result) = terms.packet_lens();
        let (there, back, len) = lanes(call, result);
        Line::new(Segment::map(memory, len)?, Turns::of_server(terms.waits), (back, result), (there, call))
    }

    fn new(
        segment: Segment,
        turns: Turns,
        (out, send_len): (usize, usize),
        (inward, receive_len): (usize, usize),
    ) -> io::Result<Self> {
        let (to_send, received) = (vec![0x5a; send_len], vec![0; receive_len]);
        Ok(Line { segment, turns, out, inward, to_send, received, sent: 0, taken: 0 })
    }

    /// What has come, into private memory.
    #[inline(always)]
    fn copy_out(&mut self) {
        let (header, data) = self.received.split_at_mut(HEADER_LEN);
        self.segment.copy_out(self.inward + HEADER, header);
        if !data.is_empty() {
            self.segment.copy_out(self.inward + DATA, data);
        }
        black_box(&self.received);
        self.taken = self.taken.wrapping_add(1);
    }
}

/// Where the calls and the results lie, and how long the segment is.
fn lanes(call: usize, result: usize) -> (usize, usize, usize) {
    let lane = |at: usize, packet: usize| at..(at + DATA + packet).next_multiple_of(LANE_ALIGN);
    let there: Range<usize> = lane(0, call);
    let back = lane(there.end, result);
    (there.start, back.start, back.end)
}

impl End for Line {
    #[inline(always)]
    fn transmit(&mut self) -> io::Result<()> {
        let (header, data) = self.to_send.split_at(HEADER_LEN);
        self.segment.copy_in(self.out + HEADER, header);
        if !data.is_empty() {
            self.segment.copy_in(self.out + DATA, data);
        }
        self.sent = self.sent.wrapping_add(1);
        self.turns.give(&self.segment, self.out, self.sent)
    }

    #[inline(always)]
    fn receive(&mut self) -> io::Result<()> {
        let next = self.taken.wrapping_add(1);
        self.turns.wait(&self.segment, self.inward, |turn| turn == next)?;
        self.copy_out();
        Ok(())
    }

    #[inline(always)]
    fn try_receive(&mut self) -> io::Result<bool> {
        let there = Turns::look(&self.segment, self.inward) == self.taken.wrapping_add(1);
        if there {
            self.copy_out();
        }
        Ok(there)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Wait, Waits, segment};
    use super::*;
    use crate::args::Transport;
    use std::thread;

    #[test]
    fn a_packet_comes_for_a_packet_however_both_ends_wait() {
        let mixed = Waits { caller: Wait::Block, server: Wait::Spin };
        for (waits, data_lens) in [(Waits::BLOCK, (1440, 0)), (mixed, (0, 1440))] {
            let transport = Transport::Shm;
            let terms = Terms { transport, data_lens, bulk: false, in_flight: 1, waits, window: 0 };
            let memory = segment::memory().expect("a memfd");
            let mut caller = Line::of_caller(&memory, &terms).expect("mapped");
            let mut server = Line::of_server(&memory, &terms).expect("mapped");
            let serving = thread::spawn(move || {
                for _ in 0..1000 {
                    server.receive().and_then(|()| server.transmit()).expect("the caller is there");
                }
            });
            assert!(!caller.try_receive().expect("nothing has come"));
            for _ in 0..1000 {
                caller.transmit().and_then(|()| caller.receive()).expect("the server is there");
            }
            serving.join().expect("it served as many calls");
            assert!(caller.received.iter().all(|&byte| byte == 0x5a), "what was sent has come");
        }
    }
}
