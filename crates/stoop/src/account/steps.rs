//! The steps of sampled calls, as accounts tell them.

use crate::account::histogram::Histogram;
use std::fmt::{Display, Formatter, Result};

/// The steps of a procedure's sampled calls, at the caller or at the server.
///
/// ```
/// use stoop::account::ProcedureSteps;
///
/// /// The step that takes longest in the middle.
/// fn longest(steps: &ProcedureSteps) -> Option<&str> {
///     let in_sum = steps.steps.iter().filter(|step| !step.is_beside);
///     in_sum.max_by_key(|step| step.time.quantile(0.5)).map(|step| step.name.as_str())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct ProcedureSteps {
    /// The interface.
    pub interface: String,
    /// The procedure.
    pub procedure: String,
    /// In the order of a call.
    pub steps: Vec<Step>,
    /// For each sampled call the sum of its steps.
    pub sum: Histogram,
}

/// A step of sampled calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct Step {
    /// The work that is done in it.
    pub name: String,
    /// How long it took. What the stamps took is taken out.
    pub time: Histogram,
    /// It goes on at the same time as the steps behind it, and is not in the sum.
    pub is_beside: bool,
}

impl ProcedureSteps {
    /// Number of sampled calls.
    pub fn calls(&self) -> u64 {
        self.sum.count()
    }

    /// The step of that name, if there is one.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

/// A table: of each step median, mean, share of the median sum, and quartiles, in nanoseconds.
impl Display for ProcedureSteps {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { interface, procedure, steps, sum } = self;
        let name = format!("{interface}.{procedure}");
        writeln!(f, "{name:<52}{:>11}{:>11}{:>9}   quartiles", "median, ns", "mean", "share")?;
        let whole = ns(sum, 0.5);
        for step in steps {
            let name = if step.is_beside { format!("({})", step.name) } else { step.name.clone() };
            line(f, &name, &step.time, whole)?;
        }
        line(f, "the steps of each call added up", sum, whole)?;
        writeln!(f, "  {} sampled calls; a step in brackets goes on beside those behind it.", sum.count())
    }
}

fn line(f: &mut Formatter<'_>, name: &str, time: &Histogram, whole: u128) -> Result {
    let share = 100.0 * ns(time, 0.5) as f64 / whole.max(1) as f64;
    let [low, median, high] = [0.25, 0.5, 0.75].map(|quantile| ns(time, quantile));
    let mean = time.mean().map_or(0, |time| time.as_nanos());
    writeln!(f, "  {name:<50}{median:>11}{mean:>11}{share:>8.1}%   {low}–{high}")
}

fn ns(time: &Histogram, quantile: f64) -> u128 {
    time.quantile(quantile).map_or(0, |time| time.as_nanos())
}
