//! The queue under load, in simulated time: procedures that sleep, compute, alternate or get stuck, and calls that come in bursts.
//!
//! Each run is a function of its numbers alone, so that it repeats exactly.

use crate::context::cancelled::CallId;
use crate::serving::procedure_time::LongTimes;
use crate::serving::terms::{LONG_NANOS, Priority};
use crate::serving::workers::queue::*;
use crate::serving::workers::shared_queue::Queued;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const STEP: u64 = MS / 2;
const WORKERS: usize = 64;
const QUEUE: usize = 1024;
const PROCESSORS: usize = 2;

/// What a call does: time for which it sleeps, and then processor time.
#[derive(Clone, Copy, Debug)]
struct Work {
    sleep_ns: u64,
    compute_ns: u64,
}

const fn sleeps(ms: u64) -> Work {
    Work { sleep_ns: ms * MS, compute_ns: 0 }
}

const fn computes(ms: u64) -> Work {
    Work { sleep_ns: 0, compute_ns: ms * MS }
}

/// A number below 16 that looks like a random one.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60
}

/// The calls of one owner.
#[derive(Clone, Copy)]
struct Load {
    owner: u32,
    bindings: u64,
    /// Calls a second, in bursts so far apart.
    rate: u64,
    burst_ns: u64,
    time_ns: u64,
    procedure: u32,
    /// The work of the call with this number.
    work: fn(u64) -> Work,
}

#[derive(Clone, Copy)]
struct Call {
    load: usize,
    binding: u64,
    deadline_ns: u64,
    procedure: u32,
    sleep_left: u64,
    compute_left: u64,
    work_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcomes {
    /// Work of the calls that ended in time, and of those that did not though there was time for their work.
    good_ns: u64,
    in_vain_ns: u64,
    refused: u64,
    /// Of one in [`WATCHED`] refused calls: a worker became idle in time.
    wrongly: u64,
}

/// Of so many refused calls one is watched.
const WATCHED: u64 = 16;

struct Running {
    call: Call,
    charge: Charge,
    begun_ns: u64,
    slept: bool,
}

struct World<'a> {
    loads: &'a [Load],
    queue: Queued<Call>,
    running: Vec<Running>,
    /// Refused calls of which it is seen whether a worker would have had time for them.
    watched: Vec<Call>,
    refused: u64,
    times: [LongTimes; 8],
    /// Whether the mean times of procedures are known; without them calls are taken in the order in which they came.
    with_means: bool,
    outcomes: Vec<Outcomes>,
    counts_from_ns: u64,
    now_ns: u64,
}

impl Call {
    /// Calls that could wait until the end are not watched.
    fn is_hurried(&self, now_ns: u64) -> bool {
        self.deadline_ns < now_ns + 2 * SECOND
    }
}

impl<'a> World<'a> {
    fn new(loads: &'a [Load], with_means: bool) -> Self {
        Self {
            loads,
            queue: Queued::new(CallQueue::new(PROCESSORS, WORKERS, QUEUE)),
            running: Vec::new(),
            watched: Vec::new(),
            refused: 0,
            times: Default::default(),
            with_means,
            outcomes: vec![Outcomes::default(); loads.len()],
            counts_from_ns: 0,
            now_ns: 0,
        }
    }

    fn terms(&self, call: &Call) -> CallTerms {
        let mean_ns = self.times[call.procedure as usize].mean_at(self.now_ns);
        CallTerms {
            owner: Owner::user(self.loads[call.load].owner),
            part: call.binding,
            call: CallId::NONE,
            deadline_ns: call.deadline_ns,
            work_ns: if self.with_means { mean_ns } else { 0 },
            priority: Priority::Normal,
            procedure: Some(call.procedure),
            limit: None,
        }
    }

    fn count(&mut self, load: usize, change: impl FnOnce(&mut Outcomes)) {
        if self.now_ns >= self.counts_from_ns {
            change(&mut self.outcomes[load]);
        }
    }

    fn call(&self, load: usize, number: u64) -> Call {
        let it = &self.loads[load];
        let binding = u64::from(it.owner) * 1000 + number % it.bindings;
        let Work { sleep_ns, compute_ns } = (it.work)(number);
        // Sleeping calls do not keep in step.
        let sleep_ns = sleep_ns + sleep_ns / 16 * scattered(number) / 16;
        Call {
            load,
            binding,
            deadline_ns: self.now_ns + it.time_ns,
            procedure: it.procedure,
            sleep_left: sleep_ns,
            compute_left: compute_ns,
            work_ns: sleep_ns + compute_ns,
        }
    }

    fn arrive(&mut self, load: usize, number: u64) {
        self.admit(self.call(load, number));
    }

    fn admit(&mut self, call: Call) {
        let terms = self.terms(&call);
        let is_free = self.running.len() < WORKERS && self.queue.order.len() == 0;
        let outcome = match is_free {
            true => self.queue.begin_or_admit(self.now_ns, call, terms, |_| ()),
            false => Err(self.queue.admit(self.now_ns, call, terms, |_| ())),
        };
        match outcome {
            Ok((call, charge)) => self.begin(call, charge),
            Err(Admitted::Waits) => {}
            Err(Admitted::InPlaceOf(call, _) | Admitted::Full(call, _)) => self.refuse(call),
        }
    }

    fn begin(&mut self, call: Call, charge: Charge) {
        let slept = call.sleep_left > 0;
        self.running.push(Running { call, charge, begun_ns: self.now_ns, slept });
    }

    fn refuse(&mut self, call: Call) {
        self.count(call.load, |it| it.refused += 1);
        self.refused += 1;
        if self.refused.is_multiple_of(WATCHED)
            && self.now_ns >= self.counts_from_ns
            && call.is_hurried(self.now_ns)
        {
            self.watched.push(call);
        }
    }

    fn step(&mut self) {
        self.now_ns += STEP;
        let computing = self.running.iter().filter(|it| it.call.sleep_left == 0).count();
        let share = STEP * (PROCESSORS as u64).min(computing as u64) / (computing as u64).max(1);
        for it in &mut self.running {
            match it.call.sleep_left {
                0 => it.call.compute_left = it.call.compute_left.saturating_sub(share),
                _ => it.call.sleep_left = it.call.sleep_left.saturating_sub(STEP),
            }
        }
        let has_ended = |it: &mut Running| it.call.sleep_left == 0 && it.call.compute_left == 0;
        for Running { call, charge, begun_ns, slept } in
            self.running.extract_if(.., has_ended).collect::<Vec<_>>()
        {
            self.queue.order.end(charge, Some(slept));
            let took_ns = self.now_ns - begun_ns;
            if took_ns > LONG_NANOS {
                self.times[call.procedure as usize].note(took_ns, self.now_ns);
            }
            let in_time = self.now_ns <= call.deadline_ns;
            let work_ns = if call.work_ns <= SECOND { call.work_ns } else { 0 };
            self.count(call.load, |it| {
                *(if in_time { &mut it.good_ns } else { &mut it.in_vain_ns }) += work_ns
            });
        }
        if self.now_ns.is_multiple_of(MS) {
            self.queue.order.look(self.now_ns);
            let overdue = self.queue.order.take_overdue(self.now_ns);
            for call in self.queue.take(overdue) {
                self.refuse(call);
            }
        }
        while self.running.len() < WORKERS {
            match self.queue.next(self.now_ns) {
                None => break,
                Some((call, charge)) => self.begin(call, charge),
            }
        }
        self.see_watched();
    }

    /// Counts the refused calls that a worker would have had time for.
    fn see_watched(&mut self) {
        let now_ns = self.now_ns;
        self.watched.retain(|it| now_ns + it.sleep_left + it.compute_left <= it.deadline_ns);
        let is_idle = self.running.len() < WORKERS && !self.queue.order.has_runnable();
        if !is_idle {
            return;
        }
        let computing = self.running.iter().filter(|it| it.call.sleep_left == 0).count();
        for at in (0..self.watched.len()).rev() {
            let it = self.watched[at];
            let has_processor = it.compute_left == 0 || computing < PROCESSORS;
            let terms = CallTerms { deadline_ns: it.deadline_ns, ..self.terms(&it) };
            if has_processor && self.queue.order.shares.allows(terms.owner, terms.part) {
                self.watched.swap_remove(at);
                self.count(it.load, |outcomes| outcomes.wrongly += 1);
                // One of them would have had this worker.
                break;
            }
        }
    }

    fn run(mut self, seconds: u64, counts_from: u64) -> Vec<Outcomes> {
        self.counts_from_ns = counts_from * SECOND;
        let mut made = vec![0_u64; self.loads.len()];
        while self.now_ns < seconds * SECOND {
            for (load, it) in self.loads.iter().enumerate() {
                if self.now_ns.is_multiple_of(it.burst_ns) {
                    let due = (self.now_ns / it.burst_ns + 1) * (it.rate * it.burst_ns / MS) / 1000;
                    while made[load] < due {
                        self.arrive(load, made[load]);
                        made[load] += 1;
                    }
                }
            }
            self.step();
        }
        self.outcomes
    }
}

type WorkOf = fn(u64) -> Work;

/// Procedures, about how many calls of each the server can run in a second for two hosts, and for how many seconds the results are counted:
/// longer where few calls make most of the work.
const PROCEDURES: [(&str, u64, u64, WorkOf); 7] = [
    ("sleeps 100 ms", 540, 3, |_| sleeps(100)),
    ("sleeps 600 ms", 90, 3, |_| sleeps(600)),
    ("computes 2 ms", 1000, 3, |_| computes(2)),
    ("sleeps 10 ms, computes 1", 1990, 3, |_| Work { sleep_ns: 10 * MS, compute_ns: MS }),
    ("sleeps 1 or 100 ms", 1060, 3, |number| sleeps(if number % 2 == 0 { 1 } else { 100 })),
    ("computes 1 or 19 ms", 200, 3, |number| computes(if scattered(number) < 8 { 1 } else { 19 })),
    ("10 ms, 1 of 50 stuck for 2 s", 1060, 9, |number| sleeps(if number % 50 == 7 { 2000 } else { 10 })),
];

/// Two hosts that call so many times as often as the server can answer, and a third that calls 20 times a second.
fn overload(
    work: WorkOf,
    rate: u64,
    time_ns: u64,
    burst_ns: u64,
    with_means: bool,
    seconds: u64,
) -> Vec<Outcomes> {
    let load = |owner| {
        let procedure = 1;
        Load { owner, bindings: 4, rate: rate / 2, burst_ns, time_ns, procedure, work }
    };
    let polite = Load {
        rate: 20,
        bindings: 1,
        burst_ns: 50 * MS,
        time_ns: SECOND,
        procedure: 2,
        work: |_| sleeps(1),
        ..load(3)
    };
    World::new(&[load(1), load(2), polite], with_means).run(6 + seconds, 6)
}

/// Calls of the two hosts.
fn of_both(outcomes: &[Outcomes], of: fn(&Outcomes) -> u64) -> u64 {
    of(&outcomes[0]) + of(&outcomes[1])
}

/// Two hosts that call far more often than the server can answer, in bursts so far apart. Returns the part of the best possible work
/// that leads to results.
fn good_work(
    (name, capacity, seconds, work): (&str, u64, u64, WorkOf),
    (times, burst): (u64, u64),
    with_means: bool,
) -> f64 {
    let (rate, burst_ns) = (capacity * times, burst * MS);
    // Without deadlines and with as many calls.
    let peak_ns = of_both(&overload(work, rate, 1000 * SECOND, burst_ns, true, seconds), |it| it.good_ns);
    let outcomes = overload(work, rate, SECOND, burst_ns, with_means, seconds);
    let good = of_both(&outcomes, |it| it.good_ns) as f64 / peak_ns as f64;
    let (refused, wrongly) = (of_both(&outcomes, |it| it.refused), of_both(&outcomes, |it| it.wrongly));
    println!(
        "{name:28} {times:2} x, every {burst:3} ms, means {with_means:5}: {:5.1} % good; {refused} refused, {wrongly} of {} wrongly",
        100.0 * good,
        refused / WATCHED,
    );
    assert!(wrongly * 100 * WATCHED <= refused, "{name}, {times} x");
    assert_eq!((outcomes[2].refused, outcomes[2].in_vain_ns), (0, 0), "{name}, {times} x: the third host");
    good
}

#[test]
fn overload_takes_no_work_away_and_no_call_is_refused_that_could_have_run() {
    std::thread::scope(|scope| {
        for procedure in PROCEDURES {
            for load in [(3, 100), (10, 2)] {
                scope.spawn(move || {
                    let good = good_work(procedure, load, true);
                    assert!(good >= 0.95, "{}, {load:?}: {good}", procedure.0);
                });
            }
        }
    });
}

#[test]
fn mean_times_keep_procedures_that_take_most_of_their_time_from_running_in_vain() {
    let long = PROCEDURES[1];
    assert!(good_work(long, (3, 2), false) < 0.5 && good_work(long, (3, 2), true) >= 0.95);
}

#[test]
fn calls_that_the_server_can_run_in_time_are_never_refused_whatever_came_before() {
    // 100 calls at once, again when they have ended; and after the procedure has been stuck.
    for (calls, work, time_ns) in [(100, sleeps as fn(u64) -> Work, 3 * SECOND), (60, sleeps, 30 * SECOND)] {
        let ms = if calls == 100 { 100 } else { 1000 };
        let load = Load {
            owner: 1,
            bindings: 1,
            rate: 0,
            burst_ns: SECOND,
            time_ns,
            procedure: 1,
            work: |_| sleeps(1),
        };
        let loads = [load];
        let mut world = World::new(&loads, true);
        for round in 0..5 {
            let took = if round == 2 { 20 * ms } else { ms };
            for number in 0..calls {
                let call = Call {
                    sleep_left: work(if round == 2 { 1 } else { took }).sleep_ns,
                    ..world.call(0, number)
                };
                world.admit(call);
            }
            while !world.running.is_empty() {
                world.step();
            }
        }
        let Outcomes { in_vain_ns, refused, .. } = world.outcomes[0];
        assert_eq!((in_vain_ns, refused), (0, 0));
    }
}

#[test]
fn the_same_numbers_give_the_same_outcomes() {
    let run = || overload(|number| sleeps(number % 90), 2000, SECOND, 7 * MS, true, 3);
    assert_eq!(run(), run());
}
