//! A call of one packet of which nothing has been heard yet: in one line of memory, beside its lane.
//!
//! Nearly all calls end by the first packet that comes for them. Until anything else happens to one, its [`Lane`] need not
//! know of it; then it [takes the call up](Lane::expand), as if it had begun it. For drivers with many calls on their way at
//! a time, whose lanes together are more than a cache holds.

use super::Lane;
use crate::{Instant, RoundTrip};
use stoop_wire::{
    BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, PACKET_DATA, Template, left_of_nanos,
};

/// The calls of one lane, as long as all goes well: at most one at a time, and none while the lane has one.
#[derive(Clone, Copy, Debug)]
pub struct CompactCall {
    started: Instant,
    deadline: Instant,
    binding: BindingId,
    /// Of the outstanding call, or of the lane's last.
    number: CallNumber,
    message_len: u16,
    procedure: u16,
    lane: LaneId,
    is_out: bool,
}

const _: () = assert!(size_of::<CompactCall>() <= 40 && PACKET_DATA <= u16::MAX as usize);

impl CompactCall {
    /// Begins a call, as [`Lane::start`] does.
    ///
    /// # Panics
    /// When the packet is shorter than a header or longer than a datagram: mistakes of the driver.
    #[inline(always)]
    pub fn start(&mut self, now: Instant, deadline: Instant, procedure: u16, packet: &mut [u8]) {
        let message_len = packet.len() - HEADER_LEN;
        debug_assert!(!self.is_out && message_len <= PACKET_DATA, "one call of one packet at a time");
        (self.started, self.deadline, self.procedure) = (now, deadline, procedure);
        (self.number, self.message_len, self.is_out) = (self.number.next(), message_len as u16, true);
        let header = packet.first_chunk_mut().expect("a call packet has room for its header");
        let left = left_of_nanos(deadline.nanos_since(now));
        let template = Template::new(Kind::Call, self.binding, self.lane);
        template.stamp(header, procedure, self.number, (message_len as u32, 0), left);
    }

    /// Whether there is a call that its lane does not know of.
    #[inline(always)]
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// Takes a packet: if that is the result of the call, which has ended by it, gives the bytes of the result behind the
    /// packet's header, and how long the server had it, as [`Heard::Result`](super::Heard::Result) does. Anything else is for
    /// the lane.
    #[inline(always)]
    pub fn hear(&mut self, packet: &[u8]) -> Option<(usize, u32)> {
        let header = Header::parse_whole(Kind::Result, packet)?;
        let is_for_this_call =
            (header.binding, header.lane, header.number) == (self.binding, self.lane, self.number);
        if !(is_for_this_call && self.is_out) {
            return None;
        }
        self.is_out = false;
        Some((header.message_len as usize, header.time))
    }

    /// Takes what the call that ended last says of the way to the server, by a result that the server had for so many
    /// nanoseconds. Of calls whose results have come together, one is enough.
    #[inline]
    pub fn sample(&self, now: Instant, at_server_ns: u32, path: &mut RoundTrip) {
        // As a lane does: the server's word is trusted only as far as it can be true.
        if at_server_ns != u32::MAX {
            path.sample_nanos(now.nanos_since(self.started).saturating_sub(u64::from(at_server_ns)));
        }
    }

    /// When the lane has to see to the outstanding call, on a way of which that much is known.
    #[inline(always)]
    pub fn next_timeout(&self, path: &RoundTrip) -> Instant {
        self.started.after_nanos(path.timeout_nanos()).min(self.deadline)
    }

    /// When the call was begun, and when it has to end.
    #[inline]
    pub fn times(&self) -> (Instant, Instant) {
        (self.started, self.deadline)
    }

    /// Bytes of arguments that it was begun with.
    #[inline]
    pub fn arguments_len(&self) -> usize {
        usize::from(self.message_len)
    }

    /// The binding that its lane is of.
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
    /// Begins calls in place of this lane, which has none, until it is [to take one up](Self::expand).
    pub fn brief(&self) -> CompactCall {
        debug_assert!(self.outstanding.is_none(), "a lane has one call at a time");
        CompactCall {
            started: Instant::default(),
            deadline: Instant::default(),
            binding: self.binding,
            number: self.number,
            message_len: 0,
            procedure: 0,
            lane: self.lane,
            is_out: false,
        }
    }

    /// Takes up the call that is out in brief, if there is one, on a way of which that much is known, as if it had been
    /// [started](Self::start) here; and knows of those that were before. From now on it is this lane's. Tells whether there was
    /// one.
    pub fn expand(&mut self, brief: &mut CompactCall, path: RoundTrip) -> bool {
        debug_assert_eq!((brief.binding, brief.lane), (self.binding, self.lane), "in place of this lane");
        // Which number is after which would not do: so many may have gone well since that theirs begin anew.
        if !brief.is_out && brief.number == self.number {
            return false;
        }
        debug_assert!(self.outstanding.is_none(), "a lane has one call at a time");
        if let Some(large) = &mut self.large {
            large.clear();
        }
        self.path = path;
        if !core::mem::take(&mut brief.is_out) {
            self.number = brief.number;
            (self.transmissions, self.acknowledged) = (1, false);
            return false;
        }
        let times = (brief.started, brief.deadline);
        self.register(brief.number, times, brief.procedure, u32::from(brief.message_len));
        true
    }

    /// Calls that are begun in brief from now on come after those of this lane, which has begun some itself.
    pub fn note_in(&self, brief: &mut CompactCall) {
        debug_assert!(!brief.is_out && !brief.number.is_after(self.number), "it has taken up what was out");
        *brief = CompactCall { number: self.number, binding: self.binding, lane: self.lane, ..*brief };
    }
}
