//! Any Ethernet frame: its packets are found or it is refused; a frame made again of them is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_ether::frame::{Checksum, EtherType, Frame, OVERHEAD, Template, content_len, frame_len};
use stoop_net::packets::Segments;

fuzz_target!(|bytes: &[u8]| {
    let ether_type = EtherType::default();
    let _ = Frame::parse(bytes, ether_type);
    // Nearly all bytes are of another type.
    let mut bytes = bytes.to_vec();
    if let Some(place) = bytes.get_mut(12..14) {
        place.copy_from_slice(&ether_type.number().to_be_bytes());
    }
    if bytes.len() > 24 && bytes[20] & 1 == 0 {
        // The checksum that the sender would have computed: else hardly any frame has the right one.
        let Ok(frame) = Frame::parse(&bytes, ether_type) else { return };
        let made = made_again(&frame, frame.packets(), ether_type, Checksum::Computed);
        bytes[..OVERHEAD].copy_from_slice(&made[..OVERHEAD]);
    }
    let Ok(frame) = Frame::parse(&bytes, ether_type) else { return };
    let mut packets = vec![0; frame.packets().len()];
    let Ok(checksum) = frame.copy_to(&mut packets) else { return };
    assert_eq!(packets, &bytes[OVERHEAD..OVERHEAD + packets.len()]);

    let again = made_again(&frame, &packets, ether_type, checksum);
    let padding = OVERHEAD + content_len(segments(&frame));
    assert_eq!(again[..padding], bytes[..padding]);
    assert!(again[padding..].iter().all(|byte| *byte == 0));
});

fn segments(frame: &Frame<'_>) -> Segments {
    Segments { len: frame.packets().len(), segment: frame.segment() }
}

/// The frame as a sender would make it that has these packets.
fn made_again(frame: &Frame<'_>, packets: &[u8], ether_type: EtherType, checksum: Checksum) -> Vec<u8> {
    let template = Template::new(frame.from(), frame.to(), ether_type, checksum);
    assert_eq!(template.to(), frame.to());
    let mut made = vec![0xee; frame_len(content_len(segments(frame)))];
    made[OVERHEAD..OVERHEAD + packets.len()].copy_from_slice(packets);
    assert_eq!(template.complete_several(&mut made, segments(frame)), made.len());
    made
}
