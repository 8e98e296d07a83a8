//! The threads of one endpoint: who receives, who runs procedures, who looks after the rest (Leader/Followers).
//!
//! Each endpoint has one *receive role*. Whoever holds it receives, and runs the procedure itself: the arriving packet
//! wakes the thread that does the work, with no thread in between (F10). While it is in a procedure, the holder is
//! *away*. A procedure that is known to take long is not begun before the role has been passed on; for the others
//! there is the *housekeeper*: asleep while the endpoint is idle, it looks once a millisecond while there are calls,
//! and when the holder has been away too long it takes the role and gives it to another worker, up to a bound. Beyond
//! that it keeps the role itself: it answers probes, queues calls, and refuses them when the queue is full.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;
use stoop_net::{clock, fence};
use stoop_wire::RefusalCode;

/// Where packets come from and calls go to. Several threads may be in any of these at once.
pub(super) trait Endpoint: Send + Sync + 'static {
    /// A call that is ready to run, with the packet that brought it.
    type Call: Send;
    /// What a worker keeps from one call to the next: its buffers and its way of waiting, nothing of the calls.
    type Desk;

    /// A desk for a new worker.
    fn desk(&self) -> Self::Desk;

    /// Receives until there is a call to run, answering by itself whatever needs no procedure. `None` when there is
    /// nothing (without patience) or `stopping` is set.
    fn receive(&self, desk: &mut Self::Desk, patient: bool, stopping: &AtomicBool) -> Option<Self::Call>;

    /// Whether the call's procedure is known to take so long that another should receive meanwhile.
    fn takes_long(&self, call: &Self::Call) -> bool;

    /// Runs a call and answers it. Returns the call that had to wait for this one to return, if there is one.
    fn run(&self, desk: &mut Self::Desk, call: Self::Call) -> Option<Self::Call>;

    /// Answers a call without running it. Returns what [`run`](Self::run) does.
    fn refuse(&self, desk: &mut Self::Desk, call: Self::Call, code: RefusalCode) -> Option<Self::Call>;

    /// The worker has lost the role, or leaves: it gives back what it has kept for the next call.
    fn give_back(&self, desk: &mut Self::Desk) {
        let _ = desk;
    }

    /// Marks a call that will not run at once.
    fn defer(&self, call: &mut Self::Call);

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, in nanoseconds of the clock.
    fn next_timeout_ns(&self) -> u64;

    /// Does what is due.
    fn handle_timeout(&self, desk: &mut Self::Desk, now_ns: u64);

    /// Gets to know the housekeeper, before anything is received.
    fn introduce(&self, housekeeper: &Arc<Housekeeper>) {
        let _ = housekeeper;
    }

    /// Called by the housekeeper at each of its looks; `quiet` when it is about to go to sleep.
    fn look_after(&self, quiet: bool) {
        let _ = quiet;
    }

    /// Whether there is something that needs the housekeeper's looks even though no call is running. Whoever brings that
    /// about rouses the housekeeper afterwards.
    fn needs_looks(&self) -> bool {
        false
    }

    /// Wakes whoever is blocked in [`receive`](Self::receive), for good.
    fn wake(&self);
}

/// How many may work at once, and how many calls may wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) workers: usize,
    pub(super) queue: usize,
}

/// How long a holder may be away before the role is taken from it, and between two looks of the housekeeper.
const TICK: Duration = Duration::from_millis(1);
/// Looks without a call before the housekeeper goes to sleep.
const QUIET_TICKS: u32 = 20;
/// A worker without work leaves after so long.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// An endpoint and its threads.
pub(super) struct Crew<E: Endpoint> {
    pub(super) endpoint: E,
    bounds: Bounds,
    role: Role,
    /// Workers without work, the latest last: it is the one whose caches are warm.
    resting: Mutex<Vec<Arc<Rester>>>,
    queue: Mutex<VecDeque<E::Call>>,
    queued: AtomicUsize,
    workers: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: AtomicBool,
    housekeeper: Arc<Housekeeper>,
    /// Held by the housekeeper while it receives and queues what it has received.
    keeping: Mutex<()>,
}

/// Who looks after the endpoint while calls run, and sleeps meanwhile.
#[derive(Debug, Default)]
pub(super) struct Housekeeper {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl Housekeeper {
    /// Wakes it, if it sleeps. Pairs with the check in `Crew::fall_asleep`: both sides write before they read, so one
    /// of them sees the other.
    #[inline]
    pub(super) fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Who receives: a state, and above it a number that tells one absence of a holder from another.
struct Role(AtomicU64);

/// A worker receives.
const HELD: u64 = 0;
/// The housekeeper has the role, because no worker was free.
const KEPT: u64 = 1;
/// The holder is in a procedure.
const AWAY: u64 = 2;
const STATE: u64 = 3;
const ONE_ABSENCE: u64 = 4;

impl Role {
    /// The holder goes to run a procedure. The returned word is its claim to the role.
    #[inline]
    fn leave(&self) -> u64 {
        let word = self.0.load(Ordering::Relaxed).wrapping_add(ONE_ABSENCE);
        let claim = word & !STATE | AWAY;
        // A store is enough: while the role is held, nobody but its holder changes the word.
        self.0.store(claim, Ordering::Release);
        // Pairs with that in `Crew::fall_asleep`: the housekeeper's sleep is looked at next.
        fence::light();
        claim
    }

    /// Goes from `word` to the same word with another state, unless it has changed meanwhile.
    #[inline]
    fn turn(&self, word: u64, state: u64) -> bool {
        let turned = word & !STATE | state;
        self.0.compare_exchange(word, turned, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn word(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn is_kept(&self) -> bool {
        self.word() & STATE == KEPT
    }
}

/// A worker without work.
struct Rester {
    orders: AtomicU8,
    thread: Thread,
}

const REST: u8 = 0;
const RECEIVE: u8 = 1;
const HELP: u8 = 2;
const LEAVE: u8 = 3;

impl Rester {
    fn order(&self, orders: u8) {
        self.orders.store(orders, Ordering::Release);
        self.thread.unpark();
    }
}

thread_local! {
    /// The address of the crew whose worker this thread is.
    static CREW: Cell<usize> = const { Cell::new(0) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Endpoint> Crew<E> {
    /// Starts a housekeeper and a first worker.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(endpoint: E, bounds: Bounds) -> std::io::Result<Arc<Self>> {
        let crew = Arc::new(Self {
            endpoint,
            bounds,
            role: Role(AtomicU64::new(HELD)),
            resting: Mutex::default(),
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            threads: Mutex::default(),
            stopping: AtomicBool::new(false),
            housekeeper: Arc::default(),
            keeping: Mutex::new(()),
        });
        fence::prepare();
        crew.endpoint.introduce(&crew.housekeeper);
        let keeper = Arc::clone(&crew);
        let thread = thread::Builder::new().name("stoop-keeper".into()).spawn(move || keeper.keep_house())?;
        let _ = crew.housekeeper.thread.set(thread.thread().clone());
        locked(&crew.threads).push(thread);
        match crew.hire() {
            Ok(()) => Ok(crew),
            Err(error) => {
                crew.stop();
                Err(error)
            }
        }
    }

    /// Starts a worker, which holds the role from its beginning.
    fn hire(self: &Arc<Self>) -> std::io::Result<()> {
        let one_more = |workers: usize| (workers < self.bounds.workers).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            // The holder and the housekeeper have found room for one at the same time.
            return Err(std::io::ErrorKind::QuotaExceeded.into());
        }
        let crew = Arc::clone(self);
        let started = thread::Builder::new().name("stoop-worker".into()).spawn(move || crew.work());
        match started {
            Ok(thread) => {
                let mut threads = locked(&self.threads);
                // Those that have left need no joining; a server that lives long must not collect them.
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.workers.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Where it is in memory, from its start to its end.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread is one of its workers.
    pub(super) fn is_own_thread(&self) -> bool {
        CREW.get() == self.address()
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends all threads; procedures that run are waited for.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.endpoint.wake();
        locked(&self.resting).drain(..).for_each(|rester| rester.order(LEAVE));
        self.housekeeper.wake();
        let own = thread::current().id();
        loop {
            // Not under the lock: the housekeeper may be hiring.
            let Some(thread) = locked(&self.threads).pop() else { break };
            if thread.thread().id() != own {
                // A worker cannot panic but by our own mistake, which it has reported.
                let _ = thread.join();
            }
        }
    }

    /// A worker's life. It begins with the role.
    fn work(self: &Arc<Self>) {
        let mut place = Workplace { crew: self, holds_role: true };
        CREW.set(self.address());
        let mut desk = self.endpoint.desk();
        while !self.is_stopping() {
            if !place.holds_role {
                match self.rest() {
                    RECEIVE => place.holds_role = true,
                    HELP => place.holds_role = self.help_out(&mut desk),
                    _ => break,
                }
                continue;
            }
            let call = match self.next_queued() {
                None => self.endpoint.receive(&mut desk, true, &self.stopping),
                queued => queued,
            };
            if let Some(call) = call {
                // Whoever is away in a procedure need not give the role back: it is taken.
                place.holds_role = false;
                place.holds_role = self.serve(&mut desk, call);
            }
        }
        self.endpoint.give_back(&mut desk);
    }

    /// Runs a call and what waits for it. Returns whether the worker still holds the role, or holds it again.
    #[inline]
    fn serve(self: &Arc<Self>, desk: &mut E::Desk, call: E::Call) -> bool {
        if self.endpoint.takes_long(&call) && self.pass_on() {
            return self.serve_without_role(desk, call);
        }
        let claim = self.role.leave();
        self.housekeeper.rouse();
        self.run_with_next(desk, call);
        self.role.turn(claim, HELD) || self.help_out(desk)
    }

    /// Runs a call that is known to take long, and what waits for it, after the role has been passed on.
    #[cold]
    fn serve_without_role(&self, desk: &mut E::Desk, call: E::Call) -> bool {
        self.housekeeper.rouse();
        self.run_with_next(desk, call);
        self.help_out(desk)
    }

    #[inline(always)]
    fn run_with_next(&self, desk: &mut E::Desk, call: E::Call) {
        if let Some(next) = self.endpoint.run(desk, call) {
            self.run_waiting(desk, next);
        }
    }

    /// Runs a call that has waited for another to return, and what waits for it in turn.
    fn run_waiting(&self, desk: &mut E::Desk, call: E::Call) {
        let mut next = Some(call);
        while let Some(call) = next {
            next = self.endpoint.run(desk, call);
        }
    }

    /// A worker without the role runs what is queued, and takes the role if only the housekeeper has it.
    #[cold]
    fn help_out(&self, desk: &mut E::Desk) -> bool {
        self.endpoint.give_back(desk);
        while let Some(call) = self.next_queued() {
            self.run_with_next(desk, call);
        }
        let word = self.role.word();
        let takes_role = word & STATE == KEPT && self.role.turn(word, HELD);
        if takes_role {
            // What the housekeeper has received is in the queue when this worker looks there: nobody would see to it
            // while this worker waits for the next call.
            drop(locked(&self.keeping));
        }
        takes_role
    }

    #[inline]
    fn next_queued(&self) -> Option<E::Call> {
        match self.queued.load(Ordering::Acquire) {
            0 => None,
            _ => self.take_queued(),
        }
    }

    #[cold]
    fn take_queued(&self) -> Option<E::Call> {
        let call = locked(&self.queue).pop_front()?;
        self.queued.fetch_sub(1, Ordering::AcqRel);
        Some(call)
    }

    /// Waits for orders: to receive, to help out or to leave.
    fn rest(&self) -> u8 {
        let rester = Arc::new(Rester { orders: AtomicU8::new(REST), thread: thread::current() });
        {
            let mut resting = locked(&self.resting);
            if self.is_stopping() {
                return LEAVE;
            }
            resting.push(Arc::clone(&rester));
        }
        // Pairs with `keep_calls`, which first queues and then looks who rests.
        if self.queued.load(Ordering::SeqCst) > 0 && self.withdraw(&rester) {
            return HELP;
        }
        loop {
            thread::park_timeout(IDLE_LIMIT);
            match rester.orders.load(Ordering::Acquire) {
                // Nothing to do for so long (or woken for no reason, and little is lost).
                REST if self.withdraw(&rester) => return LEAVE,
                REST => {}
                orders => return orders,
            }
        }
    }

    /// Takes a worker off the list of those that rest. `false`: it has been chosen, and its orders come.
    fn withdraw(&self, rester: &Arc<Rester>) -> bool {
        let mut resting = locked(&self.resting);
        let before = resting.len();
        resting.retain(|other| !Arc::ptr_eq(other, rester));
        resting.len() < before
    }

    fn choose(&self) -> Option<Arc<Rester>> {
        locked(&self.resting).pop()
    }

    /// The holder gives the role to another worker: a resting one, or a new one if there may be more.
    fn pass_on(self: &Arc<Self>) -> bool {
        match self.choose() {
            Some(rester) => {
                rester.order(RECEIVE);
                true
            }
            None => self.may_hire() && self.hire().is_ok(),
        }
    }

    fn may_hire(&self) -> bool {
        self.workers.load(Ordering::Relaxed) < self.bounds.workers && !self.is_stopping()
    }

    /// The housekeeper gives the role, if it has it, to a worker. Without one it keeps it.
    fn give_away(self: &Arc<Self>) {
        let word = self.role.word();
        if word & STATE != KEPT {
            return;
        }
        if let Some(rester) = self.choose() {
            // If a worker has taken the role meanwhile, the chosen one sees to the queue and rests again.
            rester.order(if self.role.turn(word, HELD) { RECEIVE } else { HELP });
        } else if self.may_hire() && self.role.turn(word, HELD) && self.hire().is_err() {
            self.role.turn(word & !STATE | HELD, KEPT);
        }
    }

    /// The housekeeper's life.
    fn keep_house(self: &Arc<Self>) {
        let mut desk = self.endpoint.desk();
        let mut seen = HELD;
        let mut quiet = 0;
        while !self.is_stopping() {
            let now = clock::now_ns();
            if now >= self.endpoint.next_timeout_ns() {
                self.endpoint.handle_timeout(&mut desk, now);
            }
            let word = self.role.word();
            quiet = if word == seen && word & STATE == HELD { quiet + 1 } else { 0 };
            if word == seen && word & STATE == AWAY {
                // Away since the last look. If the holder comes back at this moment, so much the better.
                self.role.turn(word, KEPT);
            }
            self.give_away();
            self.keep_calls(&mut desk);
            self.endpoint.look_after(quiet >= QUIET_TICKS);
            seen = word;
            if quiet >= QUIET_TICKS {
                self.fall_asleep();
                quiet = 0;
            } else {
                thread::park_timeout(TICK);
            }
        }
    }

    /// Receives in place of the workers, which are all busy: what is a call waits for one of them or is refused.
    fn keep_calls(&self, desk: &mut E::Desk) {
        loop {
            // Pairs with `help_out`: whoever takes the role waits until what was received is queued.
            let keeping = locked(&self.keeping);
            if !self.role.is_kept() {
                return;
            }
            let Some(mut call) = self.endpoint.receive(desk, false, &self.stopping) else { return };
            self.endpoint.defer(&mut call);
            let refused = self.enqueue(call);
            drop(keeping);
            if refused.is_none()
                && let Some(rester) = self.choose()
            {
                // It has come to rest just now.
                rester.order(HELP);
            }
            let mut refused = refused;
            while let Some(call) = refused {
                refused = self.endpoint.refuse(desk, call, RefusalCode::Overloaded);
            }
        }
    }

    /// Lets a call wait for a worker. Returns it if too many wait already.
    fn enqueue(&self, call: E::Call) -> Option<E::Call> {
        let mut queue = locked(&self.queue);
        if queue.len() >= self.bounds.queue {
            return Some(call);
        }
        queue.push_back(call);
        self.queued.fetch_add(1, Ordering::SeqCst);
        None
    }

    /// Sleeps until it is roused or a timeout is due.
    fn fall_asleep(&self) {
        self.housekeeper.asleep.store(true, Ordering::SeqCst);
        // Pairs with that in `Role::leave`, and with what endpoints store before they rouse.
        let sees_all = fence::heavy();
        let nothing_to_do = sees_all
            && self.role.word() & STATE == HELD
            && !self.is_stopping()
            && !self.endpoint.needs_looks();
        if nothing_to_do {
            let due = self.endpoint.next_timeout_ns().saturating_sub(clock::now_ns());
            if due > 0 {
                thread::park_timeout(Duration::from_nanos(due));
            }
        }
        self.housekeeper.asleep.store(false, Ordering::SeqCst);
    }
}

/// A worker at work. When it leaves, the crew may have another; if it leaves by a panic, which is our own mistake and
/// never a procedure's, its role goes to the housekeeper, and so to another worker.
struct Workplace<'a, E: Endpoint> {
    crew: &'a Crew<E>,
    holds_role: bool,
}

impl<E: Endpoint> Drop for Workplace<'_, E> {
    fn drop(&mut self) {
        self.crew.workers.fetch_sub(1, Ordering::Relaxed);
        if thread::panicking() && self.holds_role {
            let word = self.crew.role.word();
            if word & STATE == HELD {
                self.crew.role.turn(word, KEPT);
            }
            self.crew.housekeeper.wake();
        }
    }
}

#[cfg(test)]
mod tests;
