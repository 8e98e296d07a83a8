//! The two calls that Firefly §4.2 takes apart, and its estimates in microseconds.

use crate::args::Procedure;

/// One of the two calls.
pub(super) struct Call {
    pub(super) title: &'static str,
    pub(super) procedure: Procedure,
    /// Bytes of the result.
    pub(super) result: usize,
    pub(super) paper: Savings,
}

/// The paper's call, and the time that each improvement would save.
pub(super) struct Savings {
    pub(super) call: f64,
    pub(super) controller: f64,
    pub(super) network: f64,
    pub(super) processors: f64,
    pub(super) checksums: f64,
    pub(super) header: f64,
    pub(super) layering: f64,
    pub(super) busy_wait: f64,
    pub(super) recoding: f64,
    /// The stubs of the RPC Exerciser (§5): those that marshal take so much longer.
    pub(super) stubs: f64,
}

pub(super) const NULL: Call = Call {
    title: "Null()",
    procedure: Procedure::Null,
    result: 0,
    paper: Savings {
        call: 2660.0,
        controller: 300.0,
        network: 110.0,
        processors: 1380.0,
        checksums: 180.0,
        header: 200.0,
        layering: 100.0,
        busy_wait: 440.0,
        recoding: 280.0,
        stubs: 140.0,
    },
};

pub(super) const MAX_RESULT: Call = Call {
    title: "MaxResult(b)",
    procedure: Procedure::MaxResult,
    result: 1440,
    paper: Savings {
        call: 6350.0,
        controller: 1800.0,
        network: 1160.0,
        processors: 2280.0,
        checksums: 1000.0,
        header: 200.0,
        layering: 100.0,
        busy_wait: 440.0,
        recoding: 280.0,
        stubs: 600.0,
    },
};
