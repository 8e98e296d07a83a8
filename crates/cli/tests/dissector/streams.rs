//! Sealed byte streams: records are named, and opened with a key log.

use crate::expected::BINDING;
use crate::kinds::packet;
use crate::pcap::{self, Frame, From, segment};
use crate::random::Random;
use crate::tshark;
use std::path::Path;
use stoop_wire::bind::BindRequest;
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId};

/// The records of a caller, by the secrets of the vectors in docs/protocol.md. The last two are those vectors; the first three have the
/// header of the call in pieces, and were made as these by another implementation.
const OF_CALLER: [&str; 5] = [
    "0a000000c0fc1df71d5400dd8ff5b1f59837a7bc25c577840f3cbdb2d314",
    "0a00000053f64d867ddcba819d75e213afd8a3896682577cbbfd06d92764",
    "0c0000007d00188c7bb5ac8e20961a24c3c9960c55be8eee5aedbbf72a0a6ad8",
    "0800000049d4fd9e6d88ceb643a0393d229759bae9eb0a0bed542380",
    "0800008064fb5149d450a54801c25604628b22b55f07c9fcf34f601d",
];
/// The server's first record: the result.
const OF_SERVER: &str = "2800000090906cb2e38759b0f24c582bf32fecfd38879044a6ff662a42c899f2b993240cdffa8f2192d37b0c\
                         5c6a5708d786c8babc2b22995b01f394";
/// Other bindings may be in the log, and a binding of the same number at another server.
const LOG: &str = "STOOP_SECRETS 4122334455667788 \
    1111111111111111111111111111111111111111111111111111111111111111 \
    2222222222222222222222222222222222222222222222222222222222222222\n\
    STOOP_SECRETS 5122334455667788 \
    7057062d7808d2bb54c1d18655890784b00914150aca5b7106fcd345cc30e493 \
    d9fd49b0cbc25de19fc34a699776558f078a9e643f468b0928ceddd5cecafcab\n\
    STOOP_SECRETS 5122334455667788 \
    3333333333333333333333333333333333333333333333333333333333333333 \
    4444444444444444444444444444444444444444444444444444444444444444\n";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// The bind to the interface of handshakes.
fn bind() -> Vec<u8> {
    let request = BindRequest::new(7, "StoopSeal", vec![1, 2]);
    packet(Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(7)), &request.encode())
}

/// The end of a handshake: the caller's last message in the clear.
fn unbind() -> Vec<u8> {
    Header::bare(Kind::Unbind, BINDING, LaneId(0), CallNumber::ZERO).to_bytes().to_vec()
}

/// A capture of one connection, with these segments.
fn connection(capture: &Path, segments: &[(From, Vec<u8>)]) {
    let (mut frames, mut sent) = (Vec::new(), [1, 1]);
    for (at, (from, data)) in segments.iter().enumerate() {
        let sequence = &mut sent[usize::from(*from == From::Server)];
        frames.push(Frame::new(1000 * at as u64, segment(*from, *sequence, data)));
        *sequence += data.len() as u32;
    }
    pcap::write(capture, &frames);
}

fn log() -> String {
    let log = tshark::file("streams.keys");
    std::fs::write(&log, LOG).expect("the folder of tests can be written");
    format!("stoop.keys:{}", log.display())
}

/// The values of a field in all frames.
fn all(capture: &Path, field: &str, options: &[&str]) -> Vec<String> {
    let shown = tshark::fields(capture, &[field], options);
    shown.into_values().flat_map(|fields| fields.into_values().flatten()).collect()
}

fn assert_sound(capture: &Path, options: &[&str]) {
    let wrong = tshark::selected(capture, "stoop.malformed || _ws.lua.error", options);
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn records_are_named_and_opened_with_a_key_log_however_the_stream_is_cut() {
    if !tshark::is_installed("streams::records_are_named_and_opened_with_a_key_log_however_the_stream_is_cut")
    {
        return;
    }
    let log = log();
    let sealed: Vec<u8> = OF_CALLER.iter().flat_map(|record| bytes(record)).collect();
    let mut random = Random(5);
    for round in 0..4 {
        let mut segments = vec![(From::Client, bind())];
        let (whole, mut at) = ([unbind(), sealed.clone()].concat(), 0);
        while at < whole.len() {
            let end = if round == 0 { whole.len() } else { whole.len().min(at + 1 + random.below(70)) };
            segments.push((From::Client, whole[at..end].to_vec()));
            at = end;
        }
        segments.push((From::Server, bytes(OF_SERVER)));
        let capture = tshark::file("streams.pcap");
        connection(&capture, &segments);
        assert_eq!(all(&capture, "stoop.sealed", &["-Y", "!stoop.opened"]), ["1"; 6], "round {round}");
        let with = ["-o", &log];
        let names = ["opened", "arguments", "results", "record.key_phase", "response_to"];
        let names = names.map(|name| format!("stoop.{name}"));
        let shown = tshark::fields(&capture, &names.each_ref().map(String::as_str), &with);
        let all = |name: &String| -> Vec<&str> {
            shown.values().filter_map(|fields| fields.get(name)).flatten().map(String::as_str).collect()
        };
        let [opened, arguments, results, phases, answers] = names.each_ref().map(all);
        assert_eq!(opened, ["1"; 6], "round {round}");
        assert_eq!(
            (arguments, results),
            (vec!["61207365637265746120736563726574"], vec!["6120736563726574"])
        );
        assert_eq!(phases, ["0", "0", "0", "0", "1", "0"]);
        assert_eq!(answers, [(segments.len() - 1).to_string()]);
        let summaries = tshark::selected(&capture, "stoop.opened", &with).join("\n");
        assert!(!summaries.contains(")Record") && !summaries.contains(")Call"), "{summaries}");
        assert_sound(&capture, &with);
    }
}

#[test]
fn records_behind_one_that_does_not_open_stay_sealed() {
    if !tshark::is_installed("streams::records_behind_one_that_does_not_open_stay_sealed") {
        return;
    }
    let (log, capture) = (log(), tshark::file("changed.pcap"));
    for changed in 0..OF_CALLER.len() {
        let mut records: Vec<_> = OF_CALLER.iter().map(|record| bytes(record)).collect();
        *records[changed].last_mut().expect("it has a tag") ^= 1;
        let mut segments = vec![(From::Client, bind()), (From::Client, unbind())];
        segments.extend(records.into_iter().map(|record| (From::Client, record)));
        segments.push((From::Server, bytes(OF_SERVER)));
        connection(&capture, &segments);
        assert_eq!(all(&capture, "stoop.sealed", &["-o", &log]), ["1"; 6]);
        // The other direction is opened.
        let opened = all(&capture, "stoop.sealed_number", &["-o", &log]);
        let numbers = (0..changed).chain([0]).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(opened, numbers);
        assert_sound(&capture, &["-o", &log]);
    }
}

#[test]
fn no_mutated_record_makes_the_dissector_fail() {
    if !tshark::is_installed("streams::no_mutated_record_makes_the_dissector_fail") {
        return;
    }
    let (log, capture) = (log(), tshark::file("mutated-streams.pcap"));
    let mut random = Random(std::env::var("STOOP_SEED").map_or(1, |seed| seed.parse().expect("a number")));
    let mut frames = Vec::new();
    for connection in 0..crate::mutated::mutations() / 20 {
        let records: Vec<_> = OF_CALLER.iter().map(|record| bytes(record)).collect();
        let mut units = [vec![bind(), unbind()], records].concat();
        let mutated = 1 + random.below(units.len() - 1);
        let unit = &mut units[mutated];
        match random.below(5) {
            0 => unit.truncate(random.below(unit.len())),
            1 => unit.extend(random.up_to(60)),
            2 => units.swap(mutated, 2),
            // The beginning has most of the meaning.
            way => {
                let place = random.below(if way == 3 { 4 } else { unit.len() });
                unit[place] = random.bits() as u8;
            }
        }
        let mut sequence = 1;
        for data in units.into_iter().filter(|unit| !unit.is_empty()) {
            let mut frame = Frame::new(1000 * frames.len() as u64, segment(From::Client, sequence, &data));
            // Each connection has a port of its own.
            frame.bytes[34..36].copy_from_slice(&(10_000 + connection as u16 % 50_000).to_be_bytes());
            sequence += data.len() as u32;
            // As if the capture had cut it.
            if random.below(20) == 0 {
                frame.bytes.truncate(54 + random.below(data.len()));
            }
            frames.push(frame);
        }
    }
    pcap::write(&capture, &frames);
    let shown = |options: &[&str]| {
        let shown = tshark::fields(&capture, &["stoop.sealed", "stoop.opened", "_ws.lua.error"], options);
        assert!(!shown.values().any(|fields| fields.contains_key("_ws.lua.error")), "{shown:?}");
        let count =
            |name: &str| shown.values().filter_map(|fields| fields.get(name)).map(Vec::len).sum::<usize>();
        (count("stoop.sealed"), count("stoop.opened"))
    };
    let ((sealed, none), (same, opened)) = (shown(&[]), shown(&["-o", &log]));
    assert_eq!((none, same), (0, sealed));
    assert!(
        sealed > frames.len() / 3 && opened > frames.len() / 6,
        "{sealed} and {opened} of {}",
        frames.len()
    );
}
