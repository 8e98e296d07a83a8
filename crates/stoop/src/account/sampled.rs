//! The steps of one call in so many: from the stamps of its thread to histograms.

use crate::account::histogram::LiveHistogram;
use crate::account::options::AccountOptions;
use crate::account::steps::{ProcedureSteps, Step};
use crate::interface::Interface;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use stoop_net::clock;
use stoop_probe::{
    Claim, Point, Role, Sample, Sampling, claim, concerns_sample, cycles, is_sampled, take_sample,
};

/// The sampled calls of one interface, at its caller or at its server.
pub(crate) struct Samples {
    role: Role,
    /// Number of this account; no other of the process has it.
    number: u64,
    interface: &'static Interface,
    procedures: Box<[OnceLock<Box<Live>>]>,
    scale: Scale,
    _sampling: Sampling,
}

/// The steps of one procedure.
struct Live {
    /// For each [step](steps_of).
    steps: Box<[LiveHistogram]>,
    sum: LiveHistogram,
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

    fn cycles_per_ns(&self) -> f64 {
        let (cycles_then, ns_then) = self.begun;
        // As doubles: clocks may differ by a little in the first moments.
        let (cycles, ns) = (cycles().wrapping_sub(cycles_then), clock::now_ns().saturating_sub(ns_then));
        cycles.max(1) as f64 / ns.max(1) as f64
    }
}

/// A step: its name, its two ends, and whether it goes on beside the steps behind it.
struct Span {
    name: &'static str,
    from: Point,
    to: Point,
    is_beside: bool,
}

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
        spans.push(Span { name, from, to, is_beside });
        if to == Point::ResultSeen {
            spans.push(Span { name: AT_SERVER, from: to, to, is_beside: false });
        }
        from = if is_beside { from } else { to };
    }
    spans
}

impl Samples {
    /// Those that the options ask for.
    pub(crate) fn new(role: Role, interface: &'static Interface, options: &AccountOptions) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let sampling = Sampling::one_in(options.steps_share?);
        let procedures = interface.procedures.iter().map(|_| OnceLock::new()).collect();
        let number = NUMBERS.fetch_add(1, Relaxed);
        Some(Self { role, number, interface, procedures, scale: Scale::new(), _sampling: sampling })
    }

    /// A call of this thread goes on. Takes the sample of the last one, if it was one. Returns whether this one is a sample.
    #[inline]
    pub(crate) fn go_on(&self) -> bool {
        concerns_sample(self.role) && self.go_on_with_sample()
    }

    #[cold]
    fn go_on_with_sample(&self) -> bool {
        if let Some((claim, sample)) = take_sample(self.role, self.number) {
            self.add(&claim, &sample);
        }
        is_sampled(self.role)
    }

    /// The sampled call of this thread is of that procedure.
    #[cold]
    pub(crate) fn claim(&self, procedure: u16, server_ns: Option<u64>) {
        claim(self.role, Claim { account: self.number, procedure, server_ns });
    }

    #[cold]
    fn add(&self, claim: &Claim, sample: &Sample) {
        let Some(live) = self.procedures.get(usize::from(claim.procedure)) else { return };
        let spans = steps_of(self.role);
        let new = || Live {
            steps: spans.iter().map(|_| LiveHistogram::default()).collect(),
            sum: LiveHistogram::default(),
        };
        let live = live.get_or_init(|| Box::new(new()));
        let rate = self.scale.cycles_per_ns();
        let mut sum_ns = 0;
        for (span, histogram) in spans.iter().zip(&live.steps) {
            let ns = self.span_ns(span, claim, sample, rate);
            histogram.add(ns, false);
            sum_ns += if span.is_beside { 0 } else { ns };
        }
        live.sum.add(sum_ns, false);
    }

    fn span_ns(&self, span: &Span, claim: &Claim, sample: &Sample, rate: f64) -> u64 {
        let server_ns = claim.server_ns.unwrap_or(0);
        if span.name == AT_SERVER {
            return server_ns;
        }
        let cycles = sample.at(span.to).wrapping_sub(sample.at(span.from)) as f64;
        // The stamp that the thread makes when its packet has left is within the wait, where it delays nothing.
        let ns = ((cycles - self.scale.stamp_cycles).max(0.0) / rate) as u64;
        if span.name == WAY { ns.saturating_sub(server_ns) } else { ns }
    }

    /// The steps so far, of the procedures of which calls were sampled.
    pub(crate) fn steps(&self) -> Vec<ProcedureSteps> {
        let procedures = self.interface.procedures.iter().zip(&self.procedures);
        let steps = procedures.filter_map(|(procedure, live)| {
            let live = live.get()?;
            let steps = steps_of(self.role).into_iter().zip(&live.steps).map(|(span, time)| Step {
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
