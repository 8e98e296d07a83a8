//! A run as one JSON object, with the samples that each figure is the median of.

use crate::tables::report::Report;

/// The object, and a new line.
pub(crate) fn object(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("a report is numbers and names") + "\n"
}
