//! Payloads of calls and results, by hand.

use stoop_marshal::{DecodeError, Reader, Writer};
use stoop_schema::json::Json;
use stoop_schema::{Argument, Mode, Outcome, Shape, Signature, Value};

fn signature(text: &str) -> Signature {
    let signature = Signature::parse(text).unwrap();
    assert_eq!(signature.to_string(), text);
    signature
}

fn result(signature: &Signature, arguments: &[Argument], outcome: &Outcome) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 4096);
    signature.put_result(arguments, outcome, &mut writer).unwrap();
    let len = writer.finish().unwrap();
    packet.truncate(len);
    packet
}

#[test]
fn what_the_procedure_writes_in_place_comes_back_first_and_without_a_count() {
    let of = signature(
        "f(text: inout String, words: out [u16], three: inout [u8; 3], list: out whole [u8]) -> u8",
    );
    assert_eq!(of.parameters[3].shape, Shape::Whole);
    let arguments =
        of.arguments_of(&Json::parse(r#"{"text": "a", "words": 2, "three": [1, 2, 3]}"#).unwrap()).unwrap();
    assert_eq!(arguments[1], Argument::Length(2));
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 4096);
    of.put_call(&arguments, &mut writer).unwrap();
    let len = writer.finish().unwrap();
    assert_eq!(packet[..len], [1, 0, 0, 0, b'a', 0, 0, 0, 2, 0, 0, 0, 1, 2, 3]);
    assert_eq!(of.take_call(&mut Reader::new(&packet[..len])).unwrap(), arguments);

    let back = vec![
        Some(Value::Text("b".into())),
        Some(Value::Sequence(vec![Value::Unsigned(258), Value::Unsigned(4)])),
        Some(Value::Bytes(vec![7, 8, 9])),
        Some(Value::Bytes(vec![6])),
    ];
    let outcome = Outcome { returned: Some(Value::Unsigned(5)), back };
    let bytes = result(&of, &arguments, &outcome);
    assert_eq!(bytes, [2, 1, 4, 0, 7, 8, 9, 0, 1, 0, 0, 0, b'b', 0, 0, 0, 1, 0, 0, 0, 6, 5]);
    assert_eq!(of.take_result(&arguments, &mut Reader::new(&bytes)).unwrap(), outcome);
    let (json, is_error) = of.json_of_outcome(&outcome);
    assert!(!is_error);
    assert_eq!(
        json.to_string(),
        r#"{"returned": 5, "text": "b", "words": [258, 4], "three": "\u0007\u0008\t", "list": "\u0006"}"#
            .replace(r#""\u0007\u0008\t""#, r#"{"base64": "BwgJ"}"#)
            .replace(r#""\u0006""#, r#"{"base64": "Bg=="}"#)
    );
}

#[test]
fn buffers_travel_by_their_contents_or_their_length() {
    let of = signature("f(frame: inout in place [u32], into: out in place [u8])");
    assert_eq!((of.parameters[0].mode, of.parameters[0].shape), (Mode::InOut, Shape::Buffer));
    let arguments = of.arguments_of(&Json::parse(r#"{"frame": [1], "into": 3}"#).unwrap()).unwrap();
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 4096);
    of.put_call(&arguments, &mut writer).unwrap();
    let len = writer.finish().unwrap();
    assert_eq!(packet[..len], [0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    packet[0] = 1;
    assert_eq!(of.take_call(&mut Reader::new(&packet[..len])), Err(DecodeError::BadFlag { found: 1 }));
    let back = vec![Some(Value::Sequence(vec![Value::Unsigned(9)])), Some(Value::Bytes(vec![1, 2, 3]))];
    let outcome = Outcome { returned: None, back };
    let bytes = result(&of, &arguments, &outcome);
    assert_eq!(bytes, [9, 0, 0, 0, 1, 2, 3]);
    assert_eq!(of.take_result(&arguments, &mut Reader::new(&bytes)).unwrap(), outcome);
}

#[test]
fn empty_arrays_of_numbers_are_aligned_in_calls_and_not_where_a_procedure_writes_them() {
    let of = signature("f(a: u8, b: inout [u64; 0], c: out u8)");
    let empty = || Value::Sequence(Vec::new());
    let arguments = [Argument::Value(Value::Unsigned(1)), Argument::Value(empty()), Argument::Nothing];
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 4096);
    of.put_call(&arguments, &mut writer).unwrap();
    assert_eq!(writer.finish(), Ok(8));
    let outcome = Outcome { returned: None, back: vec![None, Some(empty()), Some(Value::Unsigned(2))] };
    assert_eq!(result(&of, &arguments, &outcome), [2]);
}

#[test]
fn values_of_other_types_do_not_fit() {
    let of = signature("f(a: [u8; 2], b: Result<(), char>) -> bool");
    let mut packet = Vec::new();
    for wrong in [
        vec![],
        vec![Argument::Nothing, Argument::Nothing],
        vec![Argument::Value(Value::Bytes(vec![1])), Argument::Value(Value::Result(Ok(Value::Unit.into())))],
        vec![
            Argument::Value(Value::Bytes(vec![1, 2])),
            Argument::Value(Value::Result(Err(Value::Unit.into()))),
        ],
    ] {
        assert!(of.put_call(&wrong, &mut Writer::new(&mut packet, 0, 4096)).is_err());
    }
}

#[test]
fn an_error_of_the_procedure_is_told_from_its_value() {
    let of = signature("divide(by: i32) -> Result<i32, String>");
    let outcome = |value| Outcome { returned: Some(Value::Result(value)), back: vec![None] };
    let (json, is_error) = of.json_of_outcome(&outcome(Ok(Value::Signed(-3).into())));
    assert_eq!((json.to_string().as_str(), is_error), ("-3", false));
    let (json, is_error) = of.json_of_outcome(&outcome(Err(Value::Text("no".into()).into())));
    assert_eq!((json.to_string().as_str(), is_error), (r#"{"err": "no"}"#, true));
}

#[test]
fn a_call_has_the_window_of_its_pipe_and_the_items_are_apart() {
    let of = signature("f(a: pipe in str, n: u8, b: pipe out slice<u16>)");
    let mut arguments = of.arguments_of(&Json::parse(r#"{"n": 1}"#).unwrap()).unwrap();
    let (place, numbers) = of.pipe(Mode::PipeOut).unwrap();
    arguments[place] = Argument::Window(16);
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 4096);
    of.put_call(&arguments, &mut writer).unwrap();
    let len = writer.finish().unwrap();
    assert_eq!(packet[..len], [1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of.take_call(&mut Reader::new(&packet[..len])).unwrap(), arguments);
    assert_eq!(of.call_bytes(&arguments, 16).unwrap(), packet[..len]);
    assert!(of.call_bytes(&[], 16).is_err() && of.call_bytes(&arguments[..2], 16).is_err());

    let (_, texts) = of.pipe(Mode::PipeIn).unwrap();
    let counted = signature("f(a: pipe in [u16])");
    let (_, counted_pipe) = counted.pipe(Mode::PipeIn).unwrap();
    let pair = || Value::Sequence(vec![Value::Unsigned(258), Value::Unsigned(4)]);
    for (of, pipe, value, bytes) in [
        (&of, texts, Value::Text("ab".into()), &b"ab"[..]),
        (&of, numbers, pair(), &[2, 1, 4, 0]),
        (&counted, counted_pipe, pair(), &[2, 0, 0, 0, 2, 1, 4, 0]),
    ] {
        let mut item = Vec::new();
        let mut writer = Writer::new(&mut item, 0, 4096);
        of.put_item(pipe, &value, &mut writer).unwrap();
        let len = writer.finish().unwrap();
        assert_eq!(&item[..len], bytes);
        assert_eq!(of.take_item(pipe, bytes).unwrap(), value);
    }
    assert_eq!(of.item_bytes(numbers, "[258, 4]").unwrap(), [2, 1, 4, 0]);
    for wrong in ["", "[258", "[-1]", "{}", "[65536]"] {
        assert!(of.item_bytes(numbers, wrong).is_err(), "{wrong}");
    }
    assert!(of.take_item(numbers, &[1, 2, 3]).is_err() && of.take_item(texts, &[0xff]).is_err());
}
