//! A thread passes a point: it notes the point if that is on, for all calls or for a sample.

use crate::switches::{self, COUNTS};
use crate::{Point, recording, sampling};

#[inline(always)]
pub(crate) fn stamp(point: Point) {
    let on = switches::on();
    if on & (1 << point.number()) == 0 {
        return;
    }
    // Inline: this is all that sampling adds to a call that is not sampled.
    let is_first = matches!(point, Point::StubBegun | Point::CallSeen);
    if is_first && on & COUNTS != 0 && !sampling::is_due(point) {
        return;
    }
    stamp_on(point);
}

/// Out of line: eighteen copies in a call would take the place of other code in the processor's cache.
#[inline(never)]
fn stamp_on(point: Point) {
    match switches::are_for_all() {
        true => recording::record(point),
        false => sampling::stamp(point),
    }
}

/// Switches on exactly these points for all calls.
pub(crate) fn switch_on(points: &[Point]) {
    switches::switch_on(points.iter().fold(0, |on, point| on | 1 << point.number()));
}
