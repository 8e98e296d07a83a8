//! Packets that are nearly right: no bytes make the dissector fail.

use crate::kinds;
use crate::pcap::{self, CLIENT_PORT, Frame, From, SERVER_PORT, segment};
use crate::random::Random;
use crate::tshark;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, OVERHEAD, Template, frame_len};

/// How many frames are mutated; `STOOP_MUTATIONS=100000` for a long run.
pub(crate) fn mutations() -> usize {
    std::env::var("STOOP_MUTATIONS").map_or(6000, |number| number.parse().expect("a number"))
}

/// Bytes of Ethernet, IPv4 and UDP.
const UDP_AT: usize = 42;
/// Of Ethernet, IPv4 and TCP.
const TCP_AT: usize = 54;

/// Every kind of packet in Ethernet frames, alone and several together.
fn in_frames() -> Vec<Vec<u8>> {
    let address = |last| Address { mac: Mac([2, 0, 0, 0, 0, last]), port: 7 };
    let template = Template::new(address(1), address(2), EtherType::default(), Checksum::Computed);
    let frame = |packet: &[u8]| {
        let mut frame = vec![0; frame_len(packet.len())];
        frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
        template.complete(&mut frame, packet.len());
        frame
    };
    let packets = kinds::packets();
    let mut frames: Vec<_> = packets.iter().map(|(_, packet)| frame(packet)).collect();
    let few: Vec<u8> =
        packets[15..19].iter().flat_map(|(_, packet)| [&packet[..], &[0; 40]].concat()).collect();
    let mut several = frame(&[&few[..], &72_u16.to_le_bytes()].concat());
    several[19] |= 0x80;
    frames.push(several);
    let question = [&[9; 8][..], &0x88b5_u16.to_le_bytes(), &[1], b"greeter"].concat();
    let mut question = frame(&question);
    question[13] = 0xb6;
    frames.push(question);
    frames
}

/// Spoils a few of the bytes from `at` on, or the length, or both.
fn mutate(random: &mut Random, mut frame: Frame, at: usize) -> Frame {
    let len = frame.bytes.len() - at;
    if random.below(8) > 0 && len > 0 {
        for _ in 0..=random.below(4) {
            // Most of the meaning is in the first bytes.
            let most = if random.below(3) > 0 { len.min(48) } else { len };
            let place = at + random.below(most);
            frame.bytes[place] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => frame.bytes[place] ^ 1 << random.below(8),
                _ => random.bits() as u8,
            };
        }
    }
    match random.below(6) {
        // As if the network had cut it, or the capture.
        0 => {
            frame.bytes.truncate(at + random.below(len + 1));
            frame.len = frame.bytes.len();
        }
        1 => frame.bytes.truncate(at + random.below(len + 1)),
        2 => {
            frame.bytes.extend(random.up_to(200));
            frame.len = frame.bytes.len();
        }
        _ => {}
    }
    frame
}

/// The lengths that IPv4 and UDP tell, so that the dissector sees what was cut or added.
fn fit_lengths(frame: &mut Frame, is_udp: bool) {
    let len = frame.len.saturating_sub(14) as u16;
    frame.bytes[16..18].copy_from_slice(&len.to_be_bytes());
    if is_udp {
        frame.bytes[38..40].copy_from_slice(&(len - 20).to_be_bytes());
    }
}

#[test]
fn no_mutated_packet_makes_the_dissector_fail() {
    if !tshark::is_installed("mutated::no_mutated_packet_makes_the_dissector_fail") {
        return;
    }
    let mut random = Random(std::env::var("STOOP_SEED").map_or(1, |seed| seed.parse().expect("a number")));
    let datagrams = kinds::frames(&kinds::packets());
    let ethernet = in_frames();
    let (mut sequence, mut frames) = (1_u32, Vec::new());
    for at in 0..mutations() {
        let ns = at as u64 * 10_000;
        frames.push(match at % 3 {
            0 => {
                let mut frame = datagrams[random.below(datagrams.len())].clone();
                frame.ns = ns;
                let mut frame = mutate(&mut random, frame, UDP_AT);
                fit_lengths(&mut frame, true);
                frame
            }
            1 => {
                let frame = Frame::new(ns, ethernet[random.below(ethernet.len())].clone());
                mutate(&mut random, frame, 14)
            }
            _ => {
                let datagram = &datagrams[random.below(datagrams.len())].bytes[UDP_AT..];
                let frame =
                    mutate(&mut random, Frame::new(ns, segment(From::Client, sequence, datagram)), TCP_AT);
                let mut frame = frame;
                fit_lengths(&mut frame, false);
                sequence = sequence.wrapping_add((frame.len - TCP_AT) as u32);
                frame
            }
        });
    }
    let capture = tshark::file("mutated.pcap");
    pcap::write(&capture, &frames);
    let both = [
        "-d",
        &format!("udp.port=={SERVER_PORT},stoop"),
        "-d",
        &format!("tcp.port=={CLIENT_PORT},stoop_tcp"),
    ];
    assert_eq!(tshark::selected(&capture, "_ws.lua.error", &both), Vec::<String>::new());
    // Many are still dissected, and some are seen to be malformed.
    let ours = tshark::selected(&capture, "stoop || stoop_ether", &both).len();
    let malformed = tshark::selected(&capture, "stoop.malformed", &both).len();
    assert!(
        ours > frames.len() / 3 && malformed > frames.len() / 100,
        "{ours} and {malformed} of {}",
        frames.len()
    );
}
