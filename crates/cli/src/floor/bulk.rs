//! The bare exchange of many bytes: one end sends as many as a call has, the other answers with as many as its result has.

use super::pipe::Pipe;
use super::{HEADER_LEN, Serve, in_words};
use crate::args::{DATA_LEN, Transport};
use crate::callers::{Calls, LaneCounters, Window, call_repeatedly};
use std::io;

/// One end: how much it sends and how much it waits for.
#[derive(Debug)]
pub(super) struct Bulk<P> {
    pipe: P,
    call_len: usize,
    result_len: usize,
}

impl<P: Pipe> Bulk<P> {
    pub(super) fn new(pipe: P, (call_len, result_len): (usize, usize)) -> Self {
        Bulk { pipe, call_len, result_len }
    }
}

/// Bytes on the way for `data` bytes: over UDP each packet has a header, as ours; a stream has one for the whole; and slots in
/// shared memory have room for a header in the line that says that they are full, so that only a message without data is one.
pub(super) fn message_len(transport: Transport, data: usize) -> usize {
    match transport {
        Transport::Udp => data + data.div_ceil(DATA_LEN).max(1) * HEADER_LEN,
        Transport::Shm => data.max(HEADER_LEN),
        Transport::Tcp | Transport::Unix | Transport::Local => data + HEADER_LEN,
    }
}

impl<P: Pipe> Calls for Bulk<P> {
    fn run(&mut self, window: Window) -> Result<LaneCounters, String> {
        call_repeatedly(window, 1, || {
            self.pipe.push(self.call_len).and_then(|()| self.pipe.take(self.result_len)).map_err(in_words)
        })
    }
}

impl<P: Pipe> Serve for Bulk<P> {
    fn serve(&mut self) -> io::Result<()> {
        self.pipe.take(self.call_len)?;
        self.pipe.push(self.result_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_travel_as_in_our_packets() {
        assert_eq!(message_len(Transport::Udp, 0), 32);
        assert_eq!(message_len(Transport::Udp, 1440), 1472);
        assert_eq!(message_len(Transport::Udp, 48_000), 48_000 + 34 * 32);
        assert_eq!(message_len(Transport::Tcp, 48_000), 48_032);
        assert_eq!([0, 1 << 20].map(|data| message_len(Transport::Shm, data)), [32, 1 << 20]);
    }
}
