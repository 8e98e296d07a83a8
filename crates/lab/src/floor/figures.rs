//! The floors of the reference machine when nothing disturbs it, and the comparison of a measured floor with them.
//!
//! The machine is a KVM guest with two virtual processors (Sapphire Rapids class) under Linux 6.18; figures are medians of p50
//! over many runs. A floor far above its figure was measured while the machine was slower, or on another machine: the ratio still
//! compares two things measured in turn, but says little about the reference machine.

use super::waits::{Wait, Waits};
use crate::args::{Procedure, Processors, Transport};
use crate::plan::{Cell, Shape};

/// A floor this many times its figure is void.
pub(crate) const VOID_ABOVE: f64 = 1.3;

/// The reference floor of a cell in nanoseconds, where it is known. `private` is a veth pair rather than loopback.
pub(crate) fn reference_ns(cell: &Cell, private: bool) -> Option<f64> {
    use Processors::{One, Two};
    use Transport::{Ether, EtherXdp, EtherXdpGeneric, Local, Shm, Tcp, Udp, Unix};
    use Wait::{Block, Spin};
    let unlike_theirs = cell.link_rate.is_some() || cell.silence.is_some() || cell.busy;
    if cell.callers > 1 || cell.shape() == Shape::Rates || unlike_theirs {
        return None;
    }
    // One caller waits as its server does.
    let wait = Waits::of(cell).server;
    let of_null = match (cell.transport, private, cell.processors, wait) {
        (Local, ..) => 1.5,
        (Unix, _, Two, Spin) => 3_740.0,
        (Unix, _, Two, Block) => 73_000.0,
        (Unix, _, One, Block) => 4_540.0,
        (Udp, true, Two, Spin) => 4_080.0,
        (Udp, true, One, Block) => 5_215.0,
        (Udp, false, Two, Spin) => 3_760.0,
        (Udp, false, One, Block) => 4_860.0,
        (Udp, _, Two, Block) => 87_000.0,
        (Tcp, true, Two, Spin) => 6_590.0,
        (Tcp, true, Two, Block) => 81_000.0,
        (Tcp, true, One, Block) => 6_245.0,
        (Shm, _, Two, Spin) => 335.0,
        (Shm, _, Two, Block) => 75_000.0,
        (Shm, _, One, Block) => 2_350.0,
        (Ether, _, Two, Spin) => 1_940.0,
        (Ether, _, Two, Block) => 76_000.0,
        (Ether, _, One, Block) => 5_160.0,
        (EtherXdpGeneric, _, Two, Spin) => 2_430.0,
        (EtherXdpGeneric, _, Two, Block) => 72_000.0,
        (EtherXdpGeneric, _, One, Block) => 4_980.0,
        (EtherXdp, _, Two, Spin) => 3_470.0,
        (EtherXdp, _, Two, Block) => 71_000.0,
        (EtherXdp, _, One, Block) => 5_010.0,
        (Tcp, false, ..) | (_, _, One, Spin) => return None,
    };
    match (cell.procedure, cell.transport, private, wait) {
        (Procedure::Null, ..) => Some(of_null),
        // A packet of 1440 bytes one way costs the same whichever way it goes.
        (_, Udp, true, Spin) => Some(4_510.0),
        (_, Tcp, true, Spin) => Some(6_940.0),
        (_, Shm, _, Spin) => Some(1_000.0),
        _ => None,
    }
}

/// Whether a floor says that this machine is not now what the figures were measured on.
pub(crate) fn is_void(measured_ns: f64, reference_ns: Option<f64>) -> bool {
    reference_ns.is_some_and(|reference| measured_ns > VOID_ABOVE * reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Waiting;

    fn cell(transport: Transport, procedure: Procedure, waiting: Waiting, processors: Processors) -> Cell {
        Cell { transport, procedure, waiting, processors, ..Cell::NULL }
    }

    #[test]
    fn the_adaptive_wait_is_held_to_the_better_floor() {
        let on = |processors| cell(Transport::Udp, Procedure::Null, Waiting::Adaptive, processors);
        assert_eq!(reference_ns(&on(Processors::Two), true), Some(4_080.0));
        assert_eq!(reference_ns(&on(Processors::One), true), Some(5_215.0));
    }

    #[test]
    fn a_floor_is_void_only_against_a_known_figure() {
        assert!(is_void(5_400.0, Some(4_080.0)));
        assert!(!is_void(5_200.0, Some(4_080.0)));
        assert!(!is_void(1e9, None));
    }

    #[test]
    fn several_callers_have_no_reference() {
        let several =
            Cell { callers: 2, ..cell(Transport::Udp, Procedure::Null, Waiting::Adaptive, Processors::Two) };
        assert_eq!(reference_ns(&several, true), None);
    }
}
