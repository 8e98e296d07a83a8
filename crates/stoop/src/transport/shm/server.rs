//! The server's end of shared memory.
//!
//! An endpoint has a Unix socket at which callers bind, and all their bindings, each with memory of its own. While the receiver
//! spins, it polls the requests of the bindings that call often. The callers of other bindings ring a bell (an eventfd each), and
//! all callers do when the receiver sleeps.

pub(crate) mod binding;
pub(crate) mod binding_shares;
pub(crate) mod bindings;
pub(crate) mod call;
pub(crate) mod handshake;
pub(crate) mod long_messages;
pub(crate) mod pipes;
pub(crate) mod receiving;
pub(crate) mod transfers;
pub(crate) mod worker;

use crate::context::earliest_deadline;
use crate::context::owner_of;
use crate::later::deferred::{Given, ReplyError};
use crate::later::open_calls::OpenCalls;
use crate::locked::locked;
use crate::serving::acceptor::Acceptor;
use crate::serving::counters::{ServerCounters, ShmServerCounters};
use crate::serving::message_memory::MessageMemory;
use crate::serving::running::Setup;
use crate::serving::service::Service;
use crate::serving::terms::{CallTerms, may_be_behind};
use crate::serving::workers::{Background, Endpoint, WorkerPool};
use crate::transport::shm::options::ShmOptions;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::binding_shares::BindingShares;
use crate::transport::shm::server::bindings::Bindings;
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::pipes::AttendedEnds;
use crate::transport::shm::server::worker::WorkerState;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use stoop_exchange::shares::Owner;
use stoop_net::clock;
use stoop_net::stream::StreamListener;
use stoop_shm::layout::LANES;
use stoop_wire::Refused;

/// A socket at which callers bind, and the memory that is shared with each.
pub(crate) struct ShmEndpoint {
    acceptor: Acceptor,
    /// The thread with the receive role holds it.
    bindings: Mutex<Bindings>,
    shares: Arc<BindingShares>,
    service: Service,
    /// For long messages.
    memory: Arc<MessageMemory>,
    /// Bytes of the arena of a binding whose interface has buffers.
    arena_len: usize,
    /// Long messages that are under way.
    moving: AtomicUsize,
    /// While the server shuts down: changes whenever some of them have moved.
    moves: AtomicU64,
    /// For a shutdown, which waits until these have been written.
    attended: Arc<AttendedEnds>,
    /// The receiver sleeps, or is about to.
    asleep: AtomicBool,
    /// Bindings at which the receiver has to look.
    notified: Mutex<Vec<Arc<Binding>>>,
    notified_count: AtomicUsize,
    /// Calls begun by each worker; the first counter is of all workers that have left.
    calls: Mutex<Vec<Arc<AtomicU64>>>,
    /// Bindings that their callers gave up.
    given_up: AtomicU64,
    /// When a worker last looked for calls and found none.
    drained_ns: AtomicU64,
    open_calls: OpenCalls<WorkerPool<Self>>,
}

impl ShmEndpoint {
    pub(crate) fn new(
        listener: StreamListener,
        setup: &Setup,
        own: ShmOptions,
        incarnation: u64,
    ) -> io::Result<Self> {
        let arena_len = own.in_place_bytes();
        Ok(Self {
            acceptor: Acceptor::new(listener)?,
            bindings: Mutex::new(Bindings::new(own.users)),
            shares: BindingShares::new(setup.limits.bindings),
            service: Service::new(setup, incarnation, LANES as u32),
            memory: MessageMemory::new(&setup.limits, setup.max_message),
            arena_len,
            moving: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            attended: Arc::default(),
            asleep: AtomicBool::new(false),
            notified: Mutex::default(),
            notified_count: AtomicUsize::new(0),
            calls: Mutex::new(vec![Arc::default()]),
            given_up: AtomicU64::new(0),
            drained_ns: AtomicU64::new(0),
            open_calls: OpenCalls::new(&setup.exports.open_room),
        })
    }

    /// Counts a worker no longer among the calls that are not answered.
    fn uncount(&self, worker: &mut WorkerState) {
        if mem::take(&mut worker.is_counted) {
            self.service.activity.end_call();
        }
    }

    /// The counters of calls.
    fn calls(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        let mut all = locked(&self.calls);
        // The counts of workers that have left are added up in the first.
        if let Some(index) = all.iter().skip(1).position(|calls| Arc::strong_count(calls) == 1) {
            let left = all.swap_remove(index + 1);
            all[0].fetch_add(left.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        all
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        locked(&self.bindings)
    }

    #[inline]
    fn has_notifications(&self) -> bool {
        self.notified_count.load(Ordering::SeqCst) > 0
    }

    fn take_notified(&self) -> Vec<Arc<Binding>> {
        let mut notified = locked(&self.notified);
        self.notified_count.store(0, Ordering::SeqCst);
        mem::take(&mut *notified)
    }

    /// Has the receiver look at a binding. Not needed for one that it polls.
    #[cold]
    fn notify(&self, binding: &Arc<Binding>) {
        let mut notified = locked(&self.notified);
        notified.push(Arc::clone(binding));
        self.notified_count.store(notified.len(), Ordering::SeqCst);
        drop(notified);
        // The receiver says that it sleeps before it looks at the list for the last time.
        if self.asleep.load(Ordering::SeqCst) {
            self.acceptor.notifier.wake();
        }
    }
}

impl Endpoint for ShmEndpoint {
    type Call = ShmCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        let calls = Arc::default();
        self.calls().push(Arc::clone(&calls));
        WorkerState::new(self.service.waiting, self.service.spinners_max, calls)
    }

    #[inline(always)]
    fn receive(&self, worker: &mut WorkerState, patient: bool, interrupted: &AtomicBool) -> Option<ShmCall> {
        if !patient {
            // The last receiver may still be about to leave.
            let mut bindings = self.bindings.try_lock().ok()?;
            return self.look_without_waiting(&mut bindings, worker);
        }
        if let Some(call) = self.take_another(worker) {
            return Some(call);
        }
        self.wait_for_call(&mut self.bindings(), worker, interrupted)
    }

    #[inline]
    fn takes_long(&self, call: &ShmCall) -> bool {
        self.service.exports.time(call.binding.interface, call.request.procedure).is_long()
    }

    fn terms(&self, call: &ShmCall) -> CallTerms {
        let ShmCall { binding, request, .. } = call;
        let procedure = (binding.interface, request.procedure);
        let deadline_ns = earliest_deadline(request.deadline_ns, clock::now_ns());
        let id = binding.call_id(request.lane, request.number);
        self.service.exports.terms(procedure, (owner_of(&binding.caller), binding.token, id), deadline_ns)
    }

    #[inline]
    fn tag(&self, call: &ShmCall) -> u64 {
        call.binding.token
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        // A thread that has just got the role may hold the lock. Then the call is not counted.
        let bindings = self.bindings.try_lock().ok()?;
        bindings.all.get(&tag).map(|binding| owner_of(&binding.caller))
    }

    #[inline]
    fn is_behind(&self, worker: &mut WorkerState, call: &ShmCall) -> bool {
        may_be_behind(worker.clock_ns, self.drained_ns.load(Ordering::Relaxed))
            && self.has_many_waiting(worker, call)
    }

    #[inline(always)]
    fn run(&self, worker: &mut WorkerState, mut call: ShmCall) -> Option<ShmCall> {
        let later = self.answer(worker, &call);
        let arguments = mem::take(&mut call.arguments);
        if call.is_long() {
            call.binding.end_long_arguments(arguments);
        } else {
            worker.arguments = arguments;
        }
        match later {
            Some(later) => self.leave_open(call, *later),
            None if worker.was_short => worker.set_last(call.binding),
            None => {}
        }
        if worker.is_counted {
            self.service.activity.end_call();
        }
        worker.is_counted = true;
        None
    }

    fn answer_open(&self, call: ShmCall, given: Given<'_>) -> (Option<ShmCall>, Result<(), ReplyError>) {
        (None, self.answer_later(&call, given))
    }

    fn has_caller(&self, call: &ShmCall) -> bool {
        !call.binding.is_closed()
    }

    fn open_calls(&self) -> Option<&OpenCalls<WorkerPool<Self>>> {
        Some(&self.open_calls)
    }

    fn refuse(&self, worker: &mut WorkerState, call: ShmCall, refused: Refused) -> Option<ShmCall> {
        self.refuse_request(&call.binding, &call.request, refused, "", worker.cpu);
        if call.is_long() {
            call.binding.end_long_arguments(call.arguments);
        } else {
            worker.arguments = call.arguments;
        }
        self.service.activity.end_call();
        None
    }

    fn give_back(&self, worker: &mut WorkerState) {
        worker.forget_last();
        worker.read_clock();
        self.uncount(worker);
    }

    fn defer(&self, _: &mut WorkerState, call: &mut ShmCall) {
        call.deferred = true;
    }

    fn background(&self) -> &Background {
        &self.service.background
    }

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _: &mut WorkerState, _now_ns: u64) {}

    fn notify_of_growth(&self) {
        self.acceptor.notifier.wake();
    }

    fn wake(&self) {
        self.acceptor.end.wake();
    }

    fn shut_down(&self) {
        self.service.activity.shut_down();
        // Now, for the next server may share the socket. Callers that are about to bind are told by the receiver.
        self.acceptor.shut_down();
        self.acceptor.notifier.wake();
    }

    fn drain(&self) {
        // A caller that does not go on with its messages finds the binding closed.
        self.service.activity.drain(|| {
            let is_moving = self.moving.load(Ordering::SeqCst) > 0;
            let messages = is_moving.then(|| self.moves.load(Ordering::Relaxed));
            [messages, self.attended.progress()].into_iter().flatten().reduce(u64::wrapping_add)
        });
    }

    fn counters(&self) -> ServerCounters {
        let calls = self.calls().iter().map(|calls| calls.load(Ordering::Relaxed)).sum();
        let shm = ShmServerCounters { given_up: self.given_up.load(Ordering::Relaxed) };
        ServerCounters { calls, shm, memory: self.memory.counters(), ..self.service.counters() }
    }
}

#[cfg(test)]
mod tests;
