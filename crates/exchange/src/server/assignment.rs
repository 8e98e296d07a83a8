//! A call that is to run, with the packet for its answer.

use crate::Instant;
use crate::interfaces::LEADING_MAX;
use crate::shares::OwnerId;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;
use stoop_wire::{
    BindingId, CallNumber, FailureCode, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, Refused, flags,
    nanos_of_left, time_of_result,
};

/// Most bytes of explanation in a refusal or failure.
const MAX_DETAIL: usize = 512;

/// A call given out to run. It must be passed back to [`Server::finish`](super::Server::finish), or its lane stays busy
/// for ever.
///
/// It is one allocation, which serves all calls of a lane one after the other. While none runs, it holds the retained
/// answer of the last call.
#[derive(Debug)]
#[must_use = "an assignment must come back through Server::finish"]
pub struct Assignment<P>(pub(super) Box<Work<P>>);

/// The contents of an [`Assignment`].
// The fields that a one-packet call needs come first, in two cache lines: the assignments of hundreds of outstanding
// calls together are larger than the nearest cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Work<P> {
    /// The packet of the result.
    pub(super) packet: Vec<u8>,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// When the call packet arrived.
    pub arrived: Instant,
    pub(super) binding: BindingId,
    pub(super) number: CallNumber,
    pub(super) lane: LaneId,
    /// Number of the procedure in its interface.
    pub procedure: u16,
    /// Length of the answer in the packet.
    pub(super) len: u32,
    /// Number of the exported interface.
    pub interface: u16,
    /// Whether caller and server can run at the same time.
    pub together: bool,
    /// [`LONG`], [`GRANTS`], [`PIPES`] and [`PIPE_OUT`].
    rare: u8,
    /// The peer to which the answer goes.
    pub peer: P,
    /// Bytes of arguments.
    pub arguments_len: u32,
    /// Bytes of the longest result that the caller accepts.
    pub result_max: u32,
    /// Message of a call of many packets. Its arguments begin at [`arguments_at`], and there may be more memory behind
    /// them.
    message: Option<Vec<u8>>,
    /// The packet of a call that waits to be run.
    parked_packet: Option<Box<[u8]>>,
    /// Bytes of memory that the message counts for.
    counted: usize,
    /// Holds these bytes.
    owner: OwnerId,
    /// Bytes of arguments before the one that comes back in place, if there is such an argument.
    in_place: Option<u8>,
    /// The credit that the result grants.
    credit: u16,
}

/// There is a `message`.
const LONG: u8 = 1;
/// The result grants a credit, if it is one packet.
const GRANTS: u8 = 2;
/// The call has pipes.
const PIPES: u8 = 4;
/// The result begins with the length of a pipe, and says so by a flag.
const PIPE_OUT: u8 = 8;

/// The facts about a binding that each of its calls needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) interface: u16,
    pub(super) together: bool,
    pub(super) result_max: u32,
}

/// Offset of the arguments in a message, if `in_place` bytes precede an argument that comes back in place: that
/// argument is then where a result begins.
pub(super) fn arguments_at(in_place: Option<u8>) -> usize {
    HEADER_LEN - usize::from(in_place.unwrap_or(0))
}

impl<P> Deref for Assignment<P> {
    type Target = Work<P>;

    #[inline]
    fn deref(&self) -> &Work<P> {
        &self.0
    }
}

impl<P> Assignment<P> {
    /// An assignment that no call has used yet.
    pub(super) fn blank(peer: P) -> Self {
        Self(Box::new(Work {
            packet: vec![0; MAX_DATAGRAM],
            deadline: Instant::default(),
            arrived: Instant::default(),
            binding: BindingId::NONE,
            number: CallNumber::ZERO,
            lane: LaneId(0),
            procedure: 0,
            len: HEADER_LEN as u32,
            interface: 0,
            together: true,
            rare: 0,
            peer,
            arguments_len: 0,
            result_max: stoop_wire::PACKET_DATA as u32,
            message: None,
            parked_packet: None,
            counted: 0,
            owner: OwnerId::default(),
            in_place: None,
            credit: 0,
        }))
    }

    /// Prepares the assignment for the call with this header.
    #[inline(always)]
    pub(super) fn begin(&mut self, arrived: Instant, peer: &P, header: &Header, terms: Terms)
    where
        P: Copy,
    {
        let work = &mut *self.0;
        (work.interface, work.together, work.result_max) =
            (terms.interface, terms.together, terms.result_max);
        (work.binding, work.lane, work.number) = (header.binding, header.lane, header.number);
        (work.procedure, work.arguments_len) = (header.procedure, header.message_len);
        (work.arrived, work.deadline) = (arrived, arrived.after_nanos(nanos_of_left(header.time)));
        work.peer = *peer;
        work.len = HEADER_LEN as u32;
    }

    /// Has the result grant a credit, if it is one packet.
    pub(super) fn grant(&mut self, credit: u16) {
        if credit > 0 {
            self.0.credit = credit;
            self.0.rare |= GRANTS;
        }
    }

    /// Notes that the call has pipes, perhaps one to its caller.
    pub(super) fn set_pipes(&mut self, has_out: bool) {
        self.0.rare |= if has_out { PIPES | PIPE_OUT } else { PIPES };
    }

    /// Notes that the call has none any more. Returns whether it had.
    pub(super) fn take_pipes(&mut self) -> bool {
        let had = self.0.rare & PIPES != 0;
        self.0.rare &= !(PIPES | PIPE_OUT);
        had
    }

    /// Sets the assembled message of a call of many packets, whose arguments begin as `in_place` says. `owner` holds its
    /// bytes.
    pub(super) fn set_message(&mut self, message: Vec<u8>, in_place: Option<u8>, owner: OwnerId) {
        let work = &mut *self.0;
        (work.counted, work.owner, work.in_place) = (message.len(), owner, in_place);
        work.rare |= LONG;
        work.message = Some(message);
    }

    /// Takes the memory of the [message](Self::set_message), or that which has replaced it, and the bytes that it
    /// counts for, with the owner that holds them.
    pub(super) fn take_message(&mut self) -> Option<(Vec<u8>, OwnerId, usize)> {
        self.0.rare &= !LONG;
        self.0.message.take().map(|message| (message, self.0.owner, self.0.counted))
    }

    /// The answer, after it has been made.
    #[inline]
    pub fn answer(&self) -> &[u8] {
        &self.0.packet[..self.0.len as usize]
    }

    /// Whether the answer of a call with a pipe to its caller tells the length of that.
    pub(super) fn tells_pipe_length(&self) -> bool {
        self.0.packet[2] == Kind::Result as u8 || self.0.packet[3] & flags::PIPE_OUT != 0
    }

    /// Length of the answer, made or only [noted](Self::note).
    #[inline]
    pub fn answer_len(&self) -> usize {
        self.0.len as usize
    }

    /// Bytes of memory in use.
    pub(super) fn bytes_held(&self) -> usize {
        size_of::<Work<P>>() + self.0.packet.capacity()
    }

    /// Whether the call or the packet for its answer is longer than one packet, or the call has pipes.
    #[inline]
    pub(super) fn is_or_was_large(&self) -> bool {
        (self.0.rare & (LONG | PIPES) != 0) | (self.0.packet.len() > MAX_DATAGRAM)
    }

    /// Bytes of the packet beyond an ordinary one.
    pub(super) fn large_bytes(&self) -> usize {
        self.0.packet.len().saturating_sub(MAX_DATAGRAM)
    }

    /// Frees the bytes of the packet beyond an ordinary one.
    pub(super) fn shorten(&mut self) {
        self.0.packet.truncate(MAX_DATAGRAM);
        self.0.packet.shrink_to_fit();
    }

    /// Binding, lane and number of the call.
    pub fn identity(&self) -> (BindingId, LaneId, CallNumber) {
        (self.0.binding, self.0.lane, self.0.number)
    }

    /// Clears the packet before another binding uses it: a procedure gets a VAR OUT argument as the memory is, and must
    /// see nothing of the former binding.
    pub(super) fn wiped(mut self) -> Self {
        self.0.parked_packet = None;
        self.0.packet.truncate(MAX_DATAGRAM);
        self.0.packet.shrink_to_fit();
        self.0.packet.fill(0);
        self.0.packet.resize(MAX_DATAGRAM, 0);
        self
    }
}

impl<P> Assignment<P> {
    /// The arguments and the result packet. `packet` is the call packet, if the call was one packet.
    #[inline]
    pub fn arguments_and_result<'a>(&'a mut self, packet: &'a [u8]) -> (&'a [u8], &'a mut Vec<u8>) {
        let is_long = self.is_long();
        let Work { message, arguments_len, in_place, packet: result, .. } = &mut *self.0;
        let (call, start) = match is_long {
            true => (message.as_deref().unwrap_or_default(), arguments_at(*in_place)),
            false => (packet, HEADER_LEN),
        };
        (&call[start..start + *arguments_len as usize], result)
    }

    /// Stores the packet of a call that waits to be run, until [`take_packet`](Self::take_packet).
    pub fn store_packet(&mut self, packet: Box<[u8]>) {
        self.0.parked_packet = Some(packet);
    }

    /// Takes the packet that was [stored](Self::store_packet) for this call; empty if none was.
    pub fn take_packet(&mut self) -> Box<[u8]> {
        self.0.parked_packet.take().unwrap_or_default()
    }

    /// Whether its arguments came in many packets.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.0.rare & LONG != 0
    }

    /// For a long call whose only argument [comes back in place](crate::Interfaces::returning_in_place): the bytes
    /// before that argument, the length of the argument, and the result packet, in which the argument already lies
    /// where the result begins. To be called once, and instead of [`arguments_and_result`](Self::arguments_and_result).
    /// `None` for any other call.
    pub fn argument_as_result(&mut self) -> Option<([u8; LEADING_MAX], usize, &mut Vec<u8>)> {
        let work = &mut *self.0;
        let message = work.message.as_mut()?;
        let (at, leading) = (arguments_at(work.in_place), usize::from(work.in_place?));
        let len = work.arguments_len as usize - leading;
        let mut before = [0; LEADING_MAX];
        before[..leading].copy_from_slice(&message[at..HEADER_LEN]);
        // The former result packet takes the place of the message, and is recycled with the spare messages.
        core::mem::swap(message, &mut work.packet);
        // The bytes behind the argument may be another binding's.
        work.packet.truncate(HEADER_LEN + len);
        let room = work.packet.len().max(MAX_DATAGRAM);
        work.packet.resize(room, 0);
        Some((before, len, &mut work.packet))
    }

    /// The result packet. The result begins at [`HEADER_LEN`]. The bytes there are zero, or those of an earlier call of
    /// the same lane.
    #[inline]
    pub fn packet_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0.packet
    }

    /// Has memory for an answer again, of a call that was [suspended](super::Server::suspend).
    #[cold]
    pub fn resume(&mut self) {
        self.0.packet = vec![0; MAX_DATAGRAM];
    }

    /// Completes the packet as the result, of which `len` bytes have been written, and returns it for sending. The
    /// driver does not send a result that is [longer than one packet](Self::is_large): after
    /// [`Server::finish`](super::Server::finish), [`Server::next_transmission`](super::Server::next_transmission) sends
    /// it.
    ///
    /// `now` is a time at which the procedure had returned. At or after the call's deadline the packet becomes a
    /// [failure](FailureCode::FinishedTooLate) instead: the procedure may have seen that its caller no longer waits,
    /// and have returned something that is no result.
    ///
    /// # Panics
    /// If the packet is shorter: a mistake of the driver.
    #[inline]
    pub fn complete(&mut self, now: Instant, len: usize) -> &[u8] {
        if now >= self.deadline {
            return self.finished_too_late();
        }
        self.stamp_result(now, len)
    }

    #[cold]
    fn finished_too_late(&mut self) -> &[u8] {
        self.fail(FailureCode::FinishedTooLate, "")
    }

    #[inline]
    fn stamp_result(&mut self, now: Instant, len: usize) -> &[u8] {
        let at_server = time_of_result(now.nanos_since(self.arrived), 0);
        self.stamp(Kind::Result, self.procedure, len, at_server)
    }

    /// Tells in the answer, if it is a result that has been completed at `now`, that the procedure began at `begun`: the call may have
    /// waited here for most of its time.
    #[cold]
    pub fn tell_begin(&mut self, now: Instant, begun: Instant) {
        let at_server = time_of_result(now.nanos_since(self.arrived), begun.nanos_since(self.arrived));
        let packet = &mut self.0.packet;
        if packet[2] == Kind::Result as u8 {
            packet[28..32].copy_from_slice(&at_server.to_le_bytes());
        }
    }

    /// Notes a result of `len` bytes, for [`complete_noted`](Self::complete_noted). The driver knows that the procedure
    /// returned before the deadline; otherwise [`complete`](Self::complete) makes the failure.
    ///
    /// # Panics
    /// If `len` is more than a message can have: a mistake of the driver.
    #[inline]
    pub fn note(&mut self, len: usize) {
        self.0.len = message_len(len) + HEADER_LEN as u32;
    }

    /// As [`complete`](Self::complete), with the length that was [noted](Self::note) when the result was written: for
    /// results that are sent together. It stays a result even if its deadline has passed meanwhile.
    ///
    /// # Panics
    /// As [`complete`](Self::complete).
    #[inline]
    pub fn complete_noted(&mut self, now: Instant) -> &[u8] {
        self.stamp_result(now, self.0.len as usize - HEADER_LEN)
    }

    /// Whether the answer is longer than one packet.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.0.len as usize > HEADER_LEN + self.0.binding.packet_data()
    }

    /// To be called before a [large](Self::is_large) answer is given back. The length of the packet identifies it as
    /// large, although without a checksum it might have been one packet.
    #[cold]
    pub fn leave_in_parts(&mut self) {
        let len = self.0.packet.len().max(MAX_DATAGRAM + 1);
        self.0.packet.resize(len, 0);
    }

    /// Completes the packet as a refusal: the procedure has not run and will not run for this call.
    pub fn refuse(&mut self, refused: impl Into<Refused>, detail: &str) -> &[u8] {
        self.0.parked_packet = None;
        let Refused { code, retry_after } = refused.into();
        let len = self.put_detail(detail);
        self.stamp(Kind::Refusal, retry_after.millis(), len, code.code())
    }

    /// Completes the packet as a failure: the procedure ran, but there is no result.
    pub fn fail(&mut self, code: FailureCode, detail: &str) -> &[u8] {
        let len = self.put_detail(detail);
        self.stamp(Kind::Failure, 0, len, code.code())
    }

    /// As [`fail`](Self::fail), of a call with a pipe to its caller: what was sent through that, so many bytes, arrives nevertheless.
    pub fn fail_behind_pipe(&mut self, code: FailureCode, detail: &str, pipe_len: u64) -> &[u8] {
        let len = self.put_detail(detail);
        let payload = &mut self.0.packet[HEADER_LEN..];
        payload.copy_within(..len, size_of::<u64>());
        payload[..size_of::<u64>()].copy_from_slice(&pipe_len.to_le_bytes());
        self.stamp(Kind::Failure, 0, size_of::<u64>() + len, code.code());
        self.0.packet[3] |= flags::PIPE_OUT;
        self.answer()
    }

    /// Time left until the caller's deadline.
    #[inline]
    pub fn left(&self, now: Instant) -> Duration {
        self.deadline.since(now)
    }

    fn put_detail(&mut self, detail: &str) -> usize {
        let len = detail.floor_char_boundary(MAX_DETAIL);
        let packet = &mut self.0.packet;
        packet.resize(packet.len().max(MAX_DATAGRAM), 0);
        packet[HEADER_LEN..HEADER_LEN + len].copy_from_slice(&detail.as_bytes()[..len]);
        len
    }

    #[inline]
    fn stamp(&mut self, kind: Kind, procedure: u16, len: usize, time: u32) -> &[u8] {
        let work = &mut *self.0;
        let message_len = message_len(len);
        work.len = message_len + HEADER_LEN as u32;
        let header = Header {
            kind,
            lane: work.lane,
            procedure,
            binding: work.binding,
            number: work.number,
            message_len,
            offset: 0,
            time,
        };
        let packet = &mut work.packet[..work.len as usize];
        packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        if work.rare & (GRANTS | PIPE_OUT) != 0 {
            put_flags(kind, packet, work.rare, work.credit, work.binding.packet_data());
            work.rare &= !GRANTS;
        }
        packet
    }
}

/// Puts a grant of credit into the header of an answer, and that it begins with the length of a pipe, if that is a result of one
/// packet. (Of a longer one, the part at offset 0 tells the length.)
#[cold]
fn put_flags(kind: Kind, packet: &mut [u8], rare: u8, credit: u16, packet_data: usize) {
    if kind != Kind::Result || packet.len() > HEADER_LEN + packet_data {
        return;
    }
    if rare & GRANTS != 0 {
        Header::set_credit(packet, Some(credit));
    }
    if rare & PIPE_OUT != 0 {
        packet[3] |= flags::PIPE_OUT;
    }
}

/// Length of a result for its header.
#[inline]
fn message_len(len: usize) -> u32 {
    const MOST: usize = u32::MAX as usize - HEADER_LEN;
    assert!(len <= MOST, "results are shorter than 4 GiB");
    len as u32
}
