//! Procedures whose only argument is scalars that come back, over UDP: long ones are written where they were received.

use std::fmt::Debug;
use stoop::{BindOptions, CallError, FailureCode, RunningServer, Server};

#[stoop::interface]
trait Change {
    /// Adds one to each, and tells how many there are.
    fn bytes(&self, bytes: &mut [u8]) -> u32;
    fn halves(&self, halves: &mut [u16]);
    fn reals(&self, reals: &mut [f64]) -> Result<String, String>;
    fn widest(&self, widest: &mut [u128]);
    fn array(&self, array: &mut [u32; 3000]) -> Vec<u32>;
    fn small_array(&self, array: &mut [i64; 7]);
    /// Not the only argument.
    fn both(&self, bytes: &mut [u8], more: &mut [u8]);
}

struct Changer;

impl Change for Changer {
    fn bytes(&self, bytes: &mut [u8]) -> u32 {
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        bytes.len() as u32
    }
    fn halves(&self, halves: &mut [u16]) {
        halves.iter_mut().for_each(|half| *half = half.wrapping_add(1));
    }
    fn reals(&self, reals: &mut [f64]) -> Result<String, String> {
        reals.iter_mut().for_each(|real| *real += 1.0);
        if reals.len().is_multiple_of(2) {
            Ok(format!("{} reals", reals.len()))
        } else {
            Err("an odd number".into())
        }
    }
    fn widest(&self, widest: &mut [u128]) {
        widest.iter_mut().for_each(|wide| *wide = wide.wrapping_add(1));
    }
    fn array(&self, array: &mut [u32; 3000]) -> Vec<u32> {
        array.iter_mut().for_each(|value| *value += 1);
        array[..5].to_vec()
    }
    fn small_array(&self, array: &mut [i64; 7]) {
        array.iter_mut().for_each(|value| *value += 1);
    }
    fn both(&self, bytes: &mut [u8], more: &mut [u8]) {
        bytes.swap_with_slice(more);
    }
}

fn server() -> RunningServer {
    Server::new().export(ChangeServer::new(Changer)).listen("udp://127.0.0.1:0").unwrap().start().unwrap()
}

fn client(server: &RunningServer, options: &BindOptions) -> ChangeClient {
    ChangeClient::bind_with(&server.uris()[0], options).unwrap()
}

/// Numbers of elements about where a message is one packet, and far beyond.
const COUNTS: [usize; 20] = [
    0, 1, 2, 89, 90, 91, 179, 180, 181, 719, 720, 721, 1424, 1436, 1440, 1441, 1500, 10_000, 70_001, 300_000,
];

fn changed<T: Clone + Debug + PartialEq>(
    count: usize,
    value: impl Fn(usize) -> T,
    call: impl FnOnce(&mut [T]),
) {
    let mut values: Vec<T> = (0..count).map(&value).collect();
    call(&mut values);
    assert!((0..count).all(|i| values[i] == value(i + 1)), "{count} of them");
}

#[test]
fn scalars_of_every_width_and_number_come_back_changed() {
    let server = server();
    let client = client(&server, &BindOptions::new());
    for count in COUNTS.into_iter().chain(COUNTS) {
        changed(count, |i| i as u8, |bytes| assert_eq!(client.bytes(bytes).unwrap(), count as u32));
        changed(count, |i| i as u16, |halves| client.halves(halves).unwrap());
        let of_reals = |outcome: Result<String, stoop::Error<String>>| match count % 2 {
            0 => assert_eq!(outcome.unwrap(), format!("{count} reals")),
            _ => assert!(matches!(outcome, Err(stoop::Error::Application(why)) if why == "an odd number")),
        };
        changed(count, |i| i as f64, |reals| of_reals(client.reals(reals)));
        changed(count, |i| i as u128, |widest| client.widest(widest).unwrap());
    }
}

#[test]
fn arrays_come_back_changed() {
    let server = server();
    let client = client(&server, &BindOptions::new());
    for _ in 0..3 {
        let mut array: [u32; 3000] = std::array::from_fn(|i| i as u32);
        assert_eq!(client.array(&mut array).unwrap(), [1, 2, 3, 4, 5]);
        assert!((0..3000).all(|i| array[i] == i as u32 + 1));
        let mut small = [1; 7];
        client.small_array(&mut small).unwrap();
        assert_eq!(small, [2; 7]);
        let (mut one, mut other) = (vec![1; 5000], vec![2; 5000]);
        client.both(&mut one, &mut other).unwrap();
        assert!(one == [2; 5000] && other == [1; 5000]);
    }
}

#[test]
fn begun_calls_return_changed_arguments_too() {
    let server = server();
    let client = client(&server, &BindOptions::new());
    let begun: Vec<_> = (0..5_u8).map(|i| client.begin().bytes(&[i; 30_000])).collect();
    for (i, pending) in begun.into_iter().enumerate() {
        let (count, bytes) = pending.wait().unwrap();
        assert!(count == 30_000 && bytes == [i as u8 + 1; 30_000]);
    }
}

#[test]
fn a_result_longer_than_its_caller_accepts_is_a_failure() {
    let server = server();
    let client = client(&server, &BindOptions::new().max_message(12_010));
    let too_long = client.array(&mut [1; 3000]);
    assert!(
        matches!(&too_long, Err(CallError::Failed(why, ..)) if why.code == FailureCode::ResultTooLarge),
        "{too_long:?}"
    );
    assert_eq!(client.bytes(&mut vec![1; 12_000]).unwrap(), 12_000);
}
