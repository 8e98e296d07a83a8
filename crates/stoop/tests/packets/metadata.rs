//! Blocks of metadata that no peer of ours would send: behind the arguments of a caller made by hand, and behind the results of a server
//! made by hand.

use crate::raw_caller::RawCaller;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use stoop::intercept::{Before, CallInfo, Intercept};
use stoop::stub::Exported;
use stoop::{AnswerMetadata, BindOptions, CallError, Metadata, RefusalCode, Server, current_call};
use stoop_wire::bind::{BindReply, BindRequest};
use stoop_wire::metadata::IN_PROCEDURE;
use stoop_wire::{BindingId, Header, Kind};

#[stoop::interface]
trait Till {
    /// The number of pairs.
    fn count(&self) -> u32;
    fn fill(&self, #[out] buffer: &mut [u8]);
    fn shift(&self, bytes: &mut [u8]);
    #[one_way]
    fn note(&self);
}

#[derive(Clone, Default)]
struct Shop(Arc<AtomicU32>);

impl Till for Shop {
    fn count(&self) -> u32 {
        current_call().unwrap().metadata().iter().count() as u32
    }
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(1);
    }
    fn shift(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte += 1);
    }
    fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A block of these pairs, which says that they are so many, and that it has so many bytes.
fn block(pairs: &[u8], count: u16, len: usize) -> Vec<u8> {
    [pairs, &count.to_le_bytes(), &(len as u16).to_le_bytes()].concat()
}

/// A pair of this name and value.
fn pair(name: &[u8], value: &[u8]) -> Vec<u8> {
    let value_len = (value.len() as u16).to_le_bytes();
    [&[127, name.len() as u8], name, &value_len, value].concat()
}

fn false_blocks() -> Vec<Vec<u8>> {
    let one = pair(b"a", b"b");
    let len = one.len() + 4;
    let lens = (0..64).chain([256, 1000, 4095, 4096, 4097, 65_535]).filter(|other| *other != len);
    let mut all: Vec<_> = lens.map(|len| block(&one, 1, len)).collect();
    all.extend([0, 2, 64, 65, u16::MAX].map(|count| block(&one, count, len)));
    all.extend([vec![], vec![4], vec![0, 0, 4]]);
    all.extend([&b""[..], b"A", b"a b", &[b'a'; 65], &[0xff, 0xfe]].map(|name| {
        let pairs = pair(name, b"");
        block(&pairs, 1, pairs.len() + 4)
    }));
    let twice = [one.clone(), one].concat();
    all.push(block(&twice, 2, twice.len() + 4));
    // A `traceparent` of a byte, and a `tracestate` that is not printable.
    all.extend([[1, 1, 0, 0], [2, 1, 0, 0]].map(|pairs| block(&pairs, 1, 8)));
    all
}

const ALL: [u16; 4] = [0, 1, 2, 3];

#[test]
fn calls_with_malformed_blocks_are_refused_and_run_nothing() {
    let shop = Shop::default();
    let export = TillServer::new(shop.clone());
    let interface = export.interface();
    let server = Server::new().export(export).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let honest = TillClient::bind(&server.uris()[0]).unwrap();
    let caller = RawCaller::bind(&server, interface);
    let mut number = 0;
    for false_block in false_blocks() {
        for procedure in ALL {
            number += 1;
            caller.send_as(number, procedure | IN_PROCEDURE, &false_block);
            let (refusal, _) = caller.await_packet(number, Kind::Refusal);
            assert_eq!(refusal.time, RefusalCode::BadArguments.code(), "{false_block:?}");
        }
    }
    assert_eq!(shop.0.load(Ordering::SeqCst), 0);
    for procedure in [4, 1000, IN_PROCEDURE - 1] {
        number += 1;
        caller.send_as(number, procedure | IN_PROCEDURE, &block(&[], 0, 4));
        let (refusal, _) = caller.await_packet(number, Kind::Refusal);
        assert_eq!(refusal.time, RefusalCode::UnknownProcedure.code());
    }
    // Whatever key a later version sends.
    let later = [&[99, 1, 0, 7][..], &pair(b"a", b"b")].concat();
    caller.send_as(number + 1, IN_PROCEDURE, &block(&later, 2, later.len() + 4));
    let result = caller.await_answer(number + 1, Kind::Result);
    assert_eq!(result, [1, 0, 0, 0, 0, 0, 4, 0], "a result, and the empty block");
    assert_eq!(honest.with_metadata(Metadata::new().set("a", b"b")).count().unwrap(), 1);
}

/// A server that answers each call with this, and takes blocks of so many bytes. Tells how many calls have had one.
fn false_server(
    metadata: u32,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> (String, Arc<AtomicU32>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", socket.local_addr().unwrap());
    let with_block = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&with_block);
    thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut packet) {
            let Ok((header, payload)) = Header::parse(&packet[..len]) else { continue };
            let (kind, binding, payload) = match header.kind {
                Kind::Bind => {
                    let request = BindRequest::decode(payload).unwrap();
                    let reply = BindReply { metadata, ..BindReply::granting(&request) };
                    (Kind::BindReply, BindingId(0x77), reply.encode())
                }
                Kind::Call => {
                    count.fetch_add(u32::from(header.procedure & IN_PROCEDURE != 0), Ordering::SeqCst);
                    (Kind::Result, header.binding, answer(payload))
                }
                _ => continue,
            };
            let header = Header { kind, binding, message_len: payload.len() as u32, time: 0, ..header };
            socket.send_to(&[&header.to_bytes()[..], &payload].concat(), peer).unwrap();
        }
    });
    (uri, with_block)
}

/// Adds a pair to each call.
struct Adds;

impl Intercept for Adds {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.add_metadata(&Metadata::new().set("added", b"yes"));
        Before::Go
    }
}

#[test]
fn results_with_false_blocks_are_violations_of_the_protocol() {
    let answer = AnswerMetadata::new();
    for false_block in false_blocks() {
        let result = [&[7, 0, 0, 0], &false_block[..]].concat();
        let (uri, _) = false_server(4096, move |_| result.clone());
        let plain = TillClient::bind(&uri).unwrap();
        let carrying = plain.with_metadata(Metadata::new().set("a", b"b")).with_answer_metadata(&answer);
        let intercepted = TillClient::bind_with(&uri, &BindOptions::new().interceptor(Adds)).unwrap();
        for error in [
            carrying.count().unwrap_err(),
            carrying.begin().count().wait().unwrap_err(),
            intercepted.count().unwrap_err(),
            intercepted.begin().count().wait().unwrap_err(),
            intercepted.with_answer_metadata(&answer).begin().count().wait().unwrap_err(),
        ] {
            assert!(matches!(error, CallError::Peer(..)), "{error:?}");
        }
        assert_eq!(answer.take().iter().count(), 0, "{false_block:?}");
        assert!(carrying.fill(&mut [0; 3000]).is_err());
        assert!(carrying.shift(&mut [0; 3]).is_err());
        // The caller of a one-way call need not look at the result.
        let _ = carrying.note();
    }
}

#[test]
fn a_server_without_metadata_is_called_without_it() {
    let (uri, with_block) = false_server(0, |arguments| {
        assert!(arguments.is_empty(), "nothing stands behind the arguments");
        vec![7, 0, 0, 0]
    });
    let client = TillClient::bind(&uri).unwrap();
    let carrying = client.with_metadata(Metadata::new().set("a", b"b"));
    assert_eq!((carrying.count().unwrap(), carrying.begin().count().wait().unwrap()), (7, 7));
    let intercepted = TillClient::bind_with(&uri, &BindOptions::new().interceptor(Adds)).unwrap();
    assert_eq!((intercepted.count().unwrap(), intercepted.begin().count().wait().unwrap()), (7, 7));
    assert_eq!(with_block.load(Ordering::SeqCst), 0);
}
