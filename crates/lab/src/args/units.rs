//! Rates, times and sizes, written as people write them.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

/// Bits per second that a link is limited to, written as `tc` writes them: `10mbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LinkRate {
    pub(crate) mbits: u32,
}

impl FromStr for LinkRate {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let number = word.strip_suffix("mbit").and_then(|number| number.parse().ok());
        match number {
            Some(mbits @ 1..=10_000) => Ok(LinkRate { mbits }),
            _ => Err("a rate is written like 10mbit, from 1mbit to 10000mbit".into()),
        }
    }
}

impl Display for LinkRate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}mbit", self.mbits)
    }
}

impl Serialize for LinkRate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.mbits)
    }
}

/// How long a caller does nothing before a call, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Silence {
    pub(crate) ms: u16,
}

impl Silence {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.ms.into())
    }
}

impl FromStr for Silence {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let number = word.strip_suffix("ms").and_then(|number| number.parse().ok());
        match number {
            Some(ms @ 1..=1000) => Ok(Silence { ms }),
            _ => Err("a time of silence is written like 10ms, from 1ms to 1000ms".into()),
        }
    }
}

impl Display for Silence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.ms)
    }
}

impl Serialize for Silence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.ms)
    }
}

/// The units of sizes, and how many bytes each has.
const BYTE_UNITS: [(&str, u32); 6] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("kB", 1000), ("KB", 1000), ("MB", 1_000_000), ("B", 1)];

/// Reads a number of bytes: `48000`, `48kB`, `1MiB`.
///
/// # Errors
/// The text is no size, or the size is not between 1 and `max`.
pub(crate) fn parse_bytes(word: &str, max: u32) -> Result<u32, String> {
    let unit = BYTE_UNITS.iter().find_map(|&(unit, bytes)| Some((word.strip_suffix(unit)?, bytes)));
    let (number, bytes) = unit.unwrap_or((word, 1));
    let number: u32 = number
        .trim_end()
        .parse()
        .map_err(|_| "a size is written like 48000, 48kB, 64KiB or 1MiB".to_string())?;
    match number.checked_mul(bytes) {
        Some(size) if (1..=max).contains(&size) => Ok(size),
        _ => Err(format!("a size is from 1 to {max} bytes")),
    }
}

/// A number of bytes in the largest binary unit that divides it, or with its thousands apart.
pub(crate) fn format_bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes if bytes % 1000 == 0 => format!("{} kB", bytes / 1000),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let read = |word| parse_bytes(word, 1 << 26).ok();
        let sizes = ["48000", "48kB", "64KiB", "1MiB", "1 MiB", "7B"].map(read);
        assert_eq!(sizes, [48_000, 48_000, 65_536, 1 << 20, 1 << 20, 7].map(Some));
        for word in ["0", "-1", "1.5MiB", "MiB", "64MiB ", "128MiB", "5000GiB", ""] {
            assert_eq!(read(word), None, "{word}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_divides_them() {
        let shown = [0, 4, 1024, 48_000, 1 << 20, 16 << 20, 1441].map(format_bytes);
        assert_eq!(shown, ["0", "4", "1 KiB", "48 kB", "1 MiB", "16 MiB", "1441"]);
    }

    #[test]
    fn a_rate_and_a_silence_are_written_as_they_are_read() {
        let rates: Vec<LinkRate> = ["10mbit", "100mbit"].map(|word| word.parse().expect("a rate")).into();
        assert_eq!(rates.iter().map(LinkRate::to_string).collect::<Vec<_>>(), ["10mbit", "100mbit"]);
        assert_eq!("10ms".parse::<Silence>().expect("a time").to_string(), "10ms");
    }
}
