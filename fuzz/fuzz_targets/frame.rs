//! Any Ethernet frame: its packet found, or refused; sent again it is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_ether::frame::{Checksum, EtherType, Frame, OVERHEAD, Template, frame_len};

fuzz_target!(|bytes: &[u8]| {
    let ether_type = EtherType::default();
    let _ = Frame::parse(bytes, ether_type);
    // Nearly all bytes are of another type.
    let mut bytes = bytes.to_vec();
    if let Some(place) = bytes.get_mut(12..14) {
        place.copy_from_slice(&ether_type.number().to_be_bytes());
    }
    if bytes.len() > 24 && bytes[20] & 1 == 0 {
        // The checksum that the sender would have computed: else hardly any packet has the right one.
        let Ok(frame) = Frame::parse(&bytes, ether_type) else { return };
        let header =
            Template::new(frame.from(), frame.to(), ether_type, Checksum::Computed).header(frame.packet());
        bytes[..OVERHEAD].copy_from_slice(&header);
    }
    let Ok(frame) = Frame::parse(&bytes, ether_type) else { return };
    let mut packet = vec![0; frame.packet().len()];
    let Ok(checksum) = frame.copy_to(&mut packet) else { return };
    assert_eq!(packet, &bytes[OVERHEAD..OVERHEAD + packet.len()]);

    let template = Template::new(frame.from(), frame.to(), ether_type, checksum);
    assert_eq!(template.to(), frame.to());
    let mut again = vec![0xee; frame_len(packet.len())];
    again[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(&packet);
    assert_eq!(template.complete(&mut again, packet.len()), again.len());
    let padding = OVERHEAD + packet.len();
    assert_eq!(again[..padding], bytes[..padding]);
    assert!(again[padding..].iter().all(|byte| *byte == 0));
});
