//! Acknowledgements that no packet asks for. A caller that has as many calls under way as may be says so in one of them. If the server does
//! not answer that call soon, it acknowledges all calls of the binding that run: they are not under way any more, and others may leave.

use super::pipe_state::CallKey;
use crate::Instant;
use crate::room::PacketRoom;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// A call that says that its caller has no room is answered within this time, or acknowledged. Less than the shortest time after which a
/// caller sends its calls again.
const ANSWERED_WITHIN: Duration = Duration::from_millis(1);

/// After a look at the lanes of a binding, time for each of them until the next look: they may be thousands, and looks are to take a small
/// part of the time.
const FOR_EACH_LANE: Duration = Duration::from_micros(1);

/// Most calls that the server remembers for it. The callers of others hear nothing before they ask.
const ASKING_MAX: usize = 1024;

/// Most acknowledgements that leave together.
const TOGETHER_MAX: usize = 32;

/// Calls whose callers have no room, and acknowledgements that are to leave.
#[derive(Debug)]
pub(super) struct Unasked<P> {
    /// The calls, when each is to be looked at, and where it came from.
    asking: VecDeque<(Instant, CallKey, P)>,
    /// No look comes before.
    next_look: Instant,
    /// Calls of one binding to be acknowledged, and where their caller is.
    due: Vec<(P, BindingId, Called)>,
}

type Called = Vec<(LaneId, CallNumber)>;

impl<P> Default for Unasked<P> {
    fn default() -> Self {
        Self { asking: VecDeque::new(), next_look: Instant::default(), due: Vec::new() }
    }
}

impl<P: Copy> Unasked<P> {
    /// A call that runs says that its caller has no room.
    pub(super) fn note(&mut self, now: Instant, call: CallKey, peer: P) {
        if self.asking.len() < ASKING_MAX {
            self.asking.push_back((now + ANSWERED_WITHIN, call, peer));
        }
    }

    /// When to look at the calls.
    pub(super) fn next_look(&self) -> Instant {
        self.asking.front().map_or(Instant::NEVER, |(due, ..)| self.next_look.max(*due))
    }

    /// Takes the next call that is to be looked at, and where it came from.
    pub(super) fn take(&mut self, now: Instant) -> Option<(CallKey, P)> {
        if self.next_look() > now {
            return None;
        }
        self.asking.pop_front().map(|(_, call, peer)| (call, peer))
    }

    /// Acknowledges these calls of a binding, found among so many lanes.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        (peer, id): (P, BindingId),
        lanes: u32,
        calls: Called,
    ) {
        self.next_look = now + FOR_EACH_LANE * lanes;
        self.due.push((peer, id, calls));
    }

    /// Puts the next acknowledgements for one peer into `room`. Returns the peer, and the length of each packet.
    pub(super) fn next_packets(&mut self, room: &mut impl PacketRoom) -> Option<(P, usize)> {
        let (peer, id, calls) = self.due.last_mut()?;
        let (peer, id) = (*peer, *id);
        let segment = HEADER_LEN + id.trailer_len();
        let mut together = calls.drain(calls.len().saturating_sub(TOGETHER_MAX)..);
        room.put(together.len() * segment, segment, |packet| {
            let (lane, number) = together.next().expect("a packet for each call");
            let header = Header::bare(Kind::Acknowledgement, id, lane, number);
            packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        });
        drop(together);
        if calls.is_empty() {
            self.due.pop();
        }
        Some((peer, segment))
    }
}

/// The last call of a lane that was acknowledged: the low bits of its number.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Cell<u16>);

impl Acknowledged {
    pub(super) fn note(&self, number: CallNumber) {
        self.0.set(number.0 as u16);
    }

    /// Whether it was this one.
    pub(super) fn is(&self, number: CallNumber) -> bool {
        self.0.get() == number.0 as u16
    }
}
