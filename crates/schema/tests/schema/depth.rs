//! Values inside of values: as deep as the limits say, and on a stack of the usual size.

use crate::common::{List, encoded, read, signature, written};
use stoop_marshal::{DecodeError, EncodeError, Reader, Writer};
use stoop_schema::json::Json;
use stoop_schema::limits::DEPTH_MAX;

/// The payload of a list with so many elements behind the first.
fn list(len: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    for value in 0..=len {
        payload.resize(payload.len().next_multiple_of(4), 0);
        payload.extend(value.to_le_bytes());
        payload.push(u8::from(value < len));
    }
    payload
}

#[test]
fn a_list_is_as_deep_as_the_limits_allow_on_a_thread_with_the_usual_stack() {
    let signature = signature::<List>(0);
    let deepest = (DEPTH_MAX as u32 - 3) / 3;
    let run = move || {
        let payload = list(deepest);
        let arguments = read(&signature, &payload);
        assert_eq!(written(&signature, &arguments), payload);
        let json = signature.json_of_arguments(&arguments).to_string();
        assert_eq!(signature.arguments_of(&Json::parse(&json).unwrap()), Ok(arguments));
        let payload = list(deepest + 3);
        assert_eq!(signature.take_call(&mut Reader::new(&payload)), Err(DecodeError::TooDeep));
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    let short = List { value: 0, next: Some(Box::new(List { value: 1, next: None })) };
    assert_eq!(list(1), encoded(&short, 0, 100).unwrap());
}

#[test]
fn values_that_are_nested_too_deeply_are_neither_taken_nor_written() {
    let signature = stoop_schema::Signature::parse("f(a: A([A]))").unwrap();
    let json = |depth: usize| Json::parse(&format!("[{}{}]", "[".repeat(depth), "]".repeat(depth))).unwrap();
    assert!(signature.arguments_of(&json(DEPTH_MAX / 2 - 1)).is_ok());
    assert!(signature.arguments_of(&json(DEPTH_MAX)).is_err());
    let arguments = signature.arguments_of(&json(DEPTH_MAX / 2 - 1)).unwrap();
    let [stoop_schema::Argument::Value(value)] = &arguments[..] else { unreachable!() };
    let deeper = (0..DEPTH_MAX).fold(value.clone(), |inner, _| stoop_schema::Value::Sequence(vec![inner]));
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 1 << 20);
    let _ = signature.put_call(&[stoop_schema::Argument::Value(deeper)], &mut writer);
    assert_eq!(writer.finish(), Err(EncodeError::TooDeep));
}
