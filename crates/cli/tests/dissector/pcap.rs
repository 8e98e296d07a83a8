//! Capture files in the classic form of pcap, with frames of Ethernet.

use std::path::Path;

/// A frame, with the time at which it was captured, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) ns: u64,
    pub(crate) bytes: Vec<u8>,
    /// Bytes that it had on the wire.
    pub(crate) len: usize,
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;

impl Frame {
    pub(crate) fn new(ns: u64, bytes: Vec<u8>) -> Self {
        Self { ns, len: bytes.len(), bytes }
    }
}

pub(crate) fn write(path: &Path, frames: &[Frame]) {
    let mut file = Vec::new();
    // Magic, version 2.4, time zone, accuracy, longest frame, link type.
    for word in [NANOSECONDS, 4 << 16 | 2, 0, 0, 1 << 18, ETHERNET] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for frame in frames {
        let (second, rest) = ((frame.ns / 1_000_000_000) as u32, (frame.ns % 1_000_000_000) as u32);
        for word in [second, rest, frame.bytes.len() as u32, frame.len as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&frame.bytes);
    }
    std::fs::write(path, file).expect("the folder of tests can be written");
}

/// The frames so far in a file that is being written, and may not be there yet.
pub(crate) fn read_begun(path: &Path) -> Vec<Frame> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() >= 24 => read(path),
        _ => Vec::new(),
    }
}

pub(crate) fn read(path: &Path) -> Vec<Frame> {
    let file = std::fs::read(path).expect("the capture is there");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let unit = match word(0) {
        MICROSECONDS => 1000,
        NANOSECONDS => 1,
        other => panic!("{other:#x} begins no capture file"),
    };
    assert_eq!(word(20), ETHERNET);
    let (mut at, mut frames) = (24, Vec::new());
    // The last frame may not be written yet.
    while at + 16 <= file.len() && at + 16 + word(at + 8) as usize <= file.len() {
        let ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)) * unit;
        let (there, len) = (word(at + 8) as usize, word(at + 12) as usize);
        frames.push(Frame { ns, bytes: file[at + 16..at + 16 + there].to_vec(), len });
        at += 16 + there;
    }
    frames
}

/// A packet of the client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

const ENDS: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
pub(crate) const CLIENT_PORT: u16 = 40_000;
pub(crate) const SERVER_PORT: u16 = 7400;

/// Ethernet and IPv4 before `content` of a protocol.
fn ip(from: From, protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend_from_slice(&[0x45, 0]);
    frame.extend_from_slice(&(20 + content.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 1, 0, 0, 64, protocol, 0, 0]);
    let [client, server] = ENDS;
    let (source, destination) = if from == From::Client { (client, server) } else { (server, client) };
    [&frame[..], &source, &destination, content].concat()
}

fn ports(from: From, client: u16, server: u16) -> [u8; 4] {
    let (source, destination) = if from == From::Client { (client, server) } else { (server, client) };
    let [[s0, s1], [d0, d1]] = [source.to_be_bytes(), destination.to_be_bytes()];
    [s0, s1, d0, d1]
}

/// A frame with a datagram of UDP.
pub(crate) fn datagram(from: From, (client, server): (u16, u16), data: &[u8]) -> Vec<u8> {
    let len = (8 + data.len() as u16).to_be_bytes();
    ip(from, 17, &[&ports(from, client, server)[..], &len, &[0, 0], data].concat())
}

/// A frame with a segment of TCP whose first byte has this sequence number.
pub(crate) fn segment(from: From, sequence: u32, data: &[u8]) -> Vec<u8> {
    let header = [&ports(from, CLIENT_PORT, SERVER_PORT)[..], &sequence.to_be_bytes(), &1_u32.to_be_bytes()];
    // Five words of header, ACK, window.
    ip(from, 6, &[&header.concat()[..], &[0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0], data].concat())
}

/// The ports and the data of a frame with UDP (17) or TCP (6).
pub(crate) fn data_of(frame: &[u8], protocol: u8) -> Option<(u16, u16, &[u8])> {
    let ip = frame.get(14..)?;
    if frame[12..14] != [8, 0] || ip[9] != protocol {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let inner = &ip[usize::from(ip[0] & 15) * 4..len];
    let header = if protocol == 17 { 8 } else { usize::from(inner[12] >> 4) * 4 };
    let port = |at: usize| u16::from_be_bytes([inner[at], inner[at + 1]]);
    Some((port(0), port(2), &inner[header..]))
}

/// The same frames, with the segments of each TCP connection in the order of their bytes, each once. Segments that two processors send
/// within microseconds can be captured the other way round, and one that a busy machine acknowledges late is sent again.
pub(crate) fn in_order(frames: Vec<Frame>) -> Vec<Frame> {
    let mut ordered: Vec<Frame> = Vec::with_capacity(frames.len());
    for frame in frames {
        let place = place_of(&frame.bytes);
        if place.is_some() && ordered.iter().any(|before| place_of(&before.bytes) == place) {
            continue;
        }
        let is_later = |before: &Frame| match (place_of(&before.bytes), place) {
            (Some((one, its)), Some((same, own))) => one == same && (its.wrapping_sub(own) as i32) > 0,
            _ => false,
        };
        let at = ordered.iter().position(is_later).unwrap_or(ordered.len());
        ordered.insert(at, frame);
    }
    ordered
}

/// The ports of a TCP segment with data, and the sequence number of its first byte.
fn place_of(frame: &[u8]) -> Option<((u16, u16), u32)> {
    let (from, to, _) = data_of(frame, 6).filter(|(.., data)| !data.is_empty())?;
    let tcp = 14 + usize::from(frame[14] & 15) * 4;
    let sequence = frame[tcp + 4..tcp + 8].try_into().expect("four bytes");
    Some(((from, to), u32::from_be_bytes(sequence)))
}
