//! A packet of every kind, with every field.

use crate::expected::{BINDING, Expected, Fields, SENT, add_datagram, assert_shown};
use crate::pcap::{self, CLIENT_PORT, Frame, From, SERVER_PORT, datagram};
use crate::tshark;
use std::collections::BTreeSet;
use stoop::stub::Exported;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, HostFacts, ServerClock};
use stoop_wire::{
    BindingId, CallList, CallNumber, Challenge, Data, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM,
    PipeEnd, PipeReceipt, Receipt, ReceiptBehind, RefusalCode, Template, flags, left_of_nanos,
};

fn of(kind: Kind) -> Header {
    Header::bare(kind, BINDING, LaneId(0x1234), CallNumber(0x0708_090a))
}

pub(crate) fn packet(header: Header, payload: &[u8]) -> Vec<u8> {
    let header = Header { message_len: payload.len() as u32, ..header };
    [&header.to_bytes()[..], payload].concat()
}

fn part(kind: Kind, (offset, len): (u32, u32), time: u32) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    let template = Template::new(kind, BINDING, LaneId(5));
    template.stamp_part(&mut header, 2, CallNumber(7), 5000, (offset, len), time);
    let content: Vec<u8> = (offset..offset + len).map(|at| at as u8).collect();
    [&header[..], &content].concat()
}

fn bind() -> (BindRequest, BindReply) {
    let host = HostFacts { boot_id: *b"0123456789abcdef", cpus: 12, only_cpu: 3 };
    let request = BindRequest {
        cookie: Challenge(0x2122_2324_2526_2728),
        required: 1,
        wanted: 2,
        max_message: 0x0101_0101,
        window: 0x0202_0202,
        host,
        first: 0x0304,
        packet_data: Some(1000),
        lanes: Some(77),
        ..BindRequest::new(0x0102_0304_0506_0708, "Test of ünicode", vec![0x1122_3344_aabb_ccdd, 5])
    };
    let reply = BindReply {
        incarnation: 0x0a0b_0c0d_0e0f_1011,
        chosen: 3,
        silence_ms: 600_000,
        max_message: 0x0505_0505,
        window: 0x0606_0606,
        host: HostFacts { only_cpu: HostFacts::SEVERAL, ..host },
        text: "tcp://192.0.2.2:1 unix:/there".into(),
        clock: Some(ServerClock { now_ns: 5_000_000_001, up_ns: 3_000_000_002 }),
        packet_data: 1441,
        lanes: 16_385,
        credit: 0x0708_0901,
        ..BindReply::granting(&request)
    };
    (request, reply)
}

/// Packets of every kind but those with a checksum, and those that are sealed.
pub(crate) fn packets() -> Vec<(From, Vec<u8>)> {
    use From::{Client, Server};
    let (request, reply) = bind();
    let unbound = |kind, number| Header::bare(kind, BindingId::NONE, LaneId(0), CallNumber(number));
    let bound = |kind, number| Header::bare(kind, BINDING, LaneId(0), CallNumber(number));
    let refused = |status| BindReply { status, text: "A, B".into(), ..reply.clone() };
    let describe =
        Describe { nonce: 0x9192_9394_9596_9798, interface: "Test".into(), procedure: "null".into() };
    let description = Description { nonce: describe.nonce, signature: "null()".into() };
    let mut receipt = Receipt::new(3, 1000, 64_000, 1440);
    assert!(receipt.push(2880, 4320) && receipt.push(4400, 5000));
    let mut bytes = [0; Receipt::MAX_LEN];
    let receipt_len = receipt.put(&mut bytes);
    let mut list = [0; MAX_DATAGRAM];
    let calls = [(LaneId(5), CallNumber(7)), (LaneId(6), CallNumber(9)), (LaneId(9), CallNumber(1))];
    let list_len = CallList::put_probes(BINDING, calls.into_iter(), &mut list);
    let (header, payload) = Header::parse(&list[..list_len]).expect("it is a packet");
    let mut answer = Vec::new();
    CallList::decode(&header, payload).expect("it is a list").answer(
        &header,
        |lane, _| lane != LaneId(5),
        &mut answer,
    );
    let call = Header { procedure: 2, time: left_of_nanos(30_000_001_000), ..of(Kind::Call) };
    let result = Header { procedure: 2, time: 50_001, ..of(Kind::Result) };
    let data = |at, len: u16, end, transmission| {
        let header = Data { at, len, end, has_waited: len == 64, transmission }.header(
            BINDING,
            LaneId(5),
            CallNumber(7),
        );
        [&header.to_bytes()[..], &vec![0xab; len.into()]].concat()
    };
    let followed = |stop, high, bytes: u8| {
        let of_pipe = PipeReceipt { stop, high };
        let behind = ReceiptBehind { number: 5, of_pipe, receipt: Receipt::new(3, 1000, 96, 64) };
        let (end, len) = (None, bytes.into());
        let data = Data { at: 64, len, end, has_waited: stop, transmission: 13 };
        let header = ReceiptBehind::announced(data.header(BINDING, LaneId(5), CallNumber(7)));
        [&header.to_bytes()[..], &vec![0xab; bytes.into()], &behind.to_bytes()].concat()
    };
    let of_pipe = |stop, high| PipeReceipt { stop, high }.put(Header { time: 2, ..of(Kind::Receipt) });
    let flagged = |mut packet: Vec<u8>, flags: u8| {
        packet[3] |= flags;
        packet
    };
    let mut with_credit = packet(call, b"in");
    Header::set_credit(&mut with_credit, None);
    let mut granting = packet(result, b"out");
    Header::set_credit(&mut granting, Some(640));
    let number = |nonce: u64| nonce as u32;
    let mut all = vec![
        (Client, packet(unbound(Kind::Bind, number(request.nonce)), &request.encode())),
        (Server, packet(bound(Kind::BindReply, number(request.nonce)), &reply.encode())),
        (Client, packet(unbound(Kind::Describe, number(describe.nonce)), &describe.encode())),
        (Server, packet(unbound(Kind::Description, number(describe.nonce)), &description.encode())),
        (Client, packet(call, b"arguments")),
        (Client, packet(Header { time: left_of_nanos(3_600_000_000_000), ..call }, b"")),
        (Client, packet(Header { time: u32::MAX, ..call }, b"")),
        (Client, with_credit),
        (Server, packet(result, b"results")),
        (Server, packet(Header { time: u32::MAX, ..result }, b"")),
        (Server, granting),
        (Client, part(Kind::Call, (0, 1440), 1_000_000)),
        (Client, part(Kind::Call, (1440, 1440), 1)),
        (Server, part(Kind::Result, (0, 1440), 1_000_000)),
        (Server, part(Kind::Result, (4000, 1000), 7)),
        (Server, of(Kind::Acknowledgement).to_bytes().to_vec()),
        (Client, Header { procedure: 2, ..of(Kind::Probe) }.to_bytes().to_vec()),
        (Server, call.unknown_binding(0x0a0b_0c0d_0e0f_1011, 77).to_bytes().to_vec()),
        (Server, packet(Header { procedure: 20, time: 4, ..of(Kind::Refusal) }, "zu tun: über".as_bytes())),
        (Server, packet(Header { time: 2, ..of(Kind::Failure) }, b"too long")),
        (
            Server,
            of(Kind::Challenge)
                .with_challenge(Kind::Challenge, Challenge(0x3132_3334_3536_3738))
                .to_bytes()
                .to_vec(),
        ),
        (
            Client,
            of(Kind::Proof).with_challenge(Kind::Proof, Challenge(0x3132_3334_3536_3738)).to_bytes().to_vec(),
        ),
        (Client, bound(Kind::Unbind, 0).to_bytes().to_vec()),
        (Server, packet(Header { time: 9, ..of(Kind::Receipt) }, &bytes[..receipt_len])),
        (Client, of(Kind::Cancel).to_bytes().to_vec()),
        (Client, Header { time: 3, ..of(Kind::Attach) }.to_bytes().to_vec()),
        (Client, packet(of(Kind::Handshake), b"keys")),
        (Server, {
            let mut versions = of(Kind::Versions).to_bytes();
            versions[1] = 2;
            versions[24..27].copy_from_slice(&[2, 3, 4]);
            versions.to_vec()
        }),
        (Client, list[..list_len].to_vec()),
        (Server, answer),
        (Client, flagged(packet(call, b"window"), flags::PIPE_IN | flags::PIPE_OUT)),
        (Server, flagged(packet(result, b"12345678results"), flags::PIPE_OUT)),
        (Server, flagged(packet(Header { time: 1, ..of(Kind::Failure) }, b"12345678why"), flags::PIPE_OUT)),
        (Server, data(1 << 40, 64, None, 9)),
        (Client, data(7, 8, Some(PipeEnd::Finished), 10)),
        (Client, data(15, 0, Some(PipeEnd::Aborted), 11)),
        (Server, data(0, 0, None, 12)),
        (Client, followed(false, 0, 8)),
        (Server, followed(true, 0x00ab_cdef, 64)),
        (Client, packet(of_pipe(false, 0), &bytes[..receipt_len])),
        (Server, packet(of_pipe(true, 0x00ab_cdef), &bytes[..receipt_len])),
    ];
    let statuses = [
        BindStatus::NoSuchInterface,
        BindStatus::Full,
        BindStatus::ShuttingDown,
        BindStatus::UnknownFlags(0x10),
        BindStatus::Mismatch,
        BindStatus::NotAllowed,
        BindStatus::SealedOnly,
        BindStatus::Denied,
        BindStatus::Other(200),
    ];
    let replies =
        statuses.map(|status| (Server, packet(bound(Kind::BindReply, 1), &refused(status).encode())));
    all.extend(replies);
    for code in 1..=13 {
        all.push((Server, Header { time: code, ..of(Kind::Failure) }.to_bytes().to_vec()));
        if code != RefusalCode::UnknownBinding.code() {
            all.push((Server, Header { time: code, ..of(Kind::Refusal) }.to_bytes().to_vec()));
        }
        all.push((Server, Header { time: code, ..bound(Kind::Unbind, 0) }.to_bytes().to_vec()));
    }
    all
}

/// Frames with these packets over UDP.
pub(crate) fn frames(packets: &[(From, Vec<u8>)]) -> Vec<Frame> {
    let frame = |(at, (from, packet)): (usize, &(From, Vec<u8>))| {
        Frame::new(
            1_700_000_000_000_000_000 + 1000 * at as u64,
            datagram(*from, (CLIENT_PORT, SERVER_PORT), packet),
        )
    };
    packets.iter().enumerate().map(frame).collect()
}

const AS_OURS: [&str; 2] = ["-d", "udp.port==7400,stoop"];

#[test]
fn every_field_of_every_kind_is_what_was_sent() {
    if !tshark::is_installed("kinds::every_field_of_every_kind_is_what_was_sent") {
        return;
    }
    let packets = packets();
    let capture = tshark::file("kinds.pcap");
    pcap::write(&capture, &frames(&packets));
    let compared = [SENT, &["stoop.arguments", "stoop.results"]].concat();
    let shown = tshark::fields(&capture, &compared, &AS_OURS);
    let kinds: BTreeSet<u8> = packets.iter().map(|(_, packet)| packet[2]).collect();
    assert!(kinds.iter().copied().eq(1..=21), "{kinds:?}");
    let none = Fields::new();
    for (at, (_, packet)) in packets.iter().enumerate() {
        let mut expected = Expected::default();
        add_datagram(&mut expected, packet);
        let shown = shown.get(&(at + 1)).unwrap_or(&none);
        assert_shown(shown, &expected.0, &compared, &format!("packet {at}, kind {}", packet[2]));
    }
    assert_eq!(
        tshark::selected(&capture, "stoop.malformed || _ws.lua.error", &AS_OURS),
        Vec::<String>::new()
    );
}

#[test]
fn procedures_have_the_names_that_their_server_tells() {
    #[stoop::interface]
    trait Test {
        fn null(&self);
        fn place(&self, at: u32) -> u32;
    }
    struct Nothing;
    impl Test for Nothing {
        fn null(&self) {}
        fn place(&self, at: u32) -> u32 {
            at
        }
    }
    if !tshark::is_installed("kinds::procedures_have_the_names_that_their_server_tells") {
        return;
    }
    let names = tshark::file("names");
    let text = stoop::Server::new().export(TestServer::new(Nothing)).names();
    std::fs::write(&names, &text).expect("the folder of tests can be written");
    assert!(
        text.contains(" Test 1 place(at: u32) -> u32\n") && text.contains(" StoopHealth 0 ping()\n"),
        "{text}"
    );
    let fingerprints: Vec<u64> = text
        .lines()
        .filter(|line| line.contains(" Test "))
        .map(|line| u64::from_str_radix(&line[..16], 16).expect("a fingerprint"))
        .collect();
    assert_eq!(fingerprints.len(), TestServer::new(Nothing).interface().procedures.len());

    // A server that has the procedures in another order.
    let request = BindRequest::new(7, "Test", fingerprints);
    let reply = BindReply { procedures: vec![1, 0], ..BindReply::granting(&request) };
    let at_bind = |kind, binding, payload: &[u8]| {
        packet(Header::bare(kind, binding, LaneId(0), CallNumber(7)), payload)
    };
    let call =
        |binding| Header { procedure: 0, ..Header::bare(Kind::Call, binding, LaneId(0), CallNumber(1)) };
    let bound = vec![
        (From::Client, at_bind(Kind::Bind, BindingId::NONE, &request.encode())),
        (From::Server, at_bind(Kind::BindReply, BINDING, &reply.encode())),
        (From::Client, call(BINDING).to_bytes().to_vec()),
        (From::Server, Header { kind: Kind::Result, ..call(BINDING) }.to_bytes().to_vec()),
        (From::Client, call(BindingId(99)).to_bytes().to_vec()),
    ];
    let capture = tshark::file("names.pcap");
    pcap::write(&capture, &frames(&bound));
    let option = format!("stoop.names:{}", names.display());
    let shown = |options: &[&str]| {
        let shown = tshark::fields(&capture, &["stoop.procedure_name"], options);
        shown.into_values().flat_map(|fields| fields.into_values().flatten()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["-o", &option]), ["Test.place", "Test.place", "Test.null (presumed)"]);
    assert_eq!(shown(&["-o", "stoop.names:/nowhere"]), ["Test.0", "Test.0", "procedure 0"]);
}

#[test]
fn sealed_packets_are_named_and_their_data_is_not_read() {
    if !tshark::is_installed("kinds::sealed_packets_are_named_and_their_data_is_not_read") {
        return;
    }
    let binding = BindingId(1 << 62 | 5);
    let call = Header::bare(Kind::Call, binding, LaneId(1), CallNumber(1));
    let sealed = |header: Header, data: &[u8]| {
        [&packet(header, data)[..], &0x0102_0304_0506_0708_u64.to_le_bytes(), &[0xee; 16]].concat()
    };
    let packets = vec![
        (From::Client, sealed(Header { time: 1000, ..call }, b"secret")),
        (From::Server, sealed(Header { kind: Kind::Result, ..call }, b"also")),
        (From::Server, sealed(Header { kind: Kind::Bind, number: CallNumber(77), ..call }, &[0x55; 600])),
        (From::Server, call.unknown_binding(7, 7).to_bytes().to_vec()),
    ];
    let capture = tshark::file("sealed.pcap");
    pcap::write(&capture, &frames(&packets));
    let names = [
        "stoop.sealed",
        "stoop.sealed_data",
        "stoop.sealed_number",
        "stoop.tag",
        "stoop.arguments",
        "stoop.results",
    ];
    let shown = tshark::fields(&capture, &names, &[]);
    assert_eq!(shown.keys().copied().collect::<Vec<_>>(), [1, 2, 3], "the hint is not sealed");
    for (frame, data) in [(1, "736563726574"), (2, "616c736f")] {
        let fields = &shown[&frame];
        assert_eq!(fields["stoop.sealed_data"], [data]);
        assert_eq!(fields["stoop.sealed_number"], ["72623859790382856"]);
        assert_eq!(fields["stoop.tag"], ["ee".repeat(16)]);
        assert!(!fields.contains_key("stoop.arguments") && !fields.contains_key("stoop.results"));
    }
    assert_eq!(tshark::selected(&capture, "stoop", &[]).len(), 4);
    assert_eq!(tshark::selected(&capture, "stoop.malformed || _ws.lua.error", &[]), Vec::<String>::new());
}

#[test]
fn sealed_packets_are_opened_with_a_key_log() {
    if !tshark::is_installed("kinds::sealed_packets_are_opened_with_a_key_log") {
        return;
    }
    // The vectors of docs/protocol.md, and the call with another tag.
    let bytes = |hex: &str| -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let call = "d701030005000200 8877665544332251 0700000008000000 0000000050c30000 49d4fd9e6d88ceb6 0300000000000000 \
                39d20e0fe9a724c3 c7db0d5a51d77758";
    let result = "d701040405000200 8877665544332251 0700000008000000 0000000050c30000 bf8014fbb5d31ab3 0300000000000000 \
                  60eb5ccb4f6a6eda efc255af4340420e";
    let packets = vec![
        (From::Client, bytes(call)),
        (From::Server, bytes(result)),
        (From::Client, bytes(&call.replace("7758", "7759"))),
    ];
    let capture = tshark::file("opened.pcap");
    pcap::write(&capture, &frames(&packets));
    let log = tshark::file("opened.keys");
    let secrets = "7057062d7808d2bb54c1d18655890784b00914150aca5b7106fcd345cc30e493 \
                   d9fd49b0cbc25de19fc34a699776558f078a9e643f468b0928ceddd5cecafcab";
    std::fs::write(&log, format!("STOOP_SECRETS 5122334455667788 {secrets}\n"))
        .expect("the folder of tests can be written");
    let names = ["stoop.sealed", "stoop.opened", "stoop.arguments", "stoop.results"];
    let option = format!("stoop.keys:{}", log.display());
    let shown = tshark::fields(&capture, &names, &["-o", &option]);
    let secret = ["6120736563726574"];
    assert_eq!(
        (&shown[&1]["stoop.opened"][..], &shown[&1]["stoop.arguments"][..]),
        (&["1".into()][..], &secret.map(String::from)[..])
    );
    assert_eq!(shown[&2]["stoop.results"], secret);
    assert!(shown[&3].contains_key("stoop.sealed") && !shown[&3].contains_key("stoop.opened"), "{shown:?}");
    assert_eq!(
        tshark::selected(&capture, "stoop.malformed || _ws.lua.error", &["-o", &option]),
        Vec::<String>::new()
    );
}
