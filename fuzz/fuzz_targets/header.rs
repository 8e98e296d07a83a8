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
    let is_short = header.message_len as usize <= PACKET_DATA;
    for (kind, whole) in [Kind::Call, Kind::Result].into_iter().zip(whole) {
        // One with flags is for the longer way.
        assert_eq!(whole, (header.kind == kind && is_short && packet[3] == 0).then_some(header));
    }
    if is_message && !is_short {
        assert!(!payload.is_empty() && header.offset as usize + payload.len() <= header.message_len as usize);
        assert!(parts.len() > 1 || parts[0].len() >= HEADER_LEN + payload.len());
    } else if is_message {
        assert_eq!((payload.len(), header.offset), (header.message_len as usize, 0));
    }
    if (is_message && is_short) || !is_message && header.kind != Kind::Versions {
        let mut known = packet[..HEADER_LEN].to_vec();
        known[3] &= flags::CRITICAL;
        assert_eq!(header.to_bytes(), known[..]);
    }
});
