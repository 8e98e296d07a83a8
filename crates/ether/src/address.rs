//! Addresses of endpoints: an interface's hardware address, and a port on it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The hardware address of an interface (IEEE 802-2014 §8: EUI-48).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether it stands for several interfaces, as the broadcast address does.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no hardware address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMac(String);

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no hardware address: six bytes in hexadecimal, joined by colons", self.0)
    }
}

impl std::error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, BadMac> {
        let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = |part| is_byte(part).then(|| u8::from_str_radix(part, 16).ok()).flatten();
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let six = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        six.map(Self).ok_or_else(|| BadMac(text.to_owned()))
    }
}

/// An endpoint on an Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The interface.
    pub mac: Mac,
    /// The endpoint on this interface. 0 is no port.
    pub port: u16,
}

/// The address of an endpoint whose interface may get another hardware address.
#[derive(Debug)]
pub(crate) struct CurrentAddress(AtomicU64);

impl CurrentAddress {
    pub(crate) fn new(address: Address) -> Self {
        Self(AtomicU64::new(number_of(address)))
    }

    #[inline]
    pub(crate) fn get(&self) -> Address {
        let [a, b, c, d, e, f, low, high] = self.0.load(Ordering::Relaxed).to_le_bytes();
        Address { mac: Mac([a, b, c, d, e, f]), port: u16::from_le_bytes([low, high]) }
    }

    pub(crate) fn set(&self, address: Address) {
        self.0.store(number_of(address), Ordering::Relaxed);
    }
}

fn number_of(Address { mac: Mac([a, b, c, d, e, f]), port }: Address) -> u64 {
    let [low, high] = port.to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, low, high])
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.mac, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_address_is_written_as_it_is_read() {
        let mac: Mac = "02:00:5e:10:ab:ff".parse().unwrap();
        assert_eq!(mac, Mac([2, 0, 0x5e, 0x10, 0xab, 0xff]));
        assert_eq!(mac.to_string(), "02:00:5e:10:ab:ff");
        assert!(!mac.is_group() && Mac([0xff; 6]).is_group());
        for bad in ["", "02:00:5e:10:ab", "02:00:5e:10:ab:ff:00", "2:0:5e:10:ab:ff", "02:00:5e:10:ab:+f"] {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
