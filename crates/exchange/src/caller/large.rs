//! Calls and results of many packets, at their caller.
//!
//! The lane says which bytes to send and where arriving bytes belong. The driver stores the bytes, and chooses where
//! they are in memory.

use super::pipe_state::Pipes;
use super::{CallState, Heard, Lane, PROBE_INTERVAL};
use crate::Instant;
use crate::bulk::{Incoming, Outgoing, Path, Run, Span, Taken, is_newer, put_receipt};
use alloc::boxed::Box;
use stoop_wire::{FailureCode, HEADER_LEN, Header, Kind, Receipt, Template, left_of_nanos};

/// State of a call or result of many packets.
#[derive(Debug, Default)]
pub(super) struct Large {
    sending: Option<Outgoing>,
    receiving: Option<Incoming>,
    /// Whether a receipt for the call has come: the server knew the binding when the call arrived.
    heard: bool,
    /// Number of the newest receipt for the call that has been handled.
    taken: u32,
    /// Number of the newest receipt for the result that has been sent.
    sent: u32,
    /// Number of times that the first part of the call was sent.
    pub(super) first_parts: u32,
    /// The pipes of the call.
    pub(super) pipes: Option<Box<Pipes>>,
}

impl Large {
    /// Clears the state before another call.
    pub(super) fn clear(&mut self) {
        debug_assert!(self.sending.is_none(), "a large call has been settled before the next begins");
        debug_assert!(self.pipes.as_ref().is_none_or(|pipes| !pipes.is_sending()), "and one with pipes");
        *self = Self::default();
    }

    /// Whether the outstanding call has many packets.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    #[inline]
    fn owes_receipt(&self, drained: bool) -> bool {
        let of_result = |it: &Incoming| it.receipt_is_urgent() || drained && it.receipt_is_due();
        self.receiving.as_ref().is_some_and(of_result)
            || self.pipes.as_ref().is_some_and(|pipes| pipes.owes_receipt(drained))
    }

    pub(super) fn is_heard(&self) -> bool {
        self.heard
    }
}

/// A part of a result that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its offset in the message.
    pub offset: usize,
    /// Its length. The bytes are behind the header of its packet.
    pub len: usize,
    /// Bytes of the whole result.
    pub message_len: usize,
    /// Whether the whole result has arrived with this part, and the call has ended. A last [`Lane::receipt`] tells the
    /// server.
    pub complete: bool,
}

impl Lane {
    /// Begins a call with `message_len` bytes of arguments, more than one packet carries. The server accepts `window`
    /// bytes of them before its first receipt. The driver sends the packets of [`next_run`](Self::next_run), and calls
    /// [`settle`](Self::settle) after the call has ended in any way.
    pub fn start_large(
        &mut self,
        now: Instant,
        deadline: Instant,
        procedure: u16,
        message_len: u32,
        window: u32,
    ) {
        debug_assert!(message_len as usize > self.packet_data(), "a shorter call begins by `start`");
        let large = self.large.get_or_insert_default();
        large.clear();
        large.sending = Some(Outgoing::new(message_len, window));
        self.register(self.number.next(), (now, deadline), procedure, message_len);
    }

    /// Bytes of a message that one packet of the binding carries.
    #[inline]
    pub fn packet_data(&self) -> usize {
        self.binding.packet_data()
    }

    /// The next packets of the call to send, of at most `most_bytes` with their headers; `None` if none may be sent
    /// now.
    pub fn next_run(&mut self, now: Instant, path: &mut Path, most_bytes: usize) -> Option<Run> {
        let call = self.outstanding.as_mut().filter(|call| call.state == CallState::Sent)?;
        let large = self.large.as_mut()?;
        let sending = large.sending.as_mut()?;
        let never_sent = sending.never_sent();
        let run = sending.next_run(now, path, most_bytes);
        call.next = sending.next_timeout(path).min(call.deadline);
        if let Some(again) = run.filter(|run| run.offset < never_sent) {
            self.counters.retransmissions += u64::from(again.len.div_ceil(again.fragment));
        }
        self.hold_pipe_timer();
        let (Some(call), Some(large)) = (&self.outstanding, &mut self.large) else { return None };
        if run.as_ref().is_some_and(|run| run.offset == 0) {
            large.first_parts += 1;
            let left = left_of_nanos(call.deadline.nanos_since(now));
            match large.first_parts {
                1 => self.say_left(left),
                _ => _ = self.left_again(now),
            }
        }
        run
    }

    /// The fields that the headers of a run's packets share.
    pub fn framing(&self, now: Instant) -> Framing {
        let call = self.outstanding.as_ref();
        let left = call.map_or(0, |call| call.deadline.nanos_since(now));
        Framing {
            template: self.call,
            procedure: call.map_or(0, |call| call.procedure),
            number: self.number,
            message_len: call.map_or(0, |call| call.message_len),
            time: self.said().unwrap_or(left_of_nanos(left)),
            flags: self.pipe_flags(),
        }
    }

    /// Handles a packet that was [`Heard::Receipt`]. Afterwards there may be more to send.
    pub fn take_receipt(&mut self, now: Instant, packet: &[u8], path: &mut Path) {
        let (Some(call), Some(large)) = (&mut self.outstanding, &mut self.large) else { return };
        let (Ok((header, payload)), Some(sending)) = (Header::parse(packet), &mut large.sending) else {
            return;
        };
        let Some(receipt) =
            Receipt::decode(payload).filter(|_| is_newer(header.time, large.taken) || large.taken == 0)
        else {
            self.counters.ignored += 1;
            return;
        };
        large.taken = header.time;
        call.heard = now;
        large.heard = true;
        sending.on_receipt(now, &receipt, path);
        if sending.is_acknowledged() {
            call.state = CallState::Acknowledged;
            self.acknowledged = true;
            call.next = self.jitter.after(now, PROBE_INTERVAL).min(call.deadline);
        } else {
            call.next = sending.next_timeout(path).min(call.deadline);
        }
        self.hold_pipe_timer();
    }

    /// Continues to send after [`Due::Resume`](super::Due::Resume), or after the proof of [`Heard::Prove`] has been
    /// sent.
    pub fn resume(&mut self, now: Instant, path: &mut Path) {
        let (Some(call), Some(large)) = (&mut self.outstanding, &mut self.large) else { return };
        let Some(sending) = &mut large.sending else { return };
        if now >= sending.next_timeout(path) {
            sending.on_timeout(now, path);
        } else {
            sending.ask_again(path);
        }
        call.next = sending.next_timeout(path).min(call.deadline);
        self.hold_pipe_timer();
    }

    /// Returns the call's outstanding bytes to the window of `path`. To be called after the end of each call that began
    /// with [`start_large`](Self::start_large) or has pipes, and after its cancel.
    pub fn settle(&mut self, path: &mut Path) {
        if let Some(pipes) = self.large.as_mut().and_then(|large| large.pipes.as_mut()) {
            pipes.settle(path);
        }
        if let Some(mut sending) = self.large.as_mut().and_then(|large| large.sending.take()) {
            sending.end(path);
        }
    }

    /// As [`settle`](Self::settle), of a call of which nothing has been sent on a path.
    #[cold]
    pub fn settle_unsent(&mut self) {
        let Some(large) = &mut self.large else { return };
        large.sending = None;
        if let Some(pipes) = &mut large.pipes {
            pipes.settle_unsent();
        }
    }

    /// Handles a part of a result of the outstanding call.
    #[cold]
    pub(super) fn on_part(&mut self, now: Instant, header: &Header, payload: &[u8]) -> Heard {
        let len = payload.len();
        let Some(call) = &mut self.outstanding else { return self.ignore() };
        if header.message_len as usize <= self.binding.packet_data() {
            return self.ignore();
        }
        if call.state == CallState::Cancelled {
            self.outstanding = None;
            return Heard::Failed(FailureCode::ResultGone);
        }
        let large = self.large.get_or_insert_default();
        let receiving = large.receiving.get_or_insert_with(|| Incoming::new(header.message_len));
        let transmission = (header.offset != 0).then_some(header.time);
        if receiving.message_len() != header.message_len {
            return self.ignore();
        }
        let taken = receiving.take(now, header.offset, len as u32, transmission);
        if taken == Taken::TooScattered {
            return self.ignore();
        }
        // Any part, wherever it belongs, shows that the server has run the call.
        self.acknowledged = true;
        (call.heard, call.unanswered) = (now, 0);
        if call.state != CallState::Receiving {
            call.state = CallState::Receiving;
            call.next = (now + PROBE_INTERVAL).min(call.deadline);
        }
        if taken == Taken::Duplicate {
            return Heard::Progress;
        }
        let complete = receiving.is_complete();
        if self.pipe_flags() > 0 {
            return self.on_part_with_pipes(now, header, payload, complete);
        }
        if complete {
            self.outstanding = None;
        }
        let (offset, message_len) = (header.offset as usize, header.message_len as usize);
        Heard::Part(Part { offset, len, message_len, complete })
    }

    /// The same, for a call with pipes.
    #[cold]
    fn on_part_with_pipes(&mut self, now: Instant, header: &Header, payload: &[u8], complete: bool) -> Heard {
        if header.offset == 0 && !self.pipes_end_with(payload) {
            return self.ignore();
        }
        self.hold_pipe_timer();
        if complete {
            self.end_with_pipes(now);
        }
        let (offset, message_len) = (header.offset as usize, header.message_len as usize);
        Heard::Part(Part { offset, len: payload.len(), message_len, complete })
    }

    /// Takes parts of the result from the beginning of `datagrams`, each of them `segment` bytes long, as long as they
    /// need no decision: the result has had parts before, each part begins where the one before it ends, and no part
    /// completes the result. `None`: the first datagram is for [`handle_packet`](Self::handle_packet).
    #[inline]
    pub fn take_parts(&mut self, now: Instant, datagrams: &[u8], segment: usize) -> Option<Span> {
        let call = self.outstanding.as_mut().filter(|call| call.state == CallState::Receiving)?;
        let receiving = self.large.as_mut()?.receiving.as_mut()?;
        let (first, _) = Header::parse(datagrams.get(..segment)?).ok()?;
        let expected = (Kind::Result, self.binding, self.lane, self.number, receiving.message_len());
        if (first.kind, first.binding, first.lane, first.number, first.message_len) != expected {
            return None;
        }
        let span = receiving.take_span(now, datagrams, segment)?;
        (call.heard, call.unanswered, call.unreachable) = (now, 0, 0);
        Some(span)
    }

    /// Handles a packet that the outstanding call does not need. If it is a part of the last call's result, which is
    /// complete, then the server does not know that yet, and needs a [`receipt`](Self::receipt).
    #[cold]
    pub(super) fn on_repeated_part(&mut self, now: Instant, packet: &[u8]) -> Heard {
        if let Ok((header, payload)) = Header::parse(packet)
            && header.kind == Kind::Data
            && self.outstanding.is_none()
            && self.is_for_this_call(&header)
        {
            return self.on_repeated_data(now, &header, payload);
        }
        let receiving = self.large.as_mut().and_then(|large| large.receiving.as_mut());
        let (Some(receiving), Ok((header, payload))) = (receiving, Header::parse(packet)) else {
            return self.ignore();
        };
        let repeated = self.outstanding.is_none()
            && (header.binding, header.lane, header.number) == (self.binding, self.lane, self.number)
            && (header.kind, header.message_len) == (Kind::Result, receiving.message_len());
        if !repeated {
            return self.ignore();
        }
        let transmission = (header.offset != 0).then_some(header.time);
        receiving.take(now, header.offset, payload.len() as u32, transmission);
        Heard::Progress
    }

    /// Whether a receipt should be sent now. `drained`: no further packet has arrived.
    #[inline]
    pub fn owes_receipt(&self, drained: bool) -> bool {
        self.large.as_ref().is_some_and(|large| large.owes_receipt(drained))
    }

    /// Writes a receipt for the latest call's result, which allows the server to send `window` more bytes. Returns its
    /// length; 0 if no part has arrived.
    pub fn receipt(&mut self, now: Instant, window: u32, out: &mut [u8; Receipt::MAX_PACKET]) -> usize {
        let Some(large) = &mut self.large else { return 0 };
        let Some(receiving) = &mut large.receiving else { return 0 };
        let receipt = receiving.receipt(now, window);
        large.sent = large.sent.wrapping_add(1);
        put_receipt(
            &receipt,
            Header::bare(Kind::Receipt, self.binding, self.lane, self.number),
            large.sent,
            out,
        )
    }
}

/// The header fields that all packets of one message share.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    pub(crate) template: Template,
    pub(crate) procedure: u16,
    pub(crate) number: stoop_wire::CallNumber,
    pub(crate) message_len: u32,
    /// Time word of the packet with the first byte of the message, and its flags.
    pub(crate) time: u32,
    pub(crate) flags: u8,
}

impl Framing {
    /// Writes the header of the packet with the `len` bytes from `offset` on, sent as number `transmission`.
    #[inline]
    pub fn stamp(&self, header: &mut [u8; HEADER_LEN], (offset, len): (u32, u32), transmission: u32) {
        let time = if offset == 0 { self.time } else { transmission };
        let place = (offset, len);
        self.template.stamp_part(header, self.procedure, self.number, self.message_len, place, time);
        if offset == 0 {
            header[3] |= self.flags;
        }
    }
}
