//! A call that arrived over UDP: run, answered, given back to the exchange.

use crate::context::Caller;
use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::serving::dispatch::{CallLimits, Outcome};
use crate::transport::packet::server::batch::Finished;
use crate::transport::packet::server::worker::{BatchState, WorkerState};
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::sync::atomic::{AtomicUsize, Ordering};
use stoop_exchange::Instant;
use stoop_exchange::server::{Assignment, Next};
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM, PACKET_DATA_CHECKED, RefusalCode};

/// A call, and where the packet is that brought it.
pub(crate) struct DatagramCall {
    pub(super) assignment: Assignment<From>,
    pub(super) packet: CallPacket,
}

// It is handed from one to the other several times: in two registers.
const _: () = assert!(size_of::<Option<DatagramCall>>() <= 16);

/// Where the packet of a call is, and whether the call ran as soon as it came: in one word.
#[derive(Clone, Copy)]
pub(super) struct CallPacket(u64);

/// Where the packet of a call is.
pub(super) enum PacketLocation {
    /// At the worker of the worker that has received it last, and runs it. It came in by the dedicated socket of so many
    /// changes, and its answer can go out there as long as that is the one; 0: by the address's own, and needs no checksum;
    /// [`CallPacket::BY_OWN`]: its answer goes out by the address's own.
    AtDesk(u64),
    /// It came together with others and is answered with them: where in the datagrams of its batch it begins.
    InBatch(usize),
    /// With the assignment: the call waited for a worker, or for another call of its lane.
    ManagedCall,
}

impl CallPacket {
    const DEFERRED: u64 = 1 << 63;
    const IN_BATCH: u64 = 1 << 62;
    /// With its assignment, of a call that has waited.
    pub(super) const KEPT: Self = Self(Self::DEFERRED | 1 << 61);
    /// Changes beyond are none that a dedicated socket sees.
    const PLACE: u64 = (1 << 61) - 1;
    /// In place of the changes: the answer goes out by the address's own socket, and may need a checksum.
    pub(super) const BY_OWN: u64 = Self::PLACE;

    /// At the worker, by the dedicated socket of so many changes.
    #[inline]
    pub(super) fn at_desk(changes: u64) -> Self {
        Self(changes & Self::PLACE)
    }

    /// In a batch, from there on.
    #[inline]
    pub(super) fn in_batch(start: usize) -> Self {
        Self(Self::IN_BATCH | start as u64)
    }

    /// The same, of a call that has waited.
    pub(super) fn deferred(self) -> Self {
        Self(self.0 | Self::DEFERRED)
    }

    /// Whether the call did not run as soon as it came.
    #[inline]
    pub(super) fn is_deferred(self) -> bool {
        self.0 & Self::DEFERRED != 0
    }

    #[inline]
    pub(super) fn place(self) -> PacketLocation {
        match self.0 & !Self::DEFERRED {
            place if place & Self::IN_BATCH != 0 => PacketLocation::InBatch((place & Self::PLACE) as usize),
            place if place > Self::PLACE => PacketLocation::ManagedCall,
            changes => PacketLocation::AtDesk(changes),
        }
    }
}

/// Bytes of a result that OUT arguments may take without being counted.
const LENT_FREELY: usize = 256 * 1024;

/// Room for OUT arguments that callers have asked for with a few bytes, of all calls together.
#[derive(Debug)]
pub(super) struct OutBudget {
    bytes: AtomicUsize,
    most: usize,
}

impl OutBudget {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), most }
    }

    fn lend(&self, bytes: usize) -> bool {
        let more = |lent: usize| lent.checked_add(bytes).filter(|lent| *lent <= self.most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn take_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn call_id(assignment: &Assignment<From>) -> CallId {
    let (binding, lane, number) = assignment.identity();
    CallId::new(binding, lane, number)
}

impl DatagramEndpoint {
    /// Runs the procedure of a call.
    #[inline(always)]
    pub(super) fn perform(&self, call: &mut DatagramCall, worker: &WorkerState, begun_ns: u64) -> Outcome {
        match call.packet.place() {
            PacketLocation::AtDesk(_) => {
                self.perform_with(&mut call.assignment, &worker.packet[..], begun_ns)
            }
            PacketLocation::InBatch(start) => {
                let packet = &worker.batch.datagrams_of_calls()[start..];
                self.perform_with(&mut call.assignment, packet, begun_ns)
            }
            PacketLocation::ManagedCall => self.perform_kept(&mut call.assignment, begun_ns),
        }
    }

    #[cold]
    #[inline(never)]
    fn perform_kept(&self, assignment: &mut Assignment<From>, begun_ns: u64) -> Outcome {
        let packet = assignment.take_packet();
        self.perform_with(assignment, &packet, begun_ns)
    }

    /// Runs the procedure of the call that came in `packet`, or in more than one.
    #[inline(always)]
    fn perform_with(&self, assignment: &mut Assignment<From>, packet: &[u8], begun_ns: u64) -> Outcome {
        if assignment.deadline.as_nanos() <= begun_ns {
            return Outcome::refused(RefusalCode::DeadlinePassed, String::new());
        }
        let call = call_id(assignment);
        if cancelled::is_cancelled(call) {
            // While it waited for a worker.
            return Outcome::refused(RefusalCode::Cancelled, String::new());
        }
        let terms = CallLimits {
            deadline_ns: assignment.deadline.as_nanos(),
            caller: Caller::Network(assignment.peer.0.addr()),
            call,
            result_max: assignment.result_max as usize,
            lendable: LENT_FREELY.min(assignment.result_max as usize),
        };
        if assignment.is_long()
            && let Some(outcome) = self.run_in_place(assignment, terms)
        {
            return outcome;
        }
        let (interface, procedure) = (assignment.interface, assignment.procedure);
        let (arguments, result) = assignment.arguments_and_result(packet);
        match self.exports.run(interface, procedure, arguments, result, terms) {
            Outcome::NoRoom(needed) => self.run_with_loan(assignment, packet, terms, needed),
            outcome => outcome,
        }
    }

    /// Runs a long call whose argument comes back where it was received; `None` if it is none.
    #[cold]
    #[inline(never)]
    fn run_in_place(&self, assignment: &mut Assignment<From>, terms: CallLimits) -> Option<Outcome> {
        let procedure = (assignment.interface, assignment.procedure);
        let (leading, len, result) = assignment.argument_as_result()?;
        Some(self.exports.run_in_place(procedure, (&leading, len), result, terms))
    }

    /// Runs a call once more: its OUT arguments take so many bytes, which have to be counted.
    #[cold]
    fn run_with_loan(
        &self,
        assignment: &mut Assignment<From>,
        packet: &[u8],
        terms: CallLimits,
        needed: usize,
    ) -> Outcome {
        if needed > terms.result_max {
            return Outcome::NoRoom(needed);
        }
        if !self.loans.lend(needed) {
            let why = "too many results with OUT arguments are under way";
            return Outcome::refused(RefusalCode::Overloaded, why.into());
        }
        let (interface, procedure) = (assignment.interface, assignment.procedure);
        let (arguments, result) = assignment.arguments_and_result(packet);
        let terms = CallLimits { lendable: needed, ..terms };
        let outcome = self.exports.run(interface, procedure, arguments, result, terms);
        // From now on the exchange counts it.
        self.loans.take_back(needed);
        outcome
    }

    /// Runs and answers a call that came by itself. Returns the call of the same lane that has waited for it.
    #[inline(always)]
    pub(super) fn run_alone(&self, worker: &mut WorkerState, mut call: DatagramCall) -> Option<DatagramCall> {
        self.answer(&mut call, worker);
        self.finish(worker, call.assignment)
    }

    /// Runs a call's procedure and sends its answer.
    #[inline(always)]
    fn answer(&self, call: &mut DatagramCall, worker: &mut WorkerState) {
        let begun_ns = if call.packet.is_deferred() { clock::now_ns() } else { worker.clock_ns };
        let outcome = self.perform(call, worker, begun_ns);
        let DatagramCall { assignment, packet } = call;
        worker.clock_ns = clock::now_ns();
        if outcome.ran() {
            let took = worker.clock_ns - begun_ns;
            self.exports.took(assignment.interface, assignment.procedure, took);
        }
        complete(assignment, outcome, worker.clock_ns);
        if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
            return assignment.leave_in_parts();
        }
        let answer = assignment.answer();
        let changes = match packet.place() {
            PacketLocation::AtDesk(changes) => changes,
            PacketLocation::InBatch(_) | PacketLocation::ManagedCall => CallPacket::BY_OWN,
        };
        match &worker.dedicated {
            Some(own) if changes == worker.changes && changes == self.dedication.changes() => {
                // Not sent is like lost.
                drop(own.socket.send(answer));
                if changes != self.dedication.changes() {
                    // Given up meanwhile: it may have sent to itself.
                    self.send(answer, &assignment.peer);
                }
            }
            _ if changes == 0 => self.send_as_it_is(answer, &assignment.peer),
            _ => self.send(answer, &assignment.peer),
        }
    }

    /// Gives an answered call back to the exchange, which sends a large answer from now on. Returns the call of the same
    /// lane that has waited for it.
    #[inline(always)]
    pub(super) fn finish(
        &self,
        worker: &mut WorkerState,
        assignment: Assignment<From>,
    ) -> Option<DatagramCall> {
        let call = call_id(&assignment);
        let mut exchange = self.exchange();
        cancelled::ended(call);
        let next = exchange.finish(Instant::from_nanos(worker.clock_ns), assignment);
        if exchange.may_transmit() {
            self.transmit_all(worker, exchange);
        } else {
            drop(exchange);
        }
        self.tell_ended();
        match next {
            Next::Nothing => None,
            Next::Run(assignment, packet) => Some(DatagramCall::waited(assignment, packet)),
            Next::Reply(peer, packet) => {
                self.send(&packet, &peer);
                None
            }
        }
    }

    /// Gives answered calls back to the exchange. Those that have waited for them are then parked at the worker.
    pub(super) fn finish_all(&self, worker: &mut WorkerState) {
        let now = Instant::from_nanos(clock::now_ns());
        let mut replies = Vec::new();
        let mut exchange = self.exchange();
        let BatchState { finished, parked, .. } = &mut worker.batch;
        if cancelled::is_any() {
            finished.iter().for_each(|Finished { assignment, .. }| cancelled::ended(call_id(assignment)));
        }
        let finished = finished.drain(..).map(|Finished { assignment, .. }| assignment);
        exchange.finish_all(now, finished, |next| match next {
            Next::Nothing => {}
            Next::Run(assignment, packet) => parked.push(DatagramCall::waited(assignment, packet)),
            Next::Reply(peer, packet) => replies.push((peer, packet)),
        });
        if exchange.may_transmit() {
            self.transmit_all(worker, exchange);
        } else {
            drop(exchange);
        }
        for (peer, packet) in replies {
            self.send(&packet, &peer);
        }
        self.tell_ended();
    }
}

impl Outcome {
    /// Whether the procedure ran, and how long it took is worth knowing.
    #[inline]
    pub(super) fn ran(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Failed(..))
    }
}

/// Makes the answer of a call; a [large](Assignment::is_large) one is sent by the exchange.
#[inline]
pub(super) fn complete(assignment: &mut Assignment<From>, outcome: Outcome, now_ns: u64) {
    match outcome {
        Outcome::Result(len) => {
            assignment.complete(Instant::from_nanos(now_ns), len);
        }
        outcome => complete_without_result(assignment, outcome),
    }
}

#[cold]
#[inline(never)]
fn complete_without_result(assignment: &mut Assignment<From>, outcome: Outcome) {
    let _answer = match outcome {
        Outcome::Refused(why) => assignment.refuse(why.0, &why.1),
        Outcome::NoRoom(needed) => {
            let (code, detail) = Outcome::refused_for_room(needed, assignment.result_max as usize);
            assignment.refuse(code, &detail)
        }
        Outcome::Failed(why) => assignment.fail(why.0, &why.1),
        Outcome::Result(len) => assignment.complete(assignment.arrived, len),
    };
}

/// Bytes of the longest answer that is one packet of any binding.
pub(super) const ANSWER_MAX: usize = HEADER_LEN + PACKET_DATA_CHECKED;

impl DatagramCall {
    /// Keeps its packet apart from the worker that has received it.
    #[cold]
    pub(super) fn keep_packet(&mut self, worker: &WorkerState) {
        match self.packet.place() {
            PacketLocation::AtDesk(_) => self.keep(&worker.packet[..MAX_DATAGRAM]),
            PacketLocation::InBatch(start) => self.keep(&worker.batch.datagrams_of_calls()[start..]),
            PacketLocation::ManagedCall => {}
        }
    }

    /// The same, of one that is in a batch whose datagrams are these.
    #[cold]
    pub(super) fn keep_packet_of(&mut self, datagrams: &[u8]) {
        if let PacketLocation::InBatch(start) = self.packet.place() {
            self.keep(&datagrams[start..]);
        }
    }

    /// Keeps the call packet, which `bytes` begin with; of a call of many packets, the header of one of them.
    fn keep(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(HEADER_LEN + self.assignment.arguments_len as usize);
        self.assignment.store_packet(bytes[..len].into());
        self.packet = CallPacket::KEPT;
    }

    /// One that has waited for another of its lane to return.
    #[cold]
    fn waited(mut assignment: Assignment<From>, packet: Box<[u8]>) -> Self {
        assignment.store_packet(packet);
        Self { assignment, packet: CallPacket::KEPT }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::server::call::*;

    #[test]
    fn a_word_tells_where_a_packet_is_and_whether_its_call_has_waited() {
        for packet in [CallPacket::at_desk(0), CallPacket::at_desk(7), CallPacket::in_batch(0)] {
            assert!(!packet.is_deferred() && packet.deferred().is_deferred());
        }
        for (start, packet) in
            [(0, CallPacket::in_batch(0)), (65_535, CallPacket::in_batch(65_535).deferred())]
        {
            assert!(matches!(packet.place(), PacketLocation::InBatch(at) if at == start));
        }
        assert!(matches!(CallPacket::at_desk(7).deferred().place(), PacketLocation::AtDesk(7)));
        assert!(
            CallPacket::KEPT.is_deferred() && matches!(CallPacket::KEPT.place(), PacketLocation::ManagedCall)
        );
    }
}
