//! Peers that break the rules, at either end.

use super::*;

#[test]
fn garbage_closes_its_connection_and_disturbs_nobody() {
    let (server, _, client) = lab();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20 {
        let mut raw = Raw::connect(&server);
        let mut garbage: Vec<u8> = (0..3000)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 56) as u8
            })
            .collect();
        garbage[0] = round;
        let _ = raw.stream.write_all(&garbage);
        raw.assert_closed();
        assert_eq!(client.next(1).unwrap(), 2);
    }
    assert_eq!((server.counters().malformed, server.counters().bindings), (20, 1));
}

#[test]
fn peers_that_lie_are_closed_and_counted() {
    let (server, _, client) = lab();
    type Lie = fn(&Raw) -> Vec<Header>;
    let lies: [(&str, Lie); 8] = [
        ("a call of no binding", |raw| vec![Header { binding: BindingId(1), ..raw.call(NEXT, 1, 0) }]),
        ("a lane beyond all", |raw| vec![Header { lane: LaneId(1024), ..raw.call(NEXT, 1, 0) }]),
        ("a fragment of nothing", |raw| vec![Header { offset: 65536, ..raw.call(NEXT, 1, 70_000) }]),
        ("a fragment behind the end", |raw| vec![Header { offset: 11, ..raw.call(NEXT, 1, 10) }]),
        ("a kind for callers", |raw| vec![Header { kind: Kind::Result, ..raw.call(NEXT, 1, 0) }]),
        ("a kind of datagrams", |raw| vec![Header { kind: Kind::Probe, ..raw.call(NEXT, 1, 0) }]),
        ("a second binding", |raw| vec![Header { kind: Kind::Bind, ..raw.call(0, 1, 0) }]),
        ("a number that is used", |raw| vec![raw.call(NEXT, 1, 100_000), raw.call(NEXT, 1, 100_000)]),
    ];
    for (count, (what, lie)) in lies.into_iter().enumerate() {
        let mut raw = Raw::bound(&server);
        for header in lie(&raw) {
            let payload = header.payload_len(STREAM_FRAGMENT).unwrap_or(0);
            let _ = raw.stream.write_all(&[&header.to_bytes()[..], &vec![0; payload]].concat());
        }
        raw.assert_closed();
        assert_eq!(server.counters().malformed, count as u64 + 1, "{what}");
        assert_eq!(client.next(1).unwrap(), 2);
    }
}

#[test]
fn peers_that_stop_in_the_middle_disturb_nobody() {
    let (server, _, client) = lab();
    let mut half_header = Raw::connect(&server);
    half_header.stream.write_all(&[0xd7; 1]).unwrap();
    let mut half_message = Raw::bound(&server);
    let header = half_message.call(NEXT, 1, 60 << 20);
    half_message.send(&header, &[0; 5000]);
    for number in 0..100 {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    drop((half_header, half_message));
    eventually(|| server.counters().bindings == 1);
    assert_eq!(server.counters().malformed, 0);
}

#[test]
fn unknown_procedures_and_bad_arguments_are_refused() {
    let (server, _, _client) = lab();
    let mut raw = Raw::bound(&server);
    for (number, (procedure, code)) in
        [(999, RefusalCode::UnknownProcedure), (NEXT, RefusalCode::BadArguments)].into_iter().enumerate()
    {
        let header = raw.call(procedure, number as u32 + 1, 0);
        raw.send(&header, &[]);
        let (answer, _) = raw.receive().unwrap();
        assert_eq!((answer.kind, RefusalCode::from_code(answer.time)), (Kind::Refusal, code));
    }
}

#[test]
fn a_server_that_answers_nonsense_loses_the_connection_and_harms_nothing() {
    type Nonsense = fn(Header) -> Vec<u8>;
    let nonsense: [Nonsense; 4] = [
        |_| vec![0x55; 64],
        |call| Header { kind: Kind::Challenge, ..call }.to_bytes().to_vec(),
        |call| {
            Header { kind: Kind::Result, binding: BindingId(6), message_len: 0, ..call }.to_bytes().to_vec()
        },
        |call| {
            Header { kind: Kind::Result, offset: 1 << 20, message_len: 1 << 21, ..call }.to_bytes().to_vec()
        },
    ];
    for nonsense in nonsense {
        let uri = false_server(move |stream, call| drop(stream.write_all(&nonsense(call))));
        let client = LabClient::bind(&uri).unwrap();
        let error = client.next(1).unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
    }
}

#[test]
fn answers_to_other_calls_are_ignored() {
    let uri = false_server(|stream, call| {
        let answer = |number, kind| {
            let number = CallNumber(number);
            Header { kind, number, message_len: 0, time: WireFailure::Panicked.code(), ..call }
        };
        for header in [
            answer(call.number.0 + 1, Kind::Failure),
            answer(call.number.0 - 1, Kind::Failure),
            Header { lane: LaneId(700), ..answer(call.number.0, Kind::Failure) },
            answer(call.number.0, Kind::Failure),
        ] {
            stream.write_all(&header.to_bytes()).unwrap();
        }
    });
    let client = LabClient::bind(&uri).unwrap();
    for _ in 0..3 {
        assert!(matches!(client.next(1).unwrap_err(), CallError::Failed(..)));
    }
    assert!(client.binding().counters().ignored >= 7);
}

#[test]
fn a_result_of_another_type_is_the_peers_violation() {
    let uri = false_server(|stream, call| {
        let header = Header { kind: Kind::Result, message_len: 3, ..call };
        stream.write_all(&[&header.to_bytes()[..], &[1, 2, 3]].concat()).unwrap();
    });
    let client = LabClient::bind(&uri).unwrap();
    assert!(matches!(client.next(1).unwrap_err(), CallError::Peer(..)));
}

#[test]
fn a_number_that_is_not_after_the_last_one_is_a_violation() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let mut raw = Raw::bound(&server);
    let call = raw.call(NEXT, 2, 4);
    raw.send(&call, &[1, 0, 0, 0]);
    assert_eq!(raw.receive().unwrap().1, [2, 0, 0, 0]);
    raw.send(&call, &[1, 0, 0, 0]);
    raw.assert_closed();
    eventually(|| server.counters().malformed == 1);
}

#[test]
fn a_caller_uses_no_more_lanes_than_the_server_grants() {
    let uri = raw_server(|_, mut raw| {
        raw.grant_lanes(3)?;
        while let Some((call, _)) = raw.receive() {
            // As a server does with a lane that it has not granted.
            if call.lane >= LaneId(3) {
                return None;
            }
            let failure = Header { kind: Kind::Failure, message_len: 0, ..call };
            raw.send(&Header { time: WireFailure::Panicked.code(), ..failure }, &[]);
        }
        None
    });
    let client = LabClient::bind(&uri).unwrap();
    let calls = client.begin();
    let pending: Vec<_> = (0..20).map(|_| calls.caller()).collect();
    drop(calls);
    for result in stoop::wait_all(pending) {
        let error = result.unwrap_err();
        assert!(matches!(&error, CallError::Failed(..)), "{error}");
    }
}

#[test]
fn a_server_of_another_protocol_that_speaks_first_is_known_by_its_first_words() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It keeps the connection open, and says no more.
    let speaks = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-x\r\n").unwrap();
        stream
    });
    let error = LabClient::bind(&format!("tcp://{address}")).unwrap_err();
    assert!(matches!(error, stoop::BindError::Protocol { .. }), "{error}");
    drop(speaks.join());
}
