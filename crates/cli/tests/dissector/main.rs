//! The dissector that `stoop dissector` prints, as tshark runs it: each field is what was sent, and no bytes make it fail.

mod expected;
mod foreign;
mod kinds;
mod mutated;
mod pcap;
mod random;
mod sandbox;
#[cfg(feature = "seal")]
mod sealed;
mod streams;
mod traffic;
mod tshark;
