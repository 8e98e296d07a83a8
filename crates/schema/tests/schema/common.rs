//! What must hold of every value, and the types of the corpus.

#[path = "../../../marshal/tests/common/mod.rs"]
pub mod corpus;

pub use corpus::*;
use std::fmt::Debug;
use stoop_marshal::{Data, Description, Reader, Writer};
use stoop_schema::json::Json;
use stoop_schema::{Argument, Signature};

/// The signature of a procedure that takes `offset` bytes and a `T`.
pub fn signature<T: Data>(offset: usize) -> Signature {
    let mut description = Description::new();
    description.text("take(");
    for before in 0..offset {
        description.text(&format!("before_{before}: u8, "));
    }
    description.text("value: ").of::<T>().text(")");
    let text = description.finish();
    let signature = Signature::parse(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(signature.to_string(), text);
    signature
}

/// The arguments of a call.
pub fn read(signature: &Signature, payload: &[u8]) -> Vec<Argument> {
    signature.take_call(&mut Reader::new(payload)).expect("a value is read without its type")
}

/// The payload of a call.
pub fn written(signature: &Signature, arguments: &[Argument]) -> Vec<u8> {
    // The packet held something else before.
    let mut packet = vec![0xaa; 48];
    let mut writer = Writer::new(&mut packet, 0, 1 << 20);
    signature.put_call(arguments, &mut writer).expect("the arguments are of this signature");
    let len = writer.finish().expect("a small value can be sent");
    packet.truncate(len);
    packet
}

/// A value is read without its type at any offset, and has the same bytes when it is written, also from JSON.
pub fn assert_travels<T: Data + PartialEq + Debug>(value: &T) {
    for offset in 0..=16 {
        let signature = signature::<T>(offset);
        let payload = encoded(value, offset, 1 << 20).expect("a small value can be sent");
        let arguments = read(&signature, &payload);
        assert_eq!(written(&signature, &arguments), payload, "{value:?} at offset {offset}");
        let json = signature.json_of_arguments(&arguments).to_string();
        let parsed = Json::parse(&json).unwrap_or_else(|why| panic!("{why}: {json}"));
        let taken = signature.arguments_of(&parsed).unwrap_or_else(|why| panic!("{why}: {json}"));
        assert_eq!(taken, arguments, "{json}");
    }
    let signature = signature::<T>(0);
    let payload = encoded(value, 0, 1 << 20).expect("a small value can be sent");
    for len in 0..payload.len() {
        assert!(
            signature.take_call(&mut Reader::new(&payload[..len])).is_err(),
            "{len} of {} bytes were enough",
            payload.len()
        );
    }
}
