use super::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use stoop_wire::{
    BindingId, CallNumber, Data, HEADER_LEN, Header, HeaderError, Kind, LaneId, PipeEnd, RefusalCode,
    STREAM_FRAGMENT,
};

const BOUNDS: Bounds =
    Bounds { long: Kind::Call, message_max: 1 << 20, announced_max: 3 << 20, lanes: 8, pipes: true };

fn header(lane: u16, number: u32, len: usize) -> Header {
    let mut header = Header::bare(Kind::Call, BindingId(9), LaneId(lane), CallNumber(number));
    header.message_len = len as u32;
    header
}

/// A message whose bytes differ from those of other lanes.
fn packet(lane: u16, len: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADER_LEN];
    packet.extend((0..len).map(|i| (i / 7) as u8 ^ lane as u8));
    packet
}

/// The fragments of a message, as they are sent.
fn fragments(lane: u16, number: u32, len: usize) -> Vec<Vec<u8>> {
    let mut packet = packet(lane, len);
    let mut outgoing = OutgoingMessage::new(header(lane, number, len), &mut packet);
    let mut fragments = vec![];
    while !outgoing.is_done() {
        let mut fragment = vec![];
        loop {
            let mut header = [0; HEADER_LEN];
            let slice = outgoing.next_slices(&packet, &mut header).concat();
            // In steps, as a slow stream accepts them.
            let step = slice.len().min(20_000);
            fragment.extend_from_slice(&slice[..step]);
            outgoing.advance(step);
            if outgoing.is_between_fragments() {
                break;
            }
        }
        fragments.push(fragment);
    }
    fragments
}

fn whole(lane: u16, number: u32, len: usize) -> Vec<u8> {
    fragments(lane, number, len).concat()
}

#[derive(Debug, PartialEq)]
enum Seen {
    Message(u16, u32, Vec<u8>),
    NotTaken(u16, RefusalCode),
    /// Bytes of a pipe, put together, and whether it has ended behind them.
    Data(u64, Vec<u8>, bool),
}

/// Feeds a stream in steps of at most `step` bytes.
fn feed(reassembler: &mut Reassembler, stream: &[u8], step: usize) -> Result<Vec<Seen>, Violation> {
    let mut seen = vec![];
    let mut rest = stream;
    while !rest.is_empty() {
        let space = reassembler.space();
        let len = space.len().min(step).min(rest.len());
        assert!(len > 0, "there is always space");
        space[..len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
        reassembler.received(len);
        while let Some(arrival) = reassembler.poll()? {
            let next = match arrival {
                StreamEvent::Message(message) => {
                    let header = message.header;
                    let payload = message.payload().to_vec();
                    let mut taken = vec![0; Reassembler::BUFFER_LEN];
                    message.take(&mut taken);
                    assert_eq!(taken[HEADER_LEN..HEADER_LEN + payload.len()], payload);
                    // Flags that are ignored may have been cleared.
                    taken[3] = 0;
                    assert_eq!(taken[..HEADER_LEN], header.to_bytes());
                    Seen::Message(header.lane.0, header.number.0, payload)
                }
                StreamEvent::NotTaken(header, why) => Seen::NotTaken(header.lane.0, why),
                StreamEvent::Data(PipeBytes { at, bytes, end, .. }) => {
                    if let Some(Seen::Data(begin, before, ended)) = seen.last_mut()
                        && *begin + before.len() as u64 == at
                    {
                        before.extend_from_slice(bytes);
                        *ended = end.is_some();
                        continue;
                    }
                    Seen::Data(at, bytes.to_vec(), end.is_some())
                }
            };
            seen.push(next);
        }
    }
    Ok(seen)
}

fn message(lane: u16, number: u32, len: usize) -> Seen {
    Seen::Message(lane, number, packet(lane, len)[HEADER_LEN..].to_vec())
}

#[test]
fn messages_of_all_lengths_arrive_however_the_stream_is_cut() {
    let lens = [0, 1, 31, 32, 1440, 16_351, 16_352, 16_353, STREAM_FRAGMENT, STREAM_FRAGMENT + 1, 300_000];
    let stream: Vec<u8> = lens.iter().zip(1..).flat_map(|(len, number)| whole(3, number, *len)).collect();
    let expected: Vec<Seen> = lens.iter().zip(1..).map(|(len, number)| message(3, number, *len)).collect();
    for step in [1, 7, 32, 33, 1000, 16_384, usize::MAX] {
        let mut reassembler = Reassembler::new(BOUNDS);
        assert_eq!(feed(&mut reassembler, &stream, step).unwrap(), expected, "in slices of {step}");
        assert!(reassembler.is_at_rest());
    }
}

#[test]
fn messages_of_other_lanes_arrive_between_the_fragments_of_a_long_one() {
    let (long, longer) = (fragments(1, 1, 150_000), fragments(2, 1, 200_000));
    let mut stream = vec![];
    stream.extend_from_slice(&long[0]);
    stream.extend(whole(0, 1, 10));
    stream.extend_from_slice(&longer[0]);
    stream.extend_from_slice(&long[1]);
    stream.extend(whole(0, 2, 2000));
    stream.extend_from_slice(&longer[1]);
    stream.extend_from_slice(&long[2]);
    stream.extend(longer[2..].concat());
    for step in [100, 5000, usize::MAX] {
        let seen = feed(&mut Reassembler::new(BOUNDS), &stream, step).unwrap();
        let expected =
            [message(0, 1, 10), message(0, 2, 2000), message(1, 1, 150_000), message(2, 1, 200_000)];
        assert_eq!(seen, expected);
    }
}

#[test]
fn data_of_pipes_arrives_between_fragments_of_its_own_lane_however_the_stream_is_cut() {
    let data = |at: u64, len: u16, end| {
        let data = Data { at, len, end, has_waited: false, transmission: 1 };
        let mut packet = data.header(BindingId(9), LaneId(3), CallNumber(1)).to_bytes().to_vec();
        packet.extend((0..len).map(|byte| byte as u8));
        packet
    };
    let expected_data =
        |at, len: u16, ended| Seen::Data(at, (0..len).map(|byte| byte as u8).collect(), ended);
    let parts = fragments(3, 1, 2 * STREAM_FRAGMENT);
    let mut stream = parts[0].clone();
    stream.extend(data(1 << 40, Data::LEN_MAX, None));
    stream.extend(&parts[1]);
    stream.extend(data(7, 24, None));
    stream.extend(whole(2, 1, 5));
    stream.extend(data(100, 16, Some(PipeEnd::Finished)));
    let expected = [
        expected_data(1 << 40, Data::LEN_MAX, false),
        message(3, 1, 2 * STREAM_FRAGMENT),
        expected_data(7, 24, false),
        message(2, 1, 5),
        expected_data(100, 16, true),
    ];
    for step in [1, 33, 1000, 16_384, usize::MAX] {
        let seen = feed(&mut Reassembler::new(BOUNDS), &stream, step).unwrap();
        assert!(seen == expected, "by steps of {step}");
    }
    let without = Bounds { pipes: false, ..BOUNDS };
    assert!(feed(&mut Reassembler::new(without), &stream, 1000).is_err());
}

#[test]
fn a_message_that_arrives_alone_is_taken_without_a_copy() {
    let mut reassembler = Reassembler::new(BOUNDS);
    let stream = whole(1, 1, 100);
    reassembler.space()[..stream.len()].copy_from_slice(&stream);
    let place = reassembler.space().as_ptr();
    reassembler.received(stream.len());
    let Some(StreamEvent::Message(message)) = reassembler.poll().unwrap() else { panic!("a message") };
    let mut packet = vec![0; Reassembler::BUFFER_LEN];
    message.take(&mut packet);
    assert_eq!(packet.as_ptr(), place);
}

#[test]
fn a_flag_of_a_later_version_that_may_be_ignored_stays_in_the_packet() {
    let mut stream = whole(1, 1, 100);
    stream[3] |= 0x20;
    let mut reassembler = Reassembler::new(BOUNDS);
    reassembler.space()[..stream.len()].copy_from_slice(&stream);
    reassembler.received(stream.len());
    let Some(StreamEvent::Message(message)) = reassembler.poll().unwrap() else { panic!("a message") };
    let header = message.header;
    let mut packet = vec![0; Reassembler::BUFFER_LEN];
    message.take(&mut packet);
    assert_eq!(packet[..stream.len()], stream);
    assert_eq!(header.to_bytes(), whole(1, 1, 100)[..HEADER_LEN]);
}

#[test]
fn a_message_that_is_too_long_is_skipped_and_the_next_one_arrives() {
    let len = BOUNDS.message_max + 1;
    let stream = [whole(1, 1, len), whole(1, 2, 5)].concat();
    let seen = feed(&mut Reassembler::new(BOUNDS), &stream, 10_000).unwrap();
    assert_eq!(seen, [Seen::NotTaken(1, RefusalCode::MessageTooLarge), message(1, 2, 5)]);
}

#[test]
fn all_incomplete_messages_together_are_bounded() {
    let mut reassembler = Reassembler::new(BOUNDS);
    let begun: Vec<u8> = (0..3).flat_map(|lane| fragments(lane, 1, 1 << 20)[0].clone()).collect();
    let seen = feed(&mut reassembler, &[begun, whole(3, 1, 1 << 20)].concat(), 10_000).unwrap();
    assert_eq!(seen, [Seen::NotTaken(3, RefusalCode::Overloaded)]);
    // An abandoned message frees its memory.
    let others = [whole(0, 2, 0), whole(5, 1, 1 << 20)].concat();
    assert_eq!(feed(&mut reassembler, &others, 10_000).unwrap(), [message(0, 2, 0), message(5, 1, 1 << 20)]);
}

#[test]
fn memory_grows_with_arrived_bytes_and_not_with_announced_ones() {
    let bounds = Bounds { message_max: 1 << 30, announced_max: 1 << 30, ..BOUNDS };
    let mut reassembler = Reassembler::new(bounds);
    let mut stream = header(0, 1, 1 << 30).to_bytes().to_vec();
    stream.extend([0; 10]);
    feed(&mut reassembler, &stream, usize::MAX).unwrap();
    assert!(reassembler.bytes_held() < 100_000, "{}", reassembler.bytes_held());
}

/// An account that counts, and grants at most so many bytes.
#[derive(Debug)]
struct Counting {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl Account for Counting {
    fn take(&mut self, bytes: usize) -> bool {
        let taken = self.held.load(Ordering::Relaxed) + bytes <= self.most;
        self.held.fetch_add(if taken { bytes } else { 0 }, Ordering::Relaxed);
        taken
    }

    fn give_back(&mut self, bytes: usize) {
        assert!(self.held.fetch_sub(bytes, Ordering::Relaxed) >= bytes, "no more than was taken");
    }

    fn keep_spare(&mut self, _: usize) -> bool {
        false
    }

    fn uncount_spare(&mut self, _: usize) {
        panic!("nothing is kept");
    }
}

fn counted(most: usize) -> (Reassembler, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let account = Counting { held: Arc::clone(&held), most };
    let mut reassembler = Reassembler::with_account(BOUNDS, Box::new(account));
    reassembler.lend_input(&mut Vec::new());
    (reassembler, held)
}

#[test]
fn an_input_buffer_is_given_back_between_messages_and_not_within_one() {
    let mut reassembler = Reassembler::new(BOUNDS);
    let stream = [whole(1, 1, 100), whole(1, 2, 300)].concat();
    let (first, rest) = stream.split_at(HEADER_LEN + 100 + 7);
    let mut spare = Vec::new();
    assert_eq!(feed(&mut reassembler, first, usize::MAX).unwrap(), [message(1, 1, 100)]);
    reassembler.give_input_back(&mut spare);
    assert!(spare.is_empty() && reassembler.has_input(), "it has the beginning of the next message");
    assert_eq!(feed(&mut reassembler, rest, usize::MAX).unwrap(), [message(1, 2, 300)]);
    reassembler.give_input_back(&mut spare);
    assert!(spare.len() == Reassembler::BUFFER_LEN && reassembler.bytes_held() == 0);
    reassembler.lend_input(&mut spare);
    assert_eq!(feed(&mut reassembler, &whole(1, 3, 5), usize::MAX).unwrap(), [message(1, 3, 5)]);
}

#[test]
fn memory_is_counted_until_a_message_is_dropped_refused_or_given_out() {
    let (mut reassembler, held) = counted(400_000);
    let held = || held.load(Ordering::Relaxed);
    let begun = fragments(0, 1, 300_000);
    feed(&mut reassembler, &[&begun[0][..], &begun[1]].concat(), 9_999).unwrap();
    assert!((131_000..270_000).contains(&held()), "{} bytes for two fragments", held());
    // There is no room for all of this one. It is skipped, and its neighbours arrive.
    let others = [whole(1, 1, 300_000), whole(2, 1, 100), begun[2..].concat()].concat();
    let seen = feed(&mut reassembler, &others, 9_999).unwrap();
    assert_eq!(
        seen,
        [Seen::NotTaken(1, RefusalCode::Overloaded), message(2, 1, 100), message(0, 1, 300_000)]
    );
    // The receiver has it, and gives it back.
    assert_eq!(held(), HEADER_LEN + 300_000);
    let (mut reassembler, held) = counted(400_000);
    let given_up = fragments(1, 1, 150_000);
    feed(&mut reassembler, &[&given_up[0][..], &cancel(1, 1).0].concat(), 9_999).unwrap();
    assert_eq!(held.load(Ordering::Relaxed), 0);
}

#[test]
fn the_next_message_of_a_lane_ends_an_incomplete_one() {
    let given_up = fragments(1, 1, 150_000);
    let stream = [given_up[0].clone(), given_up[1].clone(), whole(1, 2, 90_000)].concat();
    assert_eq!(feed(&mut Reassembler::new(BOUNDS), &stream, 9_999).unwrap(), [message(1, 2, 90_000)]);
}

/// A cancel, and the event that it causes.
fn cancel(lane: u16, number: u32) -> (Vec<u8>, Seen) {
    let header = Header { kind: Kind::Cancel, ..header(lane, number, 0) };
    (header.to_bytes().to_vec(), Seen::Message(lane, number, vec![]))
}

#[test]
fn a_cancel_drops_the_incomplete_message_of_its_call() {
    let long = fragments(1, 5, 150_000);
    let (cancelled, seen_cancel) = cancel(1, 5);
    let stream = [long[0].clone(), long[1].clone(), cancelled, whole(1, 6, 90_000)].concat();
    let mut reassembler = Reassembler::new(BOUNDS);
    assert_eq!(feed(&mut reassembler, &stream, 9_999).unwrap(), [seen_cancel, message(1, 6, 90_000)]);
    assert!(reassembler.is_at_rest());
}

#[test]
fn a_cancel_of_another_call_leaves_an_incomplete_message_alone() {
    let long = fragments(1, 5, 150_000);
    let ((before, seen_before), (beside, seen_beside)) = (cancel(1, 4), cancel(2, 5));
    let stream = [long[0].clone(), before, beside, long[1].clone(), long[2].clone()].concat();
    let seen = feed(&mut Reassembler::new(BOUNDS), &stream, 9_999).unwrap();
    assert_eq!(seen, [seen_before, seen_beside, message(1, 5, 150_000)]);
}

#[test]
fn fragments_that_do_not_continue_their_message_are_violations() {
    let all = fragments(1, 5, 200_000);
    let altered = |alter: fn(&mut Header)| {
        let mut next = Header::from_bytes(all[1][..HEADER_LEN].try_into().unwrap()).unwrap();
        alter(&mut next);
        [all[0].clone(), next.to_bytes().to_vec()].concat()
    };
    let streams = [
        ("a gap", [all[0].clone(), all[2].clone()].concat()),
        ("an overlap", [all[0].clone(), all[1].clone(), all[1].clone()].concat()),
        ("no beginning", all[1].clone()),
        ("another length", altered(|header| header.message_len += 1)),
        ("another procedure", altered(|header| header.procedure += 1)),
        ("another number", altered(|header| header.number.0 += 1)),
        ("another binding", altered(|header| header.binding.0 += 1)),
        ("a second beginning", [all[0].clone(), all[0].clone()].concat()),
        ("an empty fragment", altered(|header| header.offset = header.message_len)),
    ];
    for (what, stream) in streams {
        let seen = feed(&mut Reassembler::new(BOUNDS), &stream, 4096);
        assert_eq!(seen, Err(Violation::Fragment(LaneId(1))), "{what}");
    }
}

#[test]
fn each_forbidden_header_is_its_violation() {
    let refused =
        |header: Header| feed(&mut Reassembler::new(BOUNDS), &header.to_bytes(), usize::MAX).unwrap_err();
    assert_eq!(refused(header(8, 1, 0)), Violation::Lane(LaneId(8)));
    assert_eq!(refused(Header { kind: Kind::Bind, ..header(0, 1, 1441) }), Violation::Length(Kind::Bind));
    assert_eq!(refused(Header { kind: Kind::Result, ..header(0, 1, 1441) }), Violation::Length(Kind::Result));
    assert_eq!(refused(Header { kind: Kind::Cancel, ..header(0, 1, 1) }), Violation::Length(Kind::Cancel));
    let challenge = Header { kind: Kind::Challenge, ..header(1, 1, 4) };
    assert_eq!(refused(challenge), Violation::Fragment(LaneId(1)));
    let beyond = Header { offset: 10, ..header(0, 1, 9) };
    assert_eq!(refused(beyond), Violation::Header(HeaderError::OffsetBeyondMessage));
    let garbage = feed(&mut Reassembler::new(BOUNDS), &[0x47; 64], usize::MAX).unwrap_err();
    assert_eq!(garbage, Violation::Header(HeaderError::Magic(0x47)));
}

#[test]
fn another_protocol_is_known_by_its_first_byte() {
    let mut reassembler = Reassembler::new(BOUNDS);
    assert_eq!(feed(&mut reassembler, b"S", 1), Err(Violation::Header(HeaderError::Magic(b'S'))));
    let mut reassembler = Reassembler::new(BOUNDS);
    assert_eq!(feed(&mut reassembler, &whole(1, 1, 10)[..HEADER_LEN - 1], 1), Ok(Vec::new()));
}

#[test]
fn random_bytes_cause_no_panic_and_no_large_allocation() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..2_000 {
        let mut stream: Vec<u8> = (0..4)
            .flat_map(|_| {
                let len = [0, 100, 20_000, 150_000][next() as usize % 4];
                fragments(next() as u16 % 4, next() as u32 % 3, len)
            })
            .flatten()
            .collect();
        for _ in 0..next() % 4 {
            let at = next() as usize % stream.len().min(200_000);
            stream[at] ^= 1 << (next() % 8);
        }
        let mut reassembler = Reassembler::new(BOUNDS);
        let _ = feed(&mut reassembler, &stream, 1 + next() as usize % 70_000);
        assert!(reassembler.bytes_held() <= 2 * stream.len() + 200_000, "{}", reassembler.bytes_held());
    }
}
