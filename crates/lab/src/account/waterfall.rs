//! The picture of one call for a terminal: its steps one below the other, both processes on one time axis.

use super::steps::{Account, Place};
use crate::screen;
use std::fmt::Write;

/// Columns of the bars, where there is room.
const BARS: usize = 64;
/// Letters of a name.
const NAME_MAX: usize = 48;
/// Columns of the figure before the bars, and of the space behind them.
const BESIDE: usize = 11;

/// The picture for a terminal.
pub(super) fn text(account: &Account) -> String {
    let length_ns = length_ns(account);
    let columns = screen::width().clamp(40, BESIDE + BARS + NAME_MAX);
    let bars = (columns - BESIDE) * BARS / (BARS + NAME_MAX);
    let mut text = format!("{:<9} 0 ns{:>width$.0} ns\n", "", length_ns, width = bars - 7);
    for step in &account.steps {
        let begin = (step.begins_ns / length_ns * bars as f64).round() as usize;
        let end = ((step.begins_ns + step.ns) / length_ns * bars as f64).round() as usize;
        let bar = match end.saturating_sub(begin) {
            0 => "▏".into(),
            columns => letter(step.place).repeat(columns),
        };
        let room = columns - BESIDE - end.max(begin + 1);
        let name = screen::shortened(step.name.split(" (").next().unwrap_or_default(), room.min(NAME_MAX));
        // A step that takes less than its stamps are uncertain by takes no time, not less.
        let _ = writeln!(text, "{:>8.0}  {}{bar} {name}", step.ns.max(0.0), " ".repeat(begin));
    }
    text + "(█ caller   ░ between the processes   ▓ server)\n"
}

fn letter(place: Place) -> &'static str {
    match place {
        Place::Caller => "█",
        Place::Between => "░",
        Place::Server => "▓",
    }
}

/// The end of the last step.
fn length_ns(account: &Account) -> f64 {
    account.steps.last().map_or(1.0, |step| step.begins_ns + step.ns).max(1.0)
}
