//! The time left to the deadline of a call, as a time word on the wire.
//!
//! With the top bit clear the word counts microseconds, up to 35 minutes and 47 seconds. With the top bit set its other
//! bits count milliseconds, up to 24 days and 20 hours. If all bits are set, the time is longer, or there is no
//! deadline.

/// Bit that says that the word counts milliseconds.
const MILLIS: u32 = 1 << 31;
const NANOS_OF_MICRO: u64 = 1_000;
const NANOS_OF_MILLI: u64 = 1_000_000;

/// The word for so many nanoseconds, rounded down.
#[inline]
pub fn left_of_nanos(nanos: u64) -> u32 {
    let micros = nanos / NANOS_OF_MICRO;
    if micros < u64::from(MILLIS) { micros as u32 } else { long_left(nanos) }
}

#[cold]
fn long_left(nanos: u64) -> u32 {
    u32::try_from(nanos / NANOS_OF_MILLI)
        .map_or(u32::MAX, |millis| if millis < MILLIS { MILLIS | millis } else { u32::MAX })
}

/// Nanoseconds for a time word; [`u64::MAX`] for the word of no deadline.
#[inline]
pub fn nanos_of_left(word: u32) -> u64 {
    if word < MILLIS { u64::from(word) * NANOS_OF_MICRO } else { nanos_of_long(word) }
}

#[cold]
fn nanos_of_long(word: u32) -> u64 {
    if word == u32::MAX { u64::MAX } else { u64::from(word - MILLIS) * NANOS_OF_MILLI }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn on_the_wire(left: Duration) -> Duration {
        Duration::from_nanos(nanos_of_left(left_of_nanos(left.as_nanos() as u64)))
    }

    #[test]
    fn short_times_are_sent_in_microseconds() {
        for micros in [0, 1, 999, 30_000_000, (1 << 31) - 1] {
            let left = Duration::from_micros(micros);
            assert_eq!(left_of_nanos(left.as_nanos() as u64), micros as u32);
            assert_eq!(on_the_wire(left + Duration::from_nanos(999)), left);
        }
    }

    #[test]
    fn long_times_are_sent_in_milliseconds_and_never_grow() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(on_the_wire(hours(2)), hours(2));
        assert_eq!(on_the_wire(hours(24 * 24)), hours(24 * 24));
        for micros in [1 << 31, (1_u64 << 32) - 1, 1 << 32, 1 << 40] {
            let left = Duration::from_micros(micros);
            assert!(
                on_the_wire(left) <= left && left - on_the_wire(left) < Duration::from_millis(1),
                "{left:?}"
            );
        }
        assert_eq!(left_of_nanos((1 << 31) * 1_000), 1 << 31 | 2_147_483);
    }

    #[test]
    fn times_of_more_than_24_days_are_sent_as_no_deadline() {
        let longest = Duration::from_millis((1 << 31) - 2);
        assert_eq!(on_the_wire(longest), longest);
        for nanos in [((1 << 31) - 1) * NANOS_OF_MILLI, 30 * 24 * 3600 * 1_000_000_000, u64::MAX] {
            assert_eq!(left_of_nanos(nanos), u32::MAX);
        }
        assert_eq!(nanos_of_left(u32::MAX), u64::MAX);
    }
}
