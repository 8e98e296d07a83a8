//! Firefly §4.2: the time that each improvement would save, predicted before it is tried, and measured by doing it.

mod busy_wait;
mod controllers;
mod copies;
pub(super) mod exerciser;
pub(super) mod headers;
mod improvements;
mod paper;
mod predicted;
mod sums;
mod tried;

use super::entry::Entry;
use super::lab::Lab;
use super::model::Group;
use paper::{Call, MAX_RESULT, NULL};

pub(crate) const TABLES: &[Entry] = &[
    Entry {
        name: "what-if-1",
        title: "Firefly §4.2: what the improvements would bring to Null()",
        how: HOW,
        figures: 34,
        measure: |lab| of_call(lab, &NULL),
    },
    Entry {
        name: "what-if-2",
        title: "Firefly §4.2: what the improvements would bring to MaxResult(b)",
        how: HOW,
        figures: 34,
        measure: |lab| of_call(lab, &MAX_RESULT),
    },
    Entry {
        name: "what-if-3",
        title: "What a controller that cuts messages into packets brings to long calls",
        how: "Arguments and results of 1 MiB over UDP, a processor each, spinning. Before it, the kernel cuts what the sender hands \
              over into packets in front of the device; with it, the device takes many packets as one, and the receiver's kernel \
              passes them on as one. Both are measured in turn.",
        figures: 4,
        measure: |lab| Ok(vec![controllers::segmentation(lab)]),
    },
];

const HOW: &str = "By one caller, on a processor each, spinning unless said otherwise. Each improvement has a line for the call \
    before it and one for the call with it, measured in turn. The prediction is made from the call before: of its time, the part \
    that the improvement concerns (the bare exchange of as many bytes, steps of `stoop account`, the bits on the wire) is replaced \
    by the time of that part with the improvement. The paper's values are its call of 2660 and 6350 µs less its estimate.";

fn of_call(lab: &mut Lab<'_>, call: &Call) -> Result<Vec<Group>, String> {
    let mut group = improvements::of_call(lab, call);
    group.lines.extend(predicted::lines(lab, call)?);
    Ok(vec![group])
}
