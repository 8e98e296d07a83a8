//! The server's clock, as it was when the server handed the memory over.
//!
//! Deadlines in requests are of the server's monotonic clock. Where the two ends are in different time namespaces
//! (time_namespaces(7)), that of the caller has another origin, and the caller corrects what it writes.

use crate::Segment;
use crate::layout::CLOCK;

/// The server's side, before it hands the memory over: its clock is at `now_ns` now.
pub fn tell(segment: &Segment, now_ns: u64) {
    segment.put_word(CLOCK, now_ns);
}

/// The caller's side: how far the server's clock is ahead of its own, in nanoseconds. It asked for the memory at `asked_ns` of its own
/// clock, and got it at `received_ns`.
///
/// 0 where the server's clock can be the same. Otherwise more than is true by at most the time between the two: a deadline that is
/// corrected by it is not early.
pub fn ahead_ns(segment: &Segment, asked_ns: u64, received_ns: u64) -> i64 {
    let told_ns = segment.get_word(CLOCK);
    match (asked_ns..=received_ns).contains(&told_ns) {
        true => 0,
        false => told_ns.wrapping_sub(asked_ns).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_can_be_the_same_are_taken_as_the_same_and_others_never_make_a_deadline_early() {
        let (segment, _file) = Segment::create().unwrap();
        for (told_ns, ahead_ns) in [(1000, 0), (1500, 0), (2000, 0), (2001, 1001), (999, -1), (0, -1000)] {
            tell(&segment, told_ns);
            assert_eq!(super::ahead_ns(&segment, 1000, 2000), ahead_ns, "{told_ns}");
        }
    }
}
