//! The procedures that are called, and how their results are taken.

use clap::ValueEnum;
use serde::Serialize;

/// A procedure of the Test interface (Firefly §2), or one of those that move many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Procedure {
    Null,
    MaxArg,
    MaxResult,
    BulkIn,
    BulkOut,
    BulkInOut,
    BulkInPlace,
    BulkInPlaceRead,
}

impl Procedure {
    /// The procedures of the paper.
    pub(crate) const PAPER: [Procedure; 3] = [Procedure::Null, Procedure::MaxArg, Procedure::MaxResult];
    /// Those whose messages are as long as one likes.
    pub(crate) const BULK: [Procedure; 3] = [Procedure::BulkIn, Procedure::BulkOut, Procedure::BulkInOut];

    /// Those with data in a buffer that the procedure uses where it lies.
    pub(crate) const IN_PLACE: [Procedure; 2] = [Procedure::BulkInPlace, Procedure::BulkInPlaceRead];

    pub(crate) fn is_bulk(self) -> bool {
        Procedure::BULK.contains(&self) || Procedure::IN_PLACE.contains(&self)
    }

    /// The same with as many bytes as are asked for: MaxArg(b) and MaxResult(b) are not bound to one packet.
    pub(crate) fn of_any_size(self) -> Procedure {
        match self {
            Procedure::MaxArg => Procedure::BulkIn,
            Procedure::MaxResult => Procedure::BulkOut,
            other => other,
        }
    }

    /// Bytes of data in the call and in the result; `bytes` matters to bulk procedures only.
    pub(crate) fn data_lens(self, bytes: usize) -> (usize, usize) {
        match self {
            Procedure::Null => (0, 0),
            Procedure::MaxArg => (DATA_LEN, 0),
            Procedure::MaxResult => (0, DATA_LEN),
            Procedure::BulkIn | Procedure::BulkInPlace | Procedure::BulkInPlaceRead => (bytes, 0),
            Procedure::BulkOut => (0, bytes),
            Procedure::BulkInOut => (bytes, bytes),
        }
    }
}

/// The data of MaxArg(b) and MaxResult(b): what one Ethernet packet holds (Firefly §2).
pub(crate) const DATA_LEN: usize = 1440;

/// How a caller takes the results of its outstanding calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Results {
    /// It waits for the oldest, and takes all that are there.
    Wait,
    /// It polls the calls as futures, each when its waker says so.
    Await,
    /// It waits for any of them (`stoop::wait_any`), and takes that one.
    WaitAny,
    /// Not at all: it detaches the calls, and waits until all have ended.
    Detach,
    /// Not at all: it calls a one-way procedure as often, and waits until all calls have ended.
    OneWay,
}
