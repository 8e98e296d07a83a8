//! Any datagram: parsed, or refused; taken apart into parts; answered if it is of another version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::{HEADER_LEN, Header, Kind, PACKET_DATA, VERSION, Versions, flags};

fuzz_target!(|packet: &[u8]| {
    let parts: Vec<&[u8]> = Header::parts_in(packet).collect();
    assert!(packet.starts_with(&parts.concat()), "each lies behind the one before");
    if let Some(answer) = Versions::answer_to(packet) {
        assert!(packet[1] != VERSION && packet.len() >= answer.len());
        assert!(Versions::answer_to(&answer).is_none(), "no answer is answered");
    }
    let whole = [Kind::Call, Kind::Result].map(|kind| Header::parse_whole(kind, packet));
    let Ok((header, payload)) = Header::parse(packet) else {
        assert_eq!(whole, [None, None]);
        return;
    };
    assert_eq!(payload, &packet[HEADER_LEN..HEADER_LEN + payload.len()]);
    let is_message = matches!(header.kind, Kind::Call | Kind::Result);
    let is_part = is_message && (packet[3] & flags::SIZED != 0 || header.offset > 0);
    for (kind, whole) in [Kind::Call, Kind::Result].into_iter().zip(whole) {
        // `parse_whole` leaves packets with flags to `parse`.
        assert_eq!(whole, (header.kind == kind && !is_part && packet[3] == 0).then_some(header));
    }
    if is_part {
        // A packet of a binding with checksums holds less, so that shorter messages are sent in parts.
        assert!(header.message_len as usize > header.binding.packet_data());
        assert!(!payload.is_empty() && header.offset as usize + payload.len() <= header.message_len as usize);
        assert!(parts.len() > 1 || parts[0].len() >= HEADER_LEN + payload.len());
    } else if is_message {
        assert_eq!((payload.len(), header.offset), (header.message_len as usize, 0));
        assert!(payload.len() <= PACKET_DATA);
    }
    if !is_part && header.kind != Kind::Versions {
        let mut known = packet[..HEADER_LEN].to_vec();
        known[3] &= flags::CRITICAL;
        assert_eq!(header.to_bytes(), known[..]);
    }
});
