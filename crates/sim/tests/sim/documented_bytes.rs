//! The examples of `docs/protocol.md` are what the code writes.

use stoop_exchange::fingerprint;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, HostFacts, ServerClock};
use stoop_wire::{
    BindingId, CallList, CallNumber, Challenge, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, Receipt,
    RefusalCode, Template, Versions, left_of_nanos,
};

const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");
const BINDING: BindingId = BindingId(0x1122_3344_5566_7788);
const NONCE: u64 = 0x0102_0304_0506_0708;
const SECOND_NS: u64 = 1_000_000_000;

/// Bytes as the document has them: two digits each, eight bytes in a group.
fn hex(bytes: &[u8]) -> String {
    let groups =
        bytes.chunks(8).map(|group| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join(" ")
}

/// The document has each of these lines.
fn assert_documented(lines: &[String]) {
    let missing: Vec<_> = lines.iter().filter(|line| !DOCUMENT.lines().any(|there| there == *line)).collect();
    assert!(missing.is_empty(), "docs/protocol.md lacks:\n{}", lines.join("\n"));
}

fn part(offset_and_len: (u32, u32), time: u32) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let template = Template::new(Kind::Call, BINDING, LaneId(5));
    template.stamp_part(&mut header, 2, CallNumber(7), 5000, offset_and_len, time);
    header
}

#[test]
fn documented_headers_are_those_that_are_sent() {
    let of = |kind| Header::bare(kind, BINDING, LaneId(5), CallNumber(7));
    let left = left_of_nanos(30 * SECOND_NS);
    let call = Header { procedure: 2, time: left, ..of(Kind::Call) };
    let of_version_2 = [&[0xd7, 2], &call.to_bytes()[2..]].concat();
    let receipt = Receipt::new(3, 1000, 64_000, 5000);
    let headers = [
        ("call of procedure 2 without arguments, 30 s left", call.to_bytes()),
        (
            "its result, 50 µs after it arrived",
            Header { procedure: 2, time: 50_000, ..of(Kind::Result) }.to_bytes(),
        ),
        (
            "refusal 4, without a text, to call again after 20 ms",
            call.refuse(RefusalCode::Overloaded).to_bytes(),
        ),
        (
            "refusal 1 of incarnation 0a0b0c0d0e0f1011, up for 77 s",
            call.unknown_binding(0x0a0b_0c0d_0e0f_1011, 77).to_bytes(),
        ),
        (
            "challenge, cookie 2122232425262728",
            of(Kind::Bind).with_challenge(Kind::Challenge, Challenge(0x2122_2324_2526_2728)).to_bytes(),
        ),
        ("call of 5000 bytes: part of 1440 bytes at offset 0, 30 s left", part((0, 1440), left)),
        ("part of 1440 bytes at offset 1440, transmission 1", part((1440, 1440), 1)),
        (
            "receipt number 1 for it, of 16 bytes",
            Header { message_len: receipt.encoded_len() as u32, time: 1, ..of(Kind::Receipt) }.to_bytes(),
        ),
        (
            "versions, for a call of version 2",
            Versions::answer_to(&of_version_2).expect("it is of another version"),
        ),
    ];
    let rows = headers.map(|(what, header)| format!("| {what} | `{}` |", hex(&header)));
    assert_documented(&rows);
}

#[test]
fn documented_probes_are_those_that_are_sent() {
    let (mut probes, mut answer) = ([0; MAX_DATAGRAM], Vec::new());
    let calls = [(LaneId(5), CallNumber(7)), (LaneId(6), CallNumber(9))];
    let len = CallList::put_probes(BINDING, calls.into_iter(), &mut probes);
    let (header, payload) = Header::parse(&probes[..len]).expect("it is a packet");
    let list = CallList::decode(&header, payload).expect("it is a list");
    list.answer(&header, |lane, _| lane == LaneId(6), &mut answer);
    assert_documented(&[
        format!("| probes for call 7 and for call 9 of lane 6 | `{}` |", hex(&probes[..len])),
        format!("| their answer, if call 7 has ended | `{}` |", hex(&answer)),
    ]);
}

#[test]
fn documented_fingerprints_are_those_that_are_compared() {
    let signatures = [
        "null()",
        "max_result(buf: out [u8; 1440])",
        "place(at: Point{x: f64, y: f64}, name: [u8]) -> bool",
        "one_way note(shape: Option<Shape{Dot | Line(f64, f64)}>, times: Map<u32, (u8,u16,)>)",
    ];
    let rows = signatures.map(|signature| format!("    {:016x}  {signature}", fingerprint(signature)));
    assert_documented(&rows);
}

#[test]
fn documented_bind_is_that_which_is_sent() {
    let host = HostFacts { boot_id: [0xb0; 16], cpus: 2, only_cpu: HostFacts::SEVERAL };
    let request = BindRequest { host, ..BindRequest::new(NONCE, "Test", vec![fingerprint("null()")]) };
    let reply = BindReply {
        status: BindStatus::Bound,
        incarnation: 0x0a0b_0c0d_0e0f_1011,
        silence_ms: 600_000,
        host,
        clock: Some(ServerClock { now_ns: 5 * SECOND_NS, up_ns: 3 * SECOND_NS }),
        ..BindReply::granting(&request)
    };
    let (asked, answered) = (request.encode(), reply.encode());
    // The rest is filled up with zeros.
    let filled = asked.iter().rposition(|byte| *byte != 0).expect("it says something") + 1;
    assert_documented(&[
        format!("| bind, {} bytes: these, and zeros | `{}` |", asked.len(), hex(&asked[..filled])),
        format!("| bind reply, {} bytes | `{}` |", answered.len(), hex(&answered)),
    ]);
}
