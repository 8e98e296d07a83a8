//! Large arguments stay in the caller's memory, and arrive as others do.

use crate::mock;
use crate::mock::{BindOptions, CallError, stub};
use stoop_macros::interface;

#[interface(crate = crate::mock)]
trait Large {
    /// Of every kind, with small ones between.
    #[allow(clippy::too_many_arguments)]
    fn all(
        &self,
        before: u8,
        text: &str,
        numbers: &[f64],
        optional: Option<&[u8]>,
        array: &[u16; 2000],
        words: &mut [u32],
        list: &mut Vec<String>,
        #[out] copy: &mut [f64],
        #[out] bytes: &mut [u8; 5000],
        after: i16,
    ) -> Vec<i64>;
    fn consumed(&self, bytes: &[u8]) -> u64;
    fn filled(&self, #[out] bytes: &mut [u8]) -> Result<u8, String>;
}

struct Server;

impl Large for Server {
    fn all(
        &self,
        before: u8,
        text: &str,
        numbers: &[f64],
        optional: Option<&[u8]>,
        array: &[u16; 2000],
        words: &mut [u32],
        list: &mut Vec<String>,
        copy: &mut [f64],
        bytes: &mut [u8; 5000],
        after: i16,
    ) -> Vec<i64> {
        assert_eq!(optional, Some(&[1, 2, 3][..]));
        copy.copy_from_slice(numbers);
        bytes.fill(before);
        bytes[4999] = array[1999] as u8;
        words.reverse();
        list.push(text[..3].to_owned());
        vec![i64::from(after); 3]
    }
    fn consumed(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|&byte| u64::from(byte)).sum()
    }
    fn filled(&self, bytes: &mut [u8]) -> Result<u8, String> {
        bytes.fill(9);
        Ok(9)
    }
}

fn client(can_gather: bool) -> LargeClient {
    let options = BindOptions { limit: 1 << 16, can_gather, ..mock::to(LargeServer::new(Server)) };
    LargeClient::bind_with("", &options).unwrap()
}

/// Everything that comes back from a call with `count` numbers.
fn all(can_gather: bool, count: usize) -> (Vec<u8>, Vec<u8>, impl PartialEq + std::fmt::Debug) {
    let numbers: Vec<f64> = (0..count).map(|i| i as f64 / 3.0).collect();
    let mut words: Vec<u32> = (0..count as u32 + 1).collect();
    let (mut list, mut copy, mut bytes) = (vec!["first".to_owned()], vec![0.0; count], [0; 5000]);
    let text = "text".repeat(count);
    let returned = client(can_gather).all(
        3,
        &text,
        &numbers,
        Some(&[1, 2, 3]),
        &[77; 2000],
        &mut words,
        &mut list,
        &mut copy,
        &mut bytes,
        -4,
    );
    assert_eq!(copy, numbers);
    assert_eq!((bytes[0], bytes[4998], bytes[4999]), (3, 3, 77));
    assert!(words.iter().rev().copied().eq(0..count as u32 + 1));
    assert_eq!(list, ["first", "tex"]);
    assert_eq!(returned, Ok(vec![-4; 3]));
    (stub::last_call(), stub::last_result(), (words, list, copy, bytes.to_vec()))
}

#[test]
fn pieces_travel_as_if_they_had_been_copied() {
    for count in [1, 255, 256, 257, 511, 513, 2000] {
        let (copied, plain) = (all(false, count), all(true, count));
        assert_eq!(copied.0, plain.0, "{count} numbers there");
        assert_eq!(copied.2, plain.2, "{count} numbers back");
    }
}

#[test]
fn a_large_argument_alone_arrives() {
    let bytes = vec![2; 50_000];
    assert_eq!(client(true).consumed(&bytes), Ok(100_000));
    assert_eq!(stub::last_call().len(), 4 + 50_000);
}

#[test]
fn an_empty_slice_beside_large_ones_is_no_piece() {
    assert_eq!(client(true).consumed(&[]), Ok(0));
    assert_eq!(client(true).filled(&mut []), Ok(9));
}

#[test]
fn a_large_out_argument_lands_before_the_value_returned_is_read() {
    let mut bytes = vec![0; 10_001];
    assert_eq!(client(true).filled(&mut bytes), Ok(9));
    assert!(bytes.iter().all(|&byte| byte == 9));
}

#[test]
fn a_piece_that_is_too_large_is_not_sent() {
    let bytes = vec![0; 1 << 16];
    assert!(matches!(
        client(true).consumed(&bytes),
        Err(CallError::NotSent(stub::EncodeError::TooLarge { limit: 65_536, .. }))
    ));
}
