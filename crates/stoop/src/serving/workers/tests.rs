//! The pool with an endpoint whose calls are numbers and whose procedure is chosen by the test.

use crate::context::cancelled::CallId;
use crate::later::lent::Lent;
use crate::serving::terms::{LONG_NANOS, Priority};
use crate::serving::workers::guest::Guest;
use crate::serving::workers::role::BACKGROUND;
use crate::serving::workers::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Condvar;
use std::time::Duration;
use stoop_net::waiting::{Placement, Waiting};

/// Calls come from a list, procedures do what `work` says.
struct Scripted {
    background: Background,
    state: Mutex<State>,
    changed: Condvar,
    /// The procedure of every call.
    work: fn(&Scripted, u32),
    long: fn(u32) -> bool,
}

#[derive(Default)]
struct State {
    arriving: VecDeque<u32>,
    /// Runs and refusals of each call.
    ended: BTreeMap<u32, (u32, u32)>,
    running: usize,
    most_running: usize,
    gate_open: bool,
    woken: bool,
    /// Workers that wait for a call.
    waiting: usize,
    /// The background receives this call as the only worker comes back.
    late: Option<u32>,
    /// The next worker that receives panics.
    breaks: bool,
    /// No binding is heard any more.
    quiet: bool,
    /// Looks of the background thread.
    looks: u32,
    guests: Guests,
    /// Calls that wait for the end of any other.
    waited: VecDeque<u32>,
}

/// What comes for a thread that may be a guest.
#[derive(Default)]
struct Guests {
    /// The thread, which is unparked when something came for it.
    thread: Option<thread::Thread>,
    arriving: u32,
    received: u32,
    /// Those that the guest has received itself, and calls.
    by_guest: u32,
    calls_by_guest: u32,
}

impl Guests {
    fn receive(&mut self) -> bool {
        let is_there = self.arriving > 0;
        if is_there {
            (self.arriving, self.received) = (self.arriving - 1, self.received + 1);
            self.thread.iter().for_each(thread::Thread::unpark);
        }
        is_there
    }
}

impl Scripted {
    fn new(work: fn(&Scripted, u32), long: fn(u32) -> bool) -> Self {
        Self {
            background: Background::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            work,
            long,
        }
    }

    fn bring(&self, calls: impl IntoIterator<Item = u32>) {
        locked(&self.state).arriving.extend(calls);
        self.changed.notify_all();
    }

    fn await_state(&self, so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(locked(&self.state), |state| !so(state)).unwrap()
    }

    fn pass_gate(&self) {
        drop(self.await_state(|state| state.gate_open));
    }

    fn open_gate(&self) {
        locked(&self.state).gate_open = true;
        self.changed.notify_all();
    }
}

impl Endpoint for Scripted {
    type Call = u32;
    type WorkerState = ();

    fn worker(&self) {}

    fn receive(&self, _: &mut (), patient: bool, stopping: &AtomicBool) -> Option<u32> {
        let mut state = locked(&self.state);
        loop {
            if stopping.load(Ordering::SeqCst) {
                return None;
            }
            if std::mem::take(&mut state.breaks) {
                drop(state);
                panic!("as the test wants");
            }
            while state.guests.receive() {}
            if let Some(call) = state.arriving.pop_front() {
                self.changed.notify_all();
                return Some(call);
            }
            if !patient && let Some(call) = state.late.take() {
                state.gate_open = true;
                self.changed.notify_all();
                // Long enough for the worker to get to its next wait, if nothing keeps it from there.
                let limit = Duration::from_millis(200);
                drop(self.changed.wait_timeout_while(state, limit, |state| state.waiting == 0).unwrap());
                return Some(call);
            }
            if !patient || state.woken {
                return None;
            }
            state.waiting += 1;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
            state.waiting -= 1;
        }
    }

    fn look(&self, _: &mut (), _: u64) -> Option<Looked<u32>> {
        let mut state = locked(&self.state);
        if let Some(call) = state.arriving.pop_front() {
            state.guests.calls_by_guest += 1;
            return Some(Looked::Call(call));
        }
        if state.guests.receive() {
            state.guests.by_guest += 1;
            return Some(Looked::Packets);
        }
        Some(Looked::Nothing)
    }

    fn background(&self) -> &Background {
        &self.background
    }

    fn takes_long(&self, call: &u32) -> bool {
        (self.long)(*call)
    }

    fn run(&self, _: &mut (), call: u32) -> Option<u32> {
        {
            let mut state = locked(&self.state);
            state.running += 1;
            state.most_running = state.most_running.max(state.running);
            self.changed.notify_all();
        }
        (self.work)(self, call);
        let mut state = locked(&self.state);
        state.running -= 1;
        state.ended.entry(call).or_default().0 += 1;
        self.changed.notify_all();
        state.waited.pop_front()
    }

    fn take_waited(&self, _: &mut ()) -> Option<u32> {
        locked(&self.state).waited.pop_front()
    }

    fn refuse(&self, _: &mut (), call: u32, _: Refused) -> Option<u32> {
        locked(&self.state).ended.entry(call).or_default().1 += 1;
        self.changed.notify_all();
        None
    }

    fn terms(&self, call: &u32) -> CallTerms {
        // Each call is of an owner of its own.
        CallTerms {
            owner: Owner::user(*call),
            part: 0,
            call: CallId::NONE,
            deadline_ns: u64::MAX,
            work_ns: if (self.long)(*call) { LONG_NANOS + 1 } else { 1 },
            priority: Priority::Normal,
            procedure: None,
            limit: None,
        }
    }

    fn tag(&self, call: &u32) -> u64 {
        u64::from(*call) + 1
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        Some(Owner::user(tag as u32 - 1))
    }

    fn is_behind(&self, _: &mut (), _: &u32) -> bool {
        false
    }

    fn is_quiet(&self, _: u64, _: u64, _: u64) -> bool {
        locked(&self.state).quiet
    }

    fn defer(&self, _: &mut (), _: &mut u32) {}

    fn note_backlog(&self, _: bool) {
        locked(&self.state).looks += 1;
        self.changed.notify_all();
    }

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _: &mut (), _: u64) {}

    fn wake(&self) {
        locked(&self.state).woken = true;
        self.changed.notify_all();
    }

    fn shut_down(&self) {}

    fn drain(&self) {}

    fn counters(&self) -> ServerCounters {
        ServerCounters::default()
    }
}

fn pool(endpoint: Scripted, workers: usize, queue: usize) -> Arc<WorkerPool<Scripted>> {
    WorkerPool::start(endpoint, Bounds { workers, queue }).unwrap()
}

#[test]
fn one_worker_serves_short_calls() {
    // The queue has room for all calls, so that none is refused when a busy machine lets no worker run for a while.
    let pool = pool(Scripted::new(|_, _| (), |_| false), 8, 1000);
    pool.endpoint.bring(0..1000);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 1000));
    pool.stop();
    let state = locked(&pool.endpoint.state);
    assert!(state.ended.values().all(|ended| *ended == (1, 0)));
}

#[test]
fn while_procedures_take_long_others_receive_up_to_the_bound() {
    for long in [|_| false, |_| true] {
        let pool = pool(Scripted::new(|endpoint, _| endpoint.pass_gate(), long), 5, 8);
        pool.endpoint.bring(0..5);
        drop(pool.endpoint.await_state(|state| state.running == 5));
        pool.endpoint.open_gate();
        drop(pool.endpoint.await_state(|state| state.ended.len() == 5));
        pool.stop();
        assert_eq!(locked(&pool.endpoint.state).most_running, 5);
    }
}

#[test]
fn calls_that_waited_together_do_not_wait_for_one_of_them_that_is_slow() {
    let slow = |endpoint: &Scripted, call| {
        if call == 1 {
            endpoint.pass_gate();
        }
    };
    let pool = pool(Scripted::new(slow, |_| false), 4, 100);
    locked(&pool.endpoint.state).waited.extend(1..5);
    pool.endpoint.bring([0]);
    drop(pool.endpoint.await_state(|state| [0, 2, 3, 4].iter().all(|call| state.ended.contains_key(call))));
    pool.endpoint.open_gate();
    drop(pool.endpoint.await_state(|state| state.ended.len() == 5));
    pool.stop();
    assert!(locked(&pool.endpoint.state).ended.values().all(|ended| *ended == (1, 0)));
}

#[test]
fn beyond_the_bound_calls_wait_and_beyond_the_queue_they_are_refused() {
    let pool = pool(Scripted::new(|endpoint, _| endpoint.pass_gate(), |_| false), 2, 3);
    pool.endpoint.bring(0..2);
    drop(pool.endpoint.await_state(|state| state.running == 2));
    pool.endpoint.bring(2..9);
    drop(pool.endpoint.await_state(|state| state.ended.values().filter(|ended| ended.1 == 1).count() == 4));
    pool.endpoint.open_gate();
    drop(pool.endpoint.await_state(|state| state.ended.len() == 9));
    pool.stop();
    let state = locked(&pool.endpoint.state);
    assert!(state.ended.values().all(|(runs, refusals)| runs + refusals == 1));
    assert_eq!(state.most_running, 2);
}

#[test]
fn calls_of_quiet_bindings_do_not_wait_for_a_worker_that_is_stuck() {
    let pool = pool(Scripted::new(|endpoint, _| endpoint.pass_gate(), |_| false), 1, 8);
    pool.endpoint.bring([0]);
    drop(pool.endpoint.await_state(|state| state.running == 1));
    locked(&pool.endpoint.state).quiet = true;
    pool.endpoint.bring(1..6);
    drop(
        pool.endpoint
            .await_state(|state| state.ended.values().filter(|ended| **ended == (0, 1)).count() == 5),
    );
    pool.endpoint.open_gate();
    drop(pool.endpoint.await_state(|state| state.ended.get(&0) == Some(&(1, 0))));
    pool.stop();
    assert_eq!(pool.queue_counters().abandoned, 5);
}

#[test]
fn a_pool_that_was_overwhelmed_serves_as_before() {
    let pool = pool(
        Scripted::new(
            |endpoint, call| {
                if call < 10 {
                    endpoint.pass_gate()
                }
            },
            |_| false,
        ),
        2,
        200,
    );
    pool.endpoint.bring(0..10);
    drop(pool.endpoint.await_state(|state| state.arriving.is_empty() && state.running == 2));
    pool.endpoint.open_gate();
    pool.endpoint.bring(10..200);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 200));
    pool.stop();
    assert!(locked(&pool.endpoint.state).ended.values().all(|ended| *ended == (1, 0)));
}

#[test]
fn no_call_is_lost_or_run_twice_however_long_procedures_take() {
    // Some procedures return at once, some take longer than the background thread's tick, some yield in between.
    let work = |_: &Scripted, call: u32| match call % 7 {
        0 => thread::park_timeout(Duration::from_millis(u64::from(call % 3) + 1)),
        1 | 2 => thread::yield_now(),
        _ => {}
    };
    for (workers, long) in [(1, (|_| false) as fn(u32) -> bool), (2, |_| false), (3, |call| call % 5 == 0)] {
        let pool = pool(Scripted::new(work, long), workers, 10_000);
        for part in 0..20 {
            pool.endpoint.bring(part * 50..(part + 1) * 50);
            drop(pool.endpoint.await_state(|state| state.arriving.len() < 20));
        }
        drop(pool.endpoint.await_state(|state| state.ended.len() == 1000));
        pool.stop();
        let state = locked(&pool.endpoint.state);
        assert!(state.ended.values().all(|ended| *ended == (1, 0)));
        assert!(state.most_running <= workers);
    }
}

#[test]
fn stopping_waits_for_procedures_that_run() {
    let pool = pool(Scripted::new(|endpoint, _| endpoint.pass_gate(), |_| false), 4, 4);
    pool.endpoint.bring(0..3);
    drop(pool.endpoint.await_state(|state| state.running == 3));
    let stopper = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.stop())
    };
    drop(pool.endpoint.await_state(|state| state.woken));
    pool.endpoint.open_gate();
    stopper.join().unwrap();
    assert_eq!(locked(&pool.endpoint.state).ended.len(), 3);
}

#[test]
fn a_call_that_the_background_thread_received_is_run_by_the_worker_that_takes_the_role_at_that_moment() {
    let pool = pool(Scripted::new(|endpoint, _| endpoint.pass_gate(), |_| false), 1, 8);
    drop(pool.endpoint.await_state(|state| state.waiting == 1));
    locked(&pool.endpoint.state).late = Some(1);
    pool.endpoint.bring([0]);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 2));
    pool.stop();
}

#[test]
fn no_worker_gets_the_role_while_another_thread_queues_what_it_has_received() {
    let pool = pool(Scripted::new(|_, _| (), |_| false), 2, 8);
    drop(pool.endpoint.await_state(|state| state.waiting == 1));
    // As a worker that is behind does.
    let queueing = locked(&pool.queueing);
    assert!(pool.role.change(pool.role.word(), BACKGROUND));
    pool.endpoint.background().wake_if_asleep();
    let looks = locked(&pool.endpoint.state).looks;
    drop(pool.endpoint.await_state(|state| state.looks >= looks + 3));
    assert!(pool.role.is_with_background());
    drop(queueing);
    drop(pool.endpoint.await_state(|state| state.waiting == 2));
    pool.stop();
}

#[test]
fn a_worker_that_panics_while_it_receives_is_replaced() {
    let pool = pool(Scripted::new(|_, _| (), |_| false), 1, 8);
    drop(pool.endpoint.await_state(|state| state.waiting == 1));
    locked(&pool.endpoint.state).breaks = true;
    pool.endpoint.changed.notify_all();
    pool.endpoint.bring(0..8);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 8));
    pool.stop();
}

/// A thread that waits for what comes to `pool`, from one wait to the next.
fn guest(pool: &Arc<WorkerPool<Scripted>>) -> Guest<Scripted> {
    guest_of(pool, Lent::new(Arc::downgrade(pool)))
}

fn guest_of(pool: &WorkerPool<Scripted>, lent: Lent<WorkerPool<Scripted>>) -> Guest<Scripted> {
    locked(&pool.endpoint.state).guests.thread = Some(thread::current());
    let apart = Placement { together: true, waiting_max: 1000 };
    Guest::new(lent, (Waiting::Spin, apart))
}

/// Lets something come for the guest, and waits for it.
fn next_of(guest: &Guest<Scripted>, pool: &Arc<WorkerPool<Scripted>>) {
    let endpoint = &pool.endpoint;
    let wanted = {
        let mut state = locked(&endpoint.state);
        state.guests.arriving += 1;
        state.guests.received + state.guests.arriving
    };
    let is_over = || locked(&endpoint.state).guests.received >= wanted;
    let sleep = || {
        // The worker that waits looks whether the role is asked for.
        drop(locked(&endpoint.state));
        endpoint.changed.notify_all();
        // Until the role is granted, if it was asked for.
        while !locked(&pool.request).as_ref().map_or_else(is_over, |request| request.is_granted) {
            thread::park();
        }
    };
    while !is_over() {
        guest.wait(u64::MAX, is_over, sleep);
    }
}

#[test]
fn a_thread_whose_waits_are_short_receives_itself_and_workers_run_the_calls_that_it_receives() {
    let pool = pool(Scripted::new(|_, _| (), |_| false), 2, 8);
    let guest = guest(&pool);
    let counts = || {
        let Guests { by_guest, calls_by_guest, .. } = locked(&pool.endpoint.state).guests;
        (by_guest, calls_by_guest)
    };
    while counts().0 == 0 {
        next_of(&guest, &pool);
    }
    for call in 0.. {
        locked(&pool.endpoint.state).arriving.push_back(call);
        next_of(&guest, &pool);
        drop(pool.endpoint.await_state(|state| state.ended.get(&call) == Some(&(1, 0))));
        if counts().1 > 0 {
            break;
        }
    }
    guest.end();
    pool.stop();
}

#[test]
fn a_thread_that_waits_for_something_else_each_time_receives_itself() {
    let pool = pool(Scripted::new(|_, _| (), |_| false), 2, 8);
    let lent = Lent::new(Arc::downgrade(&pool));
    while locked(&pool.endpoint.state).guests.by_guest == 0 {
        next_of(&guest_of(&pool, lent.clone()), &pool);
    }
    guest_of(&pool, lent).end();
    pool.stop();
}

#[test]
fn a_call_is_served_while_the_guest_with_the_role_runs_its_own_code() {
    let pool = pool(Scripted::new(|_, _| (), |_| false), 2, 8);
    let guest = guest(&pool);
    while locked(&pool.endpoint.state).guests.by_guest == 0 {
        next_of(&guest, &pool);
    }
    pool.endpoint.bring([0]);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 1));
    next_of(&guest, &pool);
    guest.end();
    pool.endpoint.bring([1]);
    drop(pool.endpoint.await_state(|state| state.ended.len() == 2));
    pool.stop();
}
