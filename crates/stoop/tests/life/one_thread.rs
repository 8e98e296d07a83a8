//! The asynchronous form of a client leaves its thread to other tasks: everything here runs on the thread of the test, which does what
//! ends the wait of a call only after the call has been begun and other calls have been answered.

use crate::harness::LIMIT;
use crate::harness::processes::{Process, patient};
use crate::harness::runtime::{block_on, has_ended};
use crate::harness::transports::address;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::time::Duration;
use stoop::error::SendError;
use stoop::{BindError, BindOptions, CallError, Ran, Server};

#[stoop::interface]
trait Steady {
    /// Adds one.
    #[idempotent]
    fn next(&self, number: u32) -> u32;
    /// Sums what it is given.
    #[idempotent]
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Prints a line.
    #[one_way]
    fn print(&self, line: &str);
}

struct Alike;

impl Steady for Alike {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
    fn print(&self, line: &str) {
        println!("{line}");
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-steady" {
        return false;
    }
    let server = Server::new().export(SteadyServer::new(Alike)).listen(uri).unwrap().start().unwrap();
    println!("ready");
    server.wait();
    true
}

/// A server in another process.
fn start(uri: &str) -> Process {
    let mut process = Process::start("serve-steady", uri);
    process.await_line("ready");
    process
}

/// Transports to servers in other processes.
const TRANSPORTS: [&str; 4] = ["udp", "tcp", "unix", "shm"];

/// A port of an address that no other test uses, or a name.
fn place(transport: &str) -> String {
    address(transport).replace(":0", ":7400")
}

fn bind(uri: &str, options: &BindOptions) -> SteadyAsync {
    block_on(SteadyAsync::bind_with(uri, options)).unwrap()
}

/// Another task of the same thread: calls of another client.
async fn others_are_answered() {
    let uri = address("tcp");
    let server = Server::new().export(SteadyServer::new(Alike)).listen(&uri).unwrap().start().unwrap();
    let other = SteadyAsync::bind(&server.uris()[0]).await.unwrap();
    for number in 0..20 {
        assert_eq!(other.next(number).await.unwrap(), number + 1);
    }
}

#[test]
fn binding_to_a_server_that_does_not_answer_leaves_the_thread_to_others() {
    let (datagrams, connections) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let name = address("unix");
    let _listener = UnixListener::bind(name.strip_prefix("unix:").unwrap()).unwrap();
    let silent = [
        format!("udp://{}", datagrams.local_addr().unwrap()),
        format!("tcp://{}", connections.local_addr().unwrap()),
        name,
    ];
    for uri in silent {
        let options = patient(&uri).wait_for_server(LIMIT);
        let mut bound = pin!(SteadyAsync::bind_with(&uri, &options));
        assert!(!has_ended(&mut bound), "{uri}");
        block_on(others_are_answered());
        assert!(!has_ended(&mut bound), "{uri}");
    }
}

#[test]
fn calls_of_a_lazy_client_wait_in_their_handles_until_the_server_is_there() {
    for transport in TRANSPORTS {
        let uri = place(transport);
        let client = bind(&uri, &patient(&uri).wait_for_server(LIMIT).lazy());
        let (mut first, mut second) = (client.next(1), client.next(2));
        block_on(others_are_answered());
        assert!(!has_ended(&mut first) && !has_ended(&mut second), "{uri}");
        let _server = start(&uri);
        assert_eq!((block_on(second).unwrap(), block_on(first).unwrap()), (3, 2), "{uri}");
        assert_eq!(block_on(client.next(3)).unwrap(), 4, "{uri}");
        assert_eq!(client.to_blocking().next(4).unwrap(), 5, "{uri}");
    }
}

#[test]
fn a_call_waits_in_its_handle_until_a_killed_server_is_there_again() {
    for transport in TRANSPORTS {
        let uri = place(transport);
        let mut server = start(&uri);
        let client = bind(&uri, &patient(&uri).wait_for_restart(LIMIT));
        assert_eq!(block_on(client.next(0)).unwrap(), 1, "{uri}");
        server.kill();
        let mut again = client.next(1);
        block_on(others_are_answered());
        assert!(!has_ended(&mut again), "{uri}");
        let _next = start(&uri);
        assert_eq!(block_on(again).unwrap(), 2, "{uri}");
    }
}

#[test]
fn long_arguments_wait_in_their_handle_while_the_server_does_not_read() {
    let bytes = vec![1; 4 << 20];
    for transport in TRANSPORTS {
        let uri = place(transport);
        let server = start(&uri);
        let client = bind(&uri, &patient(&uri));
        assert_eq!(block_on(client.next(0)).unwrap(), 1, "{uri}");
        server.stop();
        let mut long = client.sum(&bytes);
        let mut short = client.next(1);
        block_on(others_are_answered());
        assert!(!has_ended(&mut long) && !has_ended(&mut short), "{uri}");
        // One that is given up is not waited for, either.
        drop(client.sum(&bytes));
        server.signal(rustix::process::Signal::CONT);
        assert_eq!(block_on(long).unwrap(), 4 << 20, "{uri}");
        assert_eq!(block_on(short).unwrap(), 2, "{uri}");
    }
}

#[test]
fn an_early_call_has_its_arguments_sent_when_the_client_is_bound() {
    let bytes = vec![1; 4 << 20];
    for transport in TRANSPORTS {
        let uri = place(transport);
        let client = bind(&uri, &patient(&uri).wait_for_server(LIMIT).lazy());
        let long = client.sum(&bytes);
        let _server = start(&uri);
        assert_eq!(block_on(long).unwrap(), 4 << 20, "{uri}");
    }
}

#[test]
fn an_early_call_ends_at_its_deadline_and_has_not_run() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", silent.local_addr().unwrap());
    let client = bind(&uri, &patient(&uri).wait_for_server(LIMIT).lazy());
    let longer = client.next(0);
    let error = block_on(client.with_timeout(Duration::from_millis(20)).next(1)).unwrap_err();
    assert!(error.is_timeout() && error.ran() == Ran::No, "{error}");
    assert!(
        matches!(&error, CallError::NotSent(SendError::Bind(why), ..) if matches!(**why, BindError::NoAnswer { .. }))
    );
    assert!(!longer.is_ready());
    let error = block_on(client.with_timeout(Duration::ZERO).next(1)).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
}

#[test]
fn early_calls_end_with_the_error_of_binding_and_the_next_call_binds_again() {
    let uri = place("tcp");
    let client = bind(&uri, &BindOptions::new().lazy());
    for _ in 0..3 {
        let both = [client.next(1), client.next(2)];
        for call in both {
            let error = block_on(call).unwrap_err();
            let is_refused = |why: &BindError| matches!(why, BindError::Unreachable { .. });
            assert!(
                matches!(&error, CallError::NotSent(SendError::Bind(why), ..) if is_refused(why)),
                "{error}"
            );
        }
    }
    let _server = start(&uri);
    assert_eq!(block_on(client.next(3)).unwrap(), 4);
}

#[test]
fn an_early_call_may_lose_its_handle_and_the_client_may_be_dropped() {
    for transport in TRANSPORTS {
        let uri = place(transport);
        let client = bind(&uri, &patient(&uri).wait_for_server(LIMIT).lazy());
        drop(client.next(1));
        drop(client.print("one-way"));
        client.print("detached").detach();
        let kept = client.next(2);
        let last = client.to_blocking();
        drop(client);
        let mut server = start(&uri);
        let mut printed = [(); 2].map(|()| server.find_line(|line| line == "one-way" || line == "detached"));
        printed.sort();
        assert_eq!(printed, ["detached", "one-way"], "{uri}");
        last.close(LIMIT).unwrap();
        assert_eq!(block_on(kept).unwrap(), 3, "{uri}");
    }
}

#[test]
fn a_thread_may_wait_for_early_calls_too() {
    let uri = place("shm");
    let client = bind(&uri, &patient(&uri).wait_for_server(LIMIT).lazy());
    let mut pending: Vec<_> = (0..3).map(|number| client.next(number)).collect();
    let unanswered = pending.remove(0).wait_timeout(Duration::from_millis(1)).unwrap_err();
    let _server = start(&uri);
    let first = stoop::wait_any(&mut pending).unwrap();
    pending.swap_remove(first).wait().unwrap();
    pending.push(unanswered);
    assert_eq!(stoop::wait_all(pending).into_iter().filter(Result::is_ok).count(), 2);
}
