//! The steps of one call in so many: from the stamps of its thread to histograms.

use crate::account::histogram::LiveHistogram;
use crate::account::options::AccountOptions;
use crate::account::steps::{ProcedureSteps, Step};
use crate::interface::Interface;
use crate::locked::locked;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use stoop_net::clock;
use stoop_probe::{
    Claim, Point, Role, Sample, Sampling, claim, concerns_sample, cycles, is_sampled, take_all, take_is_full,
    take_own,
};

/// The sampled calls of one interface, at its caller or at its server.
pub(crate) struct Samples {
    steps: Arc<Steps>,
    _sampling: Sampling,
}

/// The steps of those calls.
struct Steps {
    role: Role,
    /// Number of this account; no other of the process has it.
    number: u64,
    interface: &'static Interface,
    spans: Vec<Span>,
    procedures: Box<[OnceLock<Box<Live>>]>,
    scale: Scale,
}

/// The steps of one procedure. Only a thread that holds the lock of [`ACCOUNTS`] adds to them.
struct Live {
    /// For each [step](steps_of).
    steps: Box<[(LiveHistogram, Rest)]>,
    sum: LiveHistogram,
}

/// Nanoseconds of a step that are in no duration yet: parts of one, or less than none. They are added to the step's next duration, so that the
/// sum of the durations is right though each is a whole number and none is negative. A cycle counter that ticks every 10 ns makes short steps 0
/// or 10 ns long, and shorter than the stamps' cost or longer than they are: only their mean tells.
#[derive(Default)]
struct Rest(AtomicU64);

/// A step that is always shorter than the stamp's cost owes no more than this: it may become longer.
const OWED_MAX_NS: f64 = 1000.0;

impl Rest {
    /// The next duration, if the step took so long.
    fn whole(&self, ns: f64) -> u64 {
        let all = (f64::from_bits(self.0.load(Relaxed)) + ns).max(-OWED_MAX_NS);
        let whole = all.max(0.0).floor();
        self.0.store((all - whole).to_bits(), Relaxed);
        whole as u64
    }
}

/// The accounts to which samples are added.
static ACCOUNTS: Mutex<Accounts> = Mutex::new(Accounts { all: Vec::new(), taken: Vec::new() });

struct Accounts {
    all: Vec<Arc<Steps>>,
    /// Samples that are being added.
    taken: Vec<(Claim, Sample)>,
}

impl Accounts {
    /// Adds the samples that were taken to their accounts. Those of accounts that are gone are dropped.
    fn add_taken(&mut self) {
        let mut last: Option<(&Steps, f64)> = None;
        for (claim, sample) in &self.taken {
            if last.is_none_or(|(steps, _)| steps.number != claim.account) {
                let steps = self.all.iter().find(|steps| steps.number == claim.account);
                last = steps.map(|steps| (&**steps, steps.scale.ns_per_cycle()));
            }
            if let Some((steps, ns_per_cycle)) = last {
                steps.add(claim, sample, ns_per_cycle);
            }
        }
        self.taken.clear();
    }
}

/// From cycles to nanoseconds.
struct Scale {
    /// One moment on both clocks.
    begun: (u64, u64),
    stamp_cycles: f64,
}

impl Scale {
    fn new() -> Self {
        Self { stamp_cycles: stoop_probe::stamp_cycles(), begun: (cycles(), clock::now_ns()) }
    }

    fn ns_per_cycle(&self) -> f64 {
        let (cycles_then, ns_then) = self.begun;
        // As doubles: clocks may differ by a little in the first moments.
        let (cycles, ns) = (cycles().wrapping_sub(cycles_then), clock::now_ns().saturating_sub(ns_then));
        ns.max(1) as f64 / cycles.max(1) as f64
    }
}

/// A step: its name, its two ends, and whether it goes on beside the steps behind it.
struct Span {
    name: &'static str,
    from: Point,
    to: Point,
    is_beside: bool,
    is_at_server: bool,
}

/// The two parts of the wait for the result at the caller: the time at the server, and all other time.
const WAY: &str = "the way there and back: system calls, network, wake-ups";
const AT_SERVER: &str = "the server: from the call's arrival to its result";

/// The steps of one side, in order. Of the caller's, the wait for the result is split by what the result tells of the server.
fn steps_of(role: Role) -> Vec<Span> {
    let mut from = match role {
        Role::Caller => Point::StubBegun,
        Role::Server => Point::CallSeen,
    };
    let mut spans = Vec::new();
    for to in role.points().skip(1) {
        let is_beside = matches!(to, Point::CallLeft | Point::ResultLeft);
        let name = if to == Point::ResultSeen { WAY } else { to.step() };
        spans.push(Span { name, from, to, is_beside, is_at_server: false });
        if to == Point::ResultSeen {
            spans.push(Span { name: AT_SERVER, from: to, to, is_beside: false, is_at_server: true });
        }
        from = if is_beside { from } else { to };
    }
    spans
}

impl Samples {
    /// Those of a caller that the options ask for.
    pub(crate) fn of_caller(interface: &'static Interface, options: &AccountOptions) -> Option<Self> {
        Self::new(Role::Caller, interface, options)
    }

    /// Those of a server that the options ask for.
    pub(crate) fn of_server(interface: &'static Interface, options: &AccountOptions) -> Option<Self> {
        Self::new(Role::Server, interface, options)
    }

    /// Whether the call that this thread makes, or the one before it, may be a sample.
    #[inline(always)]
    pub(crate) fn concern_caller() -> bool {
        concerns_sample(Role::Caller)
    }

    fn new(role: Role, interface: &'static Interface, options: &AccountOptions) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let sampling = Sampling::one_in(options.steps_share?);
        let procedures = interface.procedures.iter().map(|_| OnceLock::new()).collect();
        let (number, spans) = (NUMBERS.fetch_add(1, Relaxed), steps_of(role));
        let steps = Arc::new(Steps { role, number, interface, spans, procedures, scale: Scale::new() });
        locked(&ACCOUNTS).all.push(Arc::clone(&steps));
        Some(Self { steps, _sampling: sampling })
    }

    /// A call of this thread goes on. Adds the thread's samples if its list of them is full. Returns whether this call is a sample.
    #[inline]
    pub(crate) fn go_on(&self) -> bool {
        concerns_sample(self.steps.role) && self.go_on_with_sample()
    }

    #[cold]
    fn go_on_with_sample(&self) -> bool {
        if take_is_full(self.steps.role) {
            add_own();
        }
        is_sampled(self.steps.role)
    }

    /// The sampled call of this thread is of that procedure.
    #[cold]
    pub(crate) fn claim(&self, procedure: u16, server_ns: Option<u64>) {
        claim(self.steps.role, Claim { account: self.steps.number, procedure, server_ns });
    }

    /// The steps so far, of the procedures of which calls were sampled.
    pub(crate) fn steps(&self) -> Vec<ProcedureSteps> {
        let mut accounts = locked(&ACCOUNTS);
        take_all(&mut accounts.taken);
        accounts.add_taken();
        self.steps.copy()
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        locked(&ACCOUNTS).all.retain(|steps| !Arc::ptr_eq(steps, &self.steps));
    }
}

/// Adds the samples of this thread to their accounts. If another thread adds samples at this moment, they are left to it, or to a later call.
#[inline(never)]
fn add_own() {
    if let Ok(mut accounts) = ACCOUNTS.try_lock() {
        take_own(&mut accounts.taken);
        accounts.add_taken();
    }
}

impl Steps {
    fn add(&self, claim: &Claim, sample: &Sample, ns_per_cycle: f64) {
        let Some(live) = self.procedures.get(usize::from(claim.procedure)) else { return };
        let new = || Live {
            steps: self.spans.iter().map(|_| Default::default()).collect(),
            sum: LiveHistogram::default(),
        };
        let live = live.get_or_init(|| Box::new(new()));
        let mut sum_ns = 0;
        for (span, (histogram, rest)) in self.spans.iter().zip(&live.steps) {
            let ns = rest.whole(self.span_ns(span, claim, sample, ns_per_cycle));
            histogram.add(1, ns, true);
            sum_ns += if span.is_beside { 0 } else { ns };
        }
        live.sum.add(1, sum_ns, true);
    }

    /// How long a step took, the stamp's cost taken out; less than no time if it was shorter than that.
    fn span_ns(&self, span: &Span, claim: &Claim, sample: &Sample, ns_per_cycle: f64) -> f64 {
        let server_ns = claim.server_ns.unwrap_or(0) as f64;
        if span.is_at_server {
            return server_ns;
        }
        let cycles = sample.at(span.to).wrapping_sub(sample.at(span.from)) as f64;
        // The stamp that the thread makes when its packet has left is within the wait, where it delays nothing.
        let ns = (cycles - self.scale.stamp_cycles) * ns_per_cycle;
        if span.to == Point::ResultSeen { ns - server_ns } else { ns }
    }

    fn copy(&self) -> Vec<ProcedureSteps> {
        let procedures = self.interface.procedures.iter().zip(&self.procedures);
        let steps = procedures.filter_map(|(procedure, live)| {
            let live = live.get()?;
            let steps = self.spans.iter().zip(&live.steps).map(|(span, (time, _))| Step {
                name: span.name.to_owned(),
                time: time.copy(),
                is_beside: span.is_beside,
            });
            Some(ProcedureSteps {
                interface: self.interface.name.to_owned(),
                procedure: procedure.name.to_owned(),
                steps: steps.collect(),
                sum: live.sum.copy(),
            })
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Rest;

    #[test]
    fn durations_in_whole_numbers_have_the_mean_of_those_that_were_measured() {
        let rest = Rest::default();
        // 3 ns by a counter that ticks every 10 ns, with stamps of 4.5 ns, which the step's true 7.5 ns include.
        let measured = [10.0, 0.0, 10.0, 10.0].map(|ns| ns - 4.5);
        let sum: u64 = (0..1000).flat_map(|_| measured).map(|ns| rest.whole(ns)).sum();
        assert!((11_999..=12_000).contains(&sum), "{sum}");
    }

    #[test]
    fn a_step_that_becomes_longer_is_seen_soon() {
        let rest = Rest::default();
        assert!((0..1_000_000).all(|_| rest.whole(-5.0) == 0));
        assert!(rest.whole(1_005.0) <= 5 && rest.whole(500.0) >= 500);
    }
}
