//! Guests: threads that are no workers, and receive while they wait for what comes by the endpoint, as procedures do for the items of their
//! pipes.
//!
//! What a worker receives for another thread costs a switch to that thread, and often a wake-up. So a thread whose waits are short asks
//! for the receive role. The worker that has it and finds nothing to receive gives it to the thread, and is idle. The guest spins or
//! sleeps as a worker does. While it runs its own code it is away, as a worker is that runs a procedure: the background thread takes the
//! role if that lasts. A guest that receives a call, or for which nothing comes, gives the role back.

use crate::later::lent::Lent;
use crate::serving::workers::role::{BACKGROUND, HELD, Request};
use crate::serving::workers::{Endpoint, Looked, NO_TAG, WorkerPool, locked};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use stoop_net::clock;
use stoop_net::waiting::{OngoingWait, Placement, Waiter, Waiting};

/// What a thread that may be a guest waits with. Its waits for all that comes by one pool follow one another, as those for the answers of
/// callbacks of many clients.
pub(crate) struct Guest<E: Endpoint> {
    pool: Lent<WorkerPool<E>>,
    terms: (Waiting, Placement),
}

thread_local! {
    /// When this thread's last wait ended.
    static ENDED_NS: Cell<u64> = const { Cell::new(0) };
    /// Its waits by one pool, while they follow one another soon: most threads never wait, or not for long.
    static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) };
}

/// The waits of a thread by one pool.
struct Waits {
    pool: Box<dyn Pool>,
    waiter: Waiter,
    /// The claim to the role, while the thread is away.
    claim: Option<u64>,
    /// How many waits in a row were short.
    short: u32,
    /// Waits in which it does not ask for the role, because calls came while it had it; and so many the next time.
    hold_off: u32,
    hold_off_next: u32,
}

/// The pool of a thread's waits.
trait Pool {
    fn is(&self, address: *const ()) -> bool;
    /// A worker receives from now on, unless the background thread does.
    fn take_back(&self, claim: u64);
}

impl<E: Endpoint> Pool for Lent<WorkerPool<E>> {
    fn is(&self, address: *const ()) -> bool {
        self.address() == address
    }

    fn take_back(&self, claim: u64) {
        self.with(|pool| {
            if let Some(pool) = pool.filter(|pool| pool.role.change(claim, HELD)) {
                pool.give_role_back();
            }
        });
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(claim) = self.claim {
            self.pool.take_back(claim);
        }
    }
}

/// A wait that ends so soon is short, also if the worker had to be woken; and after so many a thread asks for the role.
const SHORT_NS: u64 = 150_000;
const SHORT_WAITS: u32 = 2;
/// A wait that begins so long after the last one is the first of others.
const PAUSE_NS: u64 = 1_000_000;
/// A guest for which nothing comes for so long gives the role back. What ends its wait otherwise, as a cancel by the program, does not
/// wake it before.
const PATIENCE_NS: u64 = 1_000_000;
/// After a guest has received a call, it does not ask in so many waits at most.
const HOLD_OFF_MAX: u32 = 1024;

impl<E: Endpoint> Guest<E> {
    pub(crate) fn new(pool: Lent<WorkerPool<E>>, terms: (Waiting, Placement)) -> Self {
        Self { pool, terms }
    }

    /// Does something with the pool, while that is there.
    pub(crate) fn with_pool<R>(&self, act: impl FnOnce(&Arc<WorkerPool<E>>) -> R) -> Option<R> {
        self.pool.with(|pool| pool.map(act))
    }

    /// Waits until something `has` come, at most until that time; or less, without reason. `sleep` waits while another thread receives: it
    /// is woken when something has come, and may return before.
    pub(crate) fn wait(&self, until_ns: u64, has: impl Fn() -> bool, sleep: impl FnOnce()) {
        // The thread is at its end.
        let Ok(waits) = WAITS.try_with(RefCell::take) else { return sleep() };
        let began_ns = clock::now_ns();
        let mut waits = waits.filter(|waits| waits.pool.is(self.pool.address()));
        if began_ns.saturating_sub(ENDED_NS.get()) > PAUSE_NS {
            waits = None;
            sleep();
        } else {
            let waits = waits.get_or_insert_with(|| Waits::new(self.pool.clone(), self.terms));
            waits.waiter.set_placement(self.terms.1);
            self.wait_again(waits, (began_ns, until_ns), has, sleep);
        }
        WAITS.set(waits);
        ENDED_NS.set(clock::now_ns());
    }

    /// Waits soon after the last wait.
    fn wait_again(
        &self,
        waits: &mut Waits,
        (began_ns, until_ns): (u64, u64),
        has: impl Fn() -> bool,
        sleep: impl FnOnce(),
    ) {
        let mut wait = waits.waiter.begin(began_ns);
        let limits = (until_ns, began_ns.saturating_add(PATIENCE_NS));
        let asks = match self.with_pool(|pool| waits.begin(pool, &mut wait, limits, &has)) {
            Some(Begun::Received) => return,
            begun => matches!(begun, Some(Begun::Asks)),
        };
        wait.uncount();
        sleep();
        let is_short = has() && clock::now_ns() - began_ns < SHORT_NS;
        waits.short = if is_short { waits.short + 1 } else { 0 };
        if asks {
            self.with_pool(|pool| waits.claim = pool.end_request().then(|| pool.leave_guest()));
        }
    }

    /// The thread does not wait again soon: a worker receives from now on.
    pub(crate) fn end(&self) {
        // Not if the thread itself ends: its waits have.
        let waits =
            WAITS.try_with(|waits| waits.borrow_mut().take_if(|waits| waits.pool.is(self.pool.address())));
        drop(waits);
    }
}

/// How a wait has begun.
enum Begun {
    /// The thread has received.
    Received,
    /// It has asked for the role.
    Asks,
    Waits,
}

impl Waits {
    fn new<E: Endpoint>(pool: Lent<WorkerPool<E>>, (waiting, placement): (Waiting, Placement)) -> Self {
        let waiter = Waiter::new(waiting, placement);
        Self { pool: Box::new(pool), waiter, claim: None, short: 0, hold_off: 0, hold_off_next: 1 }
    }

    fn begin<E: Endpoint>(
        &mut self,
        pool: &Arc<WorkerPool<E>>,
        wait: &mut OngoingWait,
        limits: (u64, u64),
        has: &impl Fn() -> bool,
    ) -> Begun {
        if self.claim.take().is_some_and(|claim| pool.role.change(claim, HELD)) {
            self.receive(pool, wait, limits, has);
            return Begun::Received;
        }
        let may_ask = self.short >= SHORT_WAITS && self.hold_off == 0;
        self.hold_off = self.hold_off.saturating_sub(1);
        if may_ask && pool.ask_for_role() { Begun::Asks } else { Begun::Waits }
    }

    /// Receives, with the role, until something `has` come; until the first time at most, and with the role until the second.
    fn receive<E: Endpoint>(
        &mut self,
        pool: &Arc<WorkerPool<E>>,
        wait: &mut OngoingWait,
        (until_ns, patient_ns): (u64, u64),
        has: &impl Fn() -> bool,
    ) {
        let mut worker = locked(&pool.of_guest);
        let worker = worker.get_or_insert_with(|| Box::new(pool.endpoint.worker()));
        let mut now_ns = clock::now_ns();
        loop {
            if has() || now_ns >= until_ns {
                self.waiter.arrived(wait, now_ns);
                self.claim = Some(pool.leave_guest());
                return;
            }
            if wait.sleeps() {
                wait.uncount();
            }
            let sleep_ns = if wait.spins() { 0 } else { patient_ns.min(until_ns).saturating_sub(now_ns) };
            let may_look = !pool.is_stopping() && (wait.spins() || sleep_ns > 0);
            match may_look.then(|| pool.endpoint.look(worker, sleep_ns)).flatten() {
                None => {
                    self.short = 0;
                    return pool.give_role_back();
                }
                Some(Looked::Call(call)) => {
                    self.hold_off = self.hold_off_next;
                    self.hold_off_next = (2 * self.hold_off_next).min(HOLD_OFF_MAX);
                    return pool.hand_on(worker, call);
                }
                Some(Looked::Nothing | Looked::Packets) => {}
            }
            now_ns = clock::now_ns();
            self.waiter.go_on(wait, now_ns);
        }
    }
}

impl<E: Endpoint> WorkerPool<E> {
    /// The calling thread wants the role. `false`: another has asked before.
    fn ask_for_role(&self) -> bool {
        let mut request = locked(&self.request);
        let is_first = request.is_none();
        if is_first {
            *request = Some(Request { thread: thread::current(), is_granted: false });
            self.interrupted.store(true, Ordering::SeqCst);
        }
        is_first
    }

    /// The thread that has asked for the role asks no longer. Returns whether it has it.
    fn end_request(&self) -> bool {
        let request = locked(&self.request).take();
        self.end_interruption();
        request.is_some_and(|request| request.is_granted)
    }

    /// A worker with the role has found nothing: gives the role to the thread that has asked for it, if one has.
    pub(super) fn grant(&self) -> bool {
        let mut request = locked(&self.request);
        let Some(asking) = request.as_mut().filter(|request| !request.is_granted) else { return false };
        asking.is_granted = true;
        let thread = asking.thread.clone();
        drop(request);
        self.end_interruption();
        thread.unpark();
        true
    }

    fn end_interruption(&self) {
        self.interrupted.store(false, Ordering::SeqCst);
        // The other way round as in `stop`.
        if self.is_stopping() {
            self.interrupted.store(true, Ordering::SeqCst);
        }
    }

    /// A guest with the role goes to run its own code. Returns its claim to the role.
    fn leave_guest(&self) -> u64 {
        self.away.store(NO_TAG, Ordering::Relaxed);
        let claim = self.role.leave();
        self.endpoint.background().wake_if_asleep();
        claim
    }

    /// A guest gives the role to a worker.
    fn give_role_back(self: &Arc<Self>) {
        if !self.pass_on() {
            self.role.change(self.role.word(), BACKGROUND);
            self.endpoint.background().wake_if_asleep();
        }
    }

    /// A guest has received a call: workers run it, and receive.
    #[cold]
    fn hand_on(self: &Arc<Self>, worker: &mut E::WorkerState, call: E::Call) {
        let terms = self.endpoint.terms(&call);
        self.admit(worker, call, terms);
        self.role.change(self.role.word(), BACKGROUND);
        self.endpoint.background().wake_if_asleep();
        self.wake_for_queue();
    }
}
