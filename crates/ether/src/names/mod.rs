//! Names of servers on an Ethernet: a caller asks for a name by a broadcast, and the server that has it answers.
//!
//! Question and answer are frames as [`frame`](crate::frame) describes them, with a checksum, but of another EtherType than the packets
//! ([`ether_type_of_questions`]): the kernel would otherwise look at each packet once more for every server that has a name.
//!
//! | bytes of the packet | field | |
//! |---|---|---|
//! | 0–7 | nonce | drawn by the caller; the answer repeats it |
//! | 8–9 | EtherType of the server's packets | little-endian |
//! | 10 | 1: question for a name, 2: its answer; 3: question for an address, 4: its answer | |
//! | 11– | name; or hardware address and port, little-endian | the answer repeats it |
//!
//! A question for an address asks where the server is now that had this hardware address and port before. A caller asks it when its
//! packets get no answer.
//!
//! A question goes to the broadcast address and has no ports. An answer goes to the hardware address that has asked; its sender's
//! address and port are those of the server. An answer is as long as its question, so no host can make a server send more bytes than the host itself sends.
//!
//! Any host of the link can answer any question, as any host can answer ARP. A caller that gets different answers
//! reports both.

mod announcement;
mod find;
mod message;

pub use announcement::{Announced, Announcement};
pub use find::{Inquiry, find};

use crate::frame::EtherType;
use crate::ports::FIRST_OF_CALLERS;
use std::fmt;
use std::str::FromStr;

/// The name of a server on an Ethernet: a letter, then letters, digits, `-`, `_` and `.`, at most 63 characters in all, which do not
/// read as a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

/// Bytes of the longest name.
pub(crate) const NAME_MAX: usize = 63;

impl Name {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A port that a server of this name may take, the same each time that it starts.
    pub fn usual_port(&self) -> u16 {
        // FNV-1a, folded to the ports of servers that choose none themselves.
        let hash = self
            .0
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let ports = u32::from(FIRST_OF_CALLERS / 2);
        (ports + (hash ^ hash >> 16) % ports) as u16
    }
}

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It has other characters, or too many or none, or begins with no letter.
    Form,
    /// It can be read as a hardware address that is written without colons.
    HardwareAddress,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "a name is a letter and then letters, digits, `-`, `_` and `.`, at most 63 characters in all"
            }
            Self::HardwareAddress => {
                "this name reads as a hardware address: write that with colons, and the port behind it; or take another name"
            }
        })
    }
}

impl std::error::Error for BadName {}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // Twelve digits, joined in whichever way: 02-00-5E-10-AB-FF (IEEE 802), 0200.5e10.abff (as routers write it).
        let digits: String = text.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        if digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(BadName::HardwareAddress);
        }
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
        match begins_well && text.len() <= NAME_MAX && text.chars().all(of_name) {
            true => Ok(Self(text.into())),
            false => Err(BadName::Form),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The EtherType of questions for servers whose packets have that one: of the two for local experiments the one that the packets do not
/// have.
pub const fn ether_type_of_questions(packets: EtherType) -> EtherType {
    match packets.number() == EtherType::LOCAL_EXPERIMENTAL_2.number() {
        true => EtherType::LOCAL_EXPERIMENTAL_1,
        false => EtherType::LOCAL_EXPERIMENTAL_2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_hardware_addresses_and_ports() {
        for name in ["greeter", "G", "a-1_b.c", "added.beef", "cafe", &"n".repeat(63)] {
            assert_eq!(name.parse::<Name>().map(|name| name.to_string()), Ok(name.to_owned()));
        }
        for like_an_address in
            ["aabbccddeeff", "aa-bb-cc-dd-ee-ff", "aabb.ccdd.eeff", "02-00-5E-10-AB-FF", "aa:bb:cc:dd:ee:ff"]
        {
            assert_eq!(like_an_address.parse::<Name>(), Err(BadName::HardwareAddress), "{like_an_address}");
        }
        for bad in ["", "7400", "1st", "-x", "a b", "a/b", "ä", "x:7400", "a?b", &"n".repeat(64)] {
            assert_eq!(bad.parse::<Name>(), Err(BadName::Form), "{bad}");
        }
    }

    #[test]
    fn usual_ports_are_ports_of_servers_and_seldom_equal() {
        let names = (0..100).map(|number| format!("server-{number}").parse::<Name>().unwrap());
        let ports: std::collections::HashSet<u16> = names.map(|name| name.usual_port()).collect();
        assert!(ports.iter().all(|port| (FIRST_OF_CALLERS / 2..FIRST_OF_CALLERS).contains(port)));
        assert!(ports.len() > 95, "{}", ports.len());
    }

    #[test]
    fn questions_never_travel_as_packets_do() {
        for packets in [
            EtherType::LOCAL_EXPERIMENTAL_1,
            EtherType::LOCAL_EXPERIMENTAL_2,
            EtherType::new(0x9000).unwrap(),
        ] {
            assert_ne!(ether_type_of_questions(packets), packets);
        }
    }
}
