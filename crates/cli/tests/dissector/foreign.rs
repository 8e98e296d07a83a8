//! Datagrams of other protocols, which the dissector must leave to them.

use crate::pcap::{self, Frame, From, datagram};
use crate::random::Random;
use crate::tshark;

/// Of each protocol, on a port of its own.
const EACH: usize = 4000;

fn dns(random: &mut Random, is_answer: bool) -> Vec<u8> {
    // One in four has an identification that looks like our magic and version.
    let id = if random.below(4) == 0 { [0xd7, 1] } else { [random.bits() as u8, random.bits() as u8] };
    let flags = match is_answer {
        true => [0x80 | random.below(8) as u8, random.below(4) as u8],
        false => [random.below(8) as u8, 16 * random.below(4) as u8],
    };
    let counts = [0, 1, 0, u8::from(is_answer), 0, 0, 0, random.below(2) as u8];
    let mut message = [&id[..], &flags, &counts].concat();
    for _ in 0..=random.below(4) {
        let label = 1 + random.below(12);
        message.push(label as u8);
        message.extend((0..label).map(|_| b'a' + random.below(26) as u8));
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    if is_answer {
        message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend(random.bytes(4));
    }
    message
}

fn quic(random: &mut Random) -> Vec<u8> {
    let len = 40 + random.below(1200);
    if random.below(2) == 0 {
        // A long header: type and flags, version 1 or 2, both connection identifiers.
        let version: [u8; 4] = if random.below(2) == 0 { [0, 0, 0, 1] } else { [0x6b, 0x33, 0x43, 0xcf] };
        let first = 0xc0 | random.below(64) as u8;
        return [&[first][..], &version, &[8], &random.bytes(8), &[0], &random.bytes(len)].concat();
    }
    [&[0x40 | random.below(64) as u8][..], &random.bytes(len)].concat()
}

fn rtp(random: &mut Random) -> Vec<u8> {
    let len = 20 + random.below(400);
    [&[0x80 | random.below(64) as u8, random.bits() as u8][..], &random.bytes(10 + len)].concat()
}

fn ntp(random: &mut Random) -> Vec<u8> {
    let modes = [0x1b, 0x23, 0x24, 0xe3, 0xdb];
    let first = modes[random.below(modes.len())];
    [&[first, random.below(16) as u8, 6, 0xec][..], &random.bytes(44)].concat()
}

/// The private mode of NTP, whose first byte can be our magic: 0xd7 is an answer of version 2 with more to come.
fn private_ntp(random: &mut Random) -> Vec<u8> {
    let item = [8, 16, 24, 32, 72][random.below(5)];
    let count = 1 + random.below(6);
    let head = [0xd7, random.below(128) as u8, [0, 2, 3][random.below(3)], random.below(46) as u8];
    let sizes = [(count as u16).to_be_bytes(), (item as u16).to_be_bytes()].concat();
    [&head[..], &sizes, &random.bytes(item * count)].concat()
}

/// Nothing that is known, with our magic and sometimes more of a header.
fn noise(random: &mut Random) -> Vec<u8> {
    let mut bytes = [random.bytes(32), random.up_to(1000)].concat();
    bytes[0] = 0xd7;
    if random.below(2) == 0 {
        bytes[1] = 1;
        bytes[2] = 1 + random.below(20) as u8;
    }
    bytes
}

/// Makes a datagram of a protocol.
type Maker = fn(&mut Random) -> Vec<u8>;

#[test]
fn datagrams_of_other_protocols_are_left_to_them() {
    if !tshark::is_installed("foreign::datagrams_of_other_protocols_are_left_to_them") {
        return;
    }
    let mut random = Random(7);
    let makers: [(u16, Maker); 7] = [
        (53, |random| dns(random, false)),
        (5353, |random| dns(random, true)),
        (443, quic),
        (5004, rtp),
        (123, ntp),
        (124, private_ntp),
        (9999, noise),
    ];
    let frames: Vec<Frame> = (0..EACH * makers.len())
        .map(|at| {
            let (port, make) = makers[at % makers.len()];
            // Another port each time: a conversation that was once taken for ours would stay ours.
            let client = 20_000 + (at / makers.len()) as u16;
            Frame::new(at as u64 * 1000, datagram(From::Client, (client, port), &make(&mut random)))
        })
        .collect();
    let capture = tshark::file("foreign.pcap");
    pcap::write(&capture, &frames);
    assert_eq!(
        tshark::selected(&capture, "stoop || stoop_ether || _ws.lua.error", &[]),
        Vec::<String>::new()
    );
}
