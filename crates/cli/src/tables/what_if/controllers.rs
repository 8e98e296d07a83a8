//! Another network controller: another way between the kernel and the program, and one that cuts long messages into packets.

use super::copies::receive_us;
use super::paper::Call;
use super::tried::{Measured, Tried, by_floors, cells_in_turn, in_turn};
use crate::args::{Procedure, Transport};
use crate::plan::Cell;
use crate::tables::lab::{Lab, spinning};
use crate::tables::model::{Group, Line};

/// AF_XDP instead of a packet ring.
pub(super) fn replaced(lab: &mut Lab<'_>, call: &Call, transport: Transport) -> Result<Tried, String> {
    let [before, after] = [Transport::Ether, transport].map(|transport| spinning(transport, call.procedure));
    Ok(by_floors("a packet ring", cells_in_turn(lab, &before, &after)?))
}

const LONG: u32 = 1 << 20;

/// Segmentation by the network device (GSO): the veth pair hands a train of packets over as one, and the receiver's kernel passes it
/// on as one (GRO). Without it the kernel cuts the train before the device, and each packet takes the rest of the way alone.
///
/// Both ends work at once, and the call takes as long as the slower one. Before, that is the kernel of the sender, and the library's
/// work on the bytes of a message is hidden behind it: neither the difference nor the ratio of the call to the bare exchange says how
/// much it is. With segmentation that work comes on top of the bare exchange: at each end a copy, of which one hides the other.
pub(super) fn segmentation(lab: &mut Lab<'_>) -> Group {
    let mut lines = Vec::new();
    for (name, procedure) in [
        ("different controller: segmentation, 1 MiB in", Procedure::BulkIn),
        ("different controller: segmentation, 1 MiB out", Procedure::BulkOut),
    ] {
        let cell = Cell { bytes: LONG, ..spinning(Transport::Udp, procedure) };
        let measured = in_turn(lab, [&cell, &cell], |lab, segment| lab.network.offload_segmentation(segment));
        // As a veth pair does unless it is told otherwise.
        match lab.network.offload_segmentation(true).and(measured) {
            Ok(measured) => lines.extend(with_copy(name, measured)),
            Err(why) => lines.extend(Tried::lines(Err(why), name, None)),
        }
    }
    Group::new("Long arguments and results", "µs", lines)
}

/// Predicts the bare exchange with segmentation, and one end's work on the bytes. The bare exchanges are lines of their own.
fn with_copy(name: &str, [before, after]: [Measured; 2]) -> Vec<Line> {
    let predicted = after.floor.median + receive_us(LONG as usize);
    let from = "UDP, packets cut before the device";
    let tried = Tried { from, before: before.ours, predicted, after: after.ours };
    let mut lines = Tried::lines(Ok(tried), name, None);
    let floors =
        [("before: the bare exchange", before.floor), ("the bare exchange with segmentation", after.floor)];
    lines.extend(floors.map(|(name, floor)| Line::new(name).today(floor)));
    lines
}
