//! No value, however deep, overflows the stack of a thread.

#![allow(clippy::type_complexity, reason = "the deepest types are what is tested")]

use std::collections::BTreeMap;
use std::thread;

use crate::common::{List, Node, Shape, Tree, decoded, encoded};
use stoop_macros::Data;
use stoop_marshal::{Data, DecodeError, EncodeError, Reader};

#[derive(Data, Debug)]
#[stoop(crate = crate::common::root)]
struct Large {
    bytes: [u64; 500],
    next: Option<Box<Large>>,
}

#[derive(Data, Debug)]
#[stoop(crate = crate::common::root)]
enum Choice {
    End,
    One(Box<Choice>, [u64; 20]),
    Many { by_name: BTreeMap<u32, Choice>, also: Result<Vec<String>, Box<Choice>> },
}

#[derive(Data, Debug)]
#[stoop(crate = crate::common::root)]
struct Arrays {
    rows: Vec<[(String, Option<Box<Arrays>>); 3]>,
}

#[derive(Data, Debug)]
#[stoop(crate = crate::common::root)]
struct Wide {
    a: (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, Option<Box<Wide>>),
    b: (u16, u16, u16, u16, u16, u16, u16, u16, u16, u16, String),
    c: (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, Vec<u8>),
}

/// Nests values until they are too deep to be sent; the deepest that can be is received, in a thread with the stack that
/// Rust gives by default.
fn deepest_travels<T: Data + Send>(leaf: fn() -> T, nest: fn(T) -> T) {
    let run = move || {
        let build = |depth: usize| (0..depth).fold(leaf(), |value, _| nest(value));
        let sendable = |depth: usize| encoded(&build(depth), 0, 64 << 20);
        // The depths that can be sent end somewhere.
        let (mut most, mut too_many) = (0, 1);
        while sendable(too_many).is_ok() {
            (most, too_many) = (too_many, too_many * 2);
        }
        while too_many - most > 1 {
            let middle = most.midpoint(too_many);
            *(if sendable(middle).is_ok() { &mut most } else { &mut too_many }) = middle;
        }
        assert_eq!(sendable(too_many), Err(EncodeError::TooDeep));
        assert!(most >= 10, "only {most} levels");
        let deepest = sendable(most).expect("it could be sent just now");
        // The stack is the subject, not the heap.
        let mut reader = Reader::with_budget(&deepest, usize::MAX);
        reader.value::<T>().map(drop).expect("what can be sent can be received");
    };
    let thread = thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread can be started");
    thread.join().expect("the deepest value travels");
}

#[test]
fn the_longest_list_survives_encoding() {
    deepest_travels(|| List { value: 0, next: None }, |list| List { value: 1, next: Some(Box::new(list)) });
}

#[test]
fn the_highest_tree_survives_encoding() {
    deepest_travels(
        || Tree { value: 0, branches: vec![], named: BTreeMap::new() },
        |below| Tree { value: 0, branches: vec![below], named: BTreeMap::new() },
    );
    deepest_travels(
        || Tree { value: 0, branches: vec![], named: BTreeMap::new() },
        |below| Tree { value: 0, branches: vec![], named: BTreeMap::from([(String::new(), below)]) },
    );
}

#[test]
fn the_deepest_enum_survives_encoding() {
    deepest_travels(|| Shape::Nothing, |shape| Shape::Group(vec![shape]));
    deepest_travels(|| Choice::End, |choice| Choice::One(Box::new(choice), [0; 20]));
    deepest_travels(
        || Choice::End,
        |choice| Choice::Many { by_name: BTreeMap::from([(0, choice)]), also: Ok(vec![]) },
    );
    deepest_travels(
        || Choice::End,
        |choice| Choice::Many { by_name: BTreeMap::new(), also: Err(Box::new(choice)) },
    );
}

#[test]
fn the_longest_chain_of_large_values_survives_encoding() {
    deepest_travels(
        || Large { bytes: [0; 500], next: None },
        |large| Large { bytes: [0; 500], next: Some(Box::new(large)) },
    );
}

#[test]
fn the_deepest_arrays_and_tuples_survive_encoding() {
    deepest_travels(
        || Arrays { rows: vec![] },
        |inner| Arrays {
            rows: vec![[
                (String::new(), None),
                (String::new(), Some(Box::new(inner))),
                (String::new(), None),
            ]],
        },
    );
    let wide = || Wide {
        a: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None),
        b: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, String::new()),
        c: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, Vec::new()),
    };
    deepest_travels(wide, |inner| Wide {
        a: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, Some(Box::new(inner))),
        b: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, String::new()),
        c: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, Vec::new()),
    });
}

#[test]
fn the_deepest_shared_nodes_survive_encoding() {
    deepest_travels(
        || Node { value: 0, next: vec![], best: None },
        |node| Node { value: 0, next: vec![node.into()], best: None },
    );
    deepest_travels(
        || Node { value: 0, next: vec![], best: None },
        |node| Node { value: 0, next: vec![], best: Some(node.into()) },
    );
}

#[test]
fn bytes_that_nest_without_end_are_too_deep() {
    // Each level is a value and the flag of a next one.
    let payload = [0, 0, 0, 0, 1, 0, 0, 0].repeat(100_000);
    assert_eq!(decoded::<List>(&payload, 0), Err(DecodeError::TooDeep));
}
