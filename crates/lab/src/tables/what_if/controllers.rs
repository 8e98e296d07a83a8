//! Another network controller: one that cuts long messages into packets.

use super::copies::receive_us;
use super::phases::{Improving, Prediction, Present};
use super::setting::{Feature, Of, Setting, in_turn};
use super::tried::{Attempt, lines};
use crate::args::{Procedure, Transport};
use crate::plan::Cell;
use crate::tables::lab::{Lab, spinning};
use crate::tables::model::{Figure, Group, Line};

const LONG: u32 = 1 << 20;
const NAMES: [(&str, Procedure); 2] = [
    ("different controller: segmentation, 1 MiB in", Procedure::BulkIn),
    ("different controller: segmentation, 1 MiB out", Procedure::BulkOut),
];
const FROM: &str = "UDP, packets cut before the device";
const REASON: &str = "the account has no steps for the packets of a long message, and the prediction counts one of their copies and \
    the headers; the rest, some tens of nanoseconds a packet, is the work on the packets that neither end hides";

/// Segmentation by the network device (GSO): the veth pair hands a train of packets over as one, and the receiver's kernel passes it
/// on as one (GRO). Without it the kernel cuts the train before the device, and each packet takes the rest of the way alone.
///
/// Both ends work at once, and the call takes as long as the slower one. Before, that is the kernel of the sender, and the library's
/// work on the bytes of a message is hidden behind it: neither the difference nor the ratio of the call to the bare exchange says how
/// much it is. With segmentation that work comes on top of the bare exchange: at each end a copy, of which one hides the other.
pub(super) fn segmentation(lab: &mut Lab<'_>) -> Vec<Group> {
    let mut present = Present::new(lab);
    let predicted = NAMES.map(|(_, procedure)| predict(&mut present, procedure));
    let mut improving = present.end();
    let mut times = Vec::new();
    let mut saved = Vec::new();
    for ((name, procedure), predicted) in NAMES.into_iter().zip(predicted) {
        let attempt = predicted
            .and_then(|(prediction, floors)| Ok((make(&mut improving, procedure, prediction)?, floors)));
        let (attempt, floors) = match attempt {
            Ok((tried, floors)) => (Attempt::Tried(tried), Some(floors)),
            Err(why) => (Attempt::Failed(why), None),
        };
        let lines = lines(attempt, name, FROM, (None, None), REASON);
        times.extend(lines.times);
        times.extend(floors.into_iter().flat_map(|[cut, whole]| {
            [
                Line::new("before: the bare exchange").today(cut),
                Line::new("the bare exchange with segmentation").today(whole),
            ]
        }));
        saved.push(lines.saved);
    }
    improving.end();
    vec![
        Group::new("Long arguments and results", "µs", times),
        Group::savings("Long arguments and results: saved", "µs", saved),
    ]
}

fn settings(procedure: Procedure) -> [Setting; 2] {
    let cell = Cell { bytes: LONG, ..spinning(Transport::Udp, procedure) };
    [Setting::without(cell, Feature::Segmentation), Setting::of(cell)]
}

/// The bare exchange with segmentation, and one end's work on the bytes.
fn predict(present: &mut Present<'_, '_>, procedure: Procedure) -> Result<(Prediction, [Figure; 2]), String> {
    let [cut, whole] = settings(procedure);
    let before = present.call(&cut, Of::Medians)?;
    let floors = [present.floor(&cut, Of::Medians)?, present.floor(&whole, Of::Medians)?];
    let after = floors[1].median + receive_us(LONG as usize);
    Ok((present.fix(whole.describe(), before.median - after), floors))
}

fn make(
    improving: &mut Improving<'_, '_>,
    procedure: Procedure,
    prediction: Prediction,
) -> Result<super::phases::Tried, String> {
    let [cut, whole] = settings(procedure);
    improving.measure(prediction, |lab| in_turn(lab, [&cut, &whole], Of::Medians, Setting::call))
}
