//! Cancelled calls.

use super::*;

#[test]
fn a_cancelled_call_that_runs_learns_it_and_is_answered() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    gate.open();
    let mut raw = Raw::bound(&server);
    let (first, second) =
        (raw.call(UNTIL_CANCELLED, 1, 0), Header { lane: LaneId(1), ..raw.call(UNTIL_CANCELLED, 1, 0) });
    raw.send(&first, &[]);
    raw.send(&second, &[]);
    gate.await_inside(2);
    raw.cancel(second);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.lane, payload), (Kind::Result, LaneId(1), vec![9, 0, 0, 0]));
    raw.cancel(first);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.lane, payload), (Kind::Result, LaneId(0), vec![9, 0, 0, 0]));
}

#[test]
fn a_call_that_is_cancelled_before_it_begins_never_runs() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new().workers(1));
    let mut raw = Raw::bound(&server);
    let (running, waiting) = (raw.call(WAIT, 1, 0), Header { lane: LaneId(1), ..raw.call(WAIT, 1, 0) });
    raw.send(&running, &[]);
    gate.await_inside(1);
    raw.send(&waiting, &[]);
    raw.cancel(waiting);
    // It leaves the queue while the other still runs.
    let refused = raw.receive().unwrap().0;
    assert_eq!((refused.lane.0, refused.kind), (1, Kind::Refusal));
    assert_eq!(refused.time, RefusalCode::Cancelled.code());
    gate.open();
    let answer = raw.receive().unwrap().0;
    assert_eq!((answer.lane.0, answer.kind), (0, Kind::Result));
    assert_eq!((server.counters().calls, server.counters().refused), (1, 1));
}

#[test]
fn a_call_that_is_cancelled_before_it_is_all_there_is_refused() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let long = raw.call(NEXT, 1, 1 << 20);
    raw.send(&long, &[0; STREAM_FRAGMENT]);
    raw.cancel(long);
    // Once more: it has been answered.
    raw.cancel(long);
    let (header, _) = raw.receive().unwrap();
    assert_eq!((header.kind, header.number.0), (Kind::Refusal, 1));
    assert_eq!(header.time, RefusalCode::Cancelled.code());
    let next = raw.call(NEXT, 2, 4);
    raw.send(&next, &[1, 0, 0, 0]);
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.kind, header.number.0, payload), (Kind::Result, 2, vec![2, 0, 0, 0]));
    raw.cancel(next);
    let last = raw.call(NEXT, 3, 4);
    raw.send(&last, &[2, 0, 0, 0]);
    assert_eq!(raw.receive().unwrap().1, [3, 0, 0, 0]);
    assert_eq!(server.counters().malformed, 0);
}
