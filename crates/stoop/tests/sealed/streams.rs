//! An attacker on the way of a sealed connection, who sees, changes, repeats, drops and makes up bytes.

use crate::harness::eventually;
use crate::middle::{Frame, Middle};
use crate::{Pair, VaultClient};
use std::io::{Read, Write};
use std::net::TcpStream;
use stoop::CallError;
use stoop_wire::{HEADER_LEN, Header, Kind};

fn client(pair: &Pair, middle: &Middle) -> VaultClient {
    VaultClient::bind_with(&middle.uri, &pair.options()).unwrap()
}

fn unchanged(frame: &Frame) -> Vec<Vec<u8>> {
    vec![frame.bytes.clone()]
}

/// Calls on which an attacker acts several times: each connection has some four of them.
const CALLS: u64 = 16;

/// Makes these calls. No call runs twice, and each that the server has run is known to have run, or
/// unknown.
fn assert_counted_once(pair: &Pair, client: &VaultClient) {
    let (mut last, mut lost) = (0, 0);
    for _ in 0..CALLS {
        match client.count() {
            Ok(number) => {
                assert!(number > last && number <= last + 1 + lost, "{number} after {last}, {lost} unknown");
                (last, lost) = (number, 0);
            }
            Err(CallError::Unknown { .. }) => lost += 1,
            Err(why) => panic!("{why}"),
        }
    }
    assert!(last > 0, "some calls have a result");
    assert!(pair.server.counters().calls <= CALLS);
}

#[test]
fn no_argument_and_no_result_is_seen_on_a_connection() {
    let pair = Pair::over("tcp");
    let middle = Middle::new(&pair.uri(), unchanged);
    let client = client(&pair, &middle);
    let secret = b"a secret that nobody may see on the way".repeat(2000);
    assert_eq!(client.echo(&secret).unwrap(), secret);
    let begun = client.begin().echo(&secret[..39]);
    assert_eq!(begun.wait().unwrap(), secret[..39]);
    let seen = middle.seen.lock().unwrap();
    assert!(seen.iter().filter(|frame| frame.is_sealed).count() >= 12);
    let shown = |frame: &Frame| frame.bytes.windows(16).any(|part| part == &secret[..16]);
    assert!(!seen.iter().any(shown));
    let in_clear: Vec<_> = seen.iter().filter(|frame| frame.to_server).filter_map(Frame::kind).collect();
    assert_eq!(in_clear, [Kind::Bind, Kind::Call, Kind::Call, Kind::Unbind], "the handshake, and no more");
}

#[test]
fn a_changed_bit_of_any_record_ends_the_connection_and_runs_nothing() {
    for to_server in [true, false] {
        let (pair, mut bit) = (Pair::over("tcp"), 0);
        let middle = Middle::new(&pair.uri(), move |frame| {
            let mut bytes = frame.bytes.clone();
            if frame.is_sealed && frame.to_server == to_server && frame.place == 3 {
                bit = (bit + 13) % (8 * bytes.len());
                // Not the lengths: the rest of a longer record would be waited for.
                let bit = if bit < 32 { bit + 32 } else { bit };
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            vec![bytes]
        });
        assert_counted_once(&pair, &client(&pair, &middle));
        assert_eq!(pair.server.counters().malformed > 0, to_server);
    }
}

#[test]
fn records_that_are_repeated_exchanged_or_left_out_run_no_call_again() {
    for attack in ["repeat", "exchange", "leave out", "insert an old one"] {
        for to_server in [true, false] {
            let (pair, mut kept) = (Pair::over("tcp"), Vec::<Vec<u8>>::new());
            let middle = Middle::new(&pair.uri(), move |frame| {
                let bytes = frame.bytes.clone();
                if !frame.is_sealed || frame.to_server != to_server {
                    return vec![bytes];
                }
                let old = kept.last().cloned();
                kept.push(bytes.clone());
                match (attack, frame.place) {
                    ("repeat", 3) => vec![bytes.clone(), bytes],
                    // It arrives behind the next one.
                    ("exchange", 3) => vec![Vec::new()],
                    ("exchange", 4) => vec![bytes, old.unwrap()],
                    ("leave out", 3) => vec![Vec::new()],
                    // Of the connection before, too.
                    ("insert an old one", 3) => vec![kept[0].clone(), bytes],
                    _ => vec![bytes],
                }
            });
            let client = client(&pair, &middle).with_timeout(std::time::Duration::from_millis(500));
            assert_counted_once(&pair, &client);
        }
    }
}

#[test]
fn a_record_that_is_cut_off_leaves_its_call_unknown_or_not_run() {
    let pair = Pair::over("tcp");
    let middle = Middle::new(&pair.uri(), |frame| match frame.is_sealed && frame.place == 3 {
        // What comes behind it cannot be told from its end.
        true => vec![frame.bytes[..frame.bytes.len() / 2].to_vec(), vec![0; 40_000]],
        false => vec![frame.bytes.clone()],
    });
    assert_counted_once(&pair, &client(&pair, &middle));
    assert!(pair.server.counters().malformed > 0);
}

#[test]
fn bytes_in_the_clear_on_a_sealed_connection_run_nothing() {
    let pair = Pair::over("tcp");
    let middle = Middle::new(&pair.uri(), |frame| {
        let forged = Header::bare(
            Kind::Call,
            stoop_wire::BindingId(7),
            stoop_wire::LaneId(0),
            stoop_wire::CallNumber(9),
        );
        match frame.is_sealed && frame.place == 2 && frame.to_server {
            true => vec![frame.bytes.clone(), forged.to_bytes().to_vec()],
            false => vec![frame.bytes.clone()],
        }
    });
    assert_counted_once(&pair, &client(&pair, &middle));
    assert!(pair.server.counters().malformed > 0);
}

#[test]
fn bytes_that_are_put_in_front_of_the_sealed_ones_run_nothing() {
    for before in [Kind::Unbind, Kind::Call] {
        let pair = Pair::over("tcp");
        let middle =
            Middle::new(&pair.uri(), move |frame| match frame.kind() == Some(before) && frame.to_server {
                // The beginning of a message: what follows would be its end.
                true => vec![frame.bytes[..16].to_vec(), frame.bytes.clone()],
                false => vec![frame.bytes.clone()],
            });
        let options = pair.options().timeout(std::time::Duration::from_secs(2));
        if let Ok(client) = VaultClient::bind_with(&middle.uri, &options) {
            assert!(client.count().is_err());
        }
        assert_eq!(pair.server.counters().calls, 0);
    }
}

#[test]
fn a_caller_that_goes_over_without_a_handshake_is_not_served() {
    let pair = Pair::over("tcp");
    let middle = Middle::new(&pair.uri(), unchanged);
    drop(client(&pair, &middle));
    let bind = middle.seen.lock().unwrap()[0].bytes.clone();
    let (_, server) = pair.parts();
    let mut raw = TcpStream::connect(server.strip_prefix("tcp://").unwrap()).unwrap();
    let provisional = bind_raw(&mut raw, &bind);
    let unbind = Header::bare(Kind::Unbind, provisional, stoop_wire::LaneId(0), stoop_wire::CallNumber::ZERO);
    raw.write_all(&unbind.to_bytes()).unwrap();
    assert_eq!(raw.read(&mut [0; 64]).unwrap(), 0, "the connection has ended");
}

/// Binds to the interface of handshakes with these bytes. Returns the binding.
fn bind_raw(raw: &mut TcpStream, bind: &[u8]) -> stoop_wire::BindingId {
    raw.write_all(bind).unwrap();
    let mut header = [0; HEADER_LEN];
    raw.read_exact(&mut header).unwrap();
    let header = Header::from_bytes(&header).unwrap();
    raw.read_exact(&mut vec![0; header.message_len as usize]).unwrap();
    header.binding
}

#[test]
fn a_flood_of_handshakes_keeps_neither_bound_callers_nor_others_from_being_served() {
    let pair = Pair::over("tcp");
    let middle = Middle::new(&pair.uri(), unchanged);
    let bound = client(&pair, &middle);
    let (bind, hello) = {
        let seen = middle.seen.lock().unwrap();
        let mut asked = seen.iter().filter(|frame| frame.to_server && !frame.is_sealed);
        (asked.next().unwrap().bytes.clone(), asked.next().unwrap().bytes.clone())
    };
    let (_, server) = pair.parts();
    let server = server.strip_prefix("tcp://").unwrap().to_owned();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut open = Vec::new();
            for _ in 0..600 {
                let Ok(mut raw) = TcpStream::connect(&server) else { continue };
                raw.set_read_timeout(Some(crate::harness::LIMIT)).unwrap();
                let binding = bind_raw(&mut raw, &bind);
                let mut hello = hello.clone();
                hello[8..16].copy_from_slice(&binding.0.to_le_bytes());
                if raw.write_all(&hello).is_ok() {
                    open.push(raw);
                }
            }
            open
        });
        let mut counted = 0;
        while !flood.is_finished() {
            counted += 1;
            assert_eq!(bound.count().unwrap(), counted);
        }
        let _open = flood.join().unwrap();
        let other = VaultClient::bind_with(&pair.uri(), &pair.options()).unwrap();
        assert_eq!(other.count().unwrap(), counted + 1);
    });
    eventually(|| pair.server.counters().bindings <= 2);
}
