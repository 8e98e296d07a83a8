//! The progress bar of an account.

use indicatif::{ProgressBar, ProgressStyle};

/// Drawn only between rounds: a thread that redraws would take the processor from the caller.
pub(super) fn progress(round: &'static str, rounds: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {msg} {pos} of {len}, about {eta} left");
    let bar = ProgressBar::new(rounds.into()).with_message(round);
    bar.with_style(style.expect("the template is well formed"))
}
