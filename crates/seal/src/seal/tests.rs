use super::*;
use crate::toy::Toy;
use alloc::vec::Vec;

const SECOND: u64 = 1_000_000_000;
const CALLER: Secret = [1; 32];
const SERVER: Secret = [2; 32];

fn ends() -> (Seal<Toy>, Seal<Toy>) {
    let end = |side| Seal::new(Toy, side, CALLER, SERVER, 0);
    (end(Side::Caller), end(Side::Server))
}

/// A packet with three bytes of data, and padding behind its trailer.
fn packet(end: &Seal<Toy>) -> ([u8; 62], usize) {
    packet_of(end, &mut Numbers::default())
}

fn packet_of(end: &Seal<Toy>, numbers: &mut Numbers) -> ([u8; 62], usize) {
    let mut packet = [7; 62];
    packet[3] = 0;
    packet[HEADER_LEN..35].copy_from_slice(b"abc");
    assert!(end.seal(numbers, &mut packet, 35));
    (packet, 35)
}

fn number_of((sealed, len): ([u8; 62], usize)) -> u64 {
    u64::from_le_bytes(sealed[len..len + NUMBER_LEN].try_into().unwrap())
}

fn opens(end: &Seal<Toy>, now_ns: u64, packet: &[u8; 62], len: usize) -> Opened {
    let mut copy = *packet;
    let opened = end.open(now_ns, &mut copy, len);
    if opened != Opened::No {
        assert_eq!(&copy[HEADER_LEN..len], b"abc");
        assert_eq!(copy[3], 0, "the flag is cleared");
    }
    opened
}

/// Has `end` go on by itself, as a driver does.
fn go_on(end: &mut Seal<Toy>, now_ns: u64) {
    *end = end.next(now_ns, false);
}

/// Has `end` open a packet of the other, as a driver does.
fn take(end: &mut Seal<Toy>, now_ns: u64, (packet, len): ([u8; 62], usize)) -> Opened {
    let opened = opens(end, now_ns, &packet, len);
    if opened == Opened::InNextPhase {
        *end = end.next(now_ns, true);
    }
    opened
}

#[test]
fn a_sealed_packet_shows_no_data_and_opens_at_the_other_end_only() {
    let (caller, server) = ends();
    let (sealed, len) = packet(&caller);
    assert_ne!(&sealed[HEADER_LEN..len], b"abc");
    assert_eq!(opens(&server, 0, &sealed, len), Opened::Yes);
    assert_eq!(opens(&caller, 0, &sealed, len), Opened::No, "reflected");
    let other = Seal::new(Toy, Side::Server, [3; 32], SERVER, 0);
    assert_eq!(opens(&other, 0, &sealed, len), Opened::No, "another binding");
}

#[test]
fn a_changed_bit_of_header_data_number_or_tag_is_noticed_and_padding_is_not() {
    let (caller, server) = ends();
    let (sealed, len) = packet(&caller);
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed;
        changed[bit / 8] ^= 1 << (bit % 8);
        let expected = if bit / 8 < len + TRAILER_LEN { Opened::No } else { Opened::Yes };
        assert_eq!(opens(&server, 0, &changed, len), expected, "bit {bit}");
    }
}

#[test]
fn a_truncated_packet_does_not_open_and_does_not_panic() {
    let (caller, server) = ends();
    let (sealed, len) = packet(&caller);
    for short in 0..len + TRAILER_LEN {
        let mut copy = sealed;
        assert_eq!(server.open(0, &mut copy[..short], len), Opened::No);
    }
    for wrong in (0..80).filter(|end| *end != len) {
        assert_eq!(opens(&server, 0, &sealed, wrong), Opened::No);
    }
}

#[test]
fn every_packet_has_another_number_whichever_thread_seals_it() {
    let (caller, _) = ends();
    let mut threads = [(); 3].map(|()| Numbers::default());
    let seal = |at: usize| number_of(packet_of(&caller, &mut threads[at * at % 3]));
    let mut numbers: Vec<_> = (0..1000).map(seal).collect();
    assert_eq!(numbers[0], 0, "the first reservation is of one number");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 1000);
    let reserved = caller.reserved.load(Ordering::Relaxed);
    assert!(reserved <= 1000 + 2 * RUN_MAX, "{reserved}");
}

#[test]
fn a_reservation_ends_with_its_phase() {
    let (mut caller, _) = ends();
    let mut numbers = Numbers::default();
    (0..5).for_each(|_| assert!(packet_of(&caller, &mut numbers).1 == 35));
    assert!(!numbers.are_used_up());
    go_on(&mut caller, SECOND);
    assert!(number_of(packet_of(&caller, &mut numbers)) >= caller.first);
}

#[test]
fn both_ends_go_on_together() {
    let (mut caller, mut server) = ends();
    assert_eq!(take(&mut server, 0, packet(&caller)), Opened::Yes);
    assert_eq!(take(&mut caller, 0, packet(&server)), Opened::Yes);
    for phase in 1..6 {
        let now = 10 * SECOND * u64::from(phase);
        let late = packet(&caller);
        go_on(&mut caller, now);
        assert!(!caller.is_due(u64::MAX), "the other end has not shown that it is there");
        let first = packet(&caller);
        assert_eq!((first.0[3] & KEY_PHASE != 0, caller.phase()), (phase % 2 == 1, phase));
        assert_eq!(take(&mut server, now, first), Opened::InNextPhase);
        assert_eq!(take(&mut server, now, packet(&caller)), Opened::Yes);
        assert_eq!(server.phase(), phase);
        assert_eq!(opens(&server, now + SECOND - 1, &late.0, late.1), Opened::Yes, "for a second");
        assert_eq!(opens(&server, now + SECOND, &late.0, late.1), Opened::No, "no longer");
        assert_eq!(take(&mut caller, now, packet(&server)), Opened::Yes);
        assert!(caller.is_due(u64::MAX));
    }
}

#[test]
fn a_packet_opens_in_no_later_phase() {
    let (mut caller, mut server) = ends();
    let old = packet(&caller);
    for now in [SECOND, 5 * SECOND, 9 * SECOND] {
        take(&mut server, now, packet(&caller));
        take(&mut caller, now, packet(&server));
        go_on(&mut caller, now);
        take(&mut server, now, packet(&caller));
        assert_eq!(opens(&server, now + 2 * SECOND, &old.0, old.1), Opened::No);
    }
}

#[test]
fn a_flipped_phase_moves_nobody() {
    let (caller, mut server) = ends();
    let (mut sealed, len) = packet(&caller);
    sealed[3] ^= KEY_PHASE;
    assert_eq!(take(&mut server, 0, (sealed, len)), Opened::No);
    assert_eq!(server.phase(), 0);
}

#[test]
fn an_end_is_due_when_it_has_used_much_or_lasted_long_and_never_within_a_second() {
    let (caller, server) = ends();
    let (sealed, len) = packet(&server);
    assert_eq!(opens(&caller, 0, &sealed, len), Opened::Yes);
    assert!(!caller.is_due(PHASE_NANOS - 1) && caller.is_due(PHASE_NANOS));
    caller.reserved.store(PHASE_NUMBERS, Ordering::Relaxed);
    assert!(!caller.is_due(SECOND - 1) && caller.is_due(SECOND));
}

#[test]
fn an_end_that_hears_nothing_stops_sealing() {
    let (mut caller, _) = ends();
    caller.reserved.store(PHASE_NUMBERS_MAX - 1, Ordering::Relaxed);
    packet(&caller);
    let mut last = [7; 62];
    assert!(!caller.seal(&mut Numbers::default(), &mut last, 35));
    assert_eq!(last, [7; 62]);
    go_on(&mut caller, SECOND);
    packet(&caller);
}
