//! Ten thousand open calls, whose answers come later, and what they cost their server.

use crate::harness::LIMIT;
use crate::harness::processes::{Process, name, patient};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Deferred, PacketOptions, Pending, Reply, Server};

#[stoop::interface]
trait Desk {
    fn later(&self, bytes: &[u8]) -> Deferred<u32>;
    fn next(&self, number: u32) -> u32;
}

#[derive(Default)]
struct Clerk(Mutex<Vec<(u32, Reply<u32>)>>);

static CLERK: Clerk = Clerk(Mutex::new(Vec::new()));

struct Hall;

impl Desk for Hall {
    fn later(&self, bytes: &[u8]) -> Deferred<u32> {
        let (reply, deferred) = stoop::deferred();
        CLERK.0.lock().unwrap().push((bytes.len() as u32, reply));
        deferred
    }
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-open-calls" {
        return false;
    }
    // Each worker has buffers, a stack and an arena.
    let server = Server::new().workers(1).export(DeskServer::new(Hall)).listen(uri).unwrap().start().unwrap();
    // The test's own list of replies has all its memory from the beginning.
    CLERK.0.lock().unwrap().reserve(2 * CALLS);
    println!("at {}", server.uris()[0]);
    for line in std::io::stdin().lines() {
        if line.unwrap() == "answer" {
            let replies = std::mem::take(&mut *CLERK.0.lock().unwrap());
            replies.into_iter().for_each(|(len, reply)| reply.send(len).unwrap());
        }
        // Holes that a table has left when it grew are no memory of the calls.
        #[cfg(target_env = "gnu")]
        // SAFETY: it has no conditions.
        unsafe {
            libc::malloc_trim(0);
        }
        println!("open {}", server.counters().open);
    }
    true
}

const CALLS: usize = 10_000;
/// Over connections and shared memory a binding has no lanes for all of them.
const CLIENTS: usize = 16;

/// A number in a file about a process, in the line that begins so.
fn number(process: &Process, file: &str, line: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", process.pid())).unwrap();
    let line = text.lines().find(|it| it.starts_with(line)).expect("the kernel tells it");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Tells something to a server, which gives back what it does not use; until so many calls are open there.
fn until_open(server: &mut Process, tell: &str, calls: usize) {
    let line = format!("open {calls}");
    let limit = Instant::now() + LIMIT;
    loop {
        server.tell(tell);
        if server.find_line(|line| line.starts_with("open ")) == line {
            return;
        }
        assert!(Instant::now() < limit, "never {line}");
        std::thread::yield_now();
    }
}

/// Has so many calls open, with arguments of so many bytes. Returns bytes of the server's memory for each.
fn costs(uri: &str, len: usize) -> usize {
    let mut server = Process::start("serve-open-calls", uri);
    let uri = server.find_line(|line| line.starts_with("at "));
    let uri = uri.strip_prefix("at ").unwrap();
    let options: BindOptions = match uri.starts_with("udp:") {
        true => BindOptions::new().with(PacketOptions::new().silence_limit(LIMIT)).timeout(10 * LIMIT),
        false => patient(uri).timeout(10 * LIMIT),
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| DeskClient::bind_with(uri, &options).unwrap()).collect();
    let bytes = vec![7; len];
    let begin = |calls: usize| -> Vec<Pending<_>> {
        let mut pending = Vec::new();
        for round in 0..calls / CLIENTS {
            pending.extend(clients.iter().map(|client| client.begin().later(&bytes)));
            // The server has taken some before more come.
            if round % 4 == 0 {
                clients.iter().for_each(|client| assert_eq!(client.next(1).unwrap(), 2));
            }
        }
        pending
    };
    let warm = begin(CLIENTS);
    until_open(&mut server, "", CLIENTS);
    let memory = |server: &Process| number(server, "smaps_rollup", "Anonymous:") * 1024;
    let (before, threads) = (memory(&server), number(&server, "status", "Threads:"));
    let pending = begin(CALLS);
    until_open(&mut server, "", CALLS + CLIENTS);
    let each = (memory(&server).saturating_sub(before)) / CALLS;
    assert_eq!(number(&server, "status", "Threads:"), threads, "calls that wait have threads");
    if std::env::var_os("STOOP_MEASURE").is_some() {
        let ticks = server.ticks();
        std::thread::sleep(Duration::from_secs(10));
        println!("{} ms of processor time in 10 s, over {uri}", 10 * (server.ticks() - ticks));
    }
    until_open(&mut server, "answer", 0);
    for call in warm.into_iter().chain(pending) {
        assert_eq!(call.wait().unwrap() as usize, len);
    }
    println!(
        "{each} bytes of the server's memory for each open call with {len} bytes of arguments over {uri}"
    );
    each
}

#[test]
fn ten_thousand_open_calls_take_little_memory_and_no_threads() {
    let unix = format!("unix:@{}", name());
    for uri in ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &unix, &name()] {
        for len in [4, 3000] {
            let each = costs(uri, len);
            assert!(each <= 2048, "{each} bytes for each call with {len} bytes of arguments over {uri}");
        }
    }
}
