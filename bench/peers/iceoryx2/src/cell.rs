//! What is measured: a procedure, how both ends wait, and on how many processors they are.

use std::fmt::{self, Display, Formatter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Spin,
    Yield,
    Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Procedure {
    Null,
    MaxArg,
    MaxResult,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) procedure: Procedure,
    pub(crate) waiting: Waiting,
    pub(crate) processors: u8,
}

impl Waiting {
    /// How Stoop waits beside it: what each way is for.
    pub(crate) fn of_stoop(self) -> &'static str {
        match self {
            Waiting::Spin => "spin",
            Waiting::Yield => "adaptive",
            Waiting::Event => "block",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Waiting::Spin => "spin",
            Waiting::Yield => "yield",
            Waiting::Event => "event",
        }
    }
}

impl Procedure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Procedure::Null => "null",
            Procedure::MaxArg => "max-arg",
            Procedure::MaxResult => "max-result",
        }
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.procedure.name(), self.waiting.name(), self.processors)
    }
}

/// All of them except spinning on a shared processor, which is of no use.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for procedure in [Procedure::Null, Procedure::MaxArg, Procedure::MaxResult] {
        for processors in [2, 1] {
            for waiting in [Waiting::Spin, Waiting::Yield, Waiting::Event] {
                if (waiting, processors) != (Waiting::Spin, 1) {
                    cells.push(Cell { procedure, waiting, processors });
                }
            }
        }
    }
    cells
}

/// A cell as it is displayed.
pub(crate) fn parse(word: &str) -> Option<Cell> {
    all().into_iter().find(|cell| cell.to_string() == word)
}
