//! The terms of a bare exchange between its two ends: the transport, the lengths of its packets, how they wait.

use super::waits::{Wait, Waits};
use crate::args::{DATA_LEN, EchoArgs, Transport};
use crate::plan::Cell;
use std::io;

/// Bytes of the header of our packets; the floor's packets are as long.
pub(super) const HEADER_LEN: usize = 32;

/// The terms of an exchange between its two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) transport: Transport,
    /// Of data in the call and in the result.
    pub(super) data_lens: (usize, usize),
    pub(super) bulk: bool,
    /// Bulk data are records of small items.
    pub(super) records: bool,
    pub(super) in_flight: u16,
    pub(super) waits: Waits,
    /// Bytes that the sender of datagrams may be ahead of their receiver.
    pub(super) window: usize,
}

/// The other end of an exchange.
pub(super) trait Serve: Send {
    /// Waits for a call, or for those that come together, and answers.
    fn serve(&mut self) -> io::Result<()>;
}

/// Bytes of a full packet of ours.
pub(super) const PACKET_LEN: usize = HEADER_LEN + DATA_LEN;

/// The error of a caller of the bare exchange when the network has lost one of its packets.
pub(crate) const LOST: &str = "the bare exchange: a packet was lost";

#[cold]
pub(super) fn in_words(error: io::Error) -> String {
    if error.kind() == io::ErrorKind::TimedOut { LOST.into() } else { format!("the bare exchange: {error}") }
}

impl Terms {
    pub(super) fn of_cell(cell: &Cell, window: usize) -> Self {
        Terms {
            transport: cell.transport,
            data_lens: cell.data_lens(),
            bulk: cell.procedure.is_bulk(),
            records: cell.records,
            in_flight: cell.in_flight,
            waits: Waits::of(cell),
            window,
        }
    }

    pub(super) fn of_arguments(args: &EchoArgs) -> Self {
        Terms {
            transport: args.serve.transport,
            data_lens: args.procedure.data_lens(args.bytes as usize),
            bulk: args.procedure.is_bulk(),
            records: args.records,
            in_flight: args.in_flight,
            waits: Waits { caller: Wait::of(args.caller_waiting), server: Wait::of(args.serve.waiting) },
            window: args.window as usize,
        }
    }

    /// Whether a packet goes there and one comes back.
    pub(super) fn one_by_one(&self) -> bool {
        let (argument, result) = self.data_lens;
        // A message of up to a packet needs no ring in shared memory, and is one frame on an Ethernet.
        let by_itself = self.transport == Transport::Shm || self.transport.backend().is_some();
        let short = by_itself && argument.max(result) <= DATA_LEN;
        (short || !self.bulk) && self.in_flight == 1
    }

    /// Bytes of a whole call packet and of a whole result packet, where there is one of each.
    pub(super) fn packet_lens(&self) -> (usize, usize) {
        let (argument, result) = self.data_lens;
        (HEADER_LEN + argument, HEADER_LEN + result)
    }

    /// Bytes of a whole call and of a whole result on their way, in as many packets as they need.
    pub(super) fn message_lens(&self) -> (usize, usize) {
        if !self.bulk {
            return self.packet_lens();
        }
        let (argument, result) = self.data_lens;
        (message_len(self.transport, argument), message_len(self.transport, result))
    }
}

/// Bytes on the way for `data` bytes: in datagrams and frames each packet has a header, as ours; a stream has one for the whole; and slots in
/// shared memory have room for a header in the line that says that they are full, so that only a message without data is one.
fn message_len(transport: Transport, data: usize) -> usize {
    match transport {
        Transport::Udp | Transport::Ether | Transport::EtherXdp | Transport::EtherXdpGeneric => {
            data + data.div_ceil(DATA_LEN).max(1) * HEADER_LEN
        }
        Transport::Shm => data.max(HEADER_LEN),
        Transport::Tcp | Transport::Unix | Transport::Local => data + HEADER_LEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Procedure;

    fn cell(procedure: Procedure) -> Cell {
        Cell { procedure, ..Cell::NULL }
    }

    #[test]
    fn packets_are_as_long_as_ours() {
        let packet_lens = |procedure| Terms::of_cell(&cell(procedure), 0).packet_lens();
        assert_eq!(packet_lens(Procedure::Null), (32, 32));
        assert_eq!(packet_lens(Procedure::MaxArg), (1472, 32));
        assert_eq!(packet_lens(Procedure::MaxResult), (32, 1472));
    }

    #[test]
    fn as_many_bytes_travel_as_in_our_packets() {
        assert_eq!(message_len(Transport::Udp, 0), 32);
        assert_eq!(message_len(Transport::Udp, 1440), 1472);
        assert_eq!(message_len(Transport::Udp, 48_000), 48_000 + 34 * 32);
        assert_eq!(message_len(Transport::Tcp, 48_000), 48_032);
        assert_eq!([0, 1 << 20].map(|data| message_len(Transport::Shm, data)), [32, 1 << 20]);
    }
}
