//! Begun calls over a bad network.

use super::*;
use std::time::Instant;
use stoop::Pending;

/// Begins calls, twenty at a time, and waits for them.
fn begin_in_rounds(
    ids: std::ops::Range<u64>,
    begin: impl Fn(&CounterBegin<'_>, u64) -> Begun,
    client: &CounterClient,
) -> Vec<End> {
    let mut ends = Vec::new();
    for first in ids.clone().step_by(20) {
        let calls = client.begin();
        let pending: Vec<_> = (first..ids.end.min(first + 20)).map(|id| (id, begin(&calls, id))).collect();
        drop(calls);
        ends.extend(pending.into_iter().map(|(id, call)| (id, call.wait())));
    }
    for (id, end) in &ends {
        assert!(
            end.as_ref().is_ok_and(|result| *result == result_of(*id)) || end.is_err(),
            "call {id}: {end:?}"
        );
    }
    ends
}

type Begun = Pending<Result<u64, CallError>>;

#[test]
fn every_begun_call_runs_once_and_gets_its_own_result_over_a_bad_network() {
    in_each(&[(80, LOSSY), (81, DISORDERLY), (82, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let client = &world.client;
        let ends: Vec<End> = thread::scope(|scope| {
            let ids = [0..100, 100..200, 200..300];
            let threads =
                ids.map(|ids| scope.spawn(move || begin_in_rounds(ids, |calls, id| calls.add(id), client)));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_all_succeeded(&ends);
        assert_eq!(world.ledger.book().runs.len(), 300);
        world.end(&ends);
    });
}

#[test]
fn a_detached_call_is_run_and_a_dropped_one_at_most_once_through_loss() {
    in_each(&[(83, LOSSY), (84, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let mut ends = Vec::new();
        for round in (0..300).step_by(30) {
            let calls = world.client.begin();
            let mut pending = Vec::new();
            for id in round..round + 30 {
                let call = calls.add(id);
                match id % 3 {
                    0 => drop(call),
                    1 => call.detach(),
                    _ => pending.push((id, call)),
                }
            }
            drop(calls);
            ends.extend(pending.into_iter().map(|(id, call)| (id, call.wait())));
        }
        assert_all_succeeded(&ends);
        let detached = |book: &mut Book| book.runs.keys().filter(|id| *id % 3 == 1).count();
        drop(world.ledger.0.1.wait_while(world.ledger.book(), |book| detached(book) < 100).unwrap());
        world.end(&ends);
    });
}

#[test]
fn a_server_that_restarts_never_runs_a_begun_call_a_second_time() {
    in_each(&[85, 86], |link, seed| {
        let mut world = World::new(link, seed, STORM);
        let client = world.client.clone();
        let begin = |calls: &CounterBegin<'_>, id| if id % 4 == 3 { calls.look(id) } else { calls.add(id) };
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| begin_in_rounds(0..400, begin, &client));
            for runs in [60, 120, 180] {
                world.ledger.await_runs(runs);
                world.restart_server();
            }
            calling.join().unwrap()
        });
        let unknown: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
        let by_restart =
            |end| matches!(end, &Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }));
        assert!(unknown.iter().all(|(_, end)| by_restart(end)), "{unknown:?}");
        assert!(unknown.iter().all(|(id, _)| id % 4 != 3), "an idempotent call is sent again: {unknown:?}");
        world.end(&ends.into_iter().filter(|(id, _)| id % 4 != 3).collect::<Vec<_>>());
    });
}

/// Calls that a binding may send before it has a result, on every path (RFC 9002 §7.2).
const FIRST_CREDIT: usize = 10;
/// No call is sent again sooner; one that is sent again in vain makes the credit smaller.
const SENT_AGAIN: Duration = Duration::from_millis(4);

#[test]
fn begun_calls_that_are_out_when_a_server_restarts_end_and_those_after_them_are_bound_again() {
    in_each(&[87], |link, seed| {
        let mut world = World::new(link, seed, CLEAR);
        let client = world.client.clone();
        let begin = |ids: std::ops::Range<u64>| -> Vec<(u64, Begun)> {
            let calls = client.begin();
            ids.map(|id| (id, calls.add(id))).collect()
        };
        let wait = |begun: Vec<(u64, Begun)>| -> Vec<End> {
            begun.into_iter().map(|(id, call)| (id, call.wait())).collect()
        };
        let mut ends = wait(begin(0..10));
        // Nothing comes through until all have begun: a call begun after another was refused goes to the next server.
        world.network.control().deaf = true;
        let retransmissions = client.binding().counters().packet.retransmissions;
        let begun = Instant::now();
        let out = begin(10..110);
        let left_at_once = retransmissions == 0 && begun.elapsed() < SENT_AGAIN;
        world.restart_server();
        let (out, waited): (Vec<_>, Vec<_>) = wait(out).into_iter().partition(|(_, end)| end.is_err());
        // The others waited at the caller for the binding's credit, and left for the next server.
        assert!(out.len() >= if left_at_once { FIRST_CREDIT } else { 1 }, "{out:?}");
        for (id, end) in out {
            // The caller cannot know that it has not run before the restart.
            let cause = UnknownCause::ServerRestarted;
            assert!(matches!(&end, Err(CallError::Unknown { cause: why, .. }) if *why == cause), "{end:?}");
            assert!(!world.ledger.book().runs.contains_key(&id));
        }
        ends.extend(waited);
        ends.extend(wait(begin(110..210)));
        assert_all_succeeded(&ends);
        world.end(&ends);
    });
}
