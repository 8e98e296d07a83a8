//! Firefly §4.2: the time that each improvement would save, predicted before it is tried, and measured by doing it.

mod busy_wait;
mod controllers;
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
use paper::{MAX_RESULT, NULL};

pub(crate) const TABLES: &[Entry] = &[Entry {
    name: "what-if",
    title: "Firefly §4.2: what the improvements would bring",
    how: "Null() and MaxResult(b) by one caller, on a processor each, spinning unless said otherwise. Each improvement has a line \
          for the call before it and one for the call with it, measured in turn. The prediction is made from the call before: of its \
          time, the part that the improvement concerns (the bare exchange of as many bytes, steps of `stoop account`, the bits on the \
          wire) is replaced by the time of that part with the improvement. The paper's values are its call of 2660 and 6350 µs less \
          its estimate.",
    figures: 70,
    measure,
}];

fn measure(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for call in [&NULL, &MAX_RESULT] {
        let mut group = improvements::of_call(lab, call);
        group.lines.extend(predicted::lines(lab, call)?);
        groups.push(group);
    }
    groups.push(controllers::segmentation(lab));
    Ok(groups)
}
