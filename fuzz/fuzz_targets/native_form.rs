//! A payload, read as one of many types.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet, HashMap, LinkedList, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stoop_macros::Data;
use stoop_marshal::{Data, Reader, Writer};

/// The module that the derive takes for the crate `stoop`.
mod root {
    pub mod stub {
        pub use stoop_marshal::*;
    }
}

#[derive(Data)]
#[stoop(crate = crate::root)]
enum Shape {
    Nothing,
    Circle(f64),
    Polygon { corners: Vec<(f32, f32)>, name: Option<String> },
    Group(Vec<Shape>),
    Boxed(Box<Shape>),
}

#[derive(Data)]
#[stoop(crate = crate::root)]
struct Tree {
    value: u64,
    branches: Vec<Tree>,
    named: BTreeMap<String, Tree>,
}

#[derive(Data)]
#[stoop(crate = crate::root)]
struct Node {
    value: u32,
    #[stoop(shared)]
    next: Vec<Arc<Node>>,
}

fn bytes_of<T: Data>(value: &T) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 1 << 24);
    writer.value(value);
    let len = writer.finish().expect("what was read can be written");
    packet.truncate(len);
    packet
}

fn read<T: Data>(payload: &[u8]) -> Option<T> {
    let mut reader = Reader::new(payload);
    let value = reader.value::<T>().ok()?;
    reader.finish().ok().map(|()| value)
}

/// Read, written and read again it is the same.
fn check<T: Data>(payload: &[u8]) {
    if let Some(value) = read::<T>(payload) {
        let written = bytes_of(&value);
        let again = read::<T>(&written).expect("what was written can be read");
        assert_eq!(bytes_of(&again), written);
    }
}

/// The same for types whose elements have no order.
fn check_len<T: Data>(payload: &[u8]) {
    if let Some(value) = read::<T>(payload) {
        assert!(read::<T>(&bytes_of(&value)).is_some());
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, payload @ ..] = input else { return };
    match which % 16 {
        0 => check::<String>(payload),
        1 => check::<Vec<Option<Vec<u16>>>>(payload),
        2 => check::<Shape>(payload),
        3 => check::<Tree>(payload),
        4 => check_len::<Node>(payload),
        5 => check_len::<HashMap<u32, String>>(payload),
        6 => check::<BTreeSet<(u8, i64)>>(payload),
        7 => check::<(Duration, SystemTime, SocketAddr, char, bool, u128)>(payload),
        8 => check::<Result<Box<[u64]>, (String, [i8; 5])>>(payload),
        9 => check::<VecDeque<LinkedList<()>>>(payload),
        10 => check::<Vec<[(); 1000]>>(payload),
        11 => check::<Option<Option<Box<Tree>>>>(payload),
        12 => drop(Reader::new(payload).slice::<u64>().map(|slice| slice.len())),
        13 => drop(Reader::new(payload).array::<u16, 7>().map(|array| array[6])),
        14 => drop(Reader::new(payload).text().map(str::len)),
        _ => check::<Vec<Vec<Vec<Vec<u8>>>>>(payload),
    }
});
