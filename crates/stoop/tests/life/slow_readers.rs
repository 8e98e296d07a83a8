//! A server that shuts down waits for callers that are still reading long results, and not for callers that have stopped.
//!
//! The server distinguishes the two by time: how long a caller takes nothing. The readers of these tests therefore pause for
//! fixed times, each of which is shorter than the server waits for a reader, and all of which together are longer.

mod datagrams;
mod memory;
mod streams;

use crate::harness::loopback;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use stoop::{RunningServer, Server};

#[stoop::interface]
trait Office {
    /// Shuts its own server down and returns so many bytes.
    fn last_words(&self, bytes: u32) -> Vec<u8>;
}

#[derive(Clone, Default)]
struct Clerk(Arc<OnceLock<RunningServer>>);

impl Office for Clerk {
    fn last_words(&self, bytes: u32) -> Vec<u8> {
        self.0.get().unwrap().shut_down();
        vec![7; bytes as usize]
    }
}

fn office(uri: &str) -> RunningServer {
    let clerk = Clerk::default();
    let server = Server::new().export(OfficeServer::new(clerk.clone())).listen(uri).unwrap().start().unwrap();
    assert!(clerk.0.set(server.clone()).is_ok());
    server
}

/// The server gives up a reader that has stopped, within seconds.
fn assert_ends_soon(server: &RunningServer) {
    let begun = Instant::now();
    server.wait();
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited {:?}", begun.elapsed());
}

#[test]
fn results_that_are_read_slowly_arrive_whole_though_their_servers_shut_down() {
    thread::scope(|scope| {
        for reader in [datagrams::reads_slowly, streams::reads_slowly, memory::reads_slowly] {
            scope.spawn(reader);
        }
    });
}

#[test]
fn servers_that_shut_down_do_not_wait_for_readers_that_have_stopped() {
    thread::scope(|scope| {
        for reader in [datagrams::stops_reading, streams::stops_reading, memory::stops_reading] {
            scope.spawn(reader);
        }
    });
}
