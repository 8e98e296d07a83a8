//! A byte stream, in slices of the input's choice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_exchange::stream::{StreamEvent, Bounds, Reassembler, Violation};
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId};

const BOUNDS: Bounds = Bounds { long: Kind::Call, message_max: 1 << 30, announced_max: 2 << 30, lanes: 4, pipes: true };

type Seen = (u16, u32, usize);

/// The messages of a stream that comes in slices of `step` bytes.
fn feed(mut stream: &[u8], step: usize) -> (Vec<Seen>, Option<Violation>) {
    let mut reassembler = Reassembler::new(BOUNDS);
    let (mut seen, mut arrived) = (Vec::<Seen>::new(), 0);
    // The bytes of a packet of data come in as many parts as the slices have.
    let mut next = None;
    loop {
        loop {
            match reassembler.poll() {
                Ok(None) => break,
                Ok(Some(StreamEvent::Message(message))) => {
                    let header = message.header;
                    seen.push((header.lane.0, header.number.0, message.payload().len()));
                    let mut packet = vec![0; 16];
                    message.take(&mut packet);
                    // As it came: flags that may be ignored are still there.
                    let taken = Header::from_bytes(packet.first_chunk().expect("a message has a header"));
                    assert_eq!(taken.expect("it was read before").to_bytes(), header.to_bytes());
                }
                Ok(Some(StreamEvent::Data(data))) => {
                    let (lane, number) = (data.header.lane.0, data.header.number.0);
                    match seen.last_mut() {
                        Some(last) if next == Some((lane, number, data.at)) => last.2 += data.bytes.len(),
                        _ => seen.push((lane, number, data.bytes.len())),
                    }
                    next = Some((lane, number, data.at + data.bytes.len() as u64));
                    continue;
                }
                Ok(Some(StreamEvent::NotTaken(header, _))) => {
                    seen.push((header.lane.0, header.number.0, usize::MAX));
                }
                Err(violation) => return (seen, Some(violation)),
            }
            next = None;
        }
        if stream.is_empty() {
            return (seen, None);
        }
        let space = reassembler.space();
        assert!(!space.is_empty(), "there is always space");
        let len = space.len().min(step).min(stream.len());
        space[..len].copy_from_slice(&stream[..len]);
        stream = &stream[len..];
        reassembler.received(len);
        arrived += len;
        assert!(
            reassembler.bytes_held() <= 16 * 1024 + 2 * arrived + 6 * 70_000,
            "{}",
            reassembler.bytes_held()
        );
    }
}

/// The input as it is, or as a list of short descriptions of fragments.
fn stream(input: &[u8]) -> Vec<u8> {
    let [first, rest @ ..] = input else { return Vec::new() };
    if first % 4 == 0 {
        return rest.to_vec();
    }
    let mut stream = Vec::new();
    for fields in rest.chunks_exact(6).take(64) {
        let kind =
            if fields[0] < 240 { Kind::Call } else { Kind::ALL[usize::from(fields[0]) % Kind::ALL.len()] };
        let number = CallNumber(u32::from(fields[2]));
        let mut header = Header::bare(kind, BindingId(1), LaneId(u16::from(fields[1] % 5)), number);
        header.message_len = u32::from(fields[3]) << (fields[4] % 12);
        header.offset = u32::from(fields[5] % 4) * 65_536;
        stream.extend(header.to_bytes());
        let payload = header.payload_len(65_536).unwrap_or(0);
        stream.extend(std::iter::repeat_n(fields[2], payload));
    }
    stream
}

fuzz_target!(|input: &[u8]| {
    let stream = stream(input);
    let step = 1 + input.len() * 37;
    assert_eq!(feed(&stream, step), feed(&stream, usize::MAX));
});
