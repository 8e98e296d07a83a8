//! Blocking calls of many packets, or with results of many packets.

use crate::calling::recovery::lacks_form;
use crate::error::{CallError, SendError};
use crate::transport::packet::caller::lane::PacketLane;
use crate::transport::packet::caller::large_buffers::LargeBuffers;
use crate::transport::packet::caller::result_parts::ResultParts;
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, Segments, Sending};
use crate::transport::packet::now;
use crate::transport::packet::packet_run::{Arguments, PacketRun};
use crate::transport::packet::steps::{Ended, Steps, give_up};
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::bulk::RECEIPT_WAITS_NANOS;
use stoop_exchange::caller::{Heard, Lost, Part};
use stoop_marshal::{EncodeError, GatherList};
use stoop_wire::{HEADER_LEN, Header};

/// Longest sleep of a thread with more to send: the large calls of all threads share a window, and another call may have freed some
/// of it.
const LOOK_AT_WINDOW_NS: u64 = 1_000_000;

/// Receives before a call is given up: no peer can delay the end of a call by sending.
const LAST_LOOKS: u32 = 64;

/// A call of many packets, or whose result has many.
struct LargeCall<'l, 'c, 'p, 'a, E: CallerEndpoint> {
    lane: &'l mut PacketLane<E>,
    buffers: &'l mut LargeBuffers<E>,
    gather: &'c mut GatherList<'p, 'a>,
    /// Bytes of arguments.
    len: usize,
    /// No packet of it has been sent yet.
    unsent: bool,
    /// Made when the first part of the result arrives.
    parts: Option<ResultParts>,
}

impl<E: CallerEndpoint> PacketLane<E> {
    /// Makes one call that may have many packets, or that comes after such a call.
    #[cold]
    #[inline(never)]
    pub(crate) fn exchange_large(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.scattered = None;
        self.endpoint.settle();
        if len > self.longest_call {
            // The arguments were written for a server that has been replaced by one that takes fewer.
            let why = EncodeError::TooLarge { needed_at_least: len, limit: self.longest_call };
            return Err(Ended::With(CallError::not_sent(SendError::Arguments(why))));
        }
        let one_packet = self.exchange.packet_data();
        let (is_large, expects_large) = (len > one_packet, gather.scatter_end() > one_packet);
        let mut buffers = self.large.take().unwrap_or_default();
        if !is_large && !expects_large && buffers.has_rested() {
            buffers.give_back(&self.endpoint, &mut self.call, &mut self.result);
            return self.exchange::<false>(begun, deadline, procedure, len);
        }
        if expects_large {
            buffers.expect_result(&self.endpoint);
        }
        let Some(procedure) = self.session.bound.known(procedure) else {
            self.large = Some(buffers);
            return Err(Ended::With(lacks_form()));
        };
        if is_large {
            let len = u32::try_from(len).expect("a message is shorter than 4 GiB");
            self.exchange.start_large(begun, deadline, procedure, len, self.session.bound.window);
        } else {
            self.exchange.start(begun, deadline, procedure, &mut self.call[..HEADER_LEN + len]);
        }
        let mut call =
            LargeCall { lane: self, buffers: &mut buffers, gather, len, unsent: true, parts: None };
        let outcome = call.send_first(begun).and_then(|()| call.go_on(begun));
        let was_large = is_large || call.parts.is_some();
        if is_large {
            self.steps(len).0.settle();
        }
        buffers.note(was_large);
        self.large = Some(buffers);
        outcome
    }

    /// Goes on with a call of one packet whose result has many. `part` of it, which has arrived first, is in the result buffer.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_on_large(
        &mut self,
        clock: Instant,
        part: Part,
        received: usize,
        len: usize,
    ) -> Result<(), Ended> {
        self.scattered = None;
        let first = self.result[..received].to_vec();
        self.as_large(len, |call| {
            call.buffers.expect_result(&call.lane.endpoint);
            if !call.take_part(clock, &part, &first)? {
                call.go_on(clock)?;
            }
            Ok(())
        })
    }

    /// Ends a call of one packet that is lost, as a large one. Returns whether its result is here.
    #[cold]
    pub(crate) fn end_lost(&mut self, lost: Lost, clock: Instant, len: usize) -> Result<bool, Ended> {
        self.as_large(len, |call| call.end_lost(Some(lost), clock))
    }

    /// Goes on with a call of one packet as with a large one.
    fn as_large<T>(
        &mut self,
        len: usize,
        go_on: impl FnOnce(&mut LargeCall<'_, '_, '_, '_, E>) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let (mut buffers, gather) = (Box::<LargeBuffers<E>>::default(), &mut GatherList::none());
        let mut call =
            LargeCall { lane: self, buffers: &mut buffers, gather, len, unsent: false, parts: None };
        let outcome = go_on(&mut call);
        buffers.note(true);
        self.large = Some(buffers);
        outcome
    }
}

impl<E: CallerEndpoint> LargeCall<'_, '_, '_, '_, E> {
    /// Sends a call of one packet, or the first packets of a longer one.
    fn send_first(&mut self, begun: Instant) -> Result<(), Ended> {
        if self.is_large() {
            // `go_on` sends the next packets before it receives: nothing can have arrived yet.
            return self.send_next(begun).map(|_| ());
        }
        let (lane, len) = (&mut *self.lane, self.len);
        self.unsent = false;
        match lane.session.protection.send(&lane.endpoint, &lane.call[..HEADER_LEN + len]) {
            Ok(Sending::Sent) => Ok(()),
            outcome => lane.not_sent(outcome, len),
        }
    }

    fn is_large(&self) -> bool {
        self.len > self.lane.exchange.packet_data()
    }

    /// Whether the server has not acknowledged all of the call yet.
    fn is_sending(&self) -> bool {
        self.is_large() && !self.lane.exchange.last_was_acknowledged()
    }

    /// Sends the next packets of the call, if there are some to be sent now.
    fn send_next(&mut self, clock: Instant) -> Result<bool, Ended> {
        if !self.is_sending() {
            return Ok(false);
        }
        let PacketLane { exchange, session, endpoint, call, .. } = &mut *self.lane;
        let Some(packets) = PacketRun::next(exchange, session, endpoint, clock) else { return Ok(false) };
        let inline = &call[HEADER_LEN..HEADER_LEN + self.len - self.gather.borrowed_len()];
        let arguments = Arguments { inline, gather: self.gather };
        let sent = packets.send(&arguments, session, endpoint, &mut self.buffers.room);
        match (sent, std::mem::replace(&mut self.unsent, false)) {
            (Err(error), true) => Err(self.lane.not_sent_because(error)),
            // Later packets that the system does not send are treated like lost ones.
            _ => Ok(true),
        }
    }

    /// Sends the rest of the call and receives the result.
    #[inline(never)]
    fn go_on(&mut self, begun: Instant) -> Result<(), Ended> {
        let mut clock = begun;
        // Each wait for packets is one by itself. There is none while there are packets to send.
        let mut wait = self.lane.waiter.begin(begun.as_nanos());
        let mut waits = true;
        let mut heard = begun;
        loop {
            if self.send_next(clock)? {
                waits = false;
            } else if !waits {
                self.lane.waiter.begin_again(&mut wait, clock.as_nanos());
                waits = true;
            }
            let sleeps = waits && wait.sleeps() && !self.lane.exchange.owes_receipt(true);
            let arrival = match sleeps {
                true => {
                    let latest_ns = self.lane.exchange.deadline().nanos_since(clock);
                    let limit_ns = self.limit_ns(clock);
                    self.lane.endpoint.receive_many_about(&mut self.buffers.arrivals, limit_ns, latest_ns)
                }
                false => self.lane.endpoint.receive_many(&mut self.buffers.arrivals),
            };
            clock = now();
            match arrival {
                Ok(CallerArrival::Datagram(segments)) => {
                    if std::mem::take(&mut waits) {
                        self.lane.waiter.arrived(&wait, clock.as_nanos());
                    }
                    if self.take(clock, segments)? {
                        return Ok(());
                    }
                    heard = clock;
                    self.send_receipt_if_owed(clock, false);
                }
                Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {
                    let lingers = waits && wait.spins() && clock.nanos_since(heard) < RECEIPT_WAITS_NANOS;
                    self.send_receipt_if_owed(clock, !lingers);
                }
                Ok(CallerArrival::Refused) => {
                    self.lane.take_sent_back();
                    let lost = self.steps().on_unreachable(clock);
                    if self.end_lost(lost, clock)? {
                        return Ok(());
                    }
                }
                // An ICMP error for an earlier packet. Keep waiting: only the deadline ends the call.
                Err(_) => self.lane.take_sent_back(),
            }
            if clock >= self.lane.exchange.next_timeout() {
                let lost = self.steps().on_timeout(clock);
                if self.end_lost(lost, clock)? {
                    return Ok(());
                }
            }
            if waits {
                self.lane.waiter.go_on(&mut wait, clock.as_nanos());
            }
        }
    }

    fn steps(&mut self) -> Steps<'_, E> {
        self.lane.steps(self.len).0
    }

    /// How long to sleep at most.
    fn limit_ns(&self, clock: Instant) -> u64 {
        let limit = self.lane.exchange.next_timeout().nanos_since(clock);
        if self.is_sending() { limit.min(LOOK_AT_WINDOW_NS) } else { limit }
    }

    /// Ends the call if it is lost, unless its result is among the packets that have arrived: a thread that did not run for a while
    /// sees late a result that came in time. Returns whether the result is here.
    fn end_lost(&mut self, lost: Option<Lost>, clock: Instant) -> Result<bool, Ended> {
        let Some(lost) = lost else { return Ok(false) };
        for _ in 0..LAST_LOOKS {
            let segments = match self.lane.endpoint.receive_many(&mut self.buffers.arrivals) {
                Ok(CallerArrival::Datagram(segments)) => segments,
                Ok(CallerArrival::Nothing) => break,
                _ => continue,
            };
            if self.take(clock, segments)? {
                return Ok(true);
            }
        }
        Err(Ended::With(give_up(&mut self.steps(), clock, lost)))
    }

    /// Handles packets that have arrived together. Returns whether the result is complete.
    fn take(&mut self, clock: Instant, segments: Segments) -> Result<bool, Ended> {
        let lane = &mut *self.lane;
        let datagrams = &mut self.buffers.arrivals[..segments.len];
        if lane.session.bound.binding.has_trailer() {
            let struck = lane.session.protection.open_many(datagrams, segments.segment);
            lane.session.corrupt.fetch_add(struck, Ordering::Relaxed);
        }
        let mut rest = &*datagrams;
        while !rest.is_empty() {
            if let Some(parts) = self.parts
                && let Some(span) = lane.exchange.take_parts(clock, rest, segments.segment)
            {
                parts.place_span(&span, rest, self.gather, &mut lane.result);
                rest = &rest[span.datagrams_len()..];
                continue;
            }
            let (datagram, behind) = rest.split_at(segments.segment.max(1).min(rest.len()));
            rest = behind;
            for packet in Header::parts_in(datagram) {
                let heard = lane.exchange.handle_packet(clock, packet);
                if let Heard::Result { len, .. } = heard {
                    let packet = &packet[..HEADER_LEN + len];
                    lane.result[..packet.len()].copy_from_slice(packet);
                    lane.result_len = len;
                    return Ok(true);
                }
                let part = lane.steps(self.len).0.hear(clock, heard, packet);
                if let Some(part) = part.map_err(|answer| Ended::by(answer, packet))?
                    && take_part(lane, self.gather, &mut self.parts, clock, &part, packet)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn take_part(&mut self, clock: Instant, part: &Part, packet: &[u8]) -> Result<bool, Ended> {
        take_part(self.lane, self.gather, &mut self.parts, clock, part, packet)
    }

    /// Sends a receipt for the parts of the result that have arrived, if the server waits for one.
    fn send_receipt_if_owed(&mut self, clock: Instant, drained: bool) {
        if self.lane.exchange.owes_receipt(drained) {
            self.steps().send_receipt(clock);
        }
    }
}

/// Copies a part of the result to its place. Returns whether the result is complete.
fn take_part<E: CallerEndpoint>(
    lane: &mut PacketLane<E>,
    gather: &mut GatherList<'_, '_>,
    parts: &mut Option<ResultParts>,
    clock: Instant,
    part: &Part,
    packet: &[u8],
) -> Result<bool, Ended> {
    let result_parts = match *parts {
        Some(result_parts) => result_parts,
        None => {
            let made = ResultParts::new(part, lane.longest_result, gather, &mut lane.result);
            *parts.insert(made.map_err(Ended::With)?)
        }
    };
    result_parts.place(part.offset, &packet[HEADER_LEN..HEADER_LEN + part.len], gather, &mut lane.result);
    if part.complete {
        lane.steps(0).0.send_receipt(clock);
        lane.result_len = result_parts.buffered_len(part.message_len);
        lane.scattered = result_parts.scattered();
    }
    Ok(part.complete)
}
