//! Slow procedures, readers and servers, and the calls that must not wait for them.

use super::*;
use crate::harness::LIMIT;

#[test]
fn calls_that_arrive_in_one_read_do_not_wait_for_each_other() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let mut both = raw.call(1, 1, 0).to_bytes().to_vec();
    both.extend(Header { lane: LaneId(1), ..raw.call(NEXT, 1, 4) }.to_bytes());
    both.extend(41_u32.to_le_bytes());
    raw.stream.write_all(&both).unwrap();
    let (header, payload) = raw.receive().unwrap();
    assert_eq!((header.lane, payload), (LaneId(1), 42_u32.to_le_bytes().to_vec()));
    gate.open();
    assert_eq!(raw.receive().unwrap().0.lane, LaneId(0));
}

#[test]
fn a_call_that_takes_too_long_ends_at_its_deadline_and_the_connection_lives_on() {
    let (server, gate, client) = lab();
    for _ in 0..3 {
        let error = too_late(&client, LabClient::wait);
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }), "{error}");
        assert_eq!(error.ran(), Ran::Perhaps);
        assert_eq!(client.next(1).unwrap(), 2);
    }
    gate.open();
    eventually(|| client.next(1).unwrap() == 2 && client.binding().counters().ignored >= 3);
    assert_eq!(server.counters().bindings, 1);
}

#[test]
fn a_slow_reader_delays_no_other_caller_and_gets_all_its_results() {
    let (server, _, client) = lab();
    let mut raw = Raw::bound(&server);
    let payload = [&(4_u32 << 20).to_le_bytes()[..], &[6]].concat();
    for number in 1..=8 {
        let header = Header { lane: LaneId(number as u16), ..raw.call(BYTES, number, 5) };
        raw.send(&header, &payload);
    }
    eventually(|| server.counters().calls == 8);
    for number in 0..100 {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    let mut lens = [0; 9];
    while lens[1..].iter().any(|len| *len < 4 + (4 << 20)) {
        let (header, payload) = raw.receive().unwrap();
        assert_eq!(header.offset as usize, lens[usize::from(header.lane.0)]);
        lens[usize::from(header.lane.0)] += payload.len();
    }
}

#[test]
fn a_reader_that_never_reads_is_dropped() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(1 << 20));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let mut raw = Raw::bound(&server);
    let payload = [&1_000_000_u32.to_le_bytes()[..], &[6]].concat();
    for number in 1.. {
        let header = raw.call(BYTES, number, 5);
        if raw.stream.write_all(&[&header.to_bytes()[..], &payload].concat()).is_err() {
            break;
        }
        if server.counters().bindings == 1 {
            break;
        }
    }
    eventually(|| server.counters().bindings == 1);
    // On a busy machine the server expects that its other work takes long.
    assert_eq!(client.with_timeout(LIMIT).next(1).unwrap(), 2);
}

#[test]
fn a_call_whose_deadline_has_passed_is_not_run() {
    let (server, _, _client) = lab();
    let mut raw = Raw::bound(&server);
    let header = Header { time: 0, ..raw.call(NEXT, 1, 4) };
    raw.send(&header, &[0; 4]);
    let (answer, _) = raw.receive().unwrap();
    assert_eq!((answer.kind, answer.time), (Kind::Refusal, RefusalCode::DeadlinePassed.code()));
    assert_eq!(server.counters().calls, 0);
}

#[test]
fn a_server_that_takes_nothing_more_lets_calls_end_at_their_deadlines() {
    let uri = server_that_reads_nothing();
    let client = LabClient::bind(&uri).unwrap();
    let bytes = vec![0; 32 << 20];
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let error = client.with_timeout(Duration::from_millis(200)).sum(&bytes).unwrap_err();
                assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
                assert_eq!((error.ran(), error.is_timeout()), (Ran::No, true), "{error}");
            });
        }
    });
}

#[test]
fn many_calls_in_one_write_are_all_answered() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().queue(2000));
    let mut raw = Raw::bound(&server);
    for round in 1..20_u32 {
        let calls = (0..1000_u16).flat_map(|lane| {
            let call = Header { lane: LaneId(lane), time: u32::MAX, ..raw.call(NEXT, round, 4) };
            [&call.to_bytes()[..], &u32::from(lane).to_le_bytes()].concat()
        });
        let calls: Vec<u8> = calls.collect();
        raw.stream.write_all(&calls).unwrap();
        let mut answers: Vec<_> = (0..1000).map(|_| raw.receive().unwrap()).collect();
        answers.sort_by_key(|(header, _)| header.lane);
        for (lane, (header, payload)) in (0..).zip(answers) {
            assert_eq!((header.kind, header.lane.0, header.number.0), (Kind::Result, lane, round));
            assert_eq!(payload, (u32::from(lane) + 1).to_le_bytes());
        }
    }
}

#[test]
fn an_answer_does_not_wait_for_one_that_takes_longer_than_before() {
    let (server, gate) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    gate.open();
    for number in 1..50 {
        let call = raw.call(WAIT, number, 0);
        raw.send(&call, &[]);
        assert_eq!(raw.receive().unwrap().0.kind, Kind::Result);
    }
    gate.shut();
    let brief = Header { lane: LaneId(1), ..raw.call(NEXT, 1, 4) };
    let (slow, other) = (raw.call(WAIT, 50, 0), Header { lane: LaneId(2), ..brief });
    let calls =
        [&brief.to_bytes()[..], &[1, 0, 0, 0], &slow.to_bytes(), &other.to_bytes(), &[2, 0, 0, 0]].concat();
    raw.stream.write_all(&calls).unwrap();
    let mut answered = [raw.receive().unwrap().0.lane.0, raw.receive().unwrap().0.lane.0];
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
    gate.open();
    assert_eq!(raw.receive().unwrap().0.lane.0, 0);
}

/// A server that binds, and then reads nothing more.
fn server_that_reads_nothing() -> String {
    raw_server(|_, mut raw| {
        raw.grant()?;
        Some(raw)
    })
}

/// A call that has 50 ms and gets no answer ends in less than 250 ms. On a busy machine threads wake up late, but not each time.
fn assert_ends_in_time(call: impl Fn() -> CallError) {
    let time = || {
        let begun = Instant::now();
        let error = call();
        assert!(error.is_timeout(), "{error}");
        begun.elapsed()
    };
    let late: Vec<_> =
        (0..20).map(|_| time()).take_while(|time| *time >= Duration::from_millis(250)).collect();
    assert!(late.len() < 20, "{late:?}");
}

#[test]
fn no_thread_is_kept_by_the_long_call_of_another() {
    let client = LabClient::bind(&server_that_reads_nothing()).unwrap();
    let short = client.with_timeout(Duration::from_millis(50));
    let long = client.with_timeout(LIMIT).begin().sum(&[0; 32 << 20]);
    let long = long.wait_timeout(Duration::from_millis(20)).unwrap_err();
    assert_ends_in_time(|| short.next(1).unwrap_err());
    assert_ends_in_time(|| short.begin().next(1).wait().unwrap_err());
    assert_ends_in_time(|| short.begin().sum(&[0; 1 << 20]).wait().unwrap_err());
    assert!(!long.is_ready());
    let client = LabClient::bind(&server_that_reads_nothing()).unwrap();
    let error = client.with_timeout(Duration::from_secs(1)).begin().sum(&[0; 32 << 20]).wait().unwrap_err();
    assert!(error.is_timeout() && error.ran() == Ran::No, "{error}");
}

#[test]
fn a_call_waits_until_its_deadline_for_a_lane_on_which_no_answer_is_owed() {
    let uri = raw_server(|_, mut raw| {
        raw.grant_lanes(1)?;
        for delay_ms in [100, 0] {
            let call = raw.receive()?.0;
            // The first answer comes after the deadline of its call, which is a time, while the next call waits for the lane.
            thread::sleep(Duration::from_millis(delay_ms));
            let failure = Header { kind: Kind::Failure, message_len: 0, ..call };
            raw.send(&Header { time: WireFailure::Panicked.code(), ..failure }, &[]);
        }
        Some(raw)
    });
    let client = LabClient::bind(&uri).unwrap();
    let short = client.with_timeout(Duration::from_millis(50));
    assert_eq!(short.next(1).unwrap_err().ran(), Ran::Perhaps);
    let error = client.next(2).unwrap_err();
    assert!(matches!(error, CallError::Failed(..)), "{error}");
    assert_eq!(short.next(3).unwrap_err().ran(), Ran::Perhaps);
    let begun = Instant::now();
    let error = short.next(4).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(50));
}
