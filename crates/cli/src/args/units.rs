//! Rates and times, written as people write them.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_a_silence_are_written_as_they_are_read() {
        let rates: Vec<LinkRate> = ["10mbit", "100mbit"].map(|word| word.parse().expect("a rate")).into();
        assert_eq!(rates.iter().map(LinkRate::to_string).collect::<Vec<_>>(), ["10mbit", "100mbit"]);
        assert_eq!("10ms".parse::<Silence>().expect("a time").to_string(), "10ms");
    }
}
