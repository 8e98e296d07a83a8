//! Times as texts: RFC 3339 for times of day, seconds with a unit for durations.

use std::time::Duration;

const DAY_SECS: i64 = 86_400;

/// The seconds of 0000-01-01 and of 10000-01-01, between which RFC 3339 has a text.
const YEARS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// `2026-11-27T03:00:00.5Z`, or for other years `@SECONDS.NANOS`: seconds since 1970, and nanoseconds after that second.
pub(super) fn of_time(secs: i64, nanos: u32) -> String {
    if !YEARS.contains(&secs) {
        return format!("@{secs}.{nanos:09}");
    }
    let (year, month, day) = date(secs.div_euclid(DAY_SECS));
    let second = secs.rem_euclid(DAY_SECS);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{}Z", fraction(nanos))
}

/// The time that a text says, in UTC.
pub(super) fn time(text: &str) -> Option<(i64, u32)> {
    if let Some(since) = text.strip_prefix('@') {
        let (secs, nanos) = since.split_once('.').unwrap_or((since, ""));
        return Some((secs.parse().ok()?, nanos_of(nanos)?));
    }
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?;
    let (date, time) = text.split_once(['T', ' '])?;
    let (time, nanos) = time.split_once('.').map_or((time, Some(0)), |(time, nanos)| (time, nanos_of(nanos)));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let day_number = days(year, month, day);
    if self::date(day_number) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((day_number * DAY_SECS + hour * 3600 + minute * 60 + second, nanos?))
}

/// `1.5s`.
pub(super) fn of_duration(duration: Duration) -> String {
    format!("{}{}s", duration.as_secs(), fraction(duration.subsec_nanos()))
}

/// The duration that a text says: `1.5s`, `200ms`, `3us`, `7ns`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|each: char| !each.is_ascii_digit() && each != '.')?;
    let (number, unit) = text.split_at(end);
    let unit_ns: u128 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    // A fraction of the unit, which has to be a whole number of nanoseconds.
    let fraction = u128::from(nanos_of(fraction)?) * unit_ns;
    if !fraction.is_multiple_of(1_000_000_000) {
        return None;
    }
    let ns = u128::from(whole).checked_mul(unit_ns)? + fraction / 1_000_000_000;
    let secs = u64::try_from(ns / 1_000_000_000).ok()?;
    Some(Duration::new(secs, (ns % 1_000_000_000) as u32))
}

fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    }
}

/// Billionths, of the digits behind a point.
fn nanos_of(digits: &str) -> Option<u32> {
    let is_fine = digits.len() <= 9 && digits.bytes().all(|each| each.is_ascii_digit());
    is_fine.then(|| format!("{digits:0<9}").parse().ok()).flatten()
}

/// Three numbers of so many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let parts: Vec<_> = text.split(separator).collect();
    let mut numbers = [0; 3];
    if parts.len() != 3 {
        return None;
    }
    for (number, (part, digits)) in numbers.iter_mut().zip(parts.into_iter().zip(digits)) {
        if part.len() != digits || !part.bytes().all(|each| each.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    Some(numbers)
}

/// The date of a day, counted from 1970-01-01, in the Gregorian calendar. Years are counted from March on, so that the day that a leap
/// year has more is the last.
fn date(day: i64) -> (i64, i64, i64) {
    let from_march = day + 719_468;
    let (era, of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The number of a day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_texts_of_rfc_3339() {
        for (time_of, text) in [
            ((0, 0), "1970-01-01T00:00:00Z"),
            ((951_782_399, 0), "2000-02-28T23:59:59Z"),
            ((951_868_800, 500_000_000), "2000-03-01T00:00:00.5Z"),
            ((-1, 999_999_999), "1969-12-31T23:59:59.999999999Z"),
            ((253_402_300_799, 0), "9999-12-31T23:59:59Z"),
            ((-62_167_219_200, 0), "0000-01-01T00:00:00Z"),
            ((253_402_300_800, 1), "@253402300800.000000001"),
            ((i64::MIN, 0), "@-9223372036854775808.000000000"),
        ] {
            assert_eq!(of_time(time_of.0, time_of.1), text);
            assert_eq!(time(text), Some(time_of));
        }
        for day in (-800_000..3_000_000).step_by(13) {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
        }
        for wrong in
            ["", "1970-01-01", "2023-02-29T00:00:00Z", "1970-01-01T24:00:00Z", "@", "1970-1-01T00:00:00Z"]
        {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_exact_or_refused() {
        for (text, ns) in
            [("1.5s", 1_500_000_000), ("0s", 0), ("0.000000001s", 1), ("200ms", 200_000_000), ("1.5us", 1500)]
        {
            assert_eq!(duration(text), Some(Duration::from_nanos(ns)), "{text}");
        }
        let longest = Duration::new(u64::MAX, 999_999_999);
        assert_eq!(duration(&of_duration(longest)), Some(longest));
        for wrong in ["", "s", "1", "1.5ns", "-1s", "1h", "0.0000000001s", ".5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
