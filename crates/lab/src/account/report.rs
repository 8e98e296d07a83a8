//! The account as a table and as JSON.

use super::model::Model;
use super::steps::{Account, Place, Step};
use crate::args::{AccountArgs, Transport, name_of};
use crate::screen;
use serde::Serialize;
use std::fmt::Write;

/// The conditions of a measurement, for the head of a table or the fields of a JSON object.
#[derive(Clone, Debug, Serialize)]
pub(super) struct About {
    pub(super) transport: String,
    pub(super) procedure: String,
    pub(super) waiting: String,
    pub(super) processors: u32,
    /// Kind of the network, where packets go through one.
    pub(super) network: Option<&'static str>,
    pub(super) machine: String,
    /// Why the kernel is one step, where it is.
    pub(super) kernel: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    about: &'a About,
    #[serde(flatten)]
    account: &'a Account,
    models: &'a [Model],
}

impl About {
    pub(super) fn new(args: &AccountArgs, network: &'static str, kernel: Option<String>) -> Self {
        Self {
            transport: name_of(args.transport),
            procedure: name_of(args.procedure),
            waiting: name_of(args.waiting),
            processors: args.processors.number(),
            network: (!matches!(args.transport, Transport::Unix | Transport::Shm)).then_some(network),
            machine: crate::machine::describe(),
            kernel,
        }
    }

    /// The procedure as the papers write it.
    fn call(&self) -> &str {
        match self.procedure.as_str() {
            "null" => "Null()",
            "max-arg" => "MaxArg(b)",
            "max-result" => "MaxResult(b)",
            other => other,
        }
    }

    /// The call in words.
    pub(super) fn title(&self) -> String {
        let processors = if self.processors == 1 { "one processor" } else { "two processors" };
        let network = self.network.map(|name| format!(" ({name})")).unwrap_or_default();
        let Self { transport, waiting, .. } = self;
        format!("{} over {transport}{network}, {waiting}, {processors}", self.call())
    }
}

/// One JSON object in a line.
pub(super) fn json(about: &About, account: &Account, models: &[Model]) -> String {
    serde_json::to_string(&Object { about, account, models }).expect("an account is numbers and names")
}

/// The table.
pub(super) fn table(about: &About, account: &Account) -> String {
    let mut text = format!("{}\n{}\n\n", about.title(), about.machine);
    let total_ns = account.plain.ns;
    let width = name_width();
    let _ = writeln!(text, "{:<width$} {:>9} {:>7}   quartiles", "step", "ns", "share");
    let mut place = None;
    for step in &account.steps {
        if place.replace(step.place) != Some(step.place) {
            let _ = writeln!(text, "{}", heading(step.place));
        }
        let _ = writeln!(text, "{}", line(step, total_ns));
    }
    let unaccounted_ns = total_ns - account.accounted.ns;
    let share = |ns: f64| 100.0 * ns / total_ns;
    let figure = |name: &str, ns: f64| format!("{name:<width$} {ns:>9.0} {:>6.1}%", share(ns));
    let _ = writeln!(text, "\n{}", figure("accounted (the steps added up)", account.accounted.ns));
    let _ = writeln!(text, "{}", figure("unaccounted", unaccounted_ns));
    let _ = writeln!(text, "{}", figure("the call without instruments", total_ns));
    text + &notes(about, account)
}

fn notes(about: &About, account: &Account) -> String {
    let Account { plain, stamped, accounted, stamp_ns, .. } = account;
    let mut text = format!(
        "\nRound by round the steps are {:.1} % of the call without instruments ({:.1}–{:.1}).\n\
         Calls: {} without instruments (quartiles {:.0}–{:.0} ns), {} with stamps ({} left out). \
         A stamp takes {:.1} ns, taken out;\nwith them a call took {:.0} ns (quartiles of the sums {:.0}–{:.0}).\n",
        100.0 * account.ratio,
        100.0 * account.ratio_low,
        100.0 * account.ratio_high,
        plain.calls,
        plain.low_ns,
        plain.high_ns,
        stamped.calls,
        account.left_out,
        stamp_ns,
        stamped.ns,
        accounted.low_ns,
        accounted.high_ns,
    );
    if account.tick_ns >= COARSE_NS {
        let _ = writeln!(
            text,
            "The cycle counter ticks every {:.0} ns: quartiles of short steps are multiples of that, the steps themselves means over \
             {} calls.",
            account.tick_ns, account.accounted.typical,
        );
    }
    if let Some(why) = &about.kernel {
        let _ = writeln!(text, "{why}.");
    }
    if let Some(why) = &account.doubt {
        let _ = writeln!(text, "The account is doubtful: {why}. Measure again, with more rounds.");
    }
    if let Some(why) = &account.noise {
        let _ = writeln!(text, "The machine was noisy: {why}. Stop other programs, and measure again.");
    }
    text
}

/// Characters of the column of names: figures and quartiles need 34.
fn name_width() -> usize {
    screen::width().saturating_sub(34).min(76)
}

/// Quartiles are shown to the nanosecond, and known to the tick of the counter. Most counters tick within half a nanosecond.
const COARSE_NS: f64 = 2.0;

fn heading(place: Place) -> &'static str {
    match place {
        Place::Caller => " caller",
        Place::Between => " between",
        Place::Server => " server",
    }
}

fn line(step: &Step, total_ns: f64) -> String {
    let Step { name, ns, low_ns, high_ns, .. } = step;
    let (above, name) = screen::label(&format!("  {}", screen::shortened(name, 74)), name_width());
    // No -0 for a step that takes less than a stamp is uncertain.
    let ns = &(ns.round() + 0.0);
    format!("{above}{name} {ns:>9.0} {:>6.1}%   {low_ns:.0}–{high_ns:.0}", 100.0 * ns / total_ns)
}
