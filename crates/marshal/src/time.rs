//! Durations and times of day.

use std::time::{Duration, SystemTime};

use crate::scalar::{described_as, fixed, travels_as};
use crate::{Data, DecodeError, Description, Layout, Reader, Writer};

const NANOS_PER_SEC: u32 = 1_000_000_000;

// Seconds, nanoseconds.
travels_as!(Duration, "Duration", (u64, u32), |value| (value.as_secs(), value.subsec_nanos()), |parts| {
    match parts {
        (secs, nanos) if nanos < NANOS_PER_SEC => Ok(Duration::new(secs, nanos)),
        _ => Err(DecodeError::OutOfRange { name: "Duration" }),
    }
});

// Whole seconds since 1970, negative before, and nanoseconds after that second.
travels_as!(SystemTime, "SystemTime", (i64, u32), |value| since_epoch(*value), |parts| {
    at(parts).ok_or(DecodeError::OutOfRange { name: "SystemTime" })
});

fn since_epoch(time: SystemTime) -> (i64, u32) {
    // A time that i64 seconds cannot express is 292 billion years away: the last second will do.
    let clamped = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (clamped(after.as_secs()), after.subsec_nanos()),
        Err(error) => match error.duration() {
            before if before.subsec_nanos() == 0 => (-clamped(before.as_secs()), 0),
            before => (-clamped(before.as_secs()) - 1, NANOS_PER_SEC - before.subsec_nanos()),
        },
    }
}

fn at((secs, nanos): (i64, u32)) -> Option<SystemTime> {
    if nanos >= NANOS_PER_SEC {
        return None;
    }
    let whole = Duration::from_secs(secs.unsigned_abs());
    let second = if secs < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}
