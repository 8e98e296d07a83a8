//! The bare echo of many packets at a time: a window of them is outstanding, and packets that arrive together are returned together.

use super::pipe::Pipe;
use super::terms::{Serve, in_words};
use crate::callers::{Calls, InFlight, Measured, Window, keep_in_flight};
use std::io;

/// One end: bytes of what it sends and of what comes, each packet for itself.
#[derive(Debug)]
pub(super) struct Batch<P> {
    pipe: P,
    call_len: usize,
    result_len: usize,
    in_flight: usize,
    /// Bytes of a packet that has come in part; only a stream does that.
    rest: usize,
}

impl<P: Pipe> Batch<P> {
    pub(super) fn new(pipe: P, (call_len, result_len): (usize, usize), in_flight: u16) -> Self {
        Batch { pipe, call_len, result_len, in_flight: in_flight.into(), rest: 0 }
    }

    /// Waits for at least one whole packet of `len` bytes, and returns how many have come.
    #[inline(always)]
    fn take_packets(&mut self, len: usize) -> io::Result<usize> {
        loop {
            let bytes = self.rest + self.pipe.take_some()?;
            self.rest = bytes % len;
            if bytes >= len {
                return Ok(bytes / len);
            }
        }
    }
}

impl<P: Pipe> InFlight for Batch<P> {
    #[inline(always)]
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        self.pipe.push(calls * self.call_len).map_err(in_words)
    }

    #[inline(always)]
    fn take(&mut self) -> Result<usize, String> {
        self.take_packets(self.result_len).map_err(in_words)
    }
}

impl<P: Pipe> Calls for Batch<P> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        keep_in_flight(window, self.in_flight, self)
    }
}

impl<P: Pipe> Serve for Batch<P> {
    fn serve(&mut self) -> io::Result<()> {
        let packets = self.take_packets(self.call_len)?;
        self.pipe.push(packets * self.result_len)
    }
}
