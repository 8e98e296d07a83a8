//! The state that a worker keeps for its UDP endpoint: the sockets that it knows and how packets have arrived.

use crate::transport::udp::dedicated::Dedicated;
use crate::transport::udp::peer::UdpPeer;
use std::net::SocketAddr;
use std::sync::Arc;
use stoop_wire::LaneId;

/// State of one worker. Only that worker reads and writes it.
pub(crate) struct UdpWorker {
    /// Sender of the packet that the address's own socket received last.
    pub(super) own_peer: UdpPeer,
    /// The last packet came by the dedicated socket.
    pub(super) by_dedicated: bool,
    /// The dedicated socket, as of this number of changes.
    pub(super) dedicated: Option<Arc<Dedicated>>,
    pub(super) changes: u64,
    /// Looks at the dedicated socket since the last look at the address's own.
    pub(super) looks: u32,
    /// The last caller at the address's own socket, and how many calls it has made there in a row.
    pub(super) latest: Option<SocketAddr>,
    pub(super) calls_in_a_row: u32,
    pub(super) pattern: ArrivalPattern,
    /// For how long the packets received last had waited, if the kernel was asked to note that.
    pub(super) age_ns: u64,
}

impl Default for UdpWorker {
    fn default() -> Self {
        Self {
            own_peer: UdpPeer::NONE,
            by_dedicated: false,
            dedicated: None,
            changes: 0,
            looks: 0,
            latest: None,
            calls_in_a_row: 0,
            pattern: ArrivalPattern::default(),
            age_ns: 0,
        }
    }
}

/// The pattern in which calls of one peer arrive: one by one or together.
#[derive(Debug)]
pub(super) struct ArrivalPattern {
    /// Lane of the last call that came by itself.
    lane: LaneId,
    /// Calls in a row of which each came from another lane of the same peer than the one before it.
    other_lanes: u32,
    /// Packets in a row that came by themselves although several could have come together.
    singles: u32,
    /// The socket stops receiving together after this many singles.
    singles_max: u32,
}

/// Calls in a row on changing lanes that show that a peer has many calls outstanding.
const CALLS_ON_OTHER_LANES: u32 = 8;
/// First value of `singles_max`.
const SINGLES: u32 = 256;
/// Last value of `singles_max`, which doubles each time that the socket stops.
const SINGLES_LIMIT: u32 = 1 << 16;

impl Default for ArrivalPattern {
    fn default() -> Self {
        Self { lane: LaneId(0), other_lanes: 0, singles: 0, singles_max: SINGLES }
    }
}

impl ArrivalPattern {
    /// Notes a call that came by itself; `is_same_peer`: from the peer of the call before it. Returns whether the peer has many calls
    /// outstanding.
    #[inline]
    pub(super) fn note_call(&mut self, lane: LaneId, is_same_peer: bool) -> bool {
        if lane == self.lane {
            self.other_lanes = 0;
        } else {
            self.lane = lane;
            self.other_lanes += u32::from(is_same_peer);
        }
        self.other_lanes >= CALLS_ON_OTHER_LANES
    }

    /// Notes what was received where packets may come together.
    pub(super) fn note_received(&mut self, is_single: bool) {
        self.singles = if is_single { self.singles + 1 } else { 0 };
    }

    /// Whether packets have come by themselves for so long that the socket should stop receiving them together.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.singles >= self.singles_max
    }

    /// Starts to count anew: the socket receives packets together from now on.
    pub(super) fn begin(&mut self) {
        (self.other_lanes, self.singles) = (0, 0);
    }

    /// The socket has stopped receiving packets together. If that was premature, it will continue longer the next time.
    pub(super) fn end(&mut self) {
        self.begin();
        self.singles_max = (2 * self.singles_max).min(SINGLES_LIMIT);
    }
}
