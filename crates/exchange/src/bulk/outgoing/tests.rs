mod anything;

use super::open::MANY;
use super::*;
use crate::RoundTrip;
use alloc::vec::Vec;
use core::time::Duration;

const MOST: usize = 65_507;
const PACKET: u32 = 1440;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A LAN, and a wide-area path.
fn path_of(millis: u64) -> Path {
    let mut round_trip = RoundTrip::default();
    (0..20).for_each(|_| round_trip.sample(Duration::from_millis(millis)));
    Path::new(PACKET, round_trip, 1)
}

fn receipt(latest: u32, limit: u32, up_to: u32, ranges: &[(u32, u32)]) -> Receipt {
    let mut receipt = Receipt::new(latest, 0, limit, up_to);
    ranges.iter().for_each(|&(start, end)| assert!(receipt.push(start, end)));
    receipt
}

fn all_runs(message: &mut Outgoing, now: Instant, path: &mut Path) -> Vec<(u32, u32)> {
    core::iter::from_fn(|| message.next_run(now, path, MOST)).map(|run| (run.offset, run.len)).collect()
}

impl Outgoing {
    /// Checks that each byte before `next` is in exactly one state: acknowledged, lost or in flight.
    fn check(&self) {
        let mut all = Ranges::new();
        let parts = self.acknowledged.all().iter().chain(self.lost.all()).copied().chain(self.sent.all());
        for (start, end) in parts {
            assert_eq!(
                all.insert(start, end, usize::MAX),
                Some(end - start),
                "twice: {start}..{end} of {self:?}"
            );
        }
        assert_eq!((all.up_to(), all.beyond()), (self.next, &[][..]), "{self:?}");
    }
}

#[test]
fn a_message_within_one_gso_send_is_sent_at_once_on_a_lan() {
    let (mut message, mut path) = (Outgoing::new(48_000, u32::MAX), path_of(0));
    let run = message.next_run(at(0), &mut path, MOST);
    assert_eq!(run, Some(Run { offset: 0, len: 24 * PACKET, fragment: PACKET, transmission: 1 }));
    assert_eq!(all_runs(&mut message, at(0), &mut path), [(24 * PACKET, 48_000 - 24 * PACKET)]);
    message.on_receipt(at(1), &receipt(34, 48_000, 48_000, &[]), &mut path);
    assert!(message.is_acknowledged());
    assert_eq!((path.in_flight(), message.next_timeout(&path)), (0, Instant::NEVER));
}

#[test]
fn the_first_of_two_runs_is_never_empty() {
    for packet in [1440, 8920, 20_000, 40_000, 65_475] {
        for len in (1..65_475).step_by(999) {
            let (mut message, mut path) = (Outgoing::new(len, u32::MAX), path_of(0));
            path.set_largest(packet);
            path.on_probe_acknowledged(packet);
            let runs = all_runs(&mut message, at(0), &mut path);
            assert!(runs.len() <= 2 && runs.iter().all(|run| run.1 > 0), "{len} by {packet}: {runs:?}");
            assert_eq!(runs.iter().map(|run| run.1).sum::<u32>(), len);
        }
    }
}

#[test]
fn a_run_is_as_long_as_the_datagrams_that_fit() {
    let (mut message, mut path) = (Outgoing::new(48_000, u32::MAX), path_of(0));
    assert_eq!(message.next_run(at(0), &mut path, 1471), None);
    assert_eq!(message.next_run(at(0), &mut path, 1472 * 3 + 5).map(|run| run.len), Some(3 * PACKET));
    assert_eq!(message.next_run(at(0), &mut path, 1472).map(|run| run.transmission), Some(4));
}

#[test]
fn only_missing_bytes_are_sent_again() {
    let (mut message, mut path) = (Outgoing::new(10 * PACKET, u32::MAX), path_of(0));
    assert_eq!(all_runs(&mut message, at(0), &mut path), [(0, 10 * PACKET)]);
    let here = [(2 * PACKET, 5 * PACKET), (6 * PACKET, 9 * PACKET)];
    message.on_receipt(at(0), &receipt(9, u32::MAX, PACKET, &here), &mut path);
    message.check();
    // The packet behind offset 5 was sent three before the ninth; the last one may still arrive.
    assert_eq!(all_runs(&mut message, at(0), &mut path), [(PACKET, PACKET), (5 * PACKET, PACKET)]);
    assert_eq!(path.in_flight(), u64::from(3 * PACKET));
}

#[test]
fn a_packet_overtaken_by_a_later_one_is_lost_after_the_loss_delay() {
    let (mut message, mut path) = (Outgoing::new(3 * PACKET, u32::MAX), path_of(0));
    all_runs(&mut message, at(0), &mut path);
    message.on_receipt(at(0), &receipt(3, u32::MAX, PACKET, &[(2 * PACKET, 3 * PACKET)]), &mut path);
    assert_eq!(all_runs(&mut message, at(0), &mut path), []);
    assert_eq!(message.next_timeout(&path), at(1));
    message.on_timeout(at(1), &mut path);
    assert_eq!(all_runs(&mut message, at(1), &mut path), [(PACKET, PACKET)]);
}

#[test]
fn without_receipts_two_packets_are_sent_again_after_growing_waits() {
    let (mut message, mut path) = (Outgoing::new(20 * PACKET, u32::MAX), path_of(0));
    all_runs(&mut message, at(0), &mut path);
    let mut waits = Vec::new();
    let mut now = at(0);
    for _ in 0..9 {
        let due = message.next_timeout(&path);
        waits.push(due.nanos_since(now) / 1_000_000);
        now = due;
        message.on_timeout(now, &mut path);
        let sent: u32 = all_runs(&mut message, now, &mut path).iter().map(|&(_, len)| len).sum();
        assert_eq!(sent, 2 * PACKET);
        message.check();
    }
    assert!(
        waits
            .iter()
            .zip([4, 8, 16, 32, 64, 128, 256, 400, 400])
            .all(|(&wait, least)| wait >= least && wait <= least * 5 / 4),
        "{waits:?}"
    );
}

#[test]
fn a_receiver_without_memory_is_asked_repeatedly() {
    let (mut message, mut path) = (Outgoing::new(20 * PACKET, u32::MAX), path_of(0));
    all_runs(&mut message, at(0), &mut path);
    let window = path.window();
    message.on_receipt(at(1), &receipt(0, 0, 0, &[]), &mut path);
    assert_eq!((path.in_flight(), all_runs(&mut message, at(1), &mut path)), (0, Vec::new()));
    for _ in 0..5 {
        let now = message.next_timeout(&path);
        message.on_timeout(now, &mut path);
        assert_eq!(all_runs(&mut message, now, &mut path), [(0, PACKET)]);
        message.on_receipt(now, &receipt(0, 0, 0, &[]), &mut path);
        message.check();
    }
    message.on_receipt(at(900), &receipt(0, 5 * PACKET, PACKET, &[]), &mut path);
    assert_eq!(all_runs(&mut message, at(900), &mut path), [(PACKET, 4 * PACKET)]);
    assert_eq!(path.window(), window, "that is no congestion");
}

#[test]
fn nothing_goes_beyond_the_receivers_limit_and_no_packet_is_cut_by_it() {
    let (mut message, mut path) = (Outgoing::new(20 * PACKET, 4000), path_of(0));
    assert_eq!(all_runs(&mut message, at(0), &mut path), [(0, 2 * PACKET)]);
    message.on_receipt(at(0), &receipt(2, 4000, 2 * PACKET, &[]), &mut path);
    assert_eq!(all_runs(&mut message, at(0), &mut path), [(2 * PACKET, 4000 - 2 * PACKET)]);
    message.on_receipt(at(0), &receipt(3, 4000, 4000, &[]), &mut path);
    assert_eq!(all_runs(&mut message, at(0), &mut path), []);
    let due = message.next_timeout(&path);
    message.on_timeout(due, &mut path);
    assert_eq!(
        all_runs(&mut message, due, &mut path),
        [(0, PACKET)],
        "a question: perhaps more room was told, and lost"
    );
    message.check();
}

#[test]
fn receipts_for_unsent_bytes_are_ignored() {
    let (mut message, mut path) = (Outgoing::new(100 * PACKET, 10 * PACKET), path_of(0));
    all_runs(&mut message, at(0), &mut path);
    for lie in [
        receipt(11, u32::MAX, PACKET, &[]),
        receipt(1, u32::MAX, 10 * PACKET + 1, &[]),
        receipt(1, u32::MAX, u32::MAX, &[]),
        receipt(1, u32::MAX, 0, &[(5, 10 * PACKET + 1)]),
        receipt(1, u32::MAX, 0, &[(7, 7)]),
        receipt(1, u32::MAX, 0, &[(9, 8)]),
        receipt(1, u32::MAX, 10, &[(10, 20)]),
        receipt(1, u32::MAX, 10, &[(20, 30), (25, 40)]),
    ] {
        message.on_receipt(at(1), &lie, &mut path);
        assert_eq!(
            (all_runs(&mut message, at(1), &mut path), path.in_flight()),
            (Vec::new(), u64::from(10 * PACKET))
        );
    }
}

/// A message with `packets` packets in flight, all sent at the same time.
fn in_flight(packets: u32) -> (Outgoing, Path) {
    let mut path = path_of(0);
    path.congestion.set_packet(u64::from(packets * PACKET));
    let mut message = Outgoing::new(packets * PACKET, u32::MAX);
    while message.transmission < packets {
        assert!(message.next_run(at(1), &mut path, MOST).is_some());
    }
    (message, path)
}

/// The packets of 100 that are lost after the last one has arrived, and `ranges` others, each after a gap.
fn lost_after(first: u32, ranges: u32) -> Vec<(u32, u32)> {
    let (mut message, mut path) = in_flight(100);
    let here: Vec<_> = (first..first + ranges).map(|i| (2 * i * PACKET, (2 * i + 1) * PACKET)).collect();
    message.on_receipt(at(1), &receipt(100, u32::MAX, 0, &here), &mut path);
    message.check();
    message.lost.all().iter().map(|&(start, end)| (start / PACKET, end / PACKET)).collect()
}

#[test]
fn bytes_that_a_full_receipt_leaves_out_do_not_count_as_lost() {
    assert_eq!(lost_after(5, 3), [(0, 10), (11, 12), (13, 14), (15, 97)], "it tells everything");
    let lowest = lost_after(5, 31);
    assert_eq!((lowest[0], lowest.len(), lowest[30]), ((0, 10), 31, (69, 70)), "more may be behind");
    let others = lost_after(5, 32);
    assert_eq!((others[0], others.len(), others[30]), ((11, 12), 31, (71, 72)), "and before");
}

#[test]
fn a_no_memory_receipt_after_arrived_bytes_is_ignored() {
    let (mut message, mut path) = in_flight(10);
    message.on_receipt(at(1), &receipt(5, u32::MAX, 5 * PACKET, &[]), &mut path);
    message.on_receipt(at(1), &receipt(0, 0, 0, &[]), &mut path);
    message.check();
    assert_eq!(
        (path.in_flight(), all_runs(&mut message, at(1), &mut path)),
        (u64::from(5 * PACKET), Vec::new())
    );
}

#[test]
fn one_probe_at_a_time_is_sent_and_its_loss_is_no_congestion() {
    let mut path = path_of(0);
    path.set_largest(9000);
    let mut message = Outgoing::new(60_000, u32::MAX);
    let runs: Vec<_> = core::iter::from_fn(|| message.next_run(at(1), &mut path, MOST)).collect();
    let fragments: Vec<_> = runs.iter().map(|run| run.fragment).collect();
    assert_eq!(fragments, [PACKET, 8920, PACKET], "{runs:?}");
    let window = path.window();
    let here = [(PACKET + 8920, 60_000)];
    message.on_receipt(at(1), &receipt(message.transmission, u32::MAX, PACKET, &here), &mut path);
    assert_eq!((path.window(), path.fragment(), path.in_flight()), (window, PACKET, 0));
    assert_eq!(
        message.next_run(at(1), &mut path, MOST).map(|run| (run.offset, run.fragment)),
        Some((PACKET, 8920))
    );
    message.on_receipt(at(1), &receipt(message.transmission, u32::MAX, 60_000, &[]), &mut path);
    assert_eq!((path.fragment(), message.is_acknowledged()), (8920, true));
}

#[test]
fn a_packet_cut_by_the_limit_is_sent_when_nothing_else_is_outstanding() {
    let mut path = path_of(0);
    let (mut one, mut other) = (Outgoing::new(5000, u32::MAX), Outgoing::new(5000, 1000));
    all_runs(&mut one, at(0), &mut path);
    assert_eq!(all_runs(&mut other, at(0), &mut path), [(0, 1000)]);
}

#[test]
fn two_messages_share_the_window_of_their_path_and_give_it_back() {
    let mut path = path_of(50);
    let (mut one, mut other) = (Outgoing::new(7 * PACKET, u32::MAX), Outgoing::new(100 * PACKET, u32::MAX));
    assert_eq!(all_runs(&mut one, at(0), &mut path), [(0, 7 * PACKET)]);
    assert_eq!(all_runs(&mut other, at(0), &mut path), [(0, 3 * PACKET)]);
    one.end(&mut path);
    assert_eq!(all_runs(&mut other, at(0), &mut path), [], "what goes on a long way is paced");
    assert_eq!(all_runs(&mut other, at(25), &mut path), [(3 * PACKET, 7 * PACKET)]);
    assert_eq!((one.next_run(at(9), &mut path, MOST), one.next_timeout(&path)), (None, Instant::NEVER));
    other.end(&mut path);
    assert_eq!(path.in_flight(), 0);
}

/// The window after three waits without a receipt, when the last packets have arrived. `meanwhile`: whether a packet of
/// another message, sent after the first, arrived before.
fn window_after_silence(meanwhile: bool) -> u64 {
    let (mut message, mut path) = (Outgoing::new(MIB, u32::MAX), path_of(50));
    let mut now = at(1);
    all_runs(&mut message, now, &mut path);
    for _ in 0..3 {
        if meanwhile {
            path.on_arrival(now);
        }
        now = message.next_timeout(&path);
        message.on_timeout(now, &mut path);
        all_runs(&mut message, now, &mut path);
    }
    let here = [(4 * PACKET, 6 * PACKET)];
    let latest = message.transmission;
    message.on_receipt(now + Duration::from_millis(50), &receipt(latest, u32::MAX, 0, &here), &mut path);
    path.window() / path.packet()
}

#[test]
fn silence_of_three_waits_is_persistent_congestion_unless_other_messages_passed() {
    assert_eq!(window_after_silence(false), 2);
    assert!(window_after_silence(true) > 2);
}

const MIB: u32 = 1 << 20;

const ITEM: u32 = 44 * PACKET + 744;

/// An open message on a way of so many microseconds there and back, of which two items have been added and have left as far as they may at
/// once.
fn two_items(micros: u64) -> (Outgoing, Path) {
    let mut round_trip = RoundTrip::default();
    (0..20).for_each(|_| round_trip.sample(Duration::from_micros(micros)));
    let (mut path, mut message) = (Path::new(PACKET, round_trip, 1), Outgoing::open());
    path.congestion.set_full(true);
    path.congestion.on_acknowledged(1 << 20, at(0), PACKET.into());
    for item in 1..=2 {
        message.extend(at(item), ITEM, u32::MAX);
        all_runs(&mut message, at(item), &mut path);
        // Nothing is in flight before the first one: perhaps no other follows it.
        assert!(item == 2 || message.never_sent() == ITEM || !path.is_short());
    }
    message.check();
    (message, path)
}

#[test]
fn a_few_last_bytes_wait_for_the_next_while_many_are_in_flight_and_the_way_is_short() {
    let (mut message, mut path) = two_items(50);
    assert_eq!(message.never_sent(), 2 * ITEM - 744);
    message.extend(at(3), ITEM, u32::MAX);
    assert_eq!(all_runs(&mut message, at(3), &mut path), [(2 * ITEM - 744, 44 * PACKET)]);
    let told = 3 * ITEM - 2 * 744;
    message.on_receipt(at(3), &receipt(0, u32::MAX, told - MANY, &[]), &mut path);
    assert_eq!(all_runs(&mut message, at(3), &mut path), []);
    message.on_receipt(at(3), &receipt(0, u32::MAX, told - MANY + 1, &[]), &mut path);
    assert_eq!(all_runs(&mut message, at(3), &mut path), [(told, 2 * 744)]);

    let (mut message, mut path) = two_items(5_000);
    (3..99).for_each(|millis| _ = all_runs(&mut message, at(millis), &mut path));
    assert_eq!(message.never_sent(), 2 * ITEM);
}

#[test]
fn bytes_that_are_flushed_do_not_wait() {
    let (mut message, mut path) = two_items(50);
    message.flush();
    assert_eq!(all_runs(&mut message, at(2), &mut path), [(2 * ITEM - 744, 744)]);
}
