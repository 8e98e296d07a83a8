//! Processes whose address space is bounded (`RLIMIT_AS`), or the length of their files (`RLIMIT_FSIZE`): what they have no room for is
//! refused, and they go on.

use crate::harness::eventually;
use crate::harness::processes::{Process, name, patient};
use crate::harness::shm_peer::Peer;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::OnceLock;
use std::time::Duration;
use stoop::{BindOptions, CallError, FailureCode, Ran, RefusalCode, Server};
use stoop_shm::Request;
use stoop_shm::layout::CHANNELS;

#[stoop::interface]
trait Store {
    /// How many bytes these are.
    fn len(&self, bytes: &[u8]) -> u32;
    /// As many bytes.
    fn give(&self, count: u32) -> Vec<u8>;
    /// Gives all of them back, each increased by one.
    fn increase(&self, bytes: &mut [u8]);
    /// Fills as many as there are.
    fn fill(&self, #[out] bytes: &mut [u8]);
}

struct Plain;

impl Store for Plain {
    fn len(&self, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }
    fn give(&self, count: u32) -> Vec<u8> {
        vec![1; count as usize]
    }
    fn increase(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    }
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(1);
    }
}

const LEN: usize = 0;
/// Bytes of a message that is no longer than the bounds allow, and longer than there is memory for.
const LONG: usize = 62 << 20;
/// Bytes of address space that a bounded process has for what it does.
const LITTLE: u64 = 52 << 20;
/// The address space of a process that many long messages would fill.
const BUSY: u64 = 400 << 20;
/// Bindings of a busy process, and bytes that each sends and receives at a time.
const BINDINGS: usize = 100;
const BYTES: usize = 2 << 20;
/// A limit that is small beside the lengths that many long messages announce.
const SOME: u64 = 1 << 30;

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        // A binding's file has rings for pipes, which are address space alone until they are used.
        "serve-in-little" if uri.starts_with("shm:") => serve_in(LITTLE + (32 << 20), uri),
        "serve-in-little" => serve_in(LITTLE, uri),
        "serve-in-short-files" => {
            setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) }).unwrap();
            serve(uri);
        }
        "serve-in-some" => serve_in(SOME, uri),
        "fetch-in-little" => fetch_in_little(uri),
        "serve-busy" => {
            limit_memory(BUSY);
            serve(uri);
        }
        "call-busy" => {
            limit_memory(BUSY);
            // Its own memory may be too little for some of them.
            call_with_many_bindings(uri);
        }
        "call-much" => call_with_many_bindings(uri),
        "know-limit" => {
            limit_memory(BUSY);
            assert!(stoop_net::host::granted_memory().unwrap() <= BUSY);
        }
        _ => return false,
    }
    true
}

/// Bounds the address space of this process to `more` bytes beside those that it uses.
fn bound_memory(more: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let used_kib = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let used = used_kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10;
    let limit = Some(used + more);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
}

/// Bounds the address space of this process (`ulimit -v`).
fn limit_memory(bytes: u64) {
    setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) }).unwrap();
}

/// Makes long calls on many bindings at once, which all end: with the result, or with an error that says whether it ran.
fn call_with_many_bindings(uri: &str) {
    let options = BindOptions::new().timeout(Duration::from_secs(20));
    let clients: Vec<_> = (0..BINDINGS).map_while(|_| StoreClient::bind_with(uri, &options).ok()).collect();
    assert!(clients.len() > 1, "{} bindings", clients.len());
    let bytes = vec![1; BYTES];
    let calls: Vec<_> = clients.iter().map(|client| client.begin().increase(&bytes)).collect();
    let mut served = 0;
    for call in calls {
        match call.wait() {
            Ok(bytes) => {
                assert!(bytes.iter().all(|&byte| byte == 2));
                served += 1;
            }
            Err(why) => assert!(why.is_timeout() || why.ran() != Ran::Perhaps, "{why}"),
        }
    }
    eprintln!("{uri}: {served} of {} calls were served", clients.len());
}

fn serve_in(memory: u64, uri: &str) {
    bound_memory(memory);
    serve(uri);
}

fn serve(uri: &str) {
    let server = Server::new().export(StoreServer::new(Plain)).listen(uri).unwrap().start().unwrap();
    println!("{}", server.uris()[0]);
    server.wait();
}

/// Fetches more than there is memory for, in all ways, and then what there is memory for.
fn fetch_in_little(uri: &str) {
    let client = StoreClient::bind_with(uri, &patient(uri)).unwrap();
    bound_memory(LITTLE);
    for _ in 0..2 {
        let results = [client.give(LONG as u32), client.begin().give(LONG as u32).wait()];
        for result in results {
            let Err(CallError::Failed(why, ..)) = result else {
                panic!("{:?}", result.map(|bytes| bytes.len()))
            };
            assert_eq!(why.code, FailureCode::ResultTooLarge);
            assert!(why.detail.contains("has no memory left"), "{}", why.detail);
        }
        assert_eq!(client.give(300_000).unwrap().len(), 300_000);
        assert_eq!(client.begin().give(300_000).wait().unwrap().len(), 300_000);
    }
}

/// A process in a role with a memory allocator that reserves no address space in advance.
fn started(role: &str, uri: &str) -> Process {
    Process::spawn(Process::command(role, uri).env("MALLOC_ARENA_MAX", "1"))
}

/// A server of which the address is told, and where it listens.
fn server(role: &str, uri: &str) -> (Process, String) {
    told(started(role, uri))
}

/// A server, and where it says that it listens.
fn told(mut server: Process) -> (Process, String) {
    let schemes = ["udp:", "tcp:", "unix:", "shm:"];
    loop {
        let line = server.next_line();
        if schemes.iter().any(|scheme| line.starts_with(scheme)) {
            return (server, line);
        }
    }
}

fn interface() -> &'static stoop::stub::Interface {
    use stoop::stub::Exported;
    static EXPORT: OnceLock<StoreServer<Plain>> = OnceLock::new();
    EXPORT.get_or_init(|| StoreServer::new(Plain)).interface()
}

#[test]
fn calls_that_announce_long_arguments_without_sending_them_take_no_memory() {
    let uri = name();
    let (_server, _) = server("serve-in-some", &uri);
    // More than there is address space for.
    let peers: Vec<_> = (0..6).map(|_| Peer::bind(&uri, interface()).unwrap()).collect();
    for peer in &peers {
        for lane in 0..CHANNELS as u16 {
            let call = Request { channel: lane as u8, ..peer.request(lane, 1, LEN, 64 << 20) };
            peer.publish(&call, &[]);
        }
        eventually(|| peer.taken() == CHANNELS as u64);
    }
    let client = StoreClient::bind_with(&uri, &patient(&uri)).unwrap();
    assert_eq!(client.len(&[1; 1_000_000]).unwrap(), 1_000_000);
}

/// Long arguments are refused, and what there is memory for is served.
fn long_arguments_are_refused(uri: &str) {
    let (_server, uri) = server("serve-in-little", uri);
    let client = StoreClient::bind_with(&uri, &patient(&uri)).unwrap();
    let (long, short) = (vec![1; LONG], vec![1; 300_000]);
    for _ in 0..2 {
        for result in [client.len(&long), client.begin().len(&long).wait()] {
            let Err(CallError::Refused(why, ..)) = result else { panic!("{result:?}") };
            assert_eq!(why.code, RefusalCode::Overloaded);
        }
        assert_eq!(client.len(&short).unwrap(), 300_000);
        assert_eq!(client.begin().len(&short).wait().unwrap(), 300_000);
    }
}

#[test]
fn arguments_that_a_server_has_no_memory_for_are_refused_over_shared_memory() {
    long_arguments_are_refused(&name());
}

#[test]
fn arguments_that_a_server_has_no_memory_for_are_refused_over_byte_streams() {
    long_arguments_are_refused("tcp://127.0.0.1:0");
    long_arguments_are_refused(&name().replace("shm:", "unix:@"));
}

#[test]
fn arguments_that_a_server_has_no_memory_for_do_not_end_it_over_udp() {
    let (_server, uri) = server("serve-in-little", "udp://127.0.0.1:0");
    let client = StoreClient::bind_with(&uri, &patient(&uri)).unwrap();
    // Until its deadline the caller asks whether there is room now.
    let brief = client.with_timeout(std::time::Duration::from_millis(300));
    let (long, short) = (vec![1; LONG], vec![1; 300_000]);
    assert!(brief.len(&long).is_err() && brief.begin().len(&long).wait().is_err());
    assert_eq!(client.len(&short).unwrap(), 300_000);
    assert_eq!(client.begin().len(&short).wait().unwrap(), 300_000);
}

#[test]
fn memory_that_a_server_keeps_for_the_next_calls_is_given_to_a_longer_one_over_udp() {
    let (_server, uri) = server("serve-in-little", "udp://127.0.0.1:0");
    let client = StoreClient::bind_with(&uri, &patient(&uri)).unwrap();
    // What is kept of each is too long for the next. The last is too long for what is kept, and for what is left beside it.
    for len in [15 << 20, 7 << 20, 3 << 20, 28 << 20] {
        assert_eq!(client.len(&vec![1; len]).unwrap(), len as u32);
    }
}

/// A result that its caller has no memory for is an error of the call, and its process goes on.
fn long_result_is_an_error(uri: &str) {
    let server = Server::new().export(StoreServer::new(Plain)).listen(uri).unwrap().start().unwrap();
    started("fetch-in-little", &server.uris()[0]).ends_well();
}

#[test]
fn a_result_that_its_caller_has_no_memory_for_is_an_error_over_shared_memory() {
    long_result_is_an_error(&name());
}

#[test]
fn a_result_that_its_caller_has_no_memory_for_is_an_error_over_every_other_transport() {
    long_result_is_an_error("udp://127.0.0.1:0");
    long_result_is_an_error("tcp://127.0.0.1:0");
    long_result_is_an_error(&name().replace("shm:", "unix:@"));
}

#[test]
fn a_server_whose_file_size_is_limited_refuses_to_share_memory_and_continues() {
    let (_server, uri) = server("serve-in-short-files", &name());
    for _ in 0..2 {
        let why = StoreClient::bind_with(&uri, &patient(&uri)).err().unwrap().to_string();
        assert!(why.contains("ulimit -f"), "{why}");
    }
}

/// Calls by a process that has little memory, or at a server that has, end neither process.
fn many_long_calls_end_no_process(uri: &str) {
    let (server, address) = told(Process::start("serve-busy", uri));
    for role in ["call-much", "call-busy"] {
        Process::start(role, &address).ends_well();
    }
    let client = StoreClient::bind_with(&address, &patient(&address)).unwrap();
    assert_eq!(client.len(&[1; 100_000]).unwrap(), 100_000);
    drop(server);
}

#[test]
fn many_long_calls_with_little_memory_end_no_process_over_udp() {
    many_long_calls_end_no_process("udp://127.0.0.1:0");
}

#[test]
fn many_long_calls_with_little_memory_end_no_process_over_byte_streams() {
    many_long_calls_end_no_process("tcp://127.0.0.1:0");
    many_long_calls_end_no_process(&name().replace("shm:", "unix:@"));
}

#[test]
fn many_long_calls_with_little_memory_end_no_process_over_shared_memory() {
    many_long_calls_end_no_process(&name());
}

#[test]
fn the_limit_of_address_space_is_known_as_the_memory_of_the_process() {
    Process::start("know-limit", "none").ends_well();
}
