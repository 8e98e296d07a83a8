//! A compact record of a one-packet call from which nothing has been heard yet, kept beside its lane in one cache line.
//!
//! Nearly all calls end with the first packet that arrives for them. Until anything else happens, the call's [`Lane`]
//! need not know of it; then the driver [expands](Lane::expand) the record into the lane, as if the lane had begun the
//! call. This helps drivers with many outstanding calls, whose lanes together are larger than a cache.

use super::Lane;
use crate::{Instant, RoundTrip};
use stoop_wire::{
    BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, PACKET_DATA, Template, left_of_nanos,
};

/// The calls of one lane while no packet is lost: at most one at a time, and none while the lane itself has one.
#[derive(Clone, Copy, Debug)]
pub struct CompactCall {
    started: Instant,
    deadline: Instant,
    binding: BindingId,
    /// Number of the outstanding call, or of the lane's last one.
    number: CallNumber,
    message_len: u16,
    procedure: u16,
    lane: LaneId,
    is_outstanding: bool,
}

const _: () = assert!(size_of::<CompactCall>() <= 40 && PACKET_DATA <= u16::MAX as usize);

impl CompactCall {
    /// Begins a call, as [`Lane::start`] does.
    ///
    /// # Panics
    /// If the packet is shorter than a header or longer than a datagram: a mistake of the driver.
    #[inline(always)]
    pub fn start(&mut self, now: Instant, deadline: Instant, procedure: u16, packet: &mut [u8]) {
        let message_len = packet.len() - HEADER_LEN;
        debug_assert!(!self.is_outstanding && message_len <= PACKET_DATA, "one call of one packet at a time");
        (self.started, self.deadline, self.procedure) = (now, deadline, procedure);
        (self.number, self.message_len, self.is_outstanding) = (self.number.next(), message_len as u16, true);
        let header = packet.first_chunk_mut().expect("a call packet has room for its header");
        let left = left_of_nanos(deadline.nanos_since(now));
        let template = Template::new(Kind::Call, self.binding, self.lane);
        template.stamp(header, procedure, self.number, (message_len as u32, 0), left);
    }

    /// Whether a call is outstanding in this record.
    #[inline(always)]
    pub fn is_outstanding(&self) -> bool {
        self.is_outstanding
    }

    /// Handles a packet if it is the result of the outstanding call, which it ends. Returns the length of the result,
    /// which is behind the packet's header, and the time at the server as in [`Heard::Result`](super::Heard::Result).
    /// `None`: the packet is for the lane.
    #[inline(always)]
    pub fn take_result(&mut self, packet: &[u8]) -> Option<(usize, u32)> {
        let header = Header::parse_whole(Kind::Result, packet)?;
        let is_for_this_call =
            (header.binding, header.lane, header.number) == (self.binding, self.lane, self.number);
        if !(is_for_this_call && self.is_outstanding) {
            return None;
        }
        self.is_outstanding = false;
        Some((header.message_len as usize, header.time))
    }

    /// Adds the round trip of the call that ended last to `path`, less the nanoseconds that the call spent at the
    /// server. One sample is enough for calls whose results arrived together.
    #[inline]
    pub fn sample(&self, now: Instant, at_server_ns: u32, path: &mut RoundTrip) {
        // As in a lane, the server's figure is used only as far as it is plausible.
        if at_server_ns != u32::MAX {
            path.sample_nanos(now.nanos_since(self.started).saturating_sub(u64::from(at_server_ns)));
        }
    }

    /// When the lane must take over the outstanding call, on a path with this round trip.
    #[inline(always)]
    pub fn next_timeout(&self, path: &RoundTrip) -> Instant {
        self.started.after_nanos(path.timeout_nanos()).min(self.deadline)
    }

    /// When the call was begun, and its deadline.
    #[inline]
    pub fn times(&self) -> (Instant, Instant) {
        (self.started, self.deadline)
    }

    /// Bytes of the call's arguments.
    #[inline]
    pub fn arguments_len(&self) -> usize {
        usize::from(self.message_len)
    }

    /// The binding to which the lane belongs.
    #[inline]
    pub fn binding(&self) -> BindingId {
        self.binding
    }

    /// Number of the outstanding call, or of the lane's last.
    #[inline]
    pub fn number(&self) -> CallNumber {
        self.number
    }
}

impl Lane {
    /// A compact record for the calls of this lane, which has none outstanding, until the record is
    /// [expanded](Self::expand).
    pub fn compact_call(&self) -> CompactCall {
        debug_assert!(self.outstanding.is_none(), "a lane has one call at a time");
        CompactCall {
            started: Instant::default(),
            deadline: Instant::default(),
            binding: self.binding,
            number: self.number,
            message_len: 0,
            procedure: 0,
            lane: self.lane,
            is_outstanding: false,
        }
    }

    /// Moves the outstanding call of `compact`, if there is one, to this lane, as if it had been [started](Self::start)
    /// here; `path` is the round trip known so far. Also takes over the call number that the record has reached.
    /// Returns whether a call was outstanding.
    pub fn expand(&mut self, compact: &mut CompactCall, path: RoundTrip) -> bool {
        debug_assert_eq!((compact.binding, compact.lane), (self.binding, self.lane), "in place of this lane");
        // A comparison of the numbers' order would not do: so many calls may have succeeded that the numbers have
        // wrapped around.
        if !compact.is_outstanding && compact.number == self.number {
            return false;
        }
        debug_assert!(self.outstanding.is_none(), "a lane has one call at a time");
        if let Some(large) = &mut self.large {
            large.clear();
        }
        self.path = path;
        if !core::mem::take(&mut compact.is_outstanding) {
            self.number = compact.number;
            (self.transmissions, self.acknowledged) = (1, false);
            return false;
        }
        let times = (compact.started, compact.deadline);
        self.register(compact.number, times, compact.procedure, u32::from(compact.message_len));
        true
    }

    /// Sets `compact` to this lane's latest call number, after the lane itself has begun calls.
    pub fn update_compact(&self, compact: &mut CompactCall) {
        debug_assert!(
            !compact.is_outstanding && !compact.number.is_after(self.number),
            "an outstanding call has been expanded before"
        );
        *compact = CompactCall { number: self.number, binding: self.binding, lane: self.lane, ..*compact };
    }
}
