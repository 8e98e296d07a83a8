//! Calls and results of many packets over UDP, through real stubs and sockets.

use crate::harness::gate::Gate;
use crate::harness::loopback;
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, FailureCode, Ran, RefusalCode, RunningServer, Server};

#[derive(stoop::Data, Clone, Debug, PartialEq)]
struct Branch {
    name: String,
    weights: Vec<f64>,
    branches: Vec<Branch>,
}

#[stoop::interface]
trait Bulk {
    fn null(&self);
    /// The bytes, weighed by their places.
    fn weigh(&self, bytes: &[u8]) -> u64;
    fn fill(&self, seed: u8, #[out] bytes: &mut [u8]);
    /// Adds one to each.
    fn raise(&self, bytes: &mut [u8]);
    fn returned(&self, seed: u8, count: u32) -> Vec<u8>;
    fn echoed(&self, bytes: Vec<u8>) -> Vec<u8>;
    fn text(&self, text: &str) -> String;
    fn tree(&self, tree: Branch) -> Branch;
    /// Arguments of all kinds, large and small by turns.
    #[allow(clippy::too_many_arguments)]
    fn mixed(
        &self,
        before: u16,
        numbers: &[f64],
        between: &str,
        samples: &mut [i16],
        small: &mut [u8],
        #[out] doubled: &mut [f64],
        #[out] array: &mut [u32; 3000],
        list: &mut Vec<String>,
        after: u8,
    ) -> Result<String, u64>;
    fn panicking(&self, bytes: &mut [u8]);
    fn waiting(&self, bytes: &[u8]) -> u32;
}

#[derive(Default)]
struct Store {
    gate: Gate,
}

impl Bulk for Store {
    fn null(&self) {}
    fn weigh(&self, bytes: &[u8]) -> u64 {
        weight(bytes)
    }
    fn fill(&self, seed: u8, bytes: &mut [u8]) {
        bytes.copy_from_slice(&pattern(seed, bytes.len()));
    }
    fn raise(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    }
    fn returned(&self, seed: u8, count: u32) -> Vec<u8> {
        pattern(seed, count as usize)
    }
    fn echoed(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
    fn text(&self, text: &str) -> String {
        text.to_uppercase()
    }
    fn tree(&self, mut tree: Branch) -> Branch {
        tree.branches.reverse();
        tree
    }
    fn mixed(
        &self,
        before: u16,
        numbers: &[f64],
        between: &str,
        samples: &mut [i16],
        small: &mut [u8],
        doubled: &mut [f64],
        array: &mut [u32; 3000],
        list: &mut Vec<String>,
        after: u8,
    ) -> Result<String, u64> {
        for (doubled, number) in doubled.iter_mut().zip(numbers) {
            *doubled = 2.0 * number;
        }
        samples.reverse();
        small.reverse();
        array.fill(before.into());
        list.push(between.to_owned());
        if after == 0 { Err(numbers.len() as u64) } else { Ok(between.repeat(2)) }
    }
    fn panicking(&self, _: &mut [u8]) {
        panic!("as it should");
    }
    fn waiting(&self, bytes: &[u8]) -> u32 {
        self.gate.pass();
        bytes.len() as u32
    }
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    // No period that packets have.
    let period: Vec<u8> = (0..4093u32).map(|i| (i * i / 7) as u8 ^ seed).collect();
    period.iter().copied().cycle().take(len).collect()
}

fn weight(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

fn server() -> RunningServer {
    Server::new()
        .export(BulkServer::new(Store::default()))
        .listen(&format!("udp://{}:0", loopback::address()))
        .unwrap()
        .start()
        .unwrap()
}

fn client(server: &RunningServer) -> BulkClient {
    BulkClient::bind(&server.uris()[0]).unwrap()
}

/// Lengths of messages around every boundary that there is.
fn lengths() -> impl Iterator<Item = usize> {
    let boundaries = [1440, 2048, 2 * 1440, 44 * 1440, 64 * 1024 - 32, 64 * 1024, 256 * 1024, 1 << 20];
    boundaries.into_iter().flat_map(|boundary| boundary - 1..=boundary + 1).chain([4, 5, 100, 500_000])
}

/// Bytes of the count before a sequence.
const COUNT: usize = 4;

#[test]
fn arguments_of_every_length_arrive() {
    let server = server();
    let client = client(&server);
    for len in lengths() {
        let bytes = pattern(1, len - COUNT);
        assert_eq!(client.weigh(&bytes).unwrap(), weight(&bytes), "{len} bytes");
    }
}

#[test]
fn out_arguments_of_every_length_come_back() {
    let server = server();
    let client = client(&server);
    for len in lengths() {
        let mut bytes = vec![0; len];
        client.fill(2, &mut bytes).unwrap();
        assert!(bytes == pattern(2, len), "{len} bytes");
    }
}

#[test]
fn in_out_arguments_of_every_length_go_and_come_back() {
    let server = server();
    let client = client(&server);
    for len in lengths() {
        // The result has no count: its boundaries are those of the next lengths.
        let before = pattern(3, len - COUNT);
        let mut bytes = before.clone();
        client.raise(&mut bytes).unwrap();
        assert!(
            bytes.iter().zip(&before).all(|(after, before)| *after == before.wrapping_add(1)),
            "{len} bytes"
        );
    }
}

#[test]
fn returned_values_of_every_length_come_back() {
    let server = server();
    let client = client(&server);
    for len in lengths() {
        let count = len - COUNT;
        assert!(client.returned(4, count as u32).unwrap() == pattern(4, count), "{len} bytes");
        assert!(client.echoed(pattern(5, count)).unwrap() == pattern(5, count), "{len} bytes there and back");
    }
}

#[test]
fn texts_and_nested_values_may_be_long() {
    let server = server();
    let client = client(&server);
    let text = "stoop ".repeat(50_000);
    assert!(client.text(&text).unwrap() == text.to_uppercase());

    let branch = |i: usize| Branch { name: format!("{i}"), weights: vec![i as f64; 100], branches: vec![] };
    let mut tree =
        Branch { name: "root".into(), weights: vec![1.5; 10_000], branches: (0..300).map(branch).collect() };
    let back = client.tree(tree.clone()).unwrap();
    tree.branches.reverse();
    assert!(back == tree);
}

#[test]
fn large_and_small_arguments_keep_their_places() {
    let server = server();
    let client = client(&server);
    for (count, after) in [(1000, 1), (300, 1), (200, 0), (10_000, 0), (1, 1), (0, 0), (2500, 1)] {
        let numbers: Vec<f64> = (0..count).map(|i| i as f64 / 7.0).collect();
        let mut samples: Vec<i16> = (0..count as i16 + 3).collect();
        let (mut doubled, mut array) = (vec![0.5; count + 1], [0; 3000]);
        let (mut small, mut list) = ([1, 2, 3], vec!["first".to_owned()]);
        let between = "between".repeat(count / 10 + 1);
        let returned = client.mixed(
            77,
            &numbers,
            &between,
            &mut samples,
            &mut small,
            &mut doubled,
            &mut array,
            &mut list,
            after,
        );
        match returned {
            Ok(twice) => assert!(after == 1 && twice == between.repeat(2)),
            Err(stoop::Error::Application(found)) => assert_eq!((after, found), (0, count as u64)),
            Err(error) => panic!("{error}"),
        }
        assert!(doubled.iter().zip(&numbers).all(|(doubled, number)| *doubled == 2.0 * number));
        assert!(samples.iter().rev().copied().eq(0..count as i16 + 3));
        assert_eq!((small, array), ([3, 2, 1], [77; 3000]));
        assert_eq!(list, ["first", &between]);
    }
}

#[test]
fn threads_with_large_calls_share_a_binding() {
    let server = server();
    let client = client(&server);
    thread::scope(|scope| {
        for seed in 0..6 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..8 {
                    let len = [1441, 10_000, 300_000, 70, 65_537][(usize::from(seed) + round) % 5];
                    let bytes = pattern(seed, len);
                    assert_eq!(client.weigh(&bytes).unwrap(), weight(&bytes));
                    let mut out = vec![0; len];
                    client.fill(seed, &mut out).unwrap();
                    assert!(out == bytes);
                    assert!(client.echoed(bytes.clone()).unwrap() == bytes);
                    client.null().unwrap();
                }
            });
        }
    });
}

#[test]
fn what_large_calls_need_is_given_back_and_taken_again() {
    let server = server();
    let client = client(&server);
    for seed in 0..3 {
        let bytes = pattern(seed, 200_000);
        assert!(client.echoed(bytes.clone()).unwrap() == bytes);
        (0..100).for_each(|_| client.null().unwrap());
        assert!(client.returned(seed, 200_000).unwrap() == bytes, "more comes than was expected");
        (0..100).for_each(|i| assert_eq!(client.returned(seed, 700).unwrap(), bytes[..700], "call {i}"));
    }
}

#[test]
fn arguments_may_have_as_many_bytes_as_the_smaller_bound() {
    let own = BindOptions::new().max_message(50_000);
    let theirs = Server::new().max_message(50_000).export(BulkServer::new(Store::default()));
    let theirs = theirs.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let usual = server();
    let clients = [
        BulkClient::bind_with(&usual.uris()[0], &own).unwrap(),
        BulkClient::bind(&theirs.uris()[0]).unwrap(),
    ];
    for client in clients {
        let bytes = pattern(1, 50_001 - COUNT);
        let most = &bytes[1..];
        assert_eq!(client.weigh(most).unwrap(), weight(most));
        let error = client.weigh(&bytes).unwrap_err();
        assert_eq!(error.ran(), Ran::No);
        let said = error.to_string();
        assert!(said.contains("50001") && said.contains("50000"), "{said}");
        assert!(said.contains("BindOptions::max_message") && said.contains("Server::max_message"), "{said}");
        assert_eq!(client.echoed(bytes).unwrap_err().ran(), Ran::No, "a value that is copied");
        client.null().unwrap();
    }
}

#[test]
fn results_may_have_as_many_bytes_as_the_caller_takes() {
    let server = server();
    let client = BulkClient::bind_with(&server.uris()[0], &BindOptions::new().max_message(50_000)).unwrap();
    let mut bytes = vec![0; 50_000];
    client.fill(1, &mut bytes).unwrap();
    assert!(bytes == pattern(1, 50_000));
    assert!(client.returned(1, 50_000 - COUNT as u32).unwrap() == bytes[..50_000 - COUNT]);

    let error = client.fill(1, &mut vec![0; 50_001]).unwrap_err();
    assert!(
        matches!(&error, CallError::Refused(why, ..) if why.code == RefusalCode::ResultTooLarge),
        "{error}"
    );
    let error = client.returned(1, 50_001 - COUNT as u32).unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::ResultTooLarge),
        "{error}"
    );
    client.null().unwrap();
}

#[test]
fn a_panic_is_told_after_a_large_call() {
    let server = server();
    let client = client(&server);
    let error = client.panicking(&mut pattern(1, 300_000)).unwrap_err();
    assert!(matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::Panicked), "{error}");
    assert_eq!(client.weigh(&[1, 2]).unwrap(), weight(&[1, 2]));
}

#[test]
fn a_large_call_that_runs_long_ends_by_its_deadline_and_the_next_goes_on() {
    let gate = Gate::default();
    let exported = BulkServer::new(Store { gate: gate.clone() });
    let server = Server::new().export(exported).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let client = client(&server);
    let bytes = pattern(9, 400_000);
    // On a busy machine it may take longer until the call has begun.
    let mut timeout = Duration::from_millis(300);
    while gate.inside() == 0 {
        let error = client.with_timeout(timeout).waiting(&bytes).unwrap_err();
        assert!(gate.inside() == 0 || error.ran() == Ran::Perhaps, "{error}");
        timeout *= 2;
    }
    assert_eq!(client.weigh(&bytes).unwrap(), weight(&bytes));
    gate.open();
    assert_eq!(client.waiting(&bytes).unwrap(), 400_000);
}

#[test]
fn a_large_call_to_a_server_that_is_gone_does_not_wait_for_its_deadline() {
    let server = server();
    let client = client(&server);
    let bytes = pattern(2, 300_000);
    assert_eq!(client.weigh(&bytes).unwrap(), weight(&bytes));
    server.shut_down();
    let error = client.weigh(&bytes).unwrap_err();
    let text = error.to_string();
    let is_known = ["listens at", "is shutting down"].iter().any(|part| text.contains(part));
    assert!(error.ran() == Ran::No && is_known, "{text}");
}

#[test]
fn sixteen_mebibytes_go_and_come_back() {
    let server = server();
    let client = client(&server);
    let before = pattern(6, 16 << 20);
    let mut bytes = before.clone();
    client.raise(&mut bytes).unwrap();
    assert!(bytes.iter().zip(&before).all(|(after, before)| *after == before.wrapping_add(1)));
}

/// The loopback carries 64 KiB in one packet, and that is soon found out. One packet can then be all of a message.
#[test]
fn a_message_that_is_one_packet_of_the_largest_size_leaves() {
    let server = server();
    let client = client(&server);
    for round in 0..40 {
        let bytes = pattern(round, 300_000);
        assert_eq!(client.weigh(&bytes).unwrap(), weight(&bytes));
        for len in [24 << 10, 30_000, 50_000, 65_400] {
            assert_eq!(client.weigh(&bytes[..len]).unwrap(), weight(&bytes[..len]));
        }
    }
}
