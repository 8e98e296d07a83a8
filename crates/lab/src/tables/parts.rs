//! The account of a call for tables that show its steps: sums of steps by name.

use super::lab::Lab;
use super::model::{Figure, US};
use crate::account::{self, Account, Place, Step};
use crate::args::{AccountArgs, Procedure, Processors, Transport, Waiting};
use crate::samples::Quartiles;

/// The account of a call.
pub(crate) struct Parts(Account);

impl Parts {
    /// Measures a call of one packet each way, both ends on a processor each.
    pub(crate) fn of(
        lab: &mut Lab<'_>,
        transport: Transport,
        procedure: Procedure,
        waiting: Waiting,
    ) -> Result<Self, String> {
        lab.clear()?;
        let args = AccountArgs {
            transport,
            procedure,
            waiting,
            processors: Processors::Two,
            rounds: (lab.args.ms / 250).clamp(2, 20),
            no_kernel: false,
            model: false,
            svg: None,
            svg_narrow: None,
            json: true,
        };
        lab.now("the account of a call");
        account::of_call(&args, lab.sides(Processors::Two)?, &lab.network).map(Self)
    }

    /// All steps whose names begin with one of these words, added up.
    pub(crate) fn named(&self, beginnings: &[&str]) -> Figure {
        self.sum(self.0.steps.iter().filter(|step| beginnings.iter().any(|word| step.name.starts_with(word))))
    }

    /// All steps in the stubs and the run time of both ends.
    pub(crate) fn user(&self) -> Figure {
        self.sum(self.0.steps.iter().filter(|step| step.place != Place::Between))
    }

    /// The steps of the call packet between the processes.
    pub(crate) fn call_packet(&self) -> Way<'_> {
        self.way(0)
    }

    /// The steps of the result packet between the processes.
    pub(crate) fn result_packet(&self) -> Way<'_> {
        self.way(1)
    }

    fn way(&self, nth: usize) -> Way<'_> {
        let mut runs = self.0.steps.chunk_by(|one, other| one.place == other.place);
        let steps = runs.by_ref().filter(|run| run[0].place == Place::Between).nth(nth).unwrap_or_default();
        Way { parts: self, steps }
    }

    /// The sum of the steps.
    pub(crate) fn accounted(&self) -> Figure {
        let Account { accounted, .. } = &self.0;
        figure(accounted.ns, accounted.low_ns, accounted.high_ns, accounted.calls)
    }

    /// The call without instruments.
    pub(crate) fn plain(&self) -> Figure {
        let Account { plain, .. } = &self.0;
        figure(plain.ns, plain.low_ns, plain.high_ns, plain.calls)
    }

    fn sum<'a>(&self, steps: impl Iterator<Item = &'a Step>) -> Figure {
        let (ns, low, high) = steps
            .fold((0.0, 0.0, 0.0), |sum, step| (sum.0 + step.ns, sum.1 + step.low_ns, sum.2 + step.high_ns));
        figure(ns, low, high, self.0.stamped.calls)
    }
}

/// The steps of one packet between the processes.
pub(crate) struct Way<'a> {
    parts: &'a Parts,
    steps: &'a [Step],
}

impl Way<'_> {
    /// The sum of all its steps.
    pub(crate) fn whole(&self) -> Figure {
        self.parts.sum(self.steps.iter())
    }

    /// The steps that end at one of these tracepoints; `None` where the kernel is one step.
    pub(crate) fn until(&self, tracepoints: &[&str]) -> Option<Figure> {
        let ends = |step: &Step| tracepoints.iter().any(|name| step.name.contains(&format!("({name})")));
        (self.steps.len() > 1).then(|| self.parts.sum(self.steps.iter().filter(|step| ends(step))))
    }

    /// The steps that end at none of these tracepoints; `None` where the kernel is one step.
    pub(crate) fn but(&self, tracepoints: &[&str]) -> Option<Figure> {
        let ends = |step: &Step| tracepoints.iter().any(|name| step.name.contains(&format!("({name})")));
        (self.steps.len() > 1).then(|| self.parts.sum(self.steps.iter().filter(|step| !ends(step))))
    }
}

/// A figure with one sample, its mean over the typical calls of all rounds: an account has no slices.
fn figure(mean_ns: f64, low_ns: f64, high_ns: f64, calls: usize) -> Figure {
    let [median, low, high] = [mean_ns, low_ns, high_ns].map(|ns| ns * US);
    Figure::of_quartiles(Quartiles { low, median, high }, calls as u64)
}
