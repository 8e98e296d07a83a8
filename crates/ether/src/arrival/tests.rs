use super::*;
use crate::address::Mac;
use crate::frame::{OVERHEAD, Template, frame_len};
use std::collections::VecDeque;

const US: Address = Address { mac: Mac([2, 0, 0, 0, 0, 1]), port: 7400 };

struct Frames(VecDeque<Vec<u8>>);

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

fn many(frames: &mut Frames, counters: &Counters, room: usize) -> (Arrival<Segments>, Vec<u8>) {
    let mut buffer = vec![0; room];
    (take_many(frames, EtherType::default(), counters, &mut buffer), buffer)
}

fn arrived(len: usize, segment: usize, from: Address) -> Arrival<Segments> {
    Arrival::Packet { len: Segments { len, segment }, from, checksum: Checksum::Computed }
}

#[test]
fn packets_of_one_sender_and_length_come_together_and_end_with_a_shorter_one() {
    let (one, two) = (peer(1), peer(2));
    let frames =
        [frame(one, 100, 1), frame(one, 100, 2), frame(one, 40, 3), frame(one, 100, 4), frame(two, 9, 5)];
    let (mut frames, counters) = (Frames(frames.into()), Counters::default());

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
        (Frames([frame(peer(1), 100, 1), frame(peer(1), 100, 2)].into()), Counters::default());
    assert_eq!(many(&mut frames, &counters, 199).0, arrived(100, 100, peer(1)));
    assert_eq!(many(&mut frames, &counters, 99).0, Arrival::TooLarge(100));
    assert!(frames.0.is_empty());
}

#[test]
fn useless_frames_are_counted_and_skipped() {
    let mut corrupt = frame(peer(1), 100, 1);
    corrupt[OVERHEAD + 5] ^= 1;
    let all = [vec![0; 60], corrupt.clone(), frame(peer(1), 8, 2), corrupt, frame(peer(1), 8, 3)];
    let (mut frames, counters) = (Frames(all.into()), Counters::default());
    let mut buffer = [0; 100];
    let one = take_one(&mut frames, EtherType::default(), &counters, &mut buffer);
    assert_eq!(one, Arrival::Packet { len: 8, from: peer(1), checksum: Checksum::Computed });
    assert_eq!(buffer[..8], [2; 8]);
    assert_eq!(many(&mut frames, &counters, 100).0, arrived(8, 8, peer(1)));
    let counted = counters.read();
    assert_eq!((counted.malformed, counted.corrupt), (1, 2));
}
