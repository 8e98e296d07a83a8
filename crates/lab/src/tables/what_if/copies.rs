//! The time that the library's own work on the bytes of a long message takes at one end, as a loop over its packets takes it.

use std::hint::black_box;
use std::time::Instant;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, Template};

/// Bytes of data in a packet.
const DATA: usize = 1440;
const PACKET: usize = HEADER_LEN + DATA;
/// Packets that one system call hands over.
const TRAIN: usize = 44;

const TIMES: u32 = 50;

/// Microseconds in which an end reads the headers of all packets of a message of `len` bytes, and copies their data to its place.
///
/// The least of several repetitions: the call has the message in the cache, too, and is not interrupted in the median.
pub(super) fn receive_us(len: usize) -> f64 {
    let (train, mut message) = (train(), vec![0; len]);
    let repetition = |_| {
        let began = Instant::now();
        receive(black_box(&train), black_box(&mut message));
        began.elapsed().as_nanos() as f64 / 1e3
    };
    (0..TIMES).map(repetition).fold(f64::INFINITY, f64::min)
}

/// Packets one behind the other, as the kernel hands them over.
fn train() -> Vec<u8> {
    let mut train = vec![0x5a; TRAIN * PACKET];
    let template = Template::new(Kind::Result, BindingId(1), LaneId(0));
    for packet in train.chunks_exact_mut(PACKET) {
        let header = packet.first_chunk_mut().expect("a packet has room for a header");
        template.stamp(header, 0, CallNumber(1), (DATA as u32, 0), 0);
    }
    train
}

/// Takes the packets of as many trains as `message` needs.
fn receive(train: &[u8], message: &mut [u8]) {
    let packets = train.chunks_exact(PACKET).cycle();
    for (data, packet) in message.chunks_mut(DATA).zip(packets) {
        let header = packet.first_chunk().and_then(|header| Header::from_bytes(header).ok());
        black_box(header.expect("it was written above"));
        data.copy_from_slice(&packet[HEADER_LEN..][..data.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_message_is_copied_out_of_a_packet() {
        let mut message = vec![0; 100_000];
        receive(&train(), &mut message);
        assert!(message.iter().all(|byte| *byte == 0x5a));
    }
}
