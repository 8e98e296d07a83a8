//! The progress bar of a measurement: how much of it is done, and about how much time is left. It is shown on a terminal only.

use crate::screen;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that is drawn only between measurements: a thread that redraws would take the processor from a caller.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of a measurement of so many steps.
    pub(crate) fn of(steps: u64) -> Self {
        let style = ProgressStyle::with_template("{bar:24} {msg}, {pos} of {len}, about {eta} left");
        Self(ProgressBar::new(steps).with_style(style.expect("the template is well formed")))
    }

    /// Shows the name of the present measurement.
    pub(crate) fn show(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// So many steps are done.
    pub(crate) fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Prints a line above the bar, on standard output; in several lines if the terminal is narrow.
    pub(crate) fn print(&self, line: &str) {
        self.0.suspend(|| screen::print(line));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
