use super::*;
use alloc::vec;

fn request(procedures: usize) -> BindRequest {
    BindRequest {
        nonce: 7,
        cookie: Challenge(9),
        required: 1,
        wanted: 6,
        max_message: 1440,
        window: 1440,
        host: HostFacts { boot_id: [3; 16], cpus: 2, only_cpu: u16::MAX },
        first: 0,
        interface: "Greeter".into(),
        fingerprints: (0..procedures as u64).collect(),
        packet_data: Some(1000),
        lanes: Some(9),
    }
}

fn reply(procedures: usize) -> BindReply {
    BindReply {
        status: BindStatus::Bound,
        nonce: 7,
        incarnation: 1,
        chosen: 5,
        silence_ms: 600_000,
        max_message: 1440,
        window: 1440,
        host: HostFacts::default(),
        first: 0,
        procedures: vec![1; procedures],
        text: "x".repeat(1000),
        clock: Some(ServerClock { now_ns: 8, up_ns: 3 }),
        packet_data: 1432,
        lanes: 7,
        credit: 100,
        metadata: 4096,
    }
}

#[test]
fn a_reply_is_never_longer_than_its_request() {
    for procedures in [0, 1, 2, 64, FINGERPRINTS_PER_PAGE] {
        let request = BindRequest { interface: String::new(), ..request(procedures) };
        assert!(reply(procedures).encode().len() <= request.encode().len());
        assert!(request.encode().len() <= PACKET_DATA);
        let longest = BindRequest { interface: "x".repeat(MAX_NAME), ..request };
        assert!(longest.encode().len() <= PACKET_DATA);
    }
}

#[test]
fn messages_survive_encoding() {
    let request = request(3);
    assert_eq!(BindRequest::decode(&request.encode()), Some(request));
    let reply = BindReply { text: "Store, Test".into(), ..reply(3) };
    assert_eq!(BindReply::decode(&reply.encode()), Some(reply));
    let describe = Describe { nonce: 1, interface: "Greeter".into(), procedure: "greet".into() };
    assert_eq!(Describe::decode(&describe.encode()), Some(describe));
    let description = Description { nonce: 1, signature: "greet(name: &str) -> String".into() };
    assert_eq!(Description::decode(&description.encode()), Some(description));
}

#[test]
fn a_request_too_short_for_its_reply_is_refused() {
    let bytes = request(1).encode();
    assert_eq!(BindRequest::decode(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn unknown_extensions_and_statuses_are_ignored() {
    let later = |known: Vec<u8>| {
        let mut bytes = known;
        extensions::put(&mut bytes, 0xffff, &[7; 9]);
        extensions::put(&mut bytes, 5, &[]);
        bytes
    };
    assert_eq!(BindRequest::decode(&later(request(3).encode())), Some(request(3)));
    let reply = BindReply { status: BindStatus::Other(200), text: "later".into(), ..reply(3) };
    assert_eq!(BindReply::decode(&later(reply.encode())), Some(reply));
}

#[test]
fn a_reply_without_extensions_has_their_defaults() {
    let whole = BindReply { text: String::new(), ..reply(3) };
    let bytes = &whole.encode()[..REPLY_FIXED + 2 + 6];
    let expected = BindReply {
        clock: None,
        packet_data: 1440,
        lanes: LANES,
        credit: NO_CREDIT_LIMIT,
        metadata: 0,
        ..whole
    };
    assert_eq!(BindReply::decode(bytes), Some(expected));
}

#[test]
fn an_extension_of_a_wrong_length_is_ignored() {
    let whole = BindReply { text: String::new(), ..reply(0) };
    let mut bytes = whole.encode();
    bytes.truncate(REPLY_FIXED + 2);
    extensions::put(&mut bytes, extensions::SERVER_CLOCK, &[1; 15]);
    extensions::put(&mut bytes, extensions::LANES, &[1; 5]);
    let read = BindReply::decode(&bytes).unwrap();
    assert_eq!((read.clock, read.lanes), (None, LANES));
}

#[test]
fn a_refusal_for_unknown_flags_names_them() {
    let reply =
        BindReply { status: BindStatus::UnknownFlags(0b1010), chosen: 0, text: String::new(), ..reply(1) };
    assert_eq!(BindReply::decode(&reply.encode()), Some(reply));
}

#[test]
fn a_message_with_a_truncated_extension_is_rejected() {
    let request = BindRequest { interface: "x".repeat(MAX_NAME), ..request(FINGERPRINTS_PER_PAGE) }.encode();
    assert!(BindRequest::decode(&request).is_some());
    assert!(BindRequest::decode(&request[..request.len() - 1]).is_none());
    let reply = reply(1).encode();
    assert!(BindReply::decode(&reply[..reply.len() - 1]).is_none());
}

#[test]
fn no_truncation_panics() {
    let (request, reply) = (request(4).encode(), reply(4).encode());
    for len in 0..request.len() {
        BindRequest::decode(&request[..len]);
        Describe::decode(&request[..len]);
    }
    for len in 0..reply.len() {
        BindReply::decode(&reply[..len]);
        Description::decode(&reply[..len]);
    }
}

#[test]
fn a_text_is_truncated_between_characters() {
    let mut out = Vec::new();
    put_text(&mut out, "aé", 2);
    assert_eq!(out, [1, 0, b'a']);
}
