//! Any datagram: parsed, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::{HEADER_LEN, Header};

fuzz_target!(|packet: &[u8]| {
    let Ok((header, payload)) = Header::parse(packet) else { return };
    assert_eq!(header.to_bytes(), packet[..HEADER_LEN]);
    assert_eq!(payload, &packet[HEADER_LEN..HEADER_LEN + payload.len()]);
    if header.challenge().is_none() {
        assert!(payload.len() <= header.message_len as usize);
    }
});
