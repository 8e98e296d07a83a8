//! A run as one JSON object, with the samples of each figure.

use crate::tables::report::Report;

/// The object and a newline.
pub(crate) fn object(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("a report is numbers and names") + "\n"
}
