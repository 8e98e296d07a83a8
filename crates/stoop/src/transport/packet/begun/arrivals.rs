//! Packets that arrive for begun calls.

use crate::transport::packet::begun::calls::{Calls, NO_CALL};
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, PacketLink, Segments};
use crate::transport::packet::steps::Ended;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::caller::Heard;
use stoop_wire::{Bundle, HEADER_LEN, Header, Kind, LaneId};

/// The result of a call, of a packet's payload: the length of a pipe comes before it.
fn slot_result<'a>(slot: &Slot, payload: &'a [u8]) -> &'a [u8] {
    let has_length = slot.pipes.as_ref().is_some_and(|pipes| pipes.has_into());
    if has_length { payload.get(size_of::<u64>()..).unwrap_or_default() } else { payload }
}

/// Receives before calls are given up: no peer can delay the end of a call by sending.
const LAST_LOOKS: u32 = 64;

impl<L: PacketLink> Calls<L> {
    /// Handles packets that have arrived, and timeouts that are due. Returns whether a packet had arrived.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        arrival: io::Result<CallerArrival<Segments>>,
        buffer: &mut [u8],
        clock: Instant,
    ) -> bool {
        let arrived = !matches!(arrival, Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) | Err(_));
        self.take(arrival, buffer, clock);
        if clock >= self.next().due() {
            self.take_all(buffer, clock);
            self.look(clock);
        }
        if self.large.is_owing() {
            self.send_receipts(clock, !arrived);
        }
        arrived
    }

    #[inline]
    fn take(&mut self, arrival: io::Result<CallerArrival<Segments>>, buffer: &mut [u8], clock: Instant) {
        match arrival {
            Ok(CallerArrival::Datagram(segments)) => {
                if self.session.bound.binding.has_trailer() {
                    let datagrams = &mut buffer[..segments.len];
                    let struck = self.session.protection.open_many(datagrams, segments.segment);
                    self.session.corrupt.fetch_add(struck, Ordering::Relaxed);
                }
                match cfg!(feature = "seal") && self.session.bound.binding.is_sealed() {
                    true => self.deliver_all(clock, segments.split(buffer).flat_map(Bundle::packets_in)),
                    false => {
                        let datagrams = &buffer[..segments.len];
                        let taken = self.deliver_data(clock, datagrams, segments.segment.max(1));
                        self.deliver_all(clock, datagrams[taken..].chunks(segments.segment.max(1)));
                    }
                }
            }
            Ok(CallerArrival::Refused) => self.on_unreachable(clock),
            Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {}
            // An ICMP error for an earlier packet. Keep waiting: only deadlines end calls.
            Err(_) => {
                self.take_sent_back();
            }
        }
    }

    /// Handles all packets that have arrived, before calls are given up: this thread may not have run for a while, and the results may
    /// have come in time.
    #[cold]
    pub(crate) fn take_all(&mut self, buffer: &mut [u8], clock: Instant) {
        for _ in 0..LAST_LOOKS {
            let arrival = self.link.endpoint.receive_many(buffer);
            if matches!(arrival, Ok(CallerArrival::Nothing) | Err(_)) {
                break;
            }
            self.take(arrival, buffer, clock);
        }
    }

    /// Handles the run of data of one pipe with which packets begin that have arrived together. Returns its bytes in `datagrams`.
    #[inline]
    fn deliver_data(&mut self, clock: Instant, datagrams: &[u8], segment: usize) -> usize {
        if datagrams.get(2) != Some(&(Kind::Data as u8)) {
            return 0;
        }
        let (first, rest) = datagrams.split_at(segment.min(datagrams.len()));
        let Some(call) = self.call_of(first) else { return 0 };
        self.deliver(call, clock, first);
        // It was of the pipe from the procedure.
        let is_taken = self.piped.contains(&call);
        let lane = &mut self.slots[call as usize].lane;
        first.len() + if is_taken { lane.take_pipe_parts(clock, rest, segment) } else { 0 }
    }

    /// Handles packets that have arrived together.
    #[inline]
    pub(crate) fn deliver_all<'a>(&mut self, clock: Instant, packets: impl Iterator<Item = &'a [u8]>) {
        let (mut ended, mut last) = (0, None);
        for packet in packets {
            let Some(call) = self.call_of(packet) else {
                self.past.ignored += 1;
                continue;
            };
            let slot = &mut self.slots[call as usize];
            // A call that has not left has no result: `deliver` ignores the packet.
            let heard = if slot.stage == Stage::Sent { slot.compact.take_result(packet) } else { None };
            match heard {
                Some((len, at_server_ns)) => {
                    if self.link.binding.recorder.is_some() {
                        self.record_compact(call, clock, at_server_ns);
                    }
                    self.end_compact(call, &packet[HEADER_LEN..HEADER_LEN + len]);
                    ended += 1;
                    last = Some((call, at_server_ns));
                }
                None => self.deliver(call, clock, packet),
            }
        }
        if !self.piped.is_empty() {
            self.look_at_all_pipes();
        }
        if let Some((call, at_server_ns)) = last {
            let compact = &self.slots[call as usize].compact;
            compact.sample(clock, at_server_ns, &mut self.path);
            self.flow.on_heard(clock, ended as u32, compact.times().0);
            self.outstanding -= ended;
            self.past.calls += ended as u64;
            self.past.fast += ended as u64;
        }
    }

    /// Handles a datagram that is not the result of a compact call.
    #[cold]
    #[inline(never)]
    fn deliver(&mut self, call: u32, clock: Instant, datagram: &[u8]) {
        if datagram.get(2) == Some(&(Kind::Acknowledgements as u8)) {
            return self.take_acknowledgements(clock, datagram);
        }
        if self.slots[call as usize].stage != Stage::Sent && self.take_notice(datagram) {
            return;
        }
        if let Stage::HeldBack(_) | Stage::Waiting | Stage::Apart = self.slots[call as usize].stage {
            // The call has not left here.
            return self.past.ignored += 1;
        }
        self.expand(call);
        self.hear(call, clock, datagram);
        for further in Header::parts_in(datagram).skip(1) {
            if !self.slots[call as usize].is_receiving {
                break;
            }
            self.hear(call, clock, further);
        }
    }

    /// If a packet for a lane without a call refuses the next one because the server shuts down: has calls wait for the next server.
    /// Returns whether it does.
    #[cold]
    fn take_notice(&mut self, packet: &[u8]) -> bool {
        let is_notice = Header::tells_shutdown(packet, self.session.bound.binding);
        if is_notice {
            self.session.note_closing();
            self.leaves = true;
        }
        is_notice
    }

    #[inline]
    pub(crate) fn call_of(&self, packet: &[u8]) -> Option<u32> {
        let LaneId(lane) = LaneId::of_packet(packet)?;
        self.by_lane.get(usize::from(lane)).copied().filter(|call| *call != NO_CALL)
    }

    /// Carries out what a packet means for a call.
    #[cold]
    fn hear(&mut self, call: u32, clock: Instant, packet: &[u8]) {
        let (link, window) = (Arc::clone(&self.link), self.large.window(&self.link.endpoint));
        let slot = &mut self.slots[call as usize];
        self.waits.leave(&mut slot.lane);
        let heard = slot.lane.handle_packet(clock, packet);
        if heard != Heard::Ignored {
            self.land(call, Some(clock));
        }
        let slot = &mut self.slots[call as usize];
        if let Heard::Result { len, .. } = heard {
            self.path = slot.lane.path();
            if let Some(credit) = Header::credit(packet) {
                self.flow.on_grant(clock, credit, slot.sent);
            }
            self.record(call, clock, Header::server_ns_of(packet));
            let result = &packet[HEADER_LEN..HEADER_LEN + len];
            return self.end_with(call, slot_result(&self.slots[call as usize], result));
        }
        if slot.lane.path().timeout() > self.path.timeout() {
            // A repeated result has shown that the path is slower than the wait.
            self.path = slot.lane.path();
        }
        match slot.steps(&link.endpoint, window).hear(clock, heard, packet) {
            Ok(Some(part)) => {
                self.arm(call);
                self.take_part(call, &part, clock, packet);
            }
            Ok(None) if heard != Heard::Ignored => self.go_on(call, clock),
            // It may have been among the calls that are asked about together.
            Ok(None) if matches!(slot.stage, Stage::Sent | Stage::Draining) => self.arm(call),
            Ok(None) => {}
            Err(answer) => match Ended::by(answer, packet) {
                Ended::Unbound(refusal) => {
                    slot.refusal = Some(refusal);
                    self.await_rebind(call);
                }
                Ended::With(error) => self.fail_or_come_again(call, error, clock),
            },
        }
    }

    /// Records a compact call that ends with a result, if the binding keeps an account.
    #[inline(never)]
    fn record_compact(&self, call: u32, clock: Instant, at_server_ns: u32) {
        let Slot { compact, procedure, .. } = &self.slots[call as usize];
        let server_ns = (at_server_ns != u32::MAX).then_some(u64::from(at_server_ns));
        let whole_ns = clock.nanos_since(compact.times().0);
        let recorder = self.link.binding.recorder.iter();
        recorder.for_each(|recorder| recorder.record_begun(*procedure, whole_ns, server_ns, 0));
    }

    /// Records a call that ends with a result, if the binding keeps an account.
    pub(crate) fn record(&self, call: u32, clock: Instant, server_ns: Option<u64>) {
        let Some(recorder) = &self.link.binding.recorder else { return };
        let Slot { lane, begun, procedure, .. } = &self.slots[call as usize];
        let repeated = u64::from(lane.last_transmissions().saturating_sub(1));
        let whole_ns = clock.nanos_since(*begun);
        recorder.record_begun(*procedure, whole_ns, server_ns, repeated);
    }

    /// Goes on with a call: more of it may be sent now, and the server may wait for a receipt.
    fn go_on(&mut self, call: u32, clock: Instant) {
        if self.slots[call as usize].pipes.is_some() {
            // Once for all packets that have come together.
            if !self.piped.contains(&call) {
                self.piped.push(call);
            }
            return;
        }
        self.arm(call);
        let Slot { lane, is_large, is_receiving, .. } = &self.slots[call as usize];
        let owes_receipt = lane.owes_receipt(true);
        if *is_large {
            self.large.retry();
            self.large.sends(call);
        }
        match (owes_receipt, *is_receiving) {
            // The part has arrived before: the server has missed a receipt.
            (true, true) => self.large.owes(call),
            (true, false) => self.send_receipt(call, clock),
            (false, _) => {}
        }
    }
}
