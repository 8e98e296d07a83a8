//! Traffic of real clients and servers, captured.

use crate::expected::{Expected, Fields, SENT, add_datagram, add_fragment, assert_shown};
use crate::pcap::{self, Frame, From, data_of, segment};
use crate::random::Random;
use crate::sandbox::{self, BEHIND, CALLERS, SERVERS};
use crate::tshark;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use stoop::{BindError, BindOptions, Metadata, PacketOptions, Receiver, RunningServer, Sender, Server};
use stoop_ether::frame::{EtherType, Frame as EtherFrame};
use stoop_wire::{MAGIC, VERSION};

#[stoop::interface]
trait Shop {
    fn null(&self);
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    fn sleep(&self, time: Duration);
    fn fail(&self);
    #[one_way]
    fn note(&self, number: u32);
    fn double(&self, numbers: Receiver<u64>, doubled: Sender<u64>) -> u64;
}

struct Counter;

impl Shop for Counter {
    fn null(&self) {}
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
    fn fail(&self) {
        panic!("as it is meant to");
    }
    fn note(&self, number: u32) {
        let _ = number;
    }
    fn double(&self, numbers: Receiver<u64>, doubled: Sender<u64>) -> u64 {
        numbers.map(|number| doubled.send(&(2 * number.unwrap())).unwrap()).count() as u64
    }
}

/// The same interface as another program declares it.
mod other {
    #[stoop::interface]
    pub(crate) trait Shop {
        fn null(&self) -> u64;
    }
}

pub(crate) fn server() -> Server {
    Server::new().export(ShopServer::new(Counter))
}

pub(crate) fn file_of_names() -> String {
    let path = tshark::file("shop.names");
    std::fs::write(&path, server().names()).expect("the folder of tests can be written");
    format!("stoop.names:{}", path.display())
}

const LENGTHS: [usize; 6] = [0, 100, 1440, 5000, 70_000, 300_000];

fn echo(client: &ShopClient, len: usize) {
    let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
    assert!(client.echo(&bytes).expect("the server answers") == bytes, "{len}");
}

/// Calls of every kind. Returns how many packets of calls the caller has sent again, but those of `echo`: of a call of many packets it counts the
/// timeouts, which need not send anything.
pub(crate) fn call_all(uri: &str, options: &BindOptions) -> u64 {
    let client = ShopClient::bind_with(uri, options).expect("the server answers");
    LENGTHS.iter().for_each(|len| echo(&client, *len));
    let carrying = client.with_metadata(Metadata::new().set("tenant", b"blue"));
    LENGTHS[..4].iter().for_each(|len| echo(&carrying, *len));
    let sent_again = || client.binding().counters().packet.retransmissions;
    let before = sent_again();
    (0..10).for_each(|_| client.null().expect("the server answers"));
    (0..5).for_each(|number| client.note(number).expect("it is sent"));
    // Longer than a caller waits before it sends a call again, and before it probes.
    client.sleep(Duration::from_millis(1200)).expect("the server answers");
    assert_eq!(client.fail().expect_err("it panics").ran(), stoop::Ran::Yes);
    let calls = client.begin();
    let pending: Vec<_> = (0..100).map(|_| calls.null()).collect();
    drop(calls);
    stoop::wait_all(pending).into_iter().for_each(|result| result.expect("the server answers"));
    drop(client.begin().sleep(Duration::from_millis(200)));
    client.null().expect("the server answers");
    let (call, numbers, doubled) = client.double();
    assert_eq!(doubled.fed_by(numbers, 0..1000).map(Result::unwrap).sum::<u64>(), 999_000);
    assert_eq!(call.wait().expect("the server answers"), 1000);
    let refused = other::ShopClient::bind_with(uri, options).map(drop).expect_err("it has another signature");
    assert!(matches!(refused, BindError::Mismatch { .. }), "{refused}");
    let sent_again = sent_again() - before;
    client.close(Duration::from_secs(60)).expect("all calls end");
    sent_again
}

/// The packets of a datagram as they were captured: behind one, zeros and another one may follow, or what is left of the call that a cancel
/// is about.
fn packets_of(mut data: &[u8], expected: &mut Expected) {
    while data.starts_with(&[MAGIC, VERSION]) {
        data = &data[add_datagram(expected, data)..];
        let zeros = data.iter().take_while(|byte| **byte == 0).count();
        data = &data[zeros..];
    }
}

/// Compares what is shown of each frame of a capture with what `read` finds in it. Returns the kinds of packets that there were.
fn assert_frames_are_shown(
    capture: &Path,
    read: impl Fn(&[u8], &mut Expected) -> Option<()>,
    names: &str,
) -> BTreeSet<u8> {
    let frames = pcap::read(capture);
    let shown = tshark::fields(capture, SENT, &["-o", names]);
    let mut kinds = BTreeSet::new();
    let none = Fields::new();
    for (at, frame) in frames.iter().enumerate() {
        let mut expected = Expected::default();
        if read(&frame.bytes, &mut expected).is_none() {
            continue;
        }
        kinds.extend(expected.0["stoop.kind"].iter().map(|kind| kind.parse::<u8>().expect("a number")));
        let shown = shown.get(&(at + 1)).unwrap_or(&none);
        assert_shown(shown, &expected.0, SENT, &format!("frame {}", at + 1));
    }
    let wrong = "stoop.malformed || stoop.bad_checksum || stoop_ether.bad_checksum || _ws.lua.error";
    assert_eq!(tshark::selected(capture, wrong, &[]), Vec::<String>::new());
    kinds
}

/// The messages that were put together, and the procedures, are those of the calls. Names of procedures end with `presumed`.
pub(crate) fn assert_conclusions(capture: &Path, options: &[&str], bindings: usize, presumed: &str) {
    let fields = [
        "stoop.arguments",
        "stoop.results",
        "stoop.procedure_name",
        "stoop.response_time",
        "stoop.network_time",
    ];
    let shown = tshark::fields(capture, &fields, options);
    let all = |name: &str| {
        shown.values().filter_map(|fields| fields.get(name)).flatten().cloned().collect::<Vec<String>>()
    };
    for len in LENGTHS.iter().filter(|len| **len > 0) {
        let bytes: Vec<u8> = (0..*len).map(|at| (at / 7) as u8).collect();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for field in ["stoop.arguments", "stoop.results"] {
            let whole = all(field).iter().filter(|value| value.contains(&text)).count();
            assert!(whole >= bindings, "{field} of {len} bytes is shown {whole} times");
        }
    }
    let names = all("stoop.procedure_name");
    let named = |name: &str| names.iter().filter(|shown| shown.strip_suffix(presumed) == Some(name)).count();
    for (name, calls) in [
        ("Shop.null", 111),
        ("Shop.echo", LENGTHS.len()),
        ("Shop.note", 5),
        // The one that is cancelled may be so before it begins.
        ("Shop.sleep", 1),
        ("Shop.fail", 1),
    ] {
        assert!(named(name) >= 2 * calls * bindings, "{name}: {}", named(name));
    }
    // Every call but the cancelled one has an answer.
    let answered = all("stoop.response_time").len();
    assert!(answered >= bindings * (111 + LENGTHS.len() + 5 + 2), "{answered} answers");
    assert!(!all("stoop.network_time").is_empty());
}

#[test]
fn calls_over_udp_are_shown_as_they_were_sent() {
    let test = "traffic::calls_over_udp_are_shown_as_they_were_sent";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let names = file_of_names();
        let capture = tshark::file("udp.pcap");
        let mut sent_again = 0;
        tshark::capture(&["lo"], "127.0.0.1", &capture, || {
            let server = listening("udp://127.0.0.1:0");
            for options in [BindOptions::new(), BindOptions::new().with(PacketOptions::new().checksum())] {
                sent_again += call_all(&server.uris()[0], &options);
            }
        });
        let read = |frame: &[u8], expected: &mut Expected| {
            // Others are those by which the capture is known to run.
            let (_, _, data) = data_of(frame, 17).filter(|(.., data)| data.first() == Some(&MAGIC))?;
            packets_of(data, expected);
            Some(())
        };
        let kinds = assert_frames_are_shown(&capture, read, &names);
        let usual = [1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 14, 15, 21];
        assert!(usual.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
        assert_conclusions(&capture, &["-o", &names], 2, "");
        let calls = "stoop.kind == 3 && !(stoop.procedure_name == \"Shop.echo\")";
        let shown = tshark::fields(&capture, &["stoop.retransmission"], &["-o", &names, "-Y", calls]);
        let again: usize = shown.values().map(|fields| fields["stoop.retransmission"].len()).sum();
        assert_eq!(again as u64, sent_again, "{shown:?}");
    });
}

fn listening(uri: &str) -> RunningServer {
    server()
        .security(stoop::Security::none())
        .listen(uri)
        .expect("the address is free")
        .start()
        .expect("it starts")
}

/// The bytes of each direction of a capture, by the port of the sender.
fn streams(frames: &[Frame]) -> BTreeMap<u16, Vec<u8>> {
    let mut streams = BTreeMap::<u16, Vec<u8>>::new();
    for (from, _, data) in frames.iter().filter_map(|frame| data_of(&frame.bytes, 6)) {
        streams.entry(from).or_default().extend_from_slice(data);
    }
    streams.retain(|_, bytes| !bytes.is_empty());
    streams
}

/// The fields of a stream, whatever frames its packets were in.
fn fields_of_stream(capture: &Path, port: u16, options: &[&str]) -> Fields {
    let filter = format!("tcp.srcport == {port}");
    let shown = tshark::fields(capture, SENT, &[&["-Y", &filter][..], options].concat());
    let mut all = Fields::new();
    for (name, values) in shown.into_values().flatten() {
        all.entry(name).or_default().extend(values);
    }
    all
}

#[test]
fn segments_that_were_captured_late_or_sent_again_are_in_the_order_of_their_bytes() {
    let sent = |from, sequence, data: &[u8]| Frame::new(0, segment(from, sequence, data));
    let (server, client) = (From::Server, From::Client);
    let captured = vec![
        sent(client, 9, b"cc"),
        sent(server, 1, b"x"),
        sent(client, 5, b"bbbb"),
        sent(client, 5, b"bbbb"),
        sent(client, 1, b"aaaa"),
    ];
    let ordered = pcap::in_order(captured);
    let all: Vec<_> = ordered.iter().map(|frame| data_of(&frame.bytes, 6).expect("TCP").2).collect();
    assert_eq!(all, [&b"aaaa"[..], b"bbbb", b"cc", b"x"]);
}

#[test]
fn calls_over_tcp_are_shown_as_they_were_sent_however_the_stream_is_cut() {
    let test = "traffic::calls_over_tcp_are_shown_as_they_were_sent_however_the_stream_is_cut";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let names = file_of_names();
        let capture = tshark::file("tcp.pcap");
        tshark::capture(&["lo"], "127.0.0.1", &capture, || {
            let server = listening("tcp://127.0.0.1:0");
            call_all(&server.uris()[0], &BindOptions::new());
            // Is told that the server ends.
            let bound = ShopClient::bind(&server.uris()[0]).expect("the server answers");
            drop(server);
            drop(bound);
        });
        let frames = pcap::in_order(pcap::read(&capture));
        pcap::write(&capture, &frames);
        let streams = streams(&frames);
        let mut kinds = BTreeSet::new();
        for (port, bytes) in &streams {
            let (mut expected, mut at) = (Expected::default(), 0);
            while at < bytes.len() {
                at += add_fragment(&mut expected, &bytes[at..]);
            }
            kinds.extend(expected.0["stoop.kind"].iter().map(|kind| kind.parse::<u8>().expect("a number")));
            let shown = fields_of_stream(&capture, *port, &["-o", &names]);
            assert_shown(&shown, &expected.0, SENT, &format!("from port {port}"));
            assert_same_in_small_segments(bytes, &expected.0);
        }
        assert!([1, 2, 3, 4, 8, 11, 12, 13].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
        assert_conclusions(&capture, &["-o", &names], 1, "");
        let wrong = "stoop.malformed || _ws.lua.error || stoop.retransmission";
        assert_eq!(tshark::selected(&capture, wrong, &[]), Vec::<String>::new());
    });
}

/// The stream, cut at random, shows the same.
fn assert_same_in_small_segments(stream: &[u8], expected: &Fields) {
    let mut random = Random(stream.len() as u64);
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        // The first has the header by which the dissector knows the stream.
        let most = if random.below(3) == 0 { 40 } else { 3000 };
        let end = stream.len().min(at + 1 + random.below(most) + if at == 0 { 600 } else { 0 });
        frames.push(Frame::new(1000 * at as u64, segment(From::Client, 1 + at as u32, &stream[at..end])));
        at = end;
    }
    let capture = tshark::file("cut.pcap");
    pcap::write(&capture, &frames);
    let shown = fields_of_stream(&capture, pcap::CLIENT_PORT, &[]);
    assert_shown(&shown, expected, SENT, "cut at random");
}

#[test]
fn calls_on_an_ethernet_are_shown_as_they_were_sent() {
    let test = "traffic::calls_on_an_ethernet_are_shown_as_they_were_sent";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let names = file_of_names();
        let capture = tshark::file("ether.pcap");
        // Each end sees what it receives: what it sends passes the kernel's queues by, and with them captures (PACKET_QDISC_BYPASS).
        tshark::capture(&[CALLERS, SERVERS], BEHIND, &capture, || {
            let _server = listening(&format!("ether://{SERVERS}/shop"));
            call_all(&format!("ether://{CALLERS}/shop"), &BindOptions::new());
        });
        let read = |frame: &[u8], expected: &mut Expected| {
            let frame = EtherFrame::parse(frame, EtherType::LOCAL_EXPERIMENTAL_1).ok()?;
            frame.packets().chunks(frame.segment()).for_each(|packet| {
                add_datagram(expected, packet);
            });
            Some(())
        };
        let kinds = assert_frames_are_shown(&capture, read, &names);
        assert!(
            [1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 14, 15].iter().all(|kind| kinds.contains(kind)),
            "{kinds:?}"
        );
        assert_conclusions(&capture, &["-o", &names], 1, "");
        assert_prefixes_are_shown(&capture);
    });
}

/// Ports, lengths and checksums of frames, and the questions for the name.
fn assert_prefixes_are_shown(capture: &Path) {
    let fields =
        ["to", "from", "length", "several", "segment", "checksum.status", "question", "name", "ether_type"]
            .map(|name| format!("stoop_ether.{name}"));
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let shown = tshark::fields(capture, &fields, &[]);
    let mut several = 0;
    let mut questions = BTreeSet::new();
    for (at, frame) in pcap::read(capture).iter().enumerate() {
        let Some(shown) = shown.get(&(at + 1)) else { continue };
        let value = |name: &str| shown.get(&format!("stoop_ether.{name}")).map(|values| values[0].as_str());
        assert_eq!(value("checksum.status"), Some("1"));
        let Ok(frame) = EtherFrame::parse(&frame.bytes, EtherType::LOCAL_EXPERIMENTAL_1) else {
            let question = value("question").expect("what is no packet is a question");
            // A caller that gets no answer for long asks for the server's address, too.
            let name = ["1", "2"].contains(&question).then_some("shop");
            assert_eq!((value("name"), value("ether_type")), (name, Some("0x88b5")));
            questions.insert(question.to_owned());
            continue;
        };
        assert_eq!(value("to"), Some(&*frame.to().port.to_string()));
        assert_eq!(value("from"), Some(&*frame.from().port.to_string()));
        let is_several = frame.packets().len() > frame.segment();
        let len = frame.packets().len() + if is_several { 2 } else { 0 };
        assert_eq!(value("length"), Some(&*len.to_string()));
        assert_eq!(value("several"), Some(if is_several { "1" } else { "0" }));
        if is_several {
            several += 1;
            assert_eq!(value("segment"), Some(&*frame.segment().to_string()));
        }
    }
    assert!(
        several > 0 && ["1", "2"].iter().all(|kind| questions.contains(*kind)),
        "{several} frames with several packets, {questions:?}"
    );
}

#[test]
fn a_packet_in_an_icmp_error_is_no_retransmission() {
    let test = "traffic::a_packet_in_an_icmp_error_is_no_retransmission";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let capture = tshark::file("icmp.pcap");
        tshark::capture(&["lo"], "127.0.0.1", &capture, || {
            let server = listening("udp://127.0.0.1:7499");
            let client = ShopClient::bind(&server.uris()[0]).expect("the server answers");
            client.null().expect("the server answers");
            drop(server);
            client.with_timeout(Duration::from_millis(100)).null().expect_err("the server has gone");
        });
        let quoted = tshark::selected(&capture, "icmp && stoop.kind", &[]);
        assert!(!quoted.is_empty());
        assert_eq!(
            tshark::selected(&capture, "icmp && (stoop.retransmission || stoop.duplicate)", &[]),
            Vec::<String>::new()
        );
    });
}
