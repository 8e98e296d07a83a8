use super::*;
use crate::address::Mac;
use crate::frame::{OVERHEAD, Template, content_len, frame_len};
use std::collections::VecDeque;

const US: Address = Address { mac: Mac([2, 0, 0, 0, 0, 1]), port: 7400 };

struct Frames(VecDeque<Vec<u8>>);

type Queue = Arrivals<Frames>;

fn queue(frames: impl Into<VecDeque<Vec<u8>>>) -> Queue {
    Arrivals::new(Frames(frames.into()))
}

impl FrameQueue for Frames {
    fn front(&self) -> Option<&[u8]> {
        self.0.front().map(Vec::as_slice)
    }

    fn pop(&mut self) {
        self.0.pop_front().unwrap();
    }
}

fn peer(number: u8) -> Address {
    Address { mac: Mac([2, 0, 0, 0, 1, number]), port: 40_000 }
}

fn frame(from: Address, len: usize, content: u8) -> Vec<u8> {
    let mut frame = vec![content; frame_len(len)];
    Template::new(from, US, EtherType::default(), Checksum::Computed).complete(&mut frame, len);
    frame
}

fn several(from: Address, packets: &[u8], segment: usize) -> Vec<u8> {
    let packets_of = Segments { len: packets.len(), segment };
    let mut frame = vec![0xee; frame_len(content_len(packets_of))];
    frame[OVERHEAD..OVERHEAD + packets.len()].copy_from_slice(packets);
    Template::new(from, US, EtherType::default(), Checksum::Computed)
        .complete_several(&mut frame, packets_of);
    frame
}

fn many(frames: &mut Queue, counters: &Counters, room: usize) -> (Arrival<Segments>, Vec<u8>) {
    let mut buffer = vec![0; room];
    (frames.take_many(EtherType::default(), counters, &mut buffer), buffer)
}

fn arrived(len: usize, segment: usize, from: Address) -> Arrival<Segments> {
    Arrival::Packet { len: Segments { len, segment }, from, checksum: Checksum::Computed }
}

#[test]
fn packets_of_one_sender_and_length_come_together_and_end_with_a_shorter_one() {
    let (one, two) = (peer(1), peer(2));
    let frames =
        [frame(one, 100, 1), frame(one, 100, 2), frame(one, 40, 3), frame(one, 100, 4), frame(two, 9, 5)];
    let (mut frames, counters) = (queue(frames), Counters::default());

    let (arrival, buffer) = many(&mut frames, &counters, 1000);
    assert_eq!(arrival, arrived(240, 100, one));
    assert_eq!(buffer[..240], [&[1; 100][..], &[2; 100], &[3; 40]].concat());
    assert_eq!(many(&mut frames, &counters, 1000).0, arrived(100, 100, one));
    assert_eq!(many(&mut frames, &counters, 1000).0, arrived(9, 9, two));
    assert_eq!(many(&mut frames, &counters, 1000).0, Arrival::Nothing);
}

#[test]
fn packet_for_which_no_room_is_left_comes_next_time() {
    let (mut frames, counters) =
        (queue([frame(peer(1), 100, 1), frame(peer(1), 100, 2)]), Counters::default());
    assert_eq!(many(&mut frames, &counters, 199).0, arrived(100, 100, peer(1)));
    assert_eq!(many(&mut frames, &counters, 99).0, Arrival::TooLarge(100));
    assert!(frames.queue.0.is_empty());
}

#[test]
fn useless_frames_are_counted_and_skipped() {
    let mut corrupt = frame(peer(1), 100, 1);
    corrupt[OVERHEAD + 5] ^= 1;
    let all = [vec![0; 60], corrupt.clone(), frame(peer(1), 8, 2), corrupt, frame(peer(1), 8, 3)];
    let (mut frames, counters) = (queue(all), Counters::default());
    let mut buffer = [0; 100];
    let one = frames.take_one(EtherType::default(), &counters, &mut buffer);
    assert_eq!(one, Arrival::Packet { len: 8, from: peer(1), checksum: Checksum::Computed });
    assert_eq!(buffer[..8], [2; 8]);
    assert_eq!(many(&mut frames, &counters, 100).0, arrived(8, 8, peer(1)));
    let counted = counters.read();
    assert_eq!((counted.malformed, counted.corrupt), (1, 2));
}

#[test]
fn several_packets_of_a_frame_come_together_with_those_of_other_frames() {
    let (from, bytes) = (peer(1), (0..100).collect::<Vec<u8>>());
    let (mut frames, counters) = (
        queue([several(from, &bytes[..80], 20), several(from, &bytes[80..], 20), frame(from, 7, 9)]),
        Counters::default(),
    );
    // Four packets of 20 bytes, a fifth in a frame of its own, and one of 7 bytes, behind which no other may come.
    let (arrival, buffer) = many(&mut frames, &counters, 1000);
    assert_eq!(arrival, arrived(107, 20, from));
    assert_eq!(buffer[..107], [&bytes[..], &[9; 7]].concat());
}

#[test]
fn packets_of_a_frame_are_taken_one_by_one_where_only_one_is_wanted_or_fits() {
    let (from, bytes) = (peer(1), (0..50).collect::<Vec<u8>>());
    let (mut frames, counters) =
        (queue([several(from, &bytes, 20), frame(from, 20, 9)]), Counters::default());
    let mut buffer = [0; 100];
    let one = |len| Arrival::Packet { len, from, checksum: Checksum::Computed };
    assert_eq!(frames.take_one(EtherType::default(), &counters, &mut buffer), one(20));
    assert_eq!(buffer[..20], bytes[..20]);
    let (arrival, buffer) = many(&mut frames, &counters, 30);
    assert_eq!((arrival, &buffer[..20]), (arrived(20, 20, from), &bytes[20..40]));
    let (arrival, buffer) = many(&mut frames, &counters, 1000);
    assert_eq!((arrival, &buffer[..10]), (arrived(10, 10, from), &bytes[40..]));
    assert_eq!(many(&mut frames, &counters, 1000).0, arrived(20, 20, from));
    assert_eq!(many(&mut frames, &counters, 1000).0, Arrival::Nothing);
}

#[test]
fn corrupt_frame_of_several_packets_is_dropped_whole() {
    let mut corrupt = several(peer(1), &[1; 40], 20);
    corrupt[OVERHEAD + 39] ^= 1;
    let (mut frames, counters) =
        (queue([corrupt.clone(), corrupt, frame(peer(1), 8, 2)]), Counters::default());
    let mut buffer = [0; 100];
    let one = frames.take_one(EtherType::default(), &counters, &mut buffer);
    assert_eq!(one, Arrival::Packet { len: 8, from: peer(1), checksum: Checksum::Computed });
    assert_eq!(counters.read().corrupt, 2);
}
