//! Runs a call, answers it, and gives it back to the exchange.

use crate::context::cancelled::{self, CallId};
use crate::context::keeper;
use crate::context::owner_on;
use crate::later::deferred::{Given, Later, ReplyError};
use crate::pipes::contract::Pipes;
use crate::serving::dispatch::CallLimits;
use crate::serving::one_call::{self, serve};
use crate::serving::outcome::{NoRoom, Outcome};
use crate::serving::workers::Endpoint;
use crate::transport::packet::link::{Peer, ReceiveBuffers, ServerEndpoint};
use crate::transport::packet::server::batch::Finished;
use crate::transport::packet::server::call::{CallPacket, PacketCall, PacketLocation, packets_of_calls};
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::piped::length_before;
use crate::transport::packet::server::worker::{BatchState, WorkerState};
use std::sync::MutexGuard;
use stoop_exchange::Instant;
use stoop_exchange::server::{Assignment, Next, Server};
use stoop_exchange::shares::Owner;
use stoop_net::clock;
use stoop_probe::{Point, stamp};
use stoop_wire::{HEADER_LEN, PACKET_DATA_SEALED};

/// A call that has waited for a worker for no longer has not waited.
const QUEUED_MIN_NS: u64 = 2_000;

pub(super) fn call_id<P: Peer>(assignment: &Assignment<P>) -> CallId {
    let (binding, lane, number) = assignment.identity();
    CallId::new(binding, lane, number)
}

/// The limits of a call.
#[inline(always)]
fn limits<P: Peer>(call: &Assignment<P>) -> CallLimits {
    let (deadline_ns, result_max) = (call.deadline.as_nanos(), call.result_max as usize);
    CallLimits::new(deadline_ns, call.peer.caller(), call_id(call), result_max)
}

/// A call that is served, and the packet that brought it, if it was one packet.
struct Serving<'a, S: ServerEndpoint> {
    endpoint: &'a PacketEndpoint<S>,
    assignment: &'a mut Assignment<S::Peer>,
    packet: &'a [u8],
    /// The owner of the memory that is reserved for it.
    owner: Option<Owner>,
}

impl<S: ServerEndpoint> one_call::ReceivedCall for Serving<'_, S> {
    #[inline(always)]
    fn limits(&self) -> CallLimits {
        limits(self.assignment)
    }

    #[inline(always)]
    fn run(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        if self.assignment.is_long()
            && let Some(ran) = self.run_in_place(limits)
        {
            return ran;
        }
        let (interface, procedure) = (self.assignment.interface, self.assignment.procedure);
        let (arguments, result) = self.assignment.arguments_and_result(self.packet);
        self.endpoint.exports.run(interface, procedure, arguments, result, limits)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), &'static str> {
        let (binding, ..) = self.assignment.identity();
        let owner = *self.owner.get_or_insert_with(|| owner_on(binding, &self.assignment.peer.caller()));
        self.endpoint.out_budget.take(owner, bytes).then_some(()).ok_or(
            "you have your share of the server's memory for OUT arguments; call again when earlier calls have ended, or raise \
             Limits::result_bytes",
        )
    }

    fn release(&mut self, bytes: usize) {
        self.endpoint.out_budget.give_back(self.owner.expect("it was reserved for one"), bytes);
    }
}

impl<S: ServerEndpoint> Serving<'_, S> {
    /// Runs a long call of which an argument is also the result, in the memory in which it was received. `None` if it is no such call.
    #[cold]
    #[inline(never)]
    fn run_in_place(&mut self, limits: CallLimits) -> Option<Result<Outcome, NoRoom>> {
        let procedure = (self.assignment.interface, self.assignment.procedure);
        let (leading, len, result) = self.assignment.argument_as_result()?;
        // The memory is there. So it runs only once, for nothing is left of the arguments.
        let limits = CallLimits { out_limit: limits.result_max, ..limits };
        Some(self.endpoint.exports.run_in_place(procedure, (&leading, len), result, limits))
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Runs the procedure of a call.
    #[inline(always)]
    pub(super) fn perform(
        &self,
        call: &mut PacketCall<S::Peer>,
        buffers: &ReceiveBuffers,
        begun_ns: u64,
    ) -> Outcome {
        match call.packet.location() {
            PacketLocation::AtWorker => self.perform_with(&mut call.assignment, &buffers.one[..], begun_ns),
            PacketLocation::InBatch(start) => {
                let packet = &packets_of_calls(buffers)[start..];
                self.perform_with(&mut call.assignment, packet, begun_ns)
            }
            PacketLocation::Kept => self.perform_kept(&mut call.assignment, begun_ns),
        }
    }

    #[cold]
    #[inline(never)]
    fn perform_kept(&self, assignment: &mut Assignment<S::Peer>, begun_ns: u64) -> Outcome {
        let packet = assignment.take_packet();
        self.perform_with(assignment, &packet, begun_ns)
    }

    /// Runs the procedure of the call that came in `packet`, or in several packets.
    #[inline(always)]
    fn perform_with(&self, assignment: &mut Assignment<S::Peer>, packet: &[u8], begun_ns: u64) -> Outcome {
        let outcome = serve(&mut Serving { endpoint: self, assignment, packet, owner: None }, begun_ns);
        outcome.expect("only a connection can be closed, and packets have none")
    }

    /// Runs and answers a call that came by itself. Returns the call of the same lane that has waited for it.
    #[inline(always)]
    pub(super) fn run_alone(
        &self,
        worker: &mut WorkerState<S>,
        mut call: PacketCall<S::Peer>,
    ) -> Option<PacketCall<S::Peer>> {
        match self.answer(&mut call, worker) {
            None => self.finish(worker, call.assignment),
            Some(later) => {
                self.leave_open(call.assignment, *later);
                None
            }
        }
    }

    /// Lets a call that has run wait for its answer.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_open(&self, mut assignment: Assignment<S::Peer>, mut later: Later) {
        let pipes = later.pipes();
        let has_pipes = pipes != Pipes::default();
        if has_pipes {
            self.give_pipes(&assignment, pipes, &mut later);
        }
        // The packets that brought it are not needed any more.
        self.exchange().suspend(&mut assignment);
        let (binding, ..) = assignment.identity();
        let call = PacketCall { assignment, packet: CallPacket::KEPT };
        let terms = self.terms(&call);
        self.open_calls.open(call, terms.identity(), later);
        if !self.exchange().is_bound(binding) || has_pipes && cancelled::is_cancelled(terms.call) {
            // The thread that has released the binding may have looked for its open calls before.
            keeper::end_call(terms.call);
        }
    }

    /// Answers a call that has been open.
    pub(super) fn answer_later(
        &self,
        call: PacketCall<S::Peer>,
        given: Given<'_>,
    ) -> (Option<PacketCall<S::Peer>>, Result<(), ReplyError>) {
        let has_caller = self.has_caller(&call);
        let PacketCall { mut assignment, .. } = call;
        let (now_ns, mut limits) = (clock::now_ns(), limits(&assignment));
        let pipes = self.take_pipes(assignment.identity());
        if !has_caller {
            pipes.iter().for_each(|pipes| self.end_pipes(pipes));
            let next = self.finish_with(now_ns, assignment, drop);
            return (next, Err(ReplyError::CallerGone));
        }
        assignment.resume();
        limits.result_max = limits.result_max.saturating_sub(length_before(pipes.as_ref()));
        let packet = assignment.packet_mut();
        let (outcome, reached) = one_call::conclude(&self.exports, &limits, given, packet, now_ns);
        match pipes {
            Some(pipes) => self.answer_with_pipes(&mut assignment, &pipes, (outcome, reached), now_ns),
            None => self.complete(&mut assignment, outcome, now_ns),
        }
        if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
            assignment.leave_in_parts();
        } else {
            self.send(assignment.answer(), &assignment.peer);
        }
        let transmit = |exchange| self.transmit_apart(exchange);
        (self.finish_with(now_ns, assignment, transmit), reached)
    }

    /// Runs a call's procedure and sends its answer, unless that comes later.
    #[inline(always)]
    fn answer(&self, call: &mut PacketCall<S::Peer>, worker: &mut WorkerState<S>) -> Option<Box<Later>> {
        let begun_ns = if call.packet.is_deferred() { clock::now_ns() } else { worker.clock_ns };
        let outcome = self.perform(call, &worker.buffers, begun_ns);
        let PacketCall { assignment, packet } = call;
        worker.clock_ns = clock::now_ns();
        if outcome.ran() {
            let took = worker.clock_ns - begun_ns;
            self.exports.time(assignment.interface, assignment.procedure).took(took);
        }
        match outcome {
            Outcome::Result(len) => {
                outcome.has_nothing_to_drop();
                assignment.complete(Instant::from_nanos(worker.clock_ns), len);
            }
            Outcome::Later(later) => return Some(later),
            outcome => self.complete_without_result(assignment, outcome),
        }
        if begun_ns.saturating_sub(assignment.arrived.as_nanos()) > QUEUED_MIN_NS {
            assignment.tell_begin(Instant::from_nanos(worker.clock_ns), Instant::from_nanos(begun_ns));
        }
        if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
            assignment.leave_in_parts();
            return None;
        }
        let (binding, ..) = assignment.identity();
        let answer = assignment.answer();
        stamp(Point::ResultLeaves);
        match packet.location() {
            PacketLocation::AtWorker if !binding.has_trailer() => {
                self.link.answer(&worker.link, answer, &assignment.peer);
            }
            PacketLocation::AtWorker => self.answer_protected(worker, answer, &assignment.peer),
            _ => self.send(answer, &assignment.peer),
        }
        stamp(Point::ResultLeft);
        None
    }

    /// Answers the packet that the worker has received last by itself with one that has a trailer.
    #[inline(never)]
    fn answer_protected(&self, worker: &WorkerState<S>, answer: &[u8], peer: &S::Peer) {
        let send = |packet: &[u8]| self.link.answer(&worker.link, packet, peer);
        let _ = self.protection.protected(answer, send);
    }

    /// Makes the answer of a call. The exchange sends a [large](Assignment::is_large) one.
    #[inline]
    pub(super) fn complete(&self, assignment: &mut Assignment<S::Peer>, outcome: Outcome, now_ns: u64) {
        match outcome {
            Outcome::Result(len) => {
                assignment.complete(Instant::from_nanos(now_ns), len);
            }
            outcome => self.complete_without_result(assignment, outcome),
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_without_result(&self, assignment: &mut Assignment<S::Peer>, outcome: Outcome) {
        if let Outcome::Refused(why) = &outcome {
            self.refused.count(why.0);
        }
        let _answer = match outcome {
            Outcome::Refused(why) => assignment.refuse(why.0, &why.1),
            Outcome::Failed(why) => assignment.fail(why.0, &why.1),
            Outcome::Result(len) => assignment.complete(assignment.arrived, len),
            Outcome::Later(_) => unreachable!("it has no answer yet"),
        };
    }

    /// Gives an answered call back to the exchange, which sends a large answer from now on. Returns the call of the same lane that has
    /// waited for it.
    #[inline(always)]
    pub(super) fn finish(
        &self,
        worker: &mut WorkerState<S>,
        assignment: Assignment<S::Peer>,
    ) -> Option<PacketCall<S::Peer>> {
        self.finish_with(worker.clock_ns, assignment, |exchange| self.transmit_all(worker, exchange))
    }

    /// [`finish`](Self::finish) at `now_ns`; `transmit` has the exchange send what may leave.
    #[inline(always)]
    pub(super) fn finish_with<'a>(
        &'a self,
        now_ns: u64,
        assignment: Assignment<S::Peer>,
        transmit: impl FnOnce(MutexGuard<'a, Server<S::Peer>>),
    ) -> Option<PacketCall<S::Peer>> {
        let call = call_id(&assignment);
        let mut exchange = self.exchange();
        cancelled::ended(call);
        let next = exchange.finish(Instant::from_nanos(now_ns), assignment);
        if exchange.may_transmit() {
            transmit(exchange);
        } else {
            drop(exchange);
        }
        self.notify_ended();
        match next {
            Next::Nothing => None,
            Next::Run(assignment, packet) => Some(PacketCall::waited(assignment, packet)),
            Next::Reply(peer, packet) => {
                self.send(&packet, &peer);
                None
            }
        }
    }

    /// Gives answered calls back to the exchange. Calls that have waited for them are then parked in the worker's state.
    pub(super) fn finish_all(&self, worker: &mut WorkerState<S>) {
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
            Next::Run(assignment, packet) => parked.push(PacketCall::waited(assignment, packet)),
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
        self.notify_ended();
    }
}

/// Bytes of the longest answer that is one packet on every binding.
pub(super) const ANSWER_MAX: usize = HEADER_LEN + PACKET_DATA_SEALED;
