//! How both ends of the floor wait.

use crate::args::{Processors, Waiting};
use crate::plan::{Cell, Shape};
use rustix::net::RecvFlags;

/// How one end of the floor waits for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Spin,
    Block,
}

/// How both ends of the floor wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) caller: Wait,
    pub(crate) server: Wait,
}

impl Waits {
    const SPIN: Waits = Waits { caller: Wait::Spin, server: Wait::Spin };
    pub(super) const BLOCK: Waits = Waits { caller: Wait::Block, server: Wait::Block };
    /// The server has slept since the last call, and is woken; its caller looks for the answer.
    const CALLER_SPINS: Waits = Waits { caller: Wait::Spin, server: Wait::Block };
    /// One thread of the server spins for all callers, which share the other processor.
    const SERVER_SPINS: Waits = Waits { caller: Wait::Block, server: Wait::Spin };

    /// The same as ours; beside the adaptive wait, what suits the placement.
    ///
    /// Several callers share one processor in every placement. Beside the adaptive wait they block: spinning, they would take turns
    /// of a scheduler's time slice, and each would wait milliseconds for its turn.
    pub(crate) fn of(cell: &Cell) -> Self {
        let together = cell.shape() == Shape::Rates && cell.callers > 1;
        match (cell.waiting, cell.processors, cell.callers) {
            (Waiting::Adaptive, Processors::Two, 1) if cell.silence.is_some() => Waits::CALLER_SPINS,
            // Many bytes are received by a thread for each caller. A thread that spins while a slow link is busy keeps the
            // kernel's thread, which feeds the link, from running. And no thread spins through silence.
            (Waiting::Adaptive, ..) if together || cell.link_rate.is_some() || cell.silence.is_some() => {
                Waits::BLOCK
            }
            (Waiting::Block, ..) | (Waiting::Adaptive, Processors::One, _) => Waits::BLOCK,
            (Waiting::Spin, ..) | (Waiting::Adaptive, Processors::Two, 1) => Waits::SPIN,
            (Waiting::Adaptive, Processors::Two, _) => Waits::SERVER_SPINS,
        }
    }
}

impl Wait {
    /// Of what an argument says, which is never the adaptive wait.
    pub(super) fn of(waiting: Waiting) -> Self {
        if waiting == Waiting::Spin { Wait::Spin } else { Wait::Block }
    }

    pub(super) fn waiting(self) -> Waiting {
        match self {
            Wait::Spin => Waiting::Spin,
            Wait::Block => Waiting::Block,
        }
    }

    pub(super) fn flags(self) -> RecvFlags {
        match self {
            Wait::Spin => RecvFlags::DONTWAIT,
            Wait::Block => RecvFlags::empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{LinkRate, Procedure, Silence};

    fn cell(procedure: Procedure) -> Cell {
        Cell { procedure, ..Cell::NULL }
    }

    fn waits(callers: u16, waiting: Waiting, processors: Processors) -> Waits {
        Waits::of(&Cell { callers, waiting, processors, ..cell(Procedure::Null) })
    }

    #[test]
    fn beside_the_adaptive_wait_the_floor_waits_the_best_way() {
        assert_eq!(waits(1, Waiting::Adaptive, Processors::Two), Waits::SPIN);
        assert_eq!(waits(1, Waiting::Adaptive, Processors::One), Waits::BLOCK);
    }

    #[test]
    fn the_floor_waits_as_it_was_told() {
        for (processors, callers) in [(Processors::One, 1), (Processors::Two, 1), (Processors::Two, 8)] {
            assert_eq!(waits(callers, Waiting::Spin, processors), Waits::SPIN);
            assert_eq!(waits(callers, Waiting::Block, processors), Waits::BLOCK);
        }
    }

    #[test]
    fn beside_the_adaptive_wait_callers_that_share_a_processor_do_not_spin() {
        assert_eq!(waits(2, Waiting::Adaptive, Processors::Two), Waits::SERVER_SPINS);
        assert_eq!(waits(2, Waiting::Adaptive, Processors::One), Waits::BLOCK);
    }

    #[test]
    fn the_floor_beside_adaptive_waiting_does_not_spin_through_a_slow_call() {
        let slow = Cell { link_rate: Some(LinkRate { mbits: 10 }), ..cell(Procedure::BulkIn) };
        assert_eq!(Waits::of(&slow), Waits::BLOCK);
        assert_eq!(Waits::of(&cell(Procedure::BulkIn)), Waits::SPIN);
    }

    #[test]
    fn beside_the_adaptive_wait_no_server_spins_through_silence() {
        let silent = Cell { silence: Some(Silence { ms: 10 }), ..cell(Procedure::Null) };
        assert_eq!(Waits::of(&silent), Waits::CALLER_SPINS);
        assert_eq!(Waits::of(&Cell { processors: Processors::One, ..silent }), Waits::BLOCK);
    }
}
