//! Another network controller: another way between the kernel and the program, and one that cuts long messages into packets.

use super::paper::Call;
use super::tried::{Tried, by_floors, cells_in_turn, in_proportion, in_turn};
use crate::args::{Procedure, Transport};
use crate::plan::Cell;
use crate::tables::lab::{Lab, spinning};
use crate::tables::model::Group;

/// AF_XDP instead of a packet ring.
pub(super) fn replaced(lab: &mut Lab<'_>, call: &Call, transport: Transport) -> Result<Tried, String> {
    let [before, after] = [Transport::Ether, transport].map(|transport| spinning(transport, call.procedure));
    Ok(by_floors("a packet ring", cells_in_turn(lab, &before, &after)?))
}

const LONG: u32 = 1 << 20;

/// Segmentation by the network device (GSO): the veth pair hands a train of packets over as one, and the receiver's kernel passes it
/// on as one (GRO). Without it the kernel cuts the train before the device, and each packet takes the rest of the way alone.
///
/// The library's work, too, is that of each packet: with fewer packets it shrinks as the kernel's does.
pub(super) fn segmentation(lab: &mut Lab<'_>) -> Group {
    let mut lines = Vec::new();
    for (name, procedure) in [
        ("different controller: segmentation, 1 MiB in", Procedure::BulkIn),
        ("different controller: segmentation, 1 MiB out", Procedure::BulkOut),
    ] {
        let cell = Cell { bytes: LONG, ..spinning(Transport::Udp, procedure) };
        let tried = in_turn(lab, [&cell, &cell], |lab, segment| lab.network.offload_segmentation(segment));
        // As a veth pair does unless it is told otherwise.
        let tried = lab.network.offload_segmentation(true).and(tried);
        let from = "UDP, packets cut before the device";
        lines.extend(Tried::lines(tried.map(|measured| in_proportion(from, measured)), name, None));
    }
    Group::new("Long arguments and results", "µs", lines)
}
