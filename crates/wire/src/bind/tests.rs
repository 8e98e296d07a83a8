use super::*;
use alloc::vec;

fn request(procedures: usize) -> BindRequest {
    BindRequest {
        nonce: 7,
        cookie: Challenge(9),
        flags: 0,
        max_message: 1440,
        window: 1440,
        host: HostFacts { boot_id: [3; 16], cpus: 2, only_cpu: u16::MAX },
        first: 0,
        interface: "Greeter".into(),
        fingerprints: (0..procedures as u64).collect(),
    }
}

fn reply(procedures: usize) -> BindReply {
    BindReply {
        status: BindStatus::Bound,
        nonce: 7,
        incarnation: 1,
        silence_ms: 600_000,
        max_message: 1440,
        window: 1440,
        host: HostFacts::default(),
        first: 0,
        procedures: vec![1; procedures],
        text: "x".repeat(1000),
    }
}

#[test]
fn a_reply_is_never_longer_than_its_request() {
    for procedures in [0, 1, 2, 64, FINGERPRINTS_PER_PAGE] {
        let request = BindRequest { interface: String::new(), ..request(procedures) };
        assert!(reply(procedures).encode().len() <= request.encode().len());
        assert!(request.encode().len() <= PACKET_DATA);
    }
}

#[test]
fn messages_come_back_as_they_went() {
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
fn a_text_is_cut_between_characters() {
    let mut out = Vec::new();
    put_text(&mut out, "aé", 2);
    assert_eq!(out, [1, 0, b'a']);
}
