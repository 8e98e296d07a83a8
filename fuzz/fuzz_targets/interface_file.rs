//! A result in XDR, read by an interface file alone: its JSON is a value of the same type, and reads as the same bytes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use stoop_schema::json::Json;
use stoop_schema::sun::File;
use stoop_x::{Options, compile, no_includes};
use stoop_xdr::Reader;

const TYPES: [&str; 8] = ["everything", "forest", "husband", "shape", "result", "flag", "node_list", "names"];

static FILE: LazyLock<File> = LazyLock::new(|| {
    let procedures = TYPES.iter().enumerate().map(|(place, name)| format!("{name} GET_{name}(void) = {place};"));
    let program = format!("program P {{ version V {{ {} }} = 1; }} = 0x20000009;", procedures.collect::<String>());
    let text = include_str!("../../crates/x/tests/golden/everything.x").to_owned() + &program;
    File::new(compile("everything.x", &text, &Options::new(), &mut no_includes()).unwrap().model).unwrap()
});

fuzz_target!(|input: &[u8]| {
    let Some((first, message)) = input.split_first() else { return };
    let version = FILE.versions().find(|version| version.name() == "V").expect("the file has it");
    let procedure = version.procedures().nth(usize::from(*first) % TYPES.len()).expect("there are so many");
    let mut reader = Reader::new(message);
    let Ok(json) = procedure.take_result(&mut reader) else { return };
    let read = reader.position();
    assert_eq!(Json::parse(&json.to_string()).as_ref(), Ok(&json));
    let written = procedure.put_result(&json).expect("it is a value of the type");
    // What fills up bytes to a multiple of four may be anything when it is read; a char may be 255 or -1.
    assert_eq!(written.len(), read);
    assert_eq!(procedure.take_result(&mut Reader::new(&written)), Ok(json));
});
