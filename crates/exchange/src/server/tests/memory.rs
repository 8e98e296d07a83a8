//! Memory that a server holds for its bindings.

use super::*;

#[test]
fn memory_of_one_binding_is_bounded() {
    let (mut server, binding) = bound();
    for lane in 0..2000 {
        let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
        header.message_len = 1440;
        let mut packet = [&header.to_bytes()[..], &[0; 1440]].concat();
        let running = give(&mut server, &packet);
        for number in 2..4 {
            packet[16] = number;
            give(&mut server, &packet);
        }
        if let Made::Run(assignment) = running {
            finish(&mut server, assignment);
        }
    }
    let lanes = usize::from(Limits::default().lanes);
    assert!(server.bytes_held() < 2 * lanes * (2 * MAX_DATAGRAM + 128), "{}", server.bytes_held());
}

#[test]
fn ten_thousand_bindings_take_a_kibibyte_each() {
    // As large as a socket address and the address that was called.
    #[derive(Clone, Copy, Debug)]
    struct Socket([u64; 8]);
    impl Peer for Socket {
        fn host(&self) -> [u8; 16] {
            [1; 16]
        }
        fn port(&self) -> u16 {
            self.0[0] as u16
        }
    }
    const BINDINGS: usize = 10_000;
    let interface = Interface {
        name: "I".into(),
        procedures: vec![Procedure { name: "a".into(), signature: "a".into() }],
        ..Interface::default()
    };
    let (interfaces, limits) = (Interfaces::new([interface]), Limits::default());
    let mut server = Server::<Socket>::new(at(0), interfaces, limits, HostFacts::default(), [1, 2]);
    let empty = server.bytes_held();
    let peer = Socket([7; 8]);
    let mut reply = Vec::new();
    let bindings: Vec<BindingId> = (0..BINDINGS as u64)
        .map(|nonce| {
            let mut request = BindRequest { nonce, ..bind_request() };
            server.handle_packet(at(0), &peer, &bind_packet(&request), &mut reply);
            request.cookie = Header::parse(&reply).unwrap().0.challenge().expect("a challenge first");
            server.handle_packet(at(0), &peer, &bind_packet(&request), &mut reply);
            Header::parse(&reply).unwrap().0.binding
        })
        .collect();
    let calls: Vec<_> = bindings
        .iter()
        .map(|binding| {
            match server.handle_packet(at(1), &peer, &packet(Kind::Call, *binding, 1), &mut reply) {
                Effect::Run(assignment) => assignment,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    for mut call in calls {
        call.complete(at(2), 4);
        assert!(matches!(server.finish(at(2), call), Next::Nothing));
    }
    let retaining = (server.bytes_held() - empty) / BINDINGS;
    assert!(retaining <= 1024, "{retaining} bytes with the answer retained");
    // After the deadlines, no caller asks for the answers any more.
    server.handle_timeout(at(20_000));
    let idle = (server.bytes_held() - empty) / BINDINGS;
    assert!(idle <= 1024, "{idle} bytes without");
    assert_eq!(server.bindings(), BINDINGS);
}
