//! Types to marshal, and what must hold of every one of them.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use stoop_macros::Data;
use stoop_marshal::{Data, DecodeError, EncodeError, Form, Reader, Writer};

/// The module that the derive takes for the crate `stoop`.
pub mod root {
    pub mod stub {
        pub use stoop_marshal::*;
    }
}

#[derive(Data, Clone, Debug, Default, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct Fixed {
    pub small: u8,
    pub large: u128,
    pub pair: (u16, [u32; 3]),
    pub flag: bool,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct Mixed<T>(pub u8, pub String, pub T, pub Option<Fixed>);

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct Unit;

#[derive(Data, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[stoop(crate = crate::common::root)]
pub enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub enum Shape {
    Nothing,
    Circle(f64),
    Polygon { corners: Vec<(f32, f32)>, colour: Colour },
    Group(Vec<Shape>),
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct List {
    pub value: u32,
    pub next: Option<Box<List>>,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct Tree {
    pub value: u64,
    pub branches: Vec<Tree>,
    pub named: BTreeMap<String, Tree>,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::common::root)]
pub struct Node {
    pub value: u32,
    #[stoop(shared)]
    pub next: Vec<Arc<Node>>,
    #[stoop(shared)]
    pub best: Option<Arc<Node>>,
}

/// The bytes of a value after `offset` others, or why there are none.
pub fn encoded<T: Data>(value: &T, offset: usize, limit: usize) -> Result<Vec<u8>, EncodeError> {
    // The packet held something else before.
    let mut packet = vec![0xaa; 48];
    let mut writer = Writer::new(&mut packet, 0, limit);
    for _ in 0..offset {
        writer.value(&0x55u8);
    }
    writer.value(value);
    let len = writer.finish()?;
    packet.truncate(len);
    Ok(packet)
}

/// The value after `offset` others.
pub fn decoded<T: Data>(payload: &[u8], offset: usize) -> Result<T, DecodeError> {
    let mut reader = Reader::new(payload);
    for _ in 0..offset {
        reader.value::<u8>()?;
    }
    let value = reader.value()?;
    reader.finish()?;
    Ok(value)
}

/// [`encoded`] in a form.
pub fn encoded_at<T: Data>(value: &T, offset: usize, form: Form) -> Result<Vec<u8>, EncodeError> {
    let mut packet = vec![0xaa; 48];
    let mut writer = Writer::new(&mut packet, 0, 1 << 20);
    for _ in 0..offset {
        writer.value(&0x55u8);
    }
    value.encode_at(&mut writer, form);
    let len = writer.finish()?;
    packet.truncate(len);
    Ok(packet)
}

/// [`decoded`] from a form.
pub fn decoded_at<T: Data>(payload: &[u8], offset: usize, form: Form) -> Result<T, DecodeError> {
    let mut reader = Reader::new(payload);
    for _ in 0..offset {
        reader.value::<u8>()?;
    }
    let value = T::decode_at(&mut reader, form)?;
    reader.finish()?;
    Ok(value)
}

/// A value comes back equal from any offset, takes at least what its type says and exactly that if it is fixed, and no
/// part of its bytes is taken for the whole.
pub fn assert_travels<T: Data + PartialEq + Debug>(value: &T) {
    for offset in 0..=16 {
        let payload = encoded(value, offset, 1 << 20).expect("a small value can be sent");
        assert!(payload.len() - offset >= T::LAYOUT.min());
        assert_eq!(decoded::<T>(&payload, offset).as_ref(), Ok(value), "at offset {offset}");
        // In the newest form, too, but by the code for older ones.
        let newest = Form::of_arguments(u32::MAX);
        assert_eq!(encoded_at(value, offset, newest).as_ref(), Ok(&payload), "at offset {offset}");
        assert_eq!(decoded_at::<T>(&payload, offset, newest).as_ref(), Ok(value), "at offset {offset}");
    }
    assert_eq!(T::layout_at(Form::of_arguments(u32::MAX)), T::LAYOUT);
    let payload = encoded(value, 0, 1 << 20).expect("a small value can be sent");
    if let Some(size) = T::LAYOUT.size() {
        assert_eq!(payload.len(), size);
    }
    for len in 0..payload.len() {
        assert!(decoded::<T>(&payload[..len], 0).is_err(), "{len} of {} bytes were enough", payload.len());
        let error = encoded(value, 0, len).expect_err("it does not fit");
        assert!(matches!(error, EncodeError::TooLarge { limit, .. } if limit == len));
    }
}
