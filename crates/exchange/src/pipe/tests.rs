//! The two ends of a pipe over a link that loses, repeats and delays packets.

mod last_bytes;

use super::{Added, FIRST_WINDOW, Framing, Piece, Receiving, Rest, Sending};
use crate::bulk::Path;
use crate::bulk::tests::Random;
use crate::room::{PacketRoom, Part};
use crate::{Instant, RoundTrip};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use stoop_wire::{BindingId, CallNumber, Data, Header, LaneId, PipeEnd, PipeReceipt, Receipt, ReceiptBehind};

const FRAMING: Framing = Framing { binding: BindingId(77), lane: LaneId(3), number: CallNumber(9) };
const MICRO: u64 = 1000;

/// The byte at that offset.
fn byte(offset: u64) -> u8 {
    (offset ^ offset >> 8 ^ offset >> 16) as u8
}

fn bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(byte).collect()
}

struct Link {
    sending: Sending,
    receiving: Receiving,
    path: Path,
    now: Instant,
    random: Random,
    /// Per mille of packets that are lost, and that come twice.
    lose: u32,
    repeat: u32,
    on_the_way: BTreeMap<(Instant, u64), Vec<u8>>,
    sent: u64,
    /// Packets of data, and receipts.
    data: u64,
    receipts: u64,
    /// Packets that were taken together with one before them.
    together: usize,
    /// Parts of packets that were gathered.
    gathered: usize,
    /// Offset behind the last byte that the program has taken.
    taken: u64,
    rest: Rest,
}

/// Takes packets in both ways.
#[derive(Default)]
struct Room {
    put: Vec<u8>,
    parts: Vec<Part>,
}

impl PacketRoom for Room {
    fn put(&mut self, len: usize, segment: usize, write: impl FnMut(&mut [u8])) {
        self.put.put(len, segment, write);
    }

    fn gather(&mut self, _len: usize, _segment: usize) -> Option<&mut Vec<Part>> {
        Some(&mut self.parts)
    }
}

impl Link {
    fn new(offset: u64, window: u32, window_max: u32, (lose, repeat): (u32, u32), seed: u64) -> Self {
        Self {
            sending: Sending::new(offset, offset + u64::from(window), false),
            receiving: Receiving::new(offset, window, window_max),
            path: Path::new(1440, RoundTrip::default(), seed),
            now: Instant::from_nanos(1),
            random: Random(seed),
            lose,
            repeat,
            on_the_way: BTreeMap::new(),
            sent: 0,
            data: 0,
            receipts: 0,
            together: 0,
            gathered: 0,
            taken: offset,
            rest: Rest::Open,
        }
    }

    fn put(&mut self, packet: &[u8]) {
        if self.random.below(1000) < self.lose {
            return;
        }
        for _ in 0..1 + u32::from(self.random.below(1000) < self.repeat) {
            let late = u64::from(self.random.below(20)) * if self.lose > 0 { MICRO } else { 0 };
            self.sent += 1;
            self.on_the_way.insert((self.now.after_nanos(20 * MICRO + late), self.sent), packet.to_vec());
        }
    }

    /// Sends what may leave now, and returns whether anything did.
    fn pump(&mut self) {
        while let Some(run) = self.sending.next_run(self.now, &mut self.path, 65_507) {
            let segment = self.path.packet_len(run.fragment);
            let mut room = Room::default();
            self.sending.frame(self.now, FRAMING, (&run, segment), None, &mut room);
            let parts = room.parts.iter().map(Part::bytes).collect::<Vec<_>>();
            self.gathered += parts.len();
            let datagrams = if parts.is_empty() { room.put } else { parts.concat() };
            for packet in datagrams.chunks(segment) {
                self.data += 1;
                self.put(packet);
            }
        }
        if self.receiving.owes_receipt(true) {
            let mut packet = [0; Receipt::MAX_PACKET];
            let len = self.receiving.receipt(self.now, FRAMING, &mut packet);
            self.receipts += 1;
            self.put(&packet[..len]);
        }
    }

    /// The program takes at most so many bytes, which have to be the ones that were sent.
    fn take(&mut self, most: usize) -> usize {
        let (received, rest) = self.receiving.received();
        let len = received.len().min(most);
        for (offset, &is) in (self.taken..).zip(&received[..len]) {
            assert_eq!(is, byte(offset), "at {offset}");
        }
        self.rest = if len == received.len() { rest } else { Rest::Open };
        self.taken += len as u64;
        self.receiving.take(len);
        len
    }

    /// Lets the next thing happen; false if nothing will.
    fn step(&mut self) -> bool {
        self.pump();
        let due = self.sending.next_timeout(&self.path).min(self.receiving.next_timeout());
        let arrival = self.on_the_way.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at);
        if due.min(arrival) == Instant::NEVER {
            return false;
        }
        self.now = self.now.max(due.min(arrival));
        if due < arrival {
            self.sending.on_timeout(self.now, &mut self.path);
            self.receiving.on_timeout(self.now);
        } else if let Some(((at, _), packet)) = self.on_the_way.pop_first() {
            let (header, payload) = Header::parse(&packet).expect("both ends send packets");
            if let Some(data) = Data::of(&header) {
                let taken = self.receiving.on_data(self.now, &data, payload);
                assert!(taken.is_ok(), "{data:?}");
                self.take_together(at, packet.len());
            } else {
                let of_pipe = PipeReceipt::of(&header).expect("it is for a pipe");
                let receipt = Receipt::decode(payload).expect("a receipt");
                self.sending.on_receipt(self.now, header.time, (of_pipe, &receipt), &mut self.path);
            }
        }
        self.pump();
        true
    }

    /// Takes the packets of that length in one piece that have arrived at the same time, as far as they are data that goes on.
    fn take_together(&mut self, at: Instant, segment: usize) {
        let is_alike = |(key, packet): &(&(Instant, u64), &Vec<u8>)| key.0 == at && packet.len() == segment;
        let alike = self.on_the_way.iter().take_while(is_alike).map(|(_, packet)| &packet[..]);
        let datagrams = alike.collect::<Vec<_>>().concat();
        let taken = self.receiving.take_parts(self.now, &datagrams, segment);
        (0..taken / segment).for_each(|_| _ = self.on_the_way.pop_first());
        self.together += taken / segment;
    }

    /// Sends so many bytes in all, while the program takes at most so many at a time, and ends the pipe.
    fn transfer(&mut self, bytes_in_all: u64, most: usize) {
        let end = self.sending.len() + bytes_in_all;
        while self.rest == Rest::Open {
            let at = self.sending.len();
            if at < end {
                let bytes = bytes(at, (end - at).min(8192) as usize);
                match at % 3 {
                    0 => self.sending.send(self.now, &bytes),
                    _ => self.sending.send(self.now, Added::Shared(&Piece::new(bytes))),
                };
            } else {
                self.sending.finish(self.now);
            }
            assert!(self.sending.len() <= self.receiving.granted() + u64::from(FIRST_WINDOW));
            self.take(most);
            if self.receiving.is_held_up() {
                self.receiving.widen(self.receiving.wider());
            }
            assert!(self.step() || self.receiving.received() != (&[], Rest::Open), "it goes on");
        }
        assert_eq!((self.rest, self.taken), (Rest::Finished, end));
        while self.step() {}
        assert!(self.sending.is_done() && self.receiving.is_settled());
        assert_eq!(
            (self.path.in_flight(), self.sending.bytes_held(), self.receiving.bytes_held()),
            (0, 0, 0)
        );
    }
}

#[test]
fn bytes_arrive_once_and_in_order_and_so_does_the_end() {
    for seed in 0..40 {
        let window = [1, 100, 5_000, FIRST_WINDOW][seed as usize % 4];
        let len = if window < 1000 { 3_000 } else { 200_000 };
        Link::new(0, window, window, (0, 0), seed).transfer(len, usize::MAX);
        let most = 1 + seed as usize * 37;
        Link::new(0, window, 1 << 18, (200, 100), seed).transfer(len, most);
    }
}

#[test]
fn an_empty_pipe_has_an_end() {
    for seed in 0..20 {
        Link::new(0, 1, 1, (400, 100), seed).transfer(0, 1);
    }
}

#[test]
fn offsets_pass_the_32_bits_of_a_receipt() {
    for seed in 0..20 {
        let offset = (1 << 32) - [1, 1000, 70_000, 150_000][seed as usize % 4];
        Link::new(offset, FIRST_WINDOW, 1 << 18, (100, 100), seed).transfer(300_000, usize::MAX);
    }
}

#[test]
fn a_long_pipe_counts_from_later_places() {
    let mut link = Link::new((1 << 32) - (40 << 20), FIRST_WINDOW, 1 << 20, (2, 2), 1);
    link.transfer(80 << 20, usize::MAX);
    assert!(link.together > 0, "some packets in order arrive at the same time");
    assert!(link.gathered > 0, "some are sent from where their bytes lie");
}

#[test]
fn a_piece_that_is_taken_byte_by_byte_leaves_as_one() {
    let mut link = Link::new(0, FIRST_WINDOW, FIRST_WINDOW, (0, 0), 1);
    let piece = Piece::new(bytes(0, 1000));
    for at in 0..1000 {
        let rest = piece.part(at, 1000 - at);
        assert_eq!(link.sending.append_first(link.now, Added::Shared(&rest), 1), 1);
    }
    let run = link.sending.next_run(link.now, &mut link.path, 65_507).unwrap();
    let (segment, mut room) = (link.path.packet_len(run.fragment), Room::default());
    link.sending.frame(link.now, FRAMING, (&run, segment), None, &mut room);
    let [Part::Header(_), Part::Bytes(part)] = &room.parts[..] else { panic!("{:?}", room.parts) };
    assert_eq!(part.bytes(), bytes(0, 1000));
}

#[test]
fn a_receipt_waits_for_an_answer_as_long_as_they_come() {
    let [mut there, mut back] = [1, 2].map(|seed| Link::new(0, FIRST_WINDOW, FIRST_WINDOW, (0, 0), seed));
    let now = Instant::from_nanos(1);
    for item in 0..10 {
        // Each end sends an item, and with it the receipt for the other's.
        for link in [&mut there, &mut back] {
            assert_eq!(link.sending.send(now, &bytes(64 * item, 64)), 64);
        }
        cross(now, &mut there, &mut back);
        cross(now, &mut back, &mut there);
        assert_eq!((there.take(usize::MAX), back.take(usize::MAX)), (64, 64));
    }
    assert!(!there.receiving.owes_receipt(true) && !there.sending.is_under_way(), "the answer has told it");
    assert!(!back.receiving.owes_receipt(true), "the last one waits for the next answer");
    let due = back.receiving.next_timeout();
    assert!(due < back.sending.next_timeout(&back.path), "and the sender knows how long");
    back.receiving.on_timeout(due);
    assert!(back.receiving.owes_receipt(true));
    assert_eq!(back.sending.send(due, &bytes(640, 64)), 64);
    cross(due, &mut back, &mut there);
    assert!(back.receiving.owes_receipt(true), "after one that was not answered, none waits");
}

/// Sends an item by one pipe with the receipt for the other, and takes both.
fn cross(now: Instant, out: &mut Link, other: &mut Link) {
    let run = out.sending.next_run(now, &mut out.path, 65_507).expect("an item");
    let (segment, mut packet) = (out.path.packet_len(run.fragment), Vec::new());
    out.sending.frame(now, FRAMING, (&run, segment), Some(&mut other.receiving), &mut packet);
    let (header, payload) = Header::parse(&packet).expect("a packet");
    let data = Data::of(&header).expect("of data");
    let (bytes, behind) = data.split(&header, payload);
    assert_eq!(out.receiving.on_data(now, &data, bytes), Ok(true));
    if let Some(ReceiptBehind { number, of_pipe, receipt }) = behind {
        other.sending.on_receipt(now, number, (of_pipe, &receipt), &mut other.path);
    }
}

#[test]
fn a_lone_item_is_two_packets() {
    let mut link = Link::new(0, FIRST_WINDOW, FIRST_WINDOW, (0, 0), 1);
    for item in 1..10 {
        link.sending.send(link.now, &bytes(link.sending.len(), 64));
        while link.step() {}
        assert_eq!(link.take(usize::MAX), 64);
        while link.step() {}
        assert_eq!((link.data, link.receipts), (item, item));
    }
}

#[test]
fn a_lost_receipt_is_asked_for() {
    let mut link = Link::new(0, 1000, 1000, (0, 0), 1);
    link.sending.send(link.now, &bytes(0, 3000));
    while link.step() && link.now < Instant::from_nanos(1_000_000_000) {}
    assert_eq!(link.take(usize::MAX), 1000, "not more than the window");
    link.lose = 1000;
    link.pump();
    link.lose = 0;
    while link.step() && link.taken < 3000 {
        link.take(usize::MAX);
    }
    assert_eq!(link.taken, 3000);
}

#[test]
fn nothing_is_sent_beyond_the_limit_and_such_data_is_refused() {
    let mut receiving = Receiving::new(0, 100, 100);
    let data = |at, len| Data { at, len, end: None, has_waited: false, transmission: 1 };
    for (at, len) in [(0, 101), (100, 1), (1 << 40, 1), (50, 51)] {
        assert!(receiving.on_data(Instant::default(), &data(at, len), &bytes(at, len.into())).is_err());
    }
    assert_eq!(receiving.on_data(Instant::default(), &data(0, 100), &bytes(0, 100)), Ok(true));
    assert!(receiving.on_data(Instant::default(), &data(100, 1), &[1]).is_err(), "it was not taken yet");
    assert_eq!(receiving.received().0, bytes(0, 100));
}

#[test]
fn bytes_that_waited_for_a_higher_limit_say_so_through_losses_and_no_others_do() {
    for (seed, has_more) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
        // A sender that does not ask never learns of a limit whose receipt is lost, and has to wait for it later.
        let lose = if has_more { 300 } else { 0 };
        let mut link = Link::new(0, 4000, 4000, (lose, 100), seed);
        link.sending.send(link.now, &bytes(0, 4000));
        if has_more {
            link.sending.want(link.now, &link.path);
        }
        while link.receiving.received().0.len() < 4000 && link.step() {}
        let drawn = link.receiving.draw(&mut Vec::new());
        assert_eq!(
            (drawn.len, drawn.has_waited),
            (4000, false),
            "the first limit was there from the beginning"
        );
        link.receiving.credit(4000);
        link.receiving.set_window(4000);
        while link.sending.limit() < 8000 && link.step() {}
        link.sending.send(link.now, &bytes(4000, 4000));
        while link.receiving.received().0.len() < 4000 && link.step() {}
        let drawn = link.receiving.draw(&mut Vec::new());
        assert_eq!((drawn.len, drawn.has_waited), (4000, has_more), "{seed}");
    }
}

#[test]
fn an_abort_is_no_end_and_arrives_through_losses() {
    for seed in 0..60 {
        let mut link = Link::new(0, 5000, 5000, (300, 100), seed);
        link.sending.send(link.now, &bytes(0, 4000));
        (0..seed).for_each(|_| _ = link.step());
        link.sending.abort(link.now, &mut link.path);
        while link.step() {}
        link.take(usize::MAX);
        assert!(link.sending.is_done() && link.receiving.is_settled(), "{seed}");
        assert_eq!((link.rest, link.path.in_flight()), (Rest::Aborted, 0), "{seed}");
        assert_eq!(link.sending.bytes_held(), 0);
    }
}

#[test]
fn a_stop_ends_the_sender_through_losses() {
    for seed in 0..60 {
        let mut link = Link::new(0, 5000, 5000, (300, 100), seed);
        link.sending.send(link.now, &bytes(0, 4000));
        let (before, stops_late) = (seed / 2, seed % 2 == 1);
        (0..before).for_each(|_| _ = link.step());
        if stops_late {
            link.sending.finish(link.now);
            (0..5).for_each(|_| _ = link.step());
        }
        let is_whole = link.receiving.is_settled();
        link.receiving.stop(link.now);
        while link.step() {}
        assert_eq!(link.receiving.received().0, [0; 0], "what was here is dropped");
        assert!(link.sending.is_done() && link.receiving.is_settled(), "{seed}");
        assert!(link.sending.is_stopped() || stops_late, "{seed} {is_whole}");
        assert!(!link.sending.is_open() && link.sending.send(link.now, &[1]) == 0);
        assert_eq!(
            (link.path.in_flight(), link.sending.bytes_held(), link.receiving.bytes_held()),
            (0, 0, 0)
        );
    }
}

#[test]
fn ends_that_move_are_refused() {
    let mut receiving = Receiving::new(0, 100, 100);
    let end = |at, end| Data { at, len: 0, end: Some(end), has_waited: false, transmission: 1 };
    let now = Instant::default();
    let data = Data { at: 0, len: 10, end: None, has_waited: false, transmission: 1 };
    receiving.on_data(now, &data, &bytes(0, 10)).expect("it is the beginning");
    assert!(receiving.on_data(now, &end(9, PipeEnd::Finished), &[]).is_err());
    assert!(receiving.on_data(now, &end(9, PipeEnd::Aborted), &[]).is_err());
    assert_eq!(receiving.on_data(now, &end(10, PipeEnd::Finished), &[]), Ok(true));
    assert!(receiving.on_data(now, &end(11, PipeEnd::Finished), &[]).is_err());
    let beyond = Data { at: 10, len: 1, end: None, has_waited: false, transmission: 2 };
    assert!(receiving.on_data(now, &beyond, &[1]).is_err());
    assert_eq!(receiving.received(), (&bytes(0, 10)[..], Rest::Finished));
}

#[test]
fn all_bytes_are_kept_until_the_program_at_the_other_end_takes_some() {
    let mut link = Link::new(0, 8000, 8000, (0, 0), 1);
    link.sending = Sending::new(0, 8000, true);
    link.sending.send(link.now, &bytes(0, 5000));
    while link.step() {}
    assert_eq!(link.sending.all_bytes(), Some(bytes(0, 5000)), "it could be sent again");
    link.take(usize::MAX);
    while link.step() {}
    assert_eq!((link.sending.all_bytes(), link.sending.bytes_held()), (None, 0));
}

#[test]
fn forged_packets_change_nothing_that_was_promised() {
    for seed in 0..300 {
        let mut link = Link::new(0, 3000, 3000, (100, 100), seed);
        let random = |link: &mut Link, below: u32| u64::from(link.random.below(below));
        for _ in 0..200 {
            match link.random.below(6) {
                0 => _ = link.sending.send(link.now, &bytes(link.sending.len(), 700)),
                1 => _ = link.take(500),
                2 => {
                    let (up_to, limit) = (random(&mut link, 5000), random(&mut link, 9000));
                    let mut receipt = Receipt::new(link.random.below(30), 0, limit as u32, up_to as u32);
                    receipt.push(up_to as u32 + 10, up_to as u32 + link.random.below(3000));
                    let of_pipe = PipeReceipt { stop: link.random.below(30) == 0, high: 0 };
                    let number = link.random.below(50);
                    link.sending.on_receipt(link.now, number, (of_pipe, &receipt), &mut link.path);
                }
                3 => {
                    let at = random(&mut link, 10_000);
                    let len = link.random.below(900) as u16;
                    let how = [None, Some(PipeEnd::Finished), Some(PipeEnd::Aborted)];
                    let end = how[link.random.below(3) as usize].filter(|_| link.random.below(30) == 0);
                    let len = if end == Some(PipeEnd::Aborted) { 0 } else { len };
                    let data = Data { at, len, end, has_waited: false, transmission: link.random.below(100) };
                    let _ = link.receiving.on_data(link.now, &data, &bytes(at, len.into()));
                }
                _ => {
                    // Real packets may contradict the forged ones.
                    link.pump();
                    let Some((_, packet)) = link.on_the_way.pop_first() else { continue };
                    let (header, payload) = Header::parse(&packet).expect("a packet");
                    if let Some(data) = Data::of(&header) {
                        let _ = link.receiving.on_data(link.now, &data, payload);
                    } else if let Some(receipt) = Receipt::decode(payload) {
                        let of_pipe = PipeReceipt::of(&header).expect("of a pipe");
                        link.sending.on_receipt(link.now, header.time, (of_pipe, &receipt), &mut link.path);
                    }
                    link.now = link.now.after_nanos(MICRO);
                }
            }
            assert!(link.receiving.granted() <= link.taken + 3000);
            assert!(link.receiving.bytes_held() <= 4 * 3000, "{}", link.receiving.bytes_held());
        }
        link.sending.forget(&mut link.path);
        assert_eq!(link.path.in_flight(), 0);
    }
}

#[test]
fn a_sender_that_waits_for_room_asks_until_the_limit_moves_though_all_that_it_has_sent_has_arrived() {
    let mut path = Path::new(1440, RoundTrip::default(), 1);
    let mut sending = Sending::new(0, 100, false);
    let mut now = Instant::from_nanos(1);
    assert_eq!(sending.send(now, &[7; 100]), 100);
    sending.next_run(now, &mut path, 65_536).expect("there is room");
    let receipt = |limit| (PipeReceipt { stop: false, high: 0 }, Receipt::new(1, 0, limit, 100));
    let (of_pipe, told) = receipt(100);
    sending.on_receipt(now, 1, (of_pipe, &told), &mut path);
    assert_eq!(sending.next_timeout(&path), Instant::NEVER, "a quiet pipe sends nothing");
    sending.want(now, &path);
    let mut before = now;
    for _ in 0..4 {
        let next = sending.next_timeout(&path);
        assert!(next > now && next != Instant::NEVER && next.since(now) >= now.since(before));
        (before, now) = (now, next);
        sending.on_timeout(now, &mut path);
        let question = sending.next_run(now, &mut path, 65_536).expect("a question is due");
        assert_eq!((question.len, sending.next_run(now, &mut path, 65_536)), (0, None));
    }
    assert_eq!(sending.waits(), 4);
    let (of_pipe, told) = receipt(200);
    assert!(sending.on_receipt(now, 2, (of_pipe, &told), &mut path));
    assert_eq!((sending.next_timeout(&path), sending.waits(), sending.room()), (Instant::NEVER, 0, 100));
}
