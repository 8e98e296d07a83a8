//! The server's half of the packet exchange, as the worker pool uses it.

mod answers;
mod arrivals;
mod batch;
mod call;
mod endpoint;
pub(crate) mod listener;
mod long_results;
mod out_budget;
mod piped;
mod receiving;
mod run;
mod run_batch;
#[cfg(feature = "seal")]
mod sealing;
mod successor;
mod worker;

use crate::context::owner_on;
use crate::later::deferred::{Given, ReplyError};
use crate::later::open_calls::OpenCalls;
use crate::serving::counters::{PacketServerCounters, ServerCounters};
use crate::serving::drain::wait_for_readers;
use crate::serving::terms::{CallTerms, may_be_behind};
use crate::serving::workers::{Background, Endpoint, Looked, WorkerPool};
use crate::transport::packet::link::{Peer as _, ServerEndpoint};
use crate::transport::packet::server::call::{PacketCall, PacketLocation};
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::run::call_id;
use crate::transport::packet::server::worker::WorkerState;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::shares::Owner;
use stoop_net::clock;
use stoop_wire::{BindingId, RefusalCode, Refused};

impl<S: ServerEndpoint> Endpoint for PacketEndpoint<S> {
    type Call = PacketCall<S::Peer>;
    type WorkerState = WorkerState<S>;

    fn worker(&self) -> WorkerState<S> {
        WorkerState::new(self.link.worker(), self.waiting, self.spinners_max, self.batch.key())
    }

    #[inline(never)]
    fn receive(
        &self,
        worker: &mut WorkerState<S>,
        patient: bool,
        interrupted: &AtomicBool,
    ) -> Option<PacketCall<S::Peer>> {
        let waiting = if self.batch.is_pending() { self.take_over(worker) } else { None };
        match waiting {
            None => self.receive_next(worker, patient, interrupted),
            waiting => waiting,
        }
    }

    fn look(&self, worker: &mut WorkerState<S>, sleep_ns: u64) -> Option<Looked<PacketCall<S::Peer>>> {
        self.look_once(worker, sleep_ns)
    }

    #[inline]
    fn takes_long(&self, call: &PacketCall<S::Peer>) -> bool {
        self.exports.time(call.assignment.interface, call.assignment.procedure).is_long()
    }

    fn time_of(&self, worker: &WorkerState<S>, call: &PacketCall<S::Peer>) -> u64 {
        if call.packet.is_deferred() { clock::now_ns() } else { worker.clock_ns }
    }

    fn terms(&self, call: &PacketCall<S::Peer>) -> CallTerms {
        let (binding, ..) = call.assignment.identity();
        let owner = owner_on(binding, &call.assignment.peer.caller());
        let caller = (owner, binding.0, call_id(&call.assignment));
        let procedure = (call.assignment.interface, call.assignment.procedure);
        self.exports.terms(procedure, caller, call.assignment.deadline.as_nanos())
    }

    #[inline]
    fn tag(&self, call: &PacketCall<S::Peer>) -> u64 {
        let (binding, ..) = call.assignment.identity();
        binding.0
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        self.exchange().owner_of(BindingId(tag))
    }

    fn is_quiet(&self, binding: u64, now_ns: u64, since_ns: u64) -> bool {
        let (now, since) = (Instant::from_nanos(now_ns), Instant::from_nanos(since_ns));
        self.exchange().is_quiet(now, BindingId(binding), since)
    }

    #[inline]
    fn is_behind(&self, worker: &mut WorkerState<S>, call: &PacketCall<S::Peer>) -> bool {
        may_be_behind(worker.clock_ns, self.drained_ns.load(Ordering::Relaxed))
            && self.has_many_waiting(worker, &self.terms(call))
    }

    #[inline(never)]
    fn run(&self, worker: &mut WorkerState<S>, call: PacketCall<S::Peer>) -> Option<PacketCall<S::Peer>> {
        match call.packet.location() {
            PacketLocation::InBatch(_) => self.run_batch(worker, call),
            PacketLocation::AtWorker | PacketLocation::Kept => self.run_alone(worker, call),
        }
    }

    fn take_waited(&self, worker: &mut WorkerState<S>) -> Option<PacketCall<S::Peer>> {
        worker.batch.parked.pop()
    }

    fn answer_open(
        &self,
        call: PacketCall<S::Peer>,
        given: Given<'_>,
    ) -> (Option<PacketCall<S::Peer>>, Result<(), ReplyError>) {
        self.answer_later(call, given)
    }

    fn has_caller(&self, call: &PacketCall<S::Peer>) -> bool {
        let (binding, ..) = call.assignment.identity();
        self.exchange().is_bound(binding)
    }

    fn open_calls(&self) -> Option<&OpenCalls<WorkerPool<Self>>> {
        Some(&self.open_calls)
    }

    fn refuse(
        &self,
        worker: &mut WorkerState<S>,
        mut call: PacketCall<S::Peer>,
        refused: Refused,
    ) -> Option<PacketCall<S::Peer>> {
        let peer = call.assignment.peer;
        let (binding, ..) = call.assignment.identity();
        self.refused.count(refused.code);
        let answer = call.assignment.refuse(refused, "");
        match call.packet.location() {
            PacketLocation::InBatch(_) => return self.end_in_batch(worker, call.assignment),
            PacketLocation::AtWorker if !binding.has_trailer() => {
                self.link.answer(&worker.link, answer, &peer);
            }
            _ => {
                self.send(answer, &peer);
                worker.clock_ns = clock::now_ns();
            }
        }
        self.finish(worker, call.assignment)
    }

    fn defer(&self, worker: &mut WorkerState<S>, call: &mut PacketCall<S::Peer>) {
        // The worker that will run it has other buffers.
        call.keep_packet(&worker.buffers);
        call.packet = call.packet.deferred();
    }

    fn next_timeout_ns(&self) -> u64 {
        self.next_timeout_ns.load(Ordering::SeqCst)
    }

    fn handle_timeout(&self, worker: &mut WorkerState<S>, now_ns: u64) {
        self.on_timeout(worker, now_ns);
    }

    fn background(&self) -> &Background {
        &self.background
    }

    fn look_at_memory(&self, now_ns: u64) {
        let mut exchange = self.exchange();
        exchange.watch(Instant::from_nanos(now_ns));
        self.note_timeout(&exchange);
    }

    fn note_backlog(&self, is_there: bool) {
        self.link.note_backlog(is_there);
    }

    fn look_after(&self, is_quiet: bool) -> bool {
        // A worker that takes a call by itself does not look whether its caller has no room for others, of which the exchange takes note.
        self.note_timeout(&self.exchange());
        self.link.look_after(is_quiet)
    }

    fn release_memory(&self) {
        self.exchange().release_spare_memory();
    }

    fn notify_of_growth(&self) {
        self.link.notify();
    }

    fn wake(&self) {
        self.link.wake();
    }

    fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.exchange().shut_down();
        self.announce_end();
        self.end_pipes_soon();
    }

    fn drain(&self) {
        let running = self.ended.wait_while(self.exchange(), |exchange| exchange.running() > 0);
        let exchange = running.unwrap_or_else(PoisonError::into_inner);
        // Workers take the receipts, and do not notify of the last one.
        wait_for_readers(exchange, &self.ended, READERS_QUIET, |exchange| {
            exchange.is_sending().then(|| exchange.progress())
        });
        // Again: a packet may be lost, and the lanes of calls that ran are idle now.
        self.announce_end();
    }

    fn counters(&self) -> ServerCounters {
        let link = self.link.counters();
        let exchange = self.exchange();
        let (counters, mut refusals) = (exchange.counters(), self.refused.copy());
        // What callers do to authenticate themselves is no call of theirs.
        #[cfg(feature = "seal")]
        let of_handshakes = self.handshake_calls();
        #[cfg(not(feature = "seal"))]
        let of_handshakes = 0;
        let calls = counters.calls.saturating_sub(refusals.sum() + of_handshakes);
        refusals.count(RefusalCode::MessageTooLarge, counters.refused_too_long);
        refusals.count(RefusalCode::TooManyLanes, counters.refused_lanes);
        refusals.count(RefusalCode::ShuttingDown, counters.refused_in_shutdown);
        refusals.count(RefusalCode::UnknownProcedure, counters.refused_procedures);
        ServerCounters {
            calls,
            refused: refusals.sum(),
            refusals,
            malformed: counters.malformed + link.malformed,
            bindings: exchange.bindings() as u64,
            binds_refused: counters.full,
            #[cfg(feature = "seal")]
            handshakes: self.handshake_counters(),
            packet: PacketServerCounters {
                duplicates: counters.duplicates,
                dropped: counters.dropped,
                waited: counters.waited,
                reclaimed: counters.reclaimed,
                corrupt: self.corrupt.load(Ordering::Relaxed) + link.corrupt,
                overflowed: link.overflowed,
                dedicated: link.dedicated,
            },
            ..ServerCounters::default()
        }
    }
}

/// While the server shuts down: callers of which no receipt for a long result arrives for so long may have gone.
const READERS_QUIET: Duration = Duration::from_secs(2);
