//! The parts of `bench --ethernet`.

use clap::ValueEnum;

/// Bars that are measured in turn with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Null() beside bare frames, and beside Null() over UDP; both ends spin.
    Null,
    /// MaxResult(1440) beside bare frames; both ends spin.
    MaxResult,
    /// Long arguments and results with a checksum in each frame, beside bare frames without.
    Bulk,
    /// The same without checksums.
    BulkUnchecked,
    /// 32 outstanding calls of Null() beside as many over UDP.
    InFlight,
    /// 8 caller threads beside one.
    Callers,
    /// One busy client beside 63 idle ones.
    Lanes,
}
