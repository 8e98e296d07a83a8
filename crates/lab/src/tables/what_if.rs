//! Firefly §4.2: the time that each improvement would save, predicted before it is tried, and measured by doing it.

mod controllers;
mod copies;
pub(super) mod exerciser;
pub(super) mod headers;
mod improvements;
mod of_call;
mod order;
mod paper;
mod phases;
mod setting;
mod sums;
mod tried;

use super::entry::Entry;
use paper::{MAX_RESULT, NULL};

pub(crate) const TABLES: &[Entry] = &[
    Entry {
        name: "what-if-1",
        title: "Firefly §4.2: what the improvements would bring to Null()",
        how: HOW,
        figures: 38,
        measure: |lab| of_call::groups(lab, &NULL),
    },
    Entry {
        name: "what-if-2",
        title: "Firefly §4.2: what the improvements would bring to MaxResult(b)",
        how: HOW,
        figures: 38,
        measure: |lab| of_call::groups(lab, &MAX_RESULT),
    },
    Entry {
        name: "what-if-3",
        title: "What a controller that cuts messages into packets brings to long calls",
        how: "Arguments and results of 1 MiB over UDP, a processor each, spinning. Before it, the kernel cuts what the sender hands \
              over into packets in front of the device; with it, the device takes many packets as one, and the receiver's kernel \
              passes them on as one. Predicted first, from the call before it and from bare exchanges; then both are measured in turn.",
        figures: 10,
        measure: |lab| Ok(controllers::segmentation(lab)),
    },
];

const HOW: &str = "By one caller, on a processor each, spinning unless said otherwise. First all savings are predicted: from calls as \
    they are, steps of `stoop account`, bare exchanges of the old mechanism and of the new one, loops, and the bits on the wire. \
    Then each improvement is made, and the call before it and with it is measured in turn. *off* is the difference of the prediction \
    from the measured saving, as a share of that saving. The paper's times are its calls of 2660 and 6350 µs less its estimates.";
