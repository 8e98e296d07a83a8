//! The bare exchange of one cache line there and one back through shared memory, and data behind it.
//!
//! The sender copies data into the segment, and the receiver copies them out of it into private memory: a receiver that does not
//! trust its sender needs both copies.
//!
//! The exchange goes round over many lines, each in a page of its own. How long a line travels depends on where its physical
//! address puts it in the shared cache: a single pair of lines takes from 270 to 500 ns here, whichever pages a process happens
//! to get, and sixteen pairs 320 to 350.

use super::endpoint::End;
use super::segment::Segment;
use super::signal::{SIGNAL_LEN, Signal};
use super::terms::{HEADER_LEN, Terms};
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

/// One end.
#[derive(Debug)]
pub(super) struct Line {
    segment: Segment,
    signal: Signal,
    out: Lane,
    inward: Lane,
    /// The header and the data, each way.
    to_send: Vec<u8>,
    received: Vec<u8>,
    /// Of the last that was sent, and of the last that came.
    sent: u32,
    taken: u32,
}

/// One direction.
#[derive(Clone, Copy, Debug)]
struct Lane {
    /// Where its lines begin, and its data.
    lines: usize,
    data: usize,
}

/// The header is in the line of the word that says it is there, and so are a few bytes of data.
const HEADER: usize = SIGNAL_LEN;
const FEW: usize = HEADER + HEADER_LEN;
const FEW_LEN: usize = 64 - FEW;

const LINES: u32 = 16;
/// From line to line: one page and one line, so that they are not all in one set of a cache.
const LINE_STRIDE: usize = 4096 + 64;
/// No prefetcher takes what is in two lanes.
const LANE_ALIGN: usize = 8192;

impl Lane {
    fn new(lines: usize) -> Self {
        Lane { lines, data: (lines + LINES as usize * LINE_STRIDE).next_multiple_of(LANE_ALIGN) }
    }

    /// Where it ends with packets of `len` bytes.
    fn end(self, len: usize) -> usize {
        (self.data + len).next_multiple_of(LANE_ALIGN)
    }

    /// Where `len` bytes of data lie that belong to `line`.
    #[inline(always)]
    fn data(self, line: usize, len: usize) -> usize {
        if len <= FEW_LEN { line + FEW } else { self.data }
    }

    /// The line of a turn.
    #[inline(always)]
    fn line(self, turn: u32) -> usize {
        self.lines + (turn % LINES) as usize * LINE_STRIDE
    }
}

impl Line {
    pub(super) fn of_caller(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (call, result) = terms.packet_lens();
        let (there, back, len) = lanes(call, result);
        Line::new(Segment::map(memory, len)?, Signal::of_caller(terms.waits), (there, call), (back, result))
    }

    pub(super) fn of_server(memory: &OwnedFd, terms: &Terms) -> io::Result<Self> {
        let (call, result) = terms.packet_lens();
        let (there, back, len) = lanes(call, result);
        Line::new(Segment::map(memory, len)?, Signal::of_server(terms.waits), (back, result), (there, call))
    }

    fn new(
        segment: Segment,
        signal: Signal,
        (out, send_len): (Lane, usize),
        (inward, receive_len): (Lane, usize),
    ) -> io::Result<Self> {
        let (to_send, received) = (vec![0x5a; send_len], vec![0; receive_len]);
        Ok(Line { segment, signal, out, inward, to_send, received, sent: 0, taken: 0 })
    }

    /// Copies the bytes that have come in that turn into private memory.
    #[inline(always)]
    fn copy_out(&mut self, turn: u32) {
        let line = self.inward.line(turn);
        let (header, data) = self.received.split_at_mut(HEADER_LEN);
        self.segment.copy_out(line + HEADER, header);
        if !data.is_empty() {
            self.segment.copy_out(self.inward.data(line, data.len()), data);
        }
        black_box(&self.received);
        self.taken = turn;
    }
}

/// Where calls and results lie, and how long the segment is.
fn lanes(call: usize, result: usize) -> (Lane, Lane, usize) {
    let there = Lane::new(0);
    let back = Lane::new(there.end(call));
    (there, back, back.end(result))
}

impl End for Line {
    #[inline(always)]
    fn transmit(&mut self) -> io::Result<()> {
        let turn = self.sent.wrapping_add(1);
        let line = self.out.line(turn);
        let (header, data) = self.to_send.split_at(HEADER_LEN);
        self.segment.copy_in(line + HEADER, header);
        if !data.is_empty() {
            self.segment.copy_in(self.out.data(line, data.len()), data);
        }
        self.sent = turn;
        self.signal.give(&self.segment, line, turn)
    }

    #[inline(always)]
    fn receive(&mut self) -> io::Result<()> {
        let next = self.taken.wrapping_add(1);
        self.signal.wait(&self.segment, self.inward.line(next), |turn| turn == next)?;
        self.copy_out(next);
        Ok(())
    }

    #[inline(always)]
    fn try_receive(&mut self) -> io::Result<bool> {
        let next = self.taken.wrapping_add(1);
        let there = Signal::look(&self.segment, self.inward.line(next)) == next;
        if there {
            self.copy_out(next);
        }
        Ok(there)
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment;
    use super::super::waits::{Wait, Waits};
    use super::*;
    use crate::args::Transport;
    use std::thread;

    #[test]
    fn a_packet_comes_for_a_packet_however_both_ends_wait() {
        let mixed = Waits { caller: Wait::Block, server: Wait::Spin };
        for (waits, data_lens) in [(Waits::BLOCK, (1440, 0)), (mixed, (0, 1440)), (mixed, (24, 25))] {
            let transport = Transport::Shm;
            let terms =
                Terms { transport, data_lens, bulk: false, records: false, in_flight: 1, waits, window: 0 };
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
