//! A text as a signature; then its types as Rust, and bytes behind it as the arguments of a call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_marshal::{Reader, Writer};
use stoop_schema::{Argument, Signature};
use stoop_schema::json::Json;
use stoop_schema::rust::{Interface, Procedure};

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, payload) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(signature) = Signature::parse(text) else { return };
    assert_eq!(signature.to_string(), text);
    let procedure = Procedure { signature: signature.clone(), idempotent: true, docs: String::new() };
    let interface = Interface { name: "Fuzzed".into(), procedures: vec![procedure], ..Interface::default() };
    assert!(!interface.rust().is_empty());
    let Ok(arguments) = signature.take_call(&mut Reader::new(payload)) else { return };
    let json = signature.json_of_arguments(&arguments);
    assert_eq!(Json::parse(&json.to_string()).as_ref(), Ok(&json));
    assert_eq!(signature.arguments_of(&json), Ok(given(&arguments)));
    let mut packet = Vec::new();
    let mut writer = Writer::new(&mut packet, 0, 1 << 24);
    signature.put_call(&arguments, &mut writer).expect("they are of this signature");
    let len = writer.finish().expect("what was read can be written");
    assert_eq!(signature.take_call(&mut Reader::new(&packet[..len])), Ok(arguments));
});

/// What a caller gives of arguments that were read: it says no window, which its program chooses.
fn given(arguments: &[Argument]) -> Vec<Argument> {
    let given = |argument: &Argument| match argument {
        Argument::Window(_) => Argument::Nothing,
        argument => argument.clone(),
    };
    arguments.iter().map(given).collect()
}
