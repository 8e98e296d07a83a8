use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::collection::vec as any_vec;
use proptest::prelude::*;

const MKDIR: ProcedureId = ProcedureId { program: 100_003, version: 3, procedure: 9 };

fn key(peer: u8, xid: u32) -> CallKey<u8> {
    CallKey { peer, xid: Xid(xid), procedure: MKDIR }
}

/// The peer's host: each peer has one of its own.
fn host(key: &CallKey<u8>) -> Owner {
    Owner::host([key.peer; 16])
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn cache(entries_max: usize, bytes_max: usize) -> ReplyCache<u8> {
    ReplyCache::new(ReplyCacheLimits { entries_max, bytes_max, age_max: Duration::from_secs(100) })
}

fn admit<'c>(
    cache: &'c mut ReplyCache<u8>,
    now: Instant,
    key: &CallKey<u8>,
    contents: &[u8],
) -> Admission<'c> {
    cache.admit(now, key, host(key), contents)
}

/// Runs a call that is new.
fn run(cache: &mut ReplyCache<u8>, now: Instant, key: &CallKey<u8>, reply: &[u8]) {
    assert_eq!(admit(cache, now, key, b"call"), Admission::Run);
    cache.complete(now, key, Some(reply));
}

#[test]
fn a_retransmitted_call_gets_the_reply_again_and_does_not_run() {
    let mut cache = cache(8, 100);
    assert_eq!(admit(&mut cache, at(0), &key(1, 1), b"call"), Admission::Run);
    assert_eq!(admit(&mut cache, at(1), &key(1, 1), b"call"), Admission::Ignore);
    cache.complete(at(2), &key(1, 1), Some(b"reply"));
    for second in 3..50 {
        assert_eq!(admit(&mut cache, at(second), &key(1, 1), b"call"), Admission::Replay(b"reply"));
    }
}

#[test]
fn calls_that_differ_in_anything_are_different_calls() {
    let mut cache = cache(8, 100);
    run(&mut cache, at(0), &key(1, 1), b"reply");
    assert_eq!(admit(&mut cache, at(0), &key(2, 1), b"call"), Admission::Run);
    assert_eq!(admit(&mut cache, at(0), &key(1, 2), b"call"), Admission::Run);
    let other = CallKey { procedure: ProcedureId { procedure: 10, ..MKDIR }, ..key(1, 1) };
    assert_eq!(admit(&mut cache, at(0), &other, b"call"), Admission::Run);
    // The peer has restarted.
    assert_eq!(admit(&mut cache, at(0), &key(1, 1), b"another call"), Admission::Run);
    cache.complete(at(0), &key(1, 1), Some(b"another reply"));
    assert_eq!(admit(&mut cache, at(0), &key(1, 1), b"another call"), Admission::Replay(b"another reply"));
    assert_eq!(cache.forgotten_early(), 0);
}

#[test]
fn a_call_without_a_reply_is_ignored_when_it_comes_again() {
    let mut cache = cache(8, 100);
    assert_eq!(admit(&mut cache, at(0), &key(1, 1), b"call"), Admission::Run);
    cache.complete(at(0), &key(1, 1), None);
    assert_eq!(admit(&mut cache, at(1), &key(1, 1), b"call"), Admission::Ignore);
}

#[test]
fn a_call_whose_procedure_did_not_run_is_admitted_again() {
    let mut cache = cache(8, 100);
    assert_eq!(admit(&mut cache, at(0), &key(1, 1), b"call"), Admission::Run);
    cache.abandon(&key(1, 1));
    assert!(cache.is_empty());
    run(&mut cache, at(1), &key(1, 1), b"reply");
    // It has run: that is not forgotten.
    cache.abandon(&key(1, 1));
    assert_eq!(admit(&mut cache, at(2), &key(1, 1), b"call"), Admission::Replay(b"reply"));
}

#[test]
fn a_reply_too_large_to_be_kept_does_not_make_its_call_run_again() {
    let mut cache = cache(8, 100);
    run(&mut cache, at(0), &key(1, 1), &[0; 101]);
    assert_eq!(admit(&mut cache, at(1), &key(1, 1), b"call"), Admission::ReplyLost);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn the_oldest_replies_make_room_for_new_ones_and_are_counted() {
    let mut cache = cache(4, 120);
    for xid in 0..4 {
        run(&mut cache, at(0), &key(1, xid), &[0; 30]);
    }
    assert_eq!((cache.len(), cache.bytes(), cache.forgotten_early()), (3, 90, 1));
    run(&mut cache, at(0), &key(1, 9), &[0; 60]);
    assert_eq!((cache.len(), cache.bytes(), cache.forgotten_early()), (2, 90, 3));
    assert_eq!(admit(&mut cache, at(0), &key(1, 0), b"call"), Admission::Run);
}

#[test]
fn running_calls_are_not_pushed_out() {
    let mut cache = cache(3, 100);
    for xid in 0..2 {
        assert_eq!(admit(&mut cache, at(0), &key(1, xid), b"call"), Admission::Run);
    }
    assert_eq!(admit(&mut cache, at(0), &key(1, 2), b"call"), Admission::NoRoom);
    assert_eq!(admit(&mut cache, at(0), &key(1, 0), b"call"), Admission::Ignore);
    cache.complete(at(1), &key(1, 0), Some(b"reply"));
    assert_eq!(admit(&mut cache, at(1), &key(1, 2), b"call"), Admission::Run);
}

#[test]
fn a_host_with_many_calls_pushes_out_its_own_replies_and_no_others() {
    let mut cache = cache(40, 4000);
    for xid in 0..5 {
        run(&mut cache, at(0), &key(1, xid), &[0; 30]);
    }
    for xid in 0..1000 {
        run(&mut cache, at(1), &key(2, xid), &[0; 80]);
        assert!(cache.len() <= 35, "room is left for others");
    }
    for xid in 0..5 {
        assert_eq!(admit(&mut cache, at(2), &key(1, xid), b"call"), Admission::Replay(&[0; 30]));
    }
    // Running calls of one host leave room for another's, too.
    let running =
        (2000..).take_while(|xid| admit(&mut cache, at(3), &key(2, *xid), b"call") == Admission::Run);
    assert!((20..35).contains(&running.count()));
    assert_eq!(admit(&mut cache, at(3), &key(2, 1999), b"call"), Admission::NoRoom);
    run(&mut cache, at(3), &key(1, 9), b"reply");
    run(&mut cache, at(3), &key(3, 1), b"reply");
    for (peer, xid) in [(1, 0), (1, 9), (3, 1)] {
        assert!(matches!(admit(&mut cache, at(4), &key(peer, xid), b"call"), Admission::Replay(_)));
    }
}

#[test]
fn old_replies_are_forgotten_and_not_counted() {
    let mut cache = cache(8, 100);
    run(&mut cache, at(0), &key(1, 1), b"reply");
    run(&mut cache, at(50), &key(1, 2), b"reply");
    assert_eq!(cache.next_expiry(), Some(at(100)));
    cache.expire(at(100));
    assert_eq!((cache.len(), cache.next_expiry()), (1, Some(at(150))));
    assert_eq!(admit(&mut cache, at(200), &key(1, 2), b"call"), Admission::Run);
    assert_eq!(cache.forgotten_early(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Against a list of what has happened.
    #[test]
    fn nothing_runs_twice_unless_it_was_forgotten_and_bounds_hold(
        steps in any_vec((0..6u8, 0..3u8, 0..5u32, 0..40usize), 1..200),
    ) {
        let mut cache = cache(6, 100);
        let (mut running, mut now) = (Vec::new(), at(0));
        // Calls whose replies may still be kept, each with the number of early forgettings before.
        let mut ended: Vec<(CallKey<u8>, Instant, u64, usize)> = vec![];
        for (what, peer, xid, len) in steps {
            let key = key(peer, xid);
            match what {
                0..=2 => match admit(&mut cache, now, &key, b"call") {
                    Admission::Run => {
                        prop_assert!(!running.contains(&key));
                        if let Some((_, at, forgotten, _)) = ended.iter().find(|(other, ..)| *other == key) {
                            let is_old = now.since(*at) >= Duration::from_secs(100);
                            prop_assert!(is_old || cache.forgotten_early() > *forgotten);
                        }
                        ended.retain(|(other, ..)| *other != key);
                        running.push(key);
                    }
                    Admission::Replay(reply) => {
                        prop_assert!(ended.iter().any(|(other, .., len)| *other == key && *len == reply.len()));
                    }
                    Admission::Ignore => prop_assert!(running.contains(&key)),
                    // All other calls that are remembered are running, or its peer's are.
                    Admission::NoRoom => prop_assert!(
                        running.len() == cache.len() || running.iter().any(|other| other.peer == peer)
                    ),
                    Admission::ReplyLost => prop_assert!(false, "no reply is so large"),
                },
                3 => {
                    cache.complete(now, &key, Some(&vec![0; len]));
                    if running.contains(&key) {
                        ended.push((key.clone(), now, cache.forgotten_early(), len));
                    }
                    running.retain(|other| *other != key);
                }
                4 => {
                    cache.abandon(&key);
                    running.retain(|other| *other != key);
                }
                _ => now = now + Duration::from_secs(len as u64),
            }
            prop_assert!(cache.len() <= 6 && cache.bytes() <= 100);
        }
    }
}
