//! Calls that are begun by `begin()`, and waited for later or not at all.

mod asynchronous;
mod dropped;
mod limits;
mod results;
mod waiting;

use super::*;
use crate::harness::runtime::block_on;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use stoop::{Data, Error, Pending};
use stoop_marshal::{DecodeError, Description, Layout, Reader, Writer};

#[stoop::interface]
trait Works {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Adds one, when the gate is opened.
    fn wait(&self, number: u32) -> u32;
    /// Passes the gate and returns when its call has been cancelled.
    fn until_cancelled(&self);
    /// Passes the gate, and notes whether anybody still waits.
    fn note_interest(&self);
    /// Notes.
    #[one_way]
    fn note(&self, text: &str);
    /// Panics with that text.
    fn panic(&self, text: &str);
    /// Divides 100.
    fn divide(&self, by: i32) -> Result<i32, String>;
    /// Reverses, fills, adds, and tells the sum.
    fn mixed(&self, turned: &mut [u16], #[out] filled: &mut [u8], name: &mut String) -> u32;
    /// As many bytes.
    fn bytes(&self, count: u32) -> Vec<u8>;
    /// The same bytes.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// How many they are.
    fn take(&self, bytes: &[u8]) -> u32;
    /// As many bytes, which no client can decode.
    fn fragile(&self, count: u32) -> Fragile;
    /// Milliseconds that are left.
    fn left(&self) -> u64;
}

/// Bytes whose `Data::decode` breaks its contract.
struct Fragile(Vec<u8>);

impl Data for Fragile {
    const LAYOUT: Layout = Vec::<u8>::LAYOUT;

    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }

    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        panic!("expected");
    }

    fn describe(description: &mut Description) {
        Vec::<u8>::describe(description);
    }
}

#[derive(Clone, Default)]
struct Workshop {
    gate: Gate,
    notes: Arc<Mutex<Vec<String>>>,
    /// Procedures that have seen that their calls were cancelled.
    cancelled: Arc<AtomicU32>,
}

impl Workshop {
    fn noted(&self) -> usize {
        self.notes.lock().unwrap().len()
    }
}

impl Works for Workshop {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
    fn wait(&self, number: u32) -> u32 {
        self.gate.pass();
        number + 1
    }
    fn until_cancelled(&self) {
        self.gate.pass();
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        self.cancelled.fetch_add(1, Ordering::SeqCst);
    }
    fn note_interest(&self) {
        self.gate.pass();
        let is_cancelled = stoop::current_call().unwrap().is_cancelled();
        self.note(if is_cancelled { "given up" } else { "wanted" });
    }
    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.into());
    }
    fn panic(&self, text: &str) {
        panic!("{text}");
    }
    fn divide(&self, by: i32) -> Result<i32, String> {
        100_i32.checked_div(by).ok_or_else(|| "by zero".into())
    }
    fn mixed(&self, turned: &mut [u16], filled: &mut [u8], name: &mut String) -> u32 {
        turned.reverse();
        filled.fill(7);
        name.push('!');
        turned.iter().map(|&each| u32::from(each)).sum()
    }
    fn bytes(&self, count: u32) -> Vec<u8> {
        vec![5; count as usize]
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn take(&self, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }
    fn fragile(&self, count: u32) -> Fragile {
        Fragile(vec![5; count as usize])
    }
    fn left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_millis() as u64
    }
}

/// A server on that transport, what it exports, and a client bound to it.
fn works_with(
    transport: &str,
    server: Server,
    options: &BindOptions,
) -> (RunningServer, Workshop, WorksClient) {
    let workshop = Workshop::default();
    let server = server.export(WorksServer::new(workshop.clone())).listen_there(&address(transport)).unwrap();
    let server = server.start().unwrap();
    let client = WorksClient::bind_with(&server.uris()[0], options).unwrap();
    (server, workshop, client)
}

fn works(transport: &str) -> (RunningServer, Workshop, WorksClient) {
    works_with(transport, Server::new(), &patient(transport))
}

type Next = Pending<Result<u32, CallError>>;

fn begin_many(client: &WorksClient, count: u32) -> Vec<Next> {
    let calls = client.begin();
    (0..count).map(|number| calls.next(number)).collect()
}

fn check(results: Vec<Result<u32, CallError>>) {
    for (number, result) in (0..).zip(results) {
        assert_eq!(result.unwrap(), number + 1);
    }
}
