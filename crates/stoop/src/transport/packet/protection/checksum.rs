//! The checksum behind the data of each packet of a binding that has it: CRC-32C of header and data, four bytes.
//!
//! A bit in the number of the binding ([`BindingId::has_checksum`](stoop_wire::BindingId::has_checksum)) says that a packet has one: in
//! both directions, for all kinds of packets, also for bindings that a server does not know. So a receiver checks a packet without looking
//! up its binding, and a packet in which that bit is corrupted belongs to no binding. `docs/protocol.md` has the rules.

use stoop_net::crc::crc32c;
use stoop_wire::CHECKSUM_LEN;

/// Whether the checksum of the first `len` bytes is behind them.
pub(super) fn is_right(datagram: &[u8], len: usize) -> bool {
    let (covered, behind) = datagram.split_at(len);
    behind.first_chunk().is_some_and(|checksum| crc32c(covered).to_le_bytes() == *checksum)
}

/// Puts the checksum of the first `len` bytes behind them.
pub(super) fn put(packet: &mut [u8], len: usize) {
    let checksum = crc32c(&packet[..len]);
    packet[len..len + CHECKSUM_LEN].copy_from_slice(&checksum.to_le_bytes());
}
