//! Peers that speak another version of the protocol: each end tells the other which versions it speaks.

use crate::harness::{loopback, transports};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindError, BindOptions, RunningServer, Server};
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, MAGIC, VERSION};

#[stoop::interface]
trait Adder {
    fn add(&self, a: u32, b: u32) -> u32;
}

struct Own;

impl Adder for Own {
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
}

/// The version of the other peers.
const OTHER: u8 = 2;

const PATIENCE: Duration = Duration::from_secs(30);

/// A name that no other test uses.
fn name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("versions-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

fn abstract_address(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

fn start(uri: &str) -> RunningServer {
    Server::new().export(AdderServer::new(Own)).listen(uri).unwrap().start().unwrap()
}

/// A packet of the other version, of a kind that this one may not have, with flags that it does not have.
fn of_other_version(kind: u8) -> [u8; HEADER_LEN] {
    let header = Header::bare(Kind::Bind, BindingId(0x0123_4567_89ab), LaneId(9), CallNumber(7));
    let mut packet = Header { message_len: 500, ..header }.to_bytes();
    (packet[1], packet[2], packet[3]) = (OTHER, kind, 0xff);
    packet
}

fn assert_lists_ours(answer: &[u8], asked: &[u8; HEADER_LEN]) {
    assert_eq!(answer[..4], [MAGIC, VERSION, 18, 0]);
    assert_eq!(answer[4..24], asked[4..24]);
    assert_eq!(answer[24..], [VERSION, 0, 0, 0, 0, 0, 0, 0]);
}

/// The answer of a server of the other version to `asked`.
fn answer_of_other(asked: &[u8]) -> [u8; HEADER_LEN] {
    let mut answer: [u8; HEADER_LEN] = *asked.first_chunk().unwrap();
    answer[..4].copy_from_slice(&[MAGIC, OTHER, 18, 0x5a]);
    answer[24..].copy_from_slice(&[OTHER, 7, 0, 0, 0, 0, 0, 0]);
    answer
}

fn assert_names_versions(error: BindError) {
    let text = error.to_string();
    assert!(text.contains("speaks version 2, 7 of the protocol, this client version 1"), "{text}");
    let BindError::OtherVersion { ours, theirs, .. } = error else { panic!("{text}") };
    assert_eq!((ours, &theirs[..]), (VERSION, &[OTHER, 7][..]));
}

fn bind(uri: &str) -> Result<AdderClient, BindError> {
    AdderClient::bind_with(uri, &BindOptions::new().bind_timeout(PATIENCE))
}

#[test]
fn a_server_tells_a_datagram_of_another_version_which_it_speaks() {
    let server = start("udp://127.0.0.1:0");
    let address = server.uris()[0].strip_prefix("udp://").unwrap().to_owned();
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 1500];
    for kind in [1, 3, 17, 19, 255] {
        let asked = of_other_version(kind);
        caller.send_to(&asked, &address).unwrap();
        let (len, _) = caller.recv_from(&mut answer).unwrap();
        assert_lists_ours(&answer[..len], &asked);
    }
    // A list is not answered: the next answer is that of the packet behind it.
    caller.send_to(&of_other_version(18), &address).unwrap();
    let asked = of_other_version(3);
    caller.send_to(&asked, &address).unwrap();
    let (len, _) = caller.recv_from(&mut answer).unwrap();
    assert_lists_ours(&answer[..len], &asked);
}

fn is_told_and_closed(mut stream: impl Read + Write) {
    let asked = of_other_version(1);
    stream.write_all(&asked).unwrap();
    let mut answer = Vec::new();
    // The end may be heard as a reset, for what came behind was not read.
    let _ = stream.read_to_end(&mut answer);
    assert_lists_ours(&answer[..HEADER_LEN], &asked);
}

#[test]
fn a_server_tells_a_stream_of_another_version_which_it_speaks_and_closes_it() {
    let server = start("tcp://127.0.0.1:0");
    let stream = TcpStream::connect(server.uris()[0].strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    is_told_and_closed(stream);
    let name = name();
    let _server = start(&format!("unix:@{name}"));
    let stream = UnixStream::connect_addr(&abstract_address(&name)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    is_told_and_closed(stream);
}

#[test]
fn a_server_tells_a_shared_memory_caller_of_another_version_which_it_speaks() {
    let server = start(&format!("shm:{}", name()));
    let uri = &server.uris()[0];
    let stream = stream_of_shm(uri);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    is_told_and_closed(stream);
}

/// Its socket is where the address says, behind what the transport puts before a name.
fn stream_of_shm(uri: &str) -> UnixStream {
    let name = uri.strip_prefix("shm:").unwrap().trim_start_matches('@');
    UnixStream::connect_addr(&abstract_address(&format!("stoop-shm/{name}"))).unwrap()
}

#[test]
fn a_client_reports_the_versions_of_a_datagram_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", server.local_addr().unwrap());
    let answers = thread::spawn(move || {
        let mut asked = [0; 1500];
        let (_, caller) = server.recv_from(&mut asked).unwrap();
        server.send_to(&answer_of_other(&asked), caller).unwrap();
    });
    assert_names_versions(bind(&uri).map(|_| ()).unwrap_err());
    answers.join().unwrap();
}

fn answer_once(mut stream: impl Read + Write) {
    let mut asked = [0; HEADER_LEN];
    stream.read_exact(&mut asked).unwrap();
    stream.write_all(&answer_of_other(&asked)).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_client_reports_the_versions_of_a_stream_server() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", server.local_addr().unwrap());
    let answers = thread::spawn(move || answer_once(server.accept().unwrap().0));
    assert_names_versions(bind(&uri).map(|_| ()).unwrap_err());
    answers.join().unwrap();
    let name = name();
    let server = UnixListener::bind_addr(&abstract_address(&name)).unwrap();
    let answers = thread::spawn(move || answer_once(server.accept().unwrap().0));
    assert_names_versions(bind(&format!("unix:@{name}")).map(|_| ()).unwrap_err());
    answers.join().unwrap();
}

#[test]
fn a_client_reports_the_versions_of_a_shared_memory_server() {
    let name = name();
    let server = UnixListener::bind_addr(&abstract_address(&format!("stoop-shm/{name}"))).unwrap();
    let answers = thread::spawn(move || answer_once(server.accept().unwrap().0));
    assert_names_versions(bind(&format!("shm:{name}")).map(|_| ()).unwrap_err());
    answers.join().unwrap();
}

#[test]
fn a_client_that_binds_again_reports_a_server_of_another_version() {
    let server = start(&transports::address("udp"));
    let uri = server.uris()[0].clone();
    let client = bind(&uri).unwrap();
    assert_eq!(client.add(1, 2).unwrap(), 3);
    drop(server);
    loopback::await_free(&uri);
    let later = UdpSocket::bind(uri.strip_prefix("udp://").unwrap()).unwrap();
    thread::spawn(move || {
        let mut asked = [0; 1500];
        while let Ok((_, caller)) = later.recv_from(&mut asked) {
            later.send_to(&answer_of_other(&asked), caller).unwrap();
        }
    });
    // It ends at once, as unknown: the earlier server may have run it.
    client.with_timeout(PATIENCE).add(1, 2).unwrap_err();
    assert_names_versions(bind(&uri).map(|_| ()).unwrap_err());
}
