//! A payload, read as one of many types and without it: both accept the same, and write the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stoop_macros::Data;
use stoop_marshal::{Data, DecodeError, Description, EncodeError, Reader, Writer};
use stoop_schema::Signature;

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
    #[stoop(shared)]
    best: Option<Arc<Node>>,
}

#[derive(Data)]
#[stoop(crate = crate::root)]
struct Fixed {
    small: u8,
    large: u128,
    pair: (u16, [u32; 3]),
    flag: bool,
}

fn bytes(write: impl FnOnce(&mut Writer<'_>)) -> Result<Vec<u8>, EncodeError> {
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 1 << 24);
    write(&mut writer);
    let len = writer.finish()?;
    packet.truncate(len);
    Ok(packet)
}

/// Bounds of what one of both takes need not be those of the other.
fn is_bound(why: &DecodeError) -> bool {
    matches!(why, DecodeError::OverBudget | DecodeError::TooDeep | DecodeError::NoMemory)
}

fn check<T: Data>(payload: &[u8]) {
    let mut description = Description::new();
    description.text("f(a: ").of::<T>().text(")");
    let signature = Signature::parse(&description.finish()).expect("types describe themselves");
    let mut reader = Reader::new(payload);
    let typed = reader.value::<T>().and_then(|value| reader.finish().map(|()| value));
    match (typed, signature.take_call(&mut Reader::new(payload))) {
        (Ok(value), Ok(arguments)) => {
            let Ok(typed) = bytes(|writer| writer.value(&value)) else { return };
            let untyped = bytes(|writer| signature.put_call(&arguments, writer).expect("it is of the type"));
            // Sets and maps may have come in another order than they leave, and a value may have been sent twice that is now sent once.
            let again = bytes(|writer| {
                let arguments = signature.take_call(&mut Reader::new(&typed)).expect("it was written");
                signature.put_call(&arguments, writer).expect("it is of the type");
            });
            assert_eq!(again.as_ref(), Ok(&typed));
            let mut reader = Reader::new(untyped.as_ref().expect("it is as short as what came"));
            assert!(reader.value::<T>().is_ok());
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(why)) => assert!(is_bound(&why), "{why}"),
        (Err(why), Ok(_)) => assert!(is_bound(&why), "{why}"),
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, payload @ ..] = input else { return };
    match which % 14 {
        0 => check::<String>(payload),
        1 => check::<Vec<Option<Vec<u16>>>>(payload),
        2 => check::<Shape>(payload),
        3 => check::<Tree>(payload),
        4 => check::<Node>(payload),
        5 => check::<BTreeMap<u32, String>>(payload),
        6 => check::<BTreeSet<(u8, i64)>>(payload),
        7 => check::<(Duration, SystemTime, SocketAddr, char, bool, u128)>(payload),
        8 => check::<Result<Box<[u64]>, (String, [i8; 5])>>(payload),
        9 => check::<Vec<Vec<()>>>(payload),
        10 => check::<Vec<[(); 10]>>(payload),
        11 => check::<Option<Option<Box<Tree>>>>(payload),
        12 => check::<(u8, Vec<Fixed>, [IpAddr; 2], usize)>(payload),
        _ => check::<Vec<(NonZero<i16>, f32, [String; 2])>>(payload),
    }
});
