//! The server's end of shared memory.
//!
//! An endpoint has a Unix socket at which callers bind, and all their bindings, each with memory of its own. While the receiver
//! spins, it polls the requests of the bindings that call often. The callers of other bindings ring a bell (an eventfd each), and
//! all callers do when the receiver sleeps.

pub(crate) mod binding;
pub(crate) mod bindings;
pub(crate) mod call;
pub(crate) mod handshake;
pub(crate) mod long_messages;
pub(crate) mod receiving;
pub(crate) mod transfers;
pub(crate) mod worker;

use crate::options::Waiting;
use crate::serving::counters::{PacketServerCounters, ServerCounters, ShmServerCounters};
use crate::serving::dispatch::Exports;
use crate::serving::drain::wait_for_readers;
use crate::serving::running::Setup;
use crate::serving::workers::{Background, Endpoint};
use crate::transport::shm::options::ShmOptions;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::bindings::{Bindings, END, NOTIFIED};
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::worker::WorkerState;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::Interfaces;
use stoop_net::clock;
use stoop_net::host::HostFacts;
use stoop_net::poller::{Interest, Poller, Waker};
use stoop_net::stream::StreamListener;
use stoop_net::waiting::Placement;
use stoop_wire::RefusalCode;

/// A socket at which callers bind, and the memory that is shared with each.
pub(crate) struct ShmEndpoint {
    poller: Poller,
    /// The thread with the receive role holds it.
    bindings: Mutex<Bindings>,
    exports: Arc<Exports>,
    interfaces: Interfaces,
    own: HostFacts,
    incarnation: u64,
    /// When it began to receive, by [`boot_now_ns`](clock::boot_now_ns).
    started_ns: u64,
    message_max: usize,
    /// Bytes of the arena of a binding whose interface has buffers.
    arena_len: usize,
    waiting: Waiting,
    spinners_max: u32,
    /// Calls that have arrived and are not answered; and workers that are still counted for their last call, until the next.
    active: AtomicUsize,
    /// Long messages that are under way.
    moving: AtomicUsize,
    /// While the server shuts down: changes whenever some of them have moved.
    moves: AtomicU64,
    shutting_down: AtomicBool,
    /// Guards nothing: for a thread that waits until all calls are answered.
    quiet: Mutex<()>,
    ended: Condvar,
    /// The receiver sleeps, or is about to.
    asleep: AtomicBool,
    /// Bindings at which the receiver has to look.
    notified: Mutex<Vec<Arc<Binding>>>,
    notified_count: AtomicUsize,
    notifier: Waker,
    /// Ends all waiting.
    end: Waker,
    background: OnceLock<Arc<Background>>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    /// Of each worker; the first is of all workers that have left.
    calls: Mutex<Vec<Arc<AtomicU64>>>,
    refused: AtomicU64,
    malformed: AtomicU64,
    given_up: AtomicU64,
    bindings: AtomicU64,
}

/// A server that shuts down does not wait for readers that have taken nothing for so long.
const READERS_QUIET: Duration = Duration::from_secs(5);
/// Bytes of the longest arguments for which a worker keeps the buffer.
const ARGUMENTS_KEPT: usize = 64 * 1024;

impl ShmEndpoint {
    pub(crate) fn new(
        listener: StreamListener,
        setup: &Setup,
        own: ShmOptions,
        incarnation: u64,
    ) -> io::Result<Self> {
        let Setup { exports, waiting, max_message, .. } = setup;
        let ShmOptions { users, in_place } = own;
        let (own, exports) = (HostFacts::gather(), Arc::clone(exports));
        let poller = Poller::new()?;
        let bindings = Bindings::new(listener, &poller, users)?;
        let (notifier, end) = (Waker::new()?, Waker::new()?);
        poller.add(&notifier, NOTIFIED, Interest::READ)?;
        poller.add(&end, END, Interest::READ)?;
        Ok(Self {
            poller,
            bindings: Mutex::new(bindings),
            interfaces: exports.interfaces(),
            exports,
            spinners_max: Placement::of(&own, &own).waiting_max,
            own,
            incarnation,
            started_ns: clock::boot_now_ns(),
            message_max: *max_message,
            arena_len: in_place,
            waiting: *waiting,
            active: AtomicUsize::new(0),
            moving: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            shutting_down: AtomicBool::new(false),
            quiet: Mutex::new(()),
            ended: Condvar::new(),
            asleep: AtomicBool::new(false),
            notified: Mutex::default(),
            notified_count: AtomicUsize::new(0),
            notifier,
            end,
            background: OnceLock::new(),
            counts: Counts { calls: Mutex::new(vec![Arc::default()]), ..Counts::default() },
        })
    }

    /// Something that [`drain`](Self::drain) may wait for has happened.
    fn announce_end(&self) {
        if self.shutting_down.load(Ordering::SeqCst) {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    /// A call has been answered.
    #[inline]
    fn count_end(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.announce_end();
        }
    }

    /// A worker is no longer counted among the [active](Self::active) calls.
    fn uncount(&self, worker: &mut WorkerState) {
        if mem::take(&mut worker.is_counted) {
            self.count_end();
        }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        let mut all = self.counts.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // The counts of workers that have left are added up in the first.
        if let Some(index) = all.iter().skip(1).position(|calls| Arc::strong_count(calls) == 1) {
            let left = all.swap_remove(index + 1);
            all[0].fetch_add(left.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        all
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notified(&self) -> MutexGuard<'_, Vec<Arc<Binding>>> {
        self.notified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn has_notifications(&self) -> bool {
        self.notified_count.load(Ordering::SeqCst) > 0
    }

    fn take_notified(&self) -> Vec<Arc<Binding>> {
        let mut notified = self.notified();
        self.notified_count.store(0, Ordering::SeqCst);
        mem::take(&mut *notified)
    }

    fn push_notified(&self, binding: &Arc<Binding>) {
        let mut notified = self.notified();
        notified.push(Arc::clone(binding));
        self.notified_count.store(notified.len(), Ordering::SeqCst);
    }

    /// Has the receiver look at a binding. Not needed for one that it polls.
    #[cold]
    fn notify(&self, binding: &Arc<Binding>) {
        self.push_notified(binding);
        // The receiver says that it sleeps before it looks at the list for the last time.
        if self.asleep.load(Ordering::SeqCst) {
            self.notifier.wake();
        }
    }
}

impl Endpoint for ShmEndpoint {
    type Call = ShmCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        let calls = Arc::default();
        self.calls().push(Arc::clone(&calls));
        WorkerState::new(self.waiting, self.spinners_max, calls)
    }

    #[inline(always)]
    fn receive(&self, worker: &mut WorkerState, patient: bool, stopping: &AtomicBool) -> Option<ShmCall> {
        if !patient {
            // The last receiver may still be about to leave.
            let mut bindings = self.bindings.try_lock().ok()?;
            self.ask(&mut bindings, worker, Some(Duration::ZERO));
            return self.look(&mut bindings, worker);
        }
        if let Some(call) = self.take_another(worker) {
            return Some(call);
        }
        self.wait_for_call(&mut self.bindings(), worker, stopping)
    }

    #[inline]
    fn takes_long(&self, call: &ShmCall) -> bool {
        self.exports.takes_long(call.binding.interface, call.request.procedure)
    }

    #[inline(always)]
    fn run(&self, worker: &mut WorkerState, mut call: ShmCall) -> Option<ShmCall> {
        self.answer(worker, &call);
        let arguments = mem::take(&mut call.arguments);
        if arguments.capacity() <= ARGUMENTS_KEPT {
            worker.arguments = arguments;
        } else {
            call.binding.incoming().recycle(arguments);
        }
        if worker.was_short {
            worker.set_last(call.binding);
        }
        if worker.is_counted {
            self.count_end();
        }
        worker.is_counted = true;
        None
    }

    fn refuse(&self, worker: &mut WorkerState, call: ShmCall, code: RefusalCode) -> Option<ShmCall> {
        self.refuse_request(&call.binding, &call.request, code, "", worker.cpu);
        self.count_end();
        None
    }

    fn give_back(&self, worker: &mut WorkerState) {
        worker.forget_last();
        worker.read_clock();
        self.uncount(worker);
    }

    fn defer(&self, call: &mut ShmCall) {
        call.deferred = true;
    }

    fn introduce(&self, background: &Arc<Background>) {
        // Introduced once.
        let _ = self.background.set(Arc::clone(background));
    }

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _: &mut WorkerState, _now_ns: u64) {}

    fn wake(&self) {
        self.end.wake();
    }

    fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.notifier.wake();
    }

    fn drain(&self) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        // A caller that does not go on with its messages finds the binding closed.
        wait_for_readers(quiet, &self.ended, READERS_QUIET, |()| {
            let is_moving = self.moving.load(Ordering::SeqCst) > 0;
            is_moving.then(|| self.moves.load(Ordering::Relaxed))
        });
    }

    fn counters(&self) -> ServerCounters {
        ServerCounters {
            calls: self.calls().iter().map(|calls| calls.load(Ordering::Relaxed)).sum(),
            refused: self.counts.refused.load(Ordering::Relaxed),
            malformed: self.counts.malformed.load(Ordering::Relaxed),
            shm: ShmServerCounters { given_up: self.counts.given_up.load(Ordering::Relaxed) },
            bindings: self.counts.bindings.load(Ordering::Relaxed),
            packet: PacketServerCounters::default(),
        }
    }
}

#[cfg(test)]
mod tests;
