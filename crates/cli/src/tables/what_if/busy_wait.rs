//! Busy waiting: both ends look for a packet again and again instead of sleeping until it is there.

use super::paper::Call;
use super::tried::{Tried, cells_in_turn};
use crate::args::{Transport, Waiting};
use crate::plan::Cell;
use crate::tables::lab::{Lab, spinning};
use crate::tables::parts::Parts;

/// The steps of the sleeping call in user space stay; between them is the bare exchange of ends that spin. (The bare exchange of
/// ends that sleep says nothing: how long a processor takes to wake depends on how long it has slept.)
pub(super) fn tried(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let spins = spinning(Transport::Udp, call.procedure);
    let sleeps = Cell { waiting: Waiting::Block, ..spins };
    let parts = Parts::of(lab, Transport::Udp, call.procedure, Waiting::Block)?;
    let [before, after] = cells_in_turn(lab, &sleeps, &spins)?;
    Ok(Tried {
        from: "UDP, threads sleep",
        predicted: parts.user().median + after.floor.median,
        before: before.ours,
        after: after.ours,
    })
}
