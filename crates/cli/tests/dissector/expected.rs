//! The fields that the dissector is to show of a packet, as the library's own decoders read it.

use std::collections::BTreeMap;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, HostFacts};
use stoop_wire::metadata::{Block, IN_PROCEDURE};
use stoop_wire::{
    BindingId, CHECKSUM_LEN, CallList, Data, HEADER_LEN, Header, Kind, PipeEnd, PipeReceipt, Receipt,
    STREAM_FRAGMENT, flags, nanos_of_left,
};

/// Values by the name of their field, in the order of their places.
pub(crate) type Fields = BTreeMap<String, Vec<String>>;

/// Collects fields.
#[derive(Default)]
pub(crate) struct Expected(pub(crate) Fields);

impl Expected {
    pub(crate) fn add(&mut self, name: &str, value: impl ToString) {
        let name = if name.starts_with("stoop") { name.to_owned() } else { format!("stoop.{name}") };
        self.0.entry(name).or_default().push(value.to_string());
    }

    fn hex(&mut self, name: &str, value: u32) {
        self.add(name, format!("0x{value:08x}"));
    }

    fn long(&mut self, name: &str, value: u64) {
        self.add(name, format!("0x{value:016x}"));
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.add(name, bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }

    fn time(&mut self, name: &str, ns: u64) {
        self.add(name, seconds(ns));
    }
}

/// A time as tshark prints it.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Adds the packet at the beginning of a datagram. Returns its length, without what it is padded with.
pub(crate) fn add_datagram(expected: &mut Expected, packet: &[u8]) -> usize {
    let (header, payload) = Header::parse(packet).expect("a packet of ours");
    let end = HEADER_LEN + payload.len();
    add(expected, packet, &header, payload);
    let is_checked = header.binding.has_checksum() && header.kind != Kind::Versions;
    if is_checked {
        let sent = u32::from_le_bytes(packet[end..end + CHECKSUM_LEN].try_into().expect("four bytes"));
        expected.hex("checksum", sent);
        expected.add("checksum.status", 1);
    }
    end + if is_checked { CHECKSUM_LEN } else { 0 }
}

/// Adds the packet at the beginning of a stream. Returns its length.
pub(crate) fn add_fragment(expected: &mut Expected, stream: &[u8]) -> usize {
    let header =
        Header::from_bytes(stream[..HEADER_LEN].try_into().expect("a header")).expect("a packet of ours");
    let end = HEADER_LEN + header.payload_len(STREAM_FRAGMENT).expect("it lies within its message");
    add(expected, &stream[..end], &header, &stream[HEADER_LEN..end]);
    end
}

fn add(expected: &mut Expected, packet: &[u8], header: &Header, payload: &[u8]) {
    let Header { kind, lane, procedure, binding, number, message_len, offset, time } = *header;
    let flags = packet[3];
    expected.add("magic", "0xd7");
    expected.add("version", packet[1]);
    expected.add("kind", kind as u8);
    expected.add("flags", format!("0x{flags:02x}"));
    if flags > 0 {
        let names = ["sized", "key_phase", "unknown", "credit", "pipe_in", "pipe_out"];
        let bits = [flags::SIZED, flags::KEY_PHASE, 10, flags::CREDIT, flags::PIPE_IN, flags::PIPE_OUT];
        for (name, bit) in names.iter().zip(bits) {
            expected.add(&format!("flags.{name}"), u8::from(flags & bit > 0));
        }
    }
    expected.add("lane", lane.0);
    expected.long("binding", binding.0);
    expected.add("number", number.0);
    let is_message = matches!(kind, Kind::Call | Kind::Result);
    let is_sized = flags & flags::SIZED > 0;
    let is_first = offset == 0;
    let field = match kind {
        Kind::Refusal if header.incarnation().is_some() => "up_time",
        Kind::Refusal => "retry_after",
        Kind::Acknowledgements => "acknowledged",
        Kind::Data => "pipe.length",
        Kind::Result if flags & flags::CREDIT > 0 => "credit",
        _ if is_message && !is_first && usize::from(procedure) == payload.len() => "part_length",
        _ => "procedure",
    };
    if field == "procedure" && is_message && procedure & IN_PROCEDURE != 0 {
        expected.add("has_metadata", 1);
    }
    expected.add(field, if field == "procedure" { procedure & !IN_PROCEDURE } else { procedure });
    if kind == Kind::Versions {
        packet[24..32]
            .iter()
            .take_while(|version| **version > 0)
            .for_each(|version| expected.add("spoken", version));
        return;
    }
    if let Some(cookie) = header.challenge() {
        expected.long("cookie", cookie.0);
    } else if let Some(incarnation) = header.incarnation() {
        expected.long("incarnation", incarnation);
    } else if let Some(data) = Data::of(header) {
        expected.add("pipe.end", u8::from(data.end == Some(PipeEnd::Finished)));
        expected.add("pipe.abort", u8::from(data.end == Some(PipeEnd::Aborted)));
        expected.add("pipe.followed", u8::from(data.split(header, payload).1.is_some()));
        expected.add("pipe.waited", u8::from(data.has_waited));
        expected.add("pipe.offset", data.at);
    } else if let Some(receipt) = PipeReceipt::of(header) {
        expected.add("message_length", message_len);
        expected.add("receipt.pipe", 1);
        expected.add("receipt.stop", u8::from(receipt.stop));
    } else {
        expected.add("message_length", message_len);
        match is_sized {
            true => expected.add("part_length", payload.len()),
            false => expected.add("offset", offset),
        }
    }
    match kind {
        Kind::Refusal => expected.add("refusal", time),
        Kind::Failure => expected.add("failure", time),
        Kind::Unbind => expected.add("unbind", time),
        Kind::Receipt => expected.add("receipt", time),
        Kind::Data => expected.add("transmission", time),
        Kind::Call if is_first && time != u32::MAX => expected.time("time_left", nanos_of_left(time)),
        Kind::Result if header.server_ns().is_some() => {
            expected.time("server_time", time.into());
            expected.add("mostly_queued", time % 2);
        }
        Kind::Call | Kind::Result if !is_first && field == "part_length" => {
            expected.add("transmission", time)
        }
        _ => expected.hex("time", time),
    }
    let tells_pipe = flags & flags::PIPE_OUT > 0 && matches!(kind, Kind::Result | Kind::Failure);
    let rest = match payload.split_first_chunk() {
        Some((total, rest)) if tells_pipe => {
            expected.add("pipe.total", u64::from_le_bytes(*total));
            rest
        }
        _ => payload,
    };
    add_payload(
        expected,
        &Header { message_len: message_len - (payload.len() - rest.len()) as u32, ..*header },
        rest,
    );
}

fn add_payload(expected: &mut Expected, header: &Header, payload: &[u8]) {
    let whole = header.message_len as usize == payload.len();
    match header.kind {
        Kind::Call | Kind::Result if whole => {
            let name = if header.kind == Kind::Call { "arguments" } else { "results" };
            match header.procedure & IN_PROCEDURE != 0 {
                true => {
                    let (rest, block) = Block::split(payload).expect("metadata");
                    expected.bytes(name, rest);
                    expected.bytes("metadata", &block.bytes()[..block.bytes().len() - 2]);
                    expected.add("metadata.length", block.bytes().len());
                }
                false => expected.bytes(name, payload),
            }
        }
        Kind::Call | Kind::Result => expected.bytes("part", payload),
        Kind::Refusal | Kind::Failure if !payload.is_empty() => {
            expected.add("explanation", String::from_utf8_lossy(payload));
        }
        Kind::Bind => add_bind(expected, &BindRequest::decode(payload).expect("a bind"), payload),
        Kind::BindReply => add_bind_reply(expected, &BindReply::decode(payload).expect("a bind reply")),
        Kind::Describe => {
            let asked = Describe::decode(payload).expect("a describe");
            expected.long("nonce", asked.nonce);
            expected.add("interface", &asked.interface);
            expected.add("describe.procedure", &asked.procedure);
        }
        Kind::Description => {
            let told = Description::decode(payload).expect("a description");
            expected.long("nonce", told.nonce);
            expected.add("description", told.signature);
        }
        Kind::Receipt => {
            let receipt = Receipt::decode(payload).expect("a receipt");
            add_receipt(expected, &receipt, PipeReceipt::of(header));
            for (begin, end) in receipt.ranges() {
                expected.add("receipt.range.begin", begin);
                expected.add("receipt.range.end", end);
            }
        }
        Kind::Probes | Kind::Acknowledgements => {
            for (lane, number) in CallList::decode(header, payload).expect("a list").calls() {
                expected.add("listed.lane", lane.0);
                expected.add("listed.number", number.0);
            }
        }
        Kind::Data => {
            let (bytes, behind) = Data::of(header).expect("data").split(header, payload);
            expected.bytes("data", bytes);
            if let Some(behind) = behind {
                expected.add("receipt", behind.number);
                expected.add("receipt.pipe", 1);
                expected.add("receipt.stop", u8::from(behind.of_pipe.stop));
                add_receipt(expected, &behind.receipt, Some(behind.of_pipe));
            }
        }
        _ => expected.bytes("data", payload),
    }
}

fn add_receipt(expected: &mut Expected, receipt: &Receipt, of_pipe: Option<PipeReceipt>) {
    expected.add("receipt.latest", receipt.latest);
    expected.add("receipt.delay", receipt.delay_ns);
    expected.add("receipt.limit", receipt.limit);
    expected.add("receipt.up_to", receipt.up_to);
    if let Some(of_pipe) = of_pipe {
        expected.add("receipt.pipe_up_to", u64::from(of_pipe.high) << 32 | u64::from(receipt.up_to));
    }
}

fn add_flags(expected: &mut Expected, name: &str, flags: u32) {
    expected.hex(name, flags);
    expected.add("bind.checksums", flags & 1);
    expected.add("bind.unchecked_frames", flags >> 1 & 1);
}

fn add_host(expected: &mut Expected, host: &HostFacts) {
    expected.bytes("boot_id", &host.boot_id);
    expected.add("processors", host.cpus);
    expected.add("only_processor", host.only_cpu);
}

fn add_bind(expected: &mut Expected, bind: &BindRequest, payload: &[u8]) {
    expected.long("nonce", bind.nonce);
    expected.long("cookie", bind.cookie.0);
    add_flags(expected, "bind.required", bind.required);
    add_flags(expected, "bind.wanted", bind.wanted);
    expected.add("bind.max_result", bind.max_message);
    expected.add("bind.window", bind.window);
    add_host(expected, &bind.host);
    expected.add("first", bind.first);
    expected.add("count", bind.fingerprints.len());
    expected.add("interface", &bind.interface);
    bind.fingerprints.iter().for_each(|fingerprint| expected.long("fingerprint", *fingerprint));
    let mut at = 58 + bind.interface.len() + 8 * bind.fingerprints.len();
    for (of_type, value) in [(2, bind.packet_data), (3, bind.lanes)] {
        if let Some(value) = value {
            add_extension(expected, of_type, if of_type == 2 { "packet_data" } else { "lanes" }, value);
            at += 8;
        }
    }
    if at < payload.len() {
        expected.add("extension", 0);
        expected.add("extension.length", payload.len() - at - 4);
        expected.bytes("extension.value", &payload[at + 4..]);
    }
}

fn add_extension(expected: &mut Expected, of_type: u16, name: &str, value: u32) {
    expected.add("extension", of_type);
    expected.add("extension.length", 4);
    expected.add(name, value);
}

fn add_bind_reply(expected: &mut Expected, reply: &BindReply) {
    let (status, flags) = match reply.status {
        BindStatus::Bound => (0, reply.chosen),
        BindStatus::NoSuchInterface => (1, reply.chosen),
        BindStatus::Full => (2, reply.chosen),
        BindStatus::ShuttingDown => (3, reply.chosen),
        BindStatus::UnknownFlags(unknown) => (4, unknown),
        BindStatus::Mismatch => (5, reply.chosen),
        BindStatus::NotAllowed => (6, reply.chosen),
        BindStatus::SealedOnly => (7, reply.chosen),
        BindStatus::Denied => (8, reply.chosen),
        BindStatus::Other(other) => (other, reply.chosen),
    };
    expected.add("status", status);
    expected.long("nonce", reply.nonce);
    expected.long("incarnation", reply.incarnation);
    add_flags(expected, "bind.chosen", flags);
    expected.add("bind.silence", reply.silence_ms);
    expected.add("bind.max_call", reply.max_message);
    expected.add("bind.call_window", reply.window);
    add_host(expected, &reply.host);
    expected.add("first", reply.first);
    expected.add("count", reply.procedures.len());
    expected.add("text", &reply.text);
    reply.procedures.iter().for_each(|number| expected.add("procedure_number", number));
    if let Some(clock) = reply.clock {
        expected.add("extension", 1);
        expected.add("extension.length", 16);
        expected.add("server_clock", clock.now_ns);
        expected.add("server_up", clock.up_ns);
    }
    add_extension(expected, 2, "packet_data", reply.packet_data);
    add_extension(expected, 3, "lanes", reply.lanes);
    add_extension(expected, 4, "initial_credit", reply.credit);
    if reply.metadata > 0 {
        add_extension(expected, 5, "metadata_max", reply.metadata);
    }
}

/// Fails if a field that is expected has other values than those that are shown, or a shown one of `compared` is not expected.
pub(crate) fn assert_shown(shown: &Fields, expected: &Fields, compared: &[&str], place: &str) {
    for name in compared {
        let (shown, expected) = (shown.get(*name), expected.get(*name));
        let texts = |fields: Option<&Vec<String>>| {
            fields.filter(|values| values.iter().any(|value| !value.is_empty())).cloned()
        };
        assert_eq!(texts(shown), texts(expected), "{place}: {name}");
    }
}

/// The fields that tell what was sent, and not what the dissector has concluded.
pub(crate) const SENT: &[&str] = &[
    "stoop.magic",
    "stoop.version",
    "stoop.kind",
    "stoop.flags",
    "stoop.flags.sized",
    "stoop.flags.key_phase",
    "stoop.flags.unknown",
    "stoop.flags.credit",
    "stoop.flags.pipe_in",
    "stoop.flags.pipe_out",
    "stoop.lane",
    "stoop.procedure",
    "stoop.has_metadata",
    "stoop.part_length",
    "stoop.up_time",
    "stoop.retry_after",
    "stoop.acknowledged",
    "stoop.credit",
    "stoop.binding",
    "stoop.sealed",
    "stoop.number",
    "stoop.message_length",
    "stoop.offset",
    "stoop.cookie",
    "stoop.incarnation",
    "stoop.spoken",
    "stoop.time",
    "stoop.time_left",
    "stoop.server_time",
    "stoop.mostly_queued",
    "stoop.refusal",
    "stoop.failure",
    "stoop.unbind",
    "stoop.transmission",
    "stoop.explanation",
    "stoop.nonce",
    "stoop.interface",
    "stoop.bind.required",
    "stoop.bind.wanted",
    "stoop.bind.max_result",
    "stoop.bind.window",
    "stoop.boot_id",
    "stoop.processors",
    "stoop.only_processor",
    "stoop.first",
    "stoop.count",
    "stoop.fingerprint",
    "stoop.extension",
    "stoop.extension.length",
    "stoop.extension.value",
    "stoop.server_clock",
    "stoop.server_up",
    "stoop.packet_data",
    "stoop.lanes",
    "stoop.initial_credit",
    "stoop.metadata_max",
    "stoop.status",
    "stoop.bind.chosen",
    "stoop.bind.checksums",
    "stoop.bind.unchecked_frames",
    "stoop.bind.silence",
    "stoop.bind.max_call",
    "stoop.bind.call_window",
    "stoop.text",
    "stoop.procedure_number",
    "stoop.describe.procedure",
    "stoop.description",
    "stoop.receipt",
    "stoop.receipt.latest",
    "stoop.receipt.delay",
    "stoop.receipt.limit",
    "stoop.receipt.up_to",
    "stoop.receipt.pipe",
    "stoop.receipt.stop",
    "stoop.receipt.pipe_up_to",
    "stoop.pipe.length",
    "stoop.pipe.end",
    "stoop.pipe.abort",
    "stoop.pipe.followed",
    "stoop.pipe.waited",
    "stoop.pipe.offset",
    "stoop.pipe.total",
    "stoop.receipt.range.begin",
    "stoop.receipt.range.end",
    "stoop.listed.lane",
    "stoop.listed.number",
    "stoop.part",
    "stoop.data",
    "stoop.checksum",
    "stoop.checksum.status",
];

/// A binding that no server has given out.
pub(crate) const BINDING: BindingId = BindingId(0x1122_3344_5566_7788);
