//! A call that arrived over UDP: run, answered, given back to the exchange.

use super::batch::Finished;
use super::desk::Desk;
use super::{DatagramEndpoint, From};
use crate::context::Caller;
use crate::context::cancelled::{self, CallId};
use crate::server::dispatch::{Outcome, Terms};
use std::sync::atomic::{AtomicUsize, Ordering};
use stoop_exchange::Instant;
use stoop_exchange::server::{Assignment, Next};
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, PACKET_DATA, RefusalCode};

/// A call, and where the packet is that brought it.
pub(in crate::server) struct DatagramCall {
    pub(super) assignment: Assignment<From>,
    pub(super) packet: CallPacket,
    /// It did not run as soon as it arrived.
    pub(super) deferred: bool,
}

/// Where the packet of a call is.
pub(super) enum CallPacket {
    /// At the desk of the worker that has received it last, and runs it. It came in by the dedicated socket of so many
    /// changes, and its answer can go out there as long as that is the one; 0: by the address's own.
    AtDesk(u64),
    /// It came together with others and is answered with them: where in the datagrams of its batch it begins.
    InBatch(u32),
    /// It waited for a worker, or for another call of its lane. Rare, and boxed twice, that the others stay short.
    Kept(Box<Box<[u8]>>),
}

// It is handed from one to the other several times.
const _: () = assert!(size_of::<Option<DatagramCall>>() <= 32);

/// Bytes of a result that OUT arguments may take without being counted.
const LENT_FREELY: usize = 256 * 1024;

/// Room for OUT arguments that callers have asked for with a few bytes, of all calls together.
#[derive(Debug)]
pub(super) struct Loans {
    bytes: AtomicUsize,
    most: usize,
}

impl Loans {
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
    /// Runs the procedure of the call that came in `packet`, or in more than one.
    #[inline(always)]
    pub(super) fn perform(&self, assignment: &mut Assignment<From>, packet: &[u8], begun_ns: u64) -> Outcome {
        if assignment.deadline.as_nanos() <= begun_ns {
            return Outcome::refused(RefusalCode::DeadlinePassed, String::new());
        }
        let call = call_id(assignment);
        if cancelled::is_cancelled(call) {
            // While it waited for a worker.
            return Outcome::refused(RefusalCode::Cancelled, String::new());
        }
        let terms = Terms {
            deadline_ns: assignment.deadline.as_nanos(),
            caller: Caller::Network(assignment.peer.0.addr()),
            call,
            result_max: assignment.result_max,
            lendable: assignment.result_max.min(LENT_FREELY),
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
    fn run_in_place(&self, assignment: &mut Assignment<From>, terms: Terms) -> Option<Outcome> {
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
        terms: Terms,
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
        let terms = Terms { lendable: needed, ..terms };
        let outcome = self.exports.run(interface, procedure, arguments, result, terms);
        // From now on the exchange counts it.
        self.loans.take_back(needed);
        outcome
    }

    /// Runs and answers a call that came by itself. Returns the call of the same lane that has waited for it.
    #[inline(always)]
    pub(super) fn run_alone(&self, desk: &mut Desk, mut call: DatagramCall) -> Option<DatagramCall> {
        self.answer(&mut call, desk);
        self.finish(desk, call.assignment)
    }

    /// Runs a call's procedure and sends its answer.
    #[inline(always)]
    fn answer(&self, call: &mut DatagramCall, desk: &mut Desk) {
        let DatagramCall { assignment, packet, deferred } = call;
        let begun_ns = if *deferred { clock::now_ns() } else { desk.clock_ns };
        let outcome = self.perform(assignment, desk.packet_of(packet), begun_ns);
        desk.clock_ns = clock::now_ns();
        if outcome.ran() {
            let took = desk.clock_ns - begun_ns;
            self.exports.took(assignment.interface, assignment.procedure, took);
        }
        complete(assignment, outcome, desk.clock_ns);
        let answer = assignment.answer();
        if answer.len() > ANSWER_MAX {
            return;
        }
        let changes = match packet {
            CallPacket::AtDesk(changes) => *changes,
            CallPacket::InBatch(_) | CallPacket::Kept(_) => 0,
        };
        match &desk.dedicated {
            Some(own) if changes == desk.changes && changes == self.dedication.changes() => {
                // Not sent is like lost.
                drop(own.socket.send(answer));
                if changes != self.dedication.changes() {
                    // Given up meanwhile: it may have sent to itself.
                    self.send(answer, &assignment.peer);
                }
            }
            _ => self.send(answer, &assignment.peer),
        }
    }

    /// Gives an answered call back to the exchange, which sends a large answer from now on. Returns the call of the same
    /// lane that has waited for it.
    #[inline(always)]
    pub(super) fn finish(&self, desk: &mut Desk, assignment: Assignment<From>) -> Option<DatagramCall> {
        let call = call_id(&assignment);
        let mut exchange = self.exchange();
        cancelled::ended(call);
        let next = exchange.finish(Instant::from_nanos(desk.clock_ns), assignment);
        if exchange.may_transmit() {
            self.transmit_all(desk, exchange);
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

    /// Gives answered calls back to the exchange. Those that have waited for them are then parked at the desk.
    pub(super) fn finish_all(&self, desk: &mut Desk) {
        let now = Instant::from_nanos(clock::now_ns());
        let mut replies = Vec::new();
        let mut exchange = self.exchange();
        for Finished { assignment, .. } in desk.batch.finished.drain(..) {
            cancelled::ended(call_id(&assignment));
            match exchange.finish(now, assignment) {
                Next::Nothing => {}
                Next::Run(assignment, packet) => {
                    desk.batch.parked.push(DatagramCall::waited(assignment, packet));
                }
                Next::Reply(peer, packet) => replies.push((peer, packet)),
            }
        }
        if exchange.may_transmit() {
            self.transmit_all(desk, exchange);
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
            let (code, detail) = Outcome::refused_for_room(needed, assignment.result_max);
            assignment.refuse(code, &detail)
        }
        Outcome::Failed(why) => assignment.fail(why.0, &why.1),
        Outcome::Result(len) => assignment.complete(assignment.arrived, len),
    };
}

/// Bytes of the longest answer of one packet.
pub(super) const ANSWER_MAX: usize = HEADER_LEN + PACKET_DATA;

impl DatagramCall {
    /// Keeps its packet apart from the desk that has received it.
    #[cold]
    pub(super) fn keep_packet(&mut self, desk: &Desk) {
        self.packet = CallPacket::Kept(self.bytes_of(desk.packet_of(&self.packet)));
    }

    /// The same, of one that is in a batch whose datagrams are these.
    #[cold]
    pub(super) fn keep_packet_of(&mut self, datagrams: &[u8]) {
        if let CallPacket::InBatch(start) = self.packet {
            self.packet = CallPacket::Kept(self.bytes_of(&datagrams[start as usize..]));
        }
    }

    /// The call packet, which `bytes` begin with; of a call of many packets, the header of one of them.
    fn bytes_of(&self, bytes: &[u8]) -> Box<Box<[u8]>> {
        Box::new(bytes[..bytes.len().min(HEADER_LEN + self.assignment.arguments_len)].into())
    }

    /// One that has waited for another of its lane to return.
    #[cold]
    fn waited(assignment: Assignment<From>, packet: Box<[u8]>) -> Self {
        Self { assignment, packet: CallPacket::Kept(Box::new(packet)), deferred: true }
    }
}
