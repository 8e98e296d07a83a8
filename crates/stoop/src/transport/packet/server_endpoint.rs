//! The server's half of the contract of a packet link: an endpoint that receives from any peer. The rules for both halves are at
//! [`link`](super::link).

use crate::context::{Caller, Station};
use crate::transport::packet::room::Room;
use std::mem;
use std::sync::Arc;
use stoop_exchange::has_margin;
use stoop_exchange::server;
use stoop_net::Patience;
use stoop_net::packets::Segments;
use stoop_wire::bind::NO_CREDIT_LIMIT;
use stoop_wire::{LaneId, MAX_DATAGRAM};

/// The sender of a packet, and how to answer it.
pub(crate) trait Peer: server::Peer + PartialEq + Send + Sync + 'static {
    /// The caller as procedures see it. A link with IP addresses says [`Caller::Network`].
    fn caller(&self) -> Caller {
        Caller::Station(Station { host: self.host(), port: self.port() })
    }
}

/// The outcome of a receive at a server. [`ServerEndpoint::peer`] tells the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// One packet of this many bytes, in [`ReceiveBuffers::one`].
    Packet(usize),
    /// Packets of one peer that came together, in [`ReceiveBuffers::received`].
    Many(Segments),
    /// Nothing, or nothing that counts.
    Nothing,
}

/// Bytes of the longest packet, and of all packets that can come together.
pub(crate) const PACKETS_ROOM: usize = 1 << 16;

/// Memory into which a worker receives.
pub(crate) struct ReceiveBuffers {
    /// The packet that came last by itself.
    pub(crate) one: Box<[u8; PACKETS_ROOM]>,
    /// Packets that came together. Empty until some have.
    many: Arc<[u8]>,
    /// The packets of the calls that this worker runs, which came together.
    pub(crate) of_calls: Option<Arc<[u8]>>,
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        let one = vec![0; PACKETS_ROOM].try_into().expect("the lengths are equal");
        Self { one, many: Arc::default(), of_calls: None }
    }
}

impl ReceiveBuffers {
    /// Room for packets that come together. While the process has no memory for it, there is room for one by itself.
    #[inline]
    pub(crate) fn many(&mut self) -> &mut [u8] {
        self.of_calls = None;
        if self.many.is_empty() || Arc::strong_count(&self.many) > 1 {
            // The first use; or another worker runs a procedure whose arguments are in the previous memory.
            self.many = if has_margin() { vec![0; PACKETS_ROOM].into() } else { Arc::default() };
        }
        match Arc::get_mut(&mut self.many) {
            Some(many) if !many.is_empty() => many,
            _ => &mut self.one[..],
        }
    }

    /// Tells what was received into [`many`](Self::many). A packet that came by itself goes to where single packets are expected.
    #[inline]
    pub(crate) fn arrived(&mut self, segments: Segments) -> Received {
        let is_in_one = self.many.is_empty();
        match is_single(segments) {
            false if is_in_one => Received::Nothing, // Lost as on a network: their senders repeat them.
            false => Received::Many(segments),
            true => {
                if !is_in_one {
                    self.one[..segments.len].copy_from_slice(&self.many[..segments.len]);
                }
                Received::Packet(segments.len)
            }
        }
    }

    /// Has a packet of `len` bytes that came by itself be where packets are that came together. `None`: there is no memory for it.
    #[cfg(feature = "seal")]
    pub(crate) fn move_to_many(&mut self, len: usize) -> Option<()> {
        self.many();
        let Self { one, many, .. } = self;
        Arc::get_mut(many)?.get_mut(..len)?.copy_from_slice(&one[..len]);
        Some(())
    }

    /// Takes the packets that were received into [`many`](Self::many), to be [put back](Self::put_back). No other thread has them.
    #[inline]
    pub(crate) fn take_received(&mut self) -> Arc<[u8]> {
        mem::take(&mut self.many)
    }

    /// Keeps the memory of received packets for others, once no call needs them any more.
    #[inline]
    pub(crate) fn put_back(&mut self, received: &Arc<[u8]>) {
        self.many = Arc::clone(received);
    }
}

/// Whether it is one packet, and no longer than they usually are.
pub(crate) fn is_single(segments: Segments) -> bool {
    segments.count() == 1 && segments.len <= MAX_DATAGRAM
}

/// The age of packets of which a link does not know how long they have waited.
pub(crate) const UNKNOWN_AGE: u64 = u64::MAX;

/// Counters of a server's endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCounters {
    /// Packets dropped because they were longer than any buffer, or made no sense to the link.
    pub(crate) malformed: u64,
    /// Packets dropped because the link's own checksum was wrong.
    pub(crate) corrupt: u64,
    /// Packets that the kernel dropped because they were not received in time, where it tells.
    pub(crate) overflowed: u64,
    /// Times that a peer which was alone was given a way of its own.
    pub(crate) dedicated: u64,
}

/// An endpoint at a server, which receives from any peer. Several workers use it at once.
///
/// Hints ([`note_calls`](Self::note_calls), [`expect_more`](Self::expect_more)) let a link choose how it receives. A link may ignore them.
pub(crate) trait ServerEndpoint: Send + Sync + 'static {
    /// The sender of a packet.
    type Peer: Peer;
    /// State of one worker, which only that worker uses.
    type Worker: Send;
    /// Memory for packets of long messages.
    type Room: Room;

    /// Sleeps until there may be something to receive, at most for so long. `false`: it cannot.
    fn sleep(&self, worker: &Self::Worker, limit_ns: u64) -> bool {
        let _ = (worker, limit_ns);
        false
    }

    /// Whether no other process receives at the address. Until it is so, this one does not receive.
    fn claim(&self) -> bool {
        true
    }

    /// Whether other machines reach it.
    fn is_reached_by_others(&self) -> bool {
        true
    }

    /// Binding flags of the link that callers may require.
    fn flags(&self) -> u32 {
        0
    }

    /// State for one more worker.
    fn worker(&self) -> Self::Worker;

    /// Bytes of long calls that may be on their way to this endpoint.
    fn window(&self) -> u32;

    /// Packets of the usual length that may be on their way to this endpoint: its buffer holds them beside all other arrivals.
    fn packets(&self) -> u32 {
        NO_CREDIT_LIMIT
    }

    /// Receives what has come; sleeps until something comes if `patience` allows it.
    fn receive(
        &self,
        worker: &mut Self::Worker,
        buffers: &mut ReceiveBuffers,
        patience: Patience,
    ) -> Received;

    /// The sender of what this worker has received last.
    fn peer<'a>(&'a self, worker: &'a Self::Worker) -> &'a Self::Peer;

    /// Hint: the worker has received this many calls; `lane`: of the call that came by itself. Returns whether the link needs
    /// [looks](Self::look_after) of the background thread from now on.
    #[inline]
    fn note_calls(&self, _worker: &mut Self::Worker, _calls: u32, _lane: Option<LaneId>) -> bool {
        false
    }

    /// Packets that wait to be received, about. 0 if the link does not know.
    fn waiting(&self, _worker: &Self::Worker) -> usize {
        0
    }

    /// Nanoseconds for which the packets that this worker received last had waited, as far as the link is asked to
    /// [know](Self::note_backlog) it; else 0. [`UNKNOWN_AGE`]: it is asked, and does not know it of these.
    #[inline]
    fn age_ns(&self, _worker: &Self::Worker) -> u64 {
        0
    }

    /// Hint: packets wait longer than usual, so that their [ages](Self::age_ns) matter, or no longer do.
    fn note_backlog(&self, _is_there: bool) {}

    /// Hint: the packet of `len` bytes that the worker has received last is part of a message, so that more packets may come together.
    fn expect_more(&self, _worker: &mut Self::Worker, _len: usize) {}

    /// Answers the packet that this worker has received last by itself. A packet that is not sent is treated as a lost packet.
    #[inline]
    fn answer(&self, _worker: &Self::Worker, packet: &[u8], peer: &Self::Peer) {
        self.send(packet, peer);
    }

    /// Sends a packet.
    fn send(&self, packet: &[u8], peer: &Self::Peer);

    /// Sends packets that lie `segment` bytes apart; the last may be shorter.
    fn send_many(&self, worker: &Self::Worker, packets: &[u8], segment: usize, peer: &Self::Peer);

    /// As [`CallerEndpoint::lend`](super::link::CallerEndpoint::lend).
    fn lend(&self, _room: &mut Self::Room) {}

    /// Sends the packets that have been written to the room.
    fn send_room(&self, worker: &Self::Worker, room: &mut Self::Room, peer: &Self::Peer);

    /// The background thread calls this once a millisecond while calls run, and with `is_quiet` before it goes to sleep. Returns whether
    /// the thread has to go on looking.
    fn look_after(&self, _is_quiet: bool) -> bool {
        false
    }

    /// The server starts, and listens at these places, as [`offers`](crate::offers) writes them. A link that does not reach all callers of
    /// this machine may show them to these.
    fn note_offers(&mut self, _offers: &str) {}

    /// Whether callers on the same link that ask for an upgrade prefer this address to one of UDP.
    fn is_preferred(&self) -> bool {
        false
    }

    /// Has the worker that sleeps in [`receive`](Self::receive) receive an empty packet, which no peer has to send. A link without a way
    /// to do that does nothing.
    fn notify(&self) {}

    /// Wakes every worker that sleeps in [`receive`](Self::receive), now and for good.
    fn wake(&self);

    /// The counters at this moment.
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}
