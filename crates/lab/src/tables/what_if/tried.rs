//! The lines of a table that show an improvement: the call before it and with it, and the time that it saves.

use super::phases::Tried;
use crate::tables::model::{InRound, Line, Predicted};

/// What became of an improvement.
pub(super) enum Attempt {
    Tried(Tried),
    /// It cannot be made here, for this reason.
    PredictedOnly(InRound, String),
    /// It could not be predicted, and was not measured, for this reason.
    Failed(String),
}

/// The lines of an improvement, in the group of times and in that of savings.
pub(super) struct Lines {
    pub(super) times: Vec<Line>,
    pub(super) saved: Line,
}

/// The lines of the improvement called `name` of the call `from`. The paper has a time for the call with it, and a saving.
pub(super) fn lines(
    attempt: Attempt,
    name: &str,
    from: &str,
    (paper, paper_saves): (Option<f64>, Option<f64>),
    reason: &'static str,
) -> Lines {
    let saved = Line { paper: paper_saves, ..Line::new(name) };
    match attempt {
        Attempt::Tried(Tried { before, after, prediction }) => Lines {
            saved: saved.predicted(Predicted::once(prediction, reason)).today(before.minus(&after)),
            times: vec![
                Line::new(format!("before: {from}")).today(before),
                Line { paper, ..Line::new(name) }.today(after),
            ],
        },
        Attempt::PredictedOnly(prediction, why) => Lines {
            saved: saved.predicted(Predicted::once(prediction, reason)).remark(why),
            times: Vec::new(),
        },
        Attempt::Failed(why) => Lines { saved: saved.remark(why), times: Vec::new() },
    }
}
