//! A call at the server, and where its packet is.

use crate::transport::packet::link::{Peer, ReceiveBuffers};
use stoop_exchange::server::Assignment;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// A call, and the location of its packet.
pub(crate) struct PacketCall<P> {
    pub(super) assignment: Assignment<P>,
    pub(super) packet: CallPacket,
}

// A call is handed on several times, in two registers: 2 % fewer instructions of a Null() than as a larger value.
const _: () = assert!(size_of::<Option<PacketCall<u8>>>() <= 16);

/// Where the packet of a call is, and whether the call was *deferred*: it did not run as soon as it came. In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallPacket(u64);

/// Where the packet of a call is.
pub(super) enum PacketLocation {
    /// In the buffer of the worker that has received it last, and runs it.
    AtWorker,
    /// It came together with others and is answered with them. It begins at this byte of what was received.
    InBatch(usize),
    /// With the assignment: the call waited for a worker, or for another call of its lane.
    Kept,
}

impl CallPacket {
    const DEFERRED: u64 = 1 << 63;
    /// It came in a bundle.
    const BUNDLED: u64 = 1 << 62;
    /// In the worker's buffer.
    pub(super) const AT_WORKER: Self = Self(0);
    /// With the assignment.
    pub(super) const KEPT: Self = Self(Self::DEFERRED | 1);
    /// Words from here on: in a batch.
    const IN_BATCH: u64 = 2;

    /// In a batch, from this byte on.
    #[inline]
    pub(super) fn in_batch(start: usize) -> Self {
        Self(start as u64 + Self::IN_BATCH)
    }

    /// The same, of a call that came in a bundle.
    #[cfg(feature = "seal")]
    pub(super) fn bundled(self) -> Self {
        Self(self.0 | Self::BUNDLED)
    }

    /// Whether the call came in a bundle.
    #[inline]
    pub(super) fn is_bundled(self) -> bool {
        cfg!(feature = "seal") && self.0 & Self::BUNDLED != 0
    }

    /// The same, of a deferred call.
    pub(super) fn deferred(self) -> Self {
        Self(self.0 | Self::DEFERRED)
    }

    /// Whether the call did not run as soon as it came.
    #[inline]
    pub(super) fn is_deferred(self) -> bool {
        self.0 & Self::DEFERRED != 0
    }

    #[inline]
    pub(super) fn location(self) -> PacketLocation {
        match self.0 & !(Self::DEFERRED | Self::BUNDLED) {
            0 => PacketLocation::AtWorker,
            1 => PacketLocation::Kept,
            word => PacketLocation::InBatch((word - Self::IN_BATCH) as usize),
        }
    }
}

/// The packets of the calls that a worker takes from a batch.
#[inline]
pub(super) fn packets_of_calls(buffers: &ReceiveBuffers) -> &[u8] {
    buffers.of_calls.as_deref().expect("a worker that takes calls from a batch has their packets")
}

impl<P: Peer> PacketCall<P> {
    /// Keeps its packet apart from the worker that has received it.
    #[cold]
    pub(super) fn keep_packet(&mut self, buffers: &ReceiveBuffers) {
        match self.packet.location() {
            PacketLocation::AtWorker => self.keep(&buffers.one[..MAX_DATAGRAM]),
            PacketLocation::InBatch(_) => self.keep_packet_of(packets_of_calls(buffers)),
            PacketLocation::Kept => {}
        }
    }

    /// As [`keep_packet`](Self::keep_packet), of a call in a batch that came as these packets.
    #[cold]
    pub(super) fn keep_packet_of(&mut self, packets: &[u8]) {
        if let PacketLocation::InBatch(start) = self.packet.location() {
            self.keep(&packets[start..]);
        }
    }

    /// Keeps the call packet at the beginning of `bytes`; of a call of many packets, the header of one of them.
    fn keep(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(HEADER_LEN + self.assignment.arguments_len as usize);
        self.assignment.store_packet(bytes[..len].into());
        self.packet = CallPacket::KEPT;
    }

    /// A call that has waited for another call of its lane to return.
    #[cold]
    pub(super) fn waited(mut assignment: Assignment<P>, packet: Box<[u8]>) -> Self {
        assignment.store_packet(packet);
        Self { assignment, packet: CallPacket::KEPT }
    }
}
