//! Packets with receipts: their header, and their order.

use stoop_wire::{HEADER_LEN, Header, Receipt};

/// Writes a packet with a receipt and returns its length.
pub(crate) fn put_receipt(
    receipt: &Receipt,
    header: Header,
    number: u32,
    out: &mut [u8; Receipt::MAX_PACKET],
) -> usize {
    let len = receipt.put(&mut out[HEADER_LEN..]);
    let header = Header { message_len: len as u32, time: number, ..header };
    out[..HEADER_LEN].copy_from_slice(&header.to_bytes());
    HEADER_LEN + len
}

/// Whether receipt number `number` is newer than `newest`, by serial arithmetic (RFC 1982).
pub(crate) fn is_newer(number: u32, newest: u32) -> bool {
    let distance = number.wrapping_sub(newest);
    distance != 0 && distance < 1 << 31
}
