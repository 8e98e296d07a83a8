//! JSON that people write, and what they are told about it.

use stoop_schema::json::Json;
use stoop_schema::{Argument, Signature};

fn signature(text: &str) -> Signature {
    Signature::parse(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn words(signature: &Signature, words: &[&str]) -> Result<String, String> {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut read = |file: &str| match file {
        "-" => Ok(br#"{"name": "piped"}"#.to_vec()),
        "photo" => Ok(vec![0xff, 0xfe]),
        "text" => Ok(b"of a file".to_vec()),
        "json" => Ok(br#""of json""#.to_vec()),
        _ => Err("no such file".to_owned()),
    };
    let taken = signature.arguments_of_words(&words, &mut read);
    taken.map(|arguments| signature.json_of_arguments(&arguments).to_string()).map_err(|why| why.to_string())
}

#[test]
fn words_are_arguments() {
    let of = signature("f(name: String, size: Option<u64>, kind: Kind{File | Folder(u8)}, content: [u8])");
    let file = r#"{"name": "a b", "size": 7, "kind": "File", "content": "x"}"#;
    assert_eq!(words(&of, &["name=a b", "size=7", "kind=File", "content=x"]).unwrap(), file);
    assert_eq!(words(&of, &["a b", "7", "File", "x"]).unwrap(), file);
    assert_eq!(words(&of, &[file]).unwrap(), file);
    assert_eq!(words(&of, &["content=x", "a b", "size:=7", r#"kind:="File""#]).unwrap(), file);
    assert_eq!(
        words(&of, &["name=@text", r#"kind={"Folder": 3}"#, "content=@photo"]).unwrap(),
        r#"{"name": "of a file", "size": null, "kind": {"Folder": 3}, "content": {"base64": "//4="}}"#
    );
    let of = signature("greet(name: String) -> String");
    assert_eq!(words(&of, &["-"]).unwrap(), r#"{"name": "piped"}"#);
    assert_eq!(words(&of, &["world"]).unwrap(), r#"{"name": "world"}"#);
    assert_eq!(words(&of, &["name:=@json"]).unwrap(), r#"{"name": "of json"}"#);
    assert_eq!(words(&of, &["1 + 1 = 2"]).unwrap(), r#"{"name": "1 + 1 = 2"}"#);
    assert_eq!(words(&of, &["name=a=b"]).unwrap(), r#"{"name": "a=b"}"#);
    let of = signature("read(at: u64, piece: out [u8], all: out [u8; 4])");
    assert_eq!(words(&of, &["at=1", "piece=5"]).unwrap(), r#"{"at": 1, "piece": 5}"#);
}

#[test]
fn a_wrong_argument_is_named_and_what_is_right_is_said() {
    let of = signature(
        "put(entry: Entry{name: String, mode: u32, tags: [u8; 2], at: Kind{File | Folder}}, big: i8)",
    );
    for (given, said) in [
        (r#"{}"#, "entry: is missing; it is a Entry"),
        (r#"{"entri": 1}"#, "there is no argument \"entri\"; did you mean entry?"),
        (
            r#"{"entry": {"name": "a", "mode": "x", "tags": [], "at": "File"}, "big": 1}"#,
            "entry.mode: expected a u32, from 0 to 4294967295, not \"x\"",
        ),
        (
            r#"{"entry": {"name": "a", "mode": 4294967296, "tags": [], "at": "File"}, "big": 1}"#,
            "entry.mode: expected a u32, from 0 to 4294967295, not 4294967296",
        ),
        (
            r#"{"entry": {"name": "a", "mode": 1, "tags": [1, 256], "at": "File"}, "big": 1}"#,
            "entry.tags[1]: expected a u8, from 0 to 255, not 256",
        ),
        (
            r#"{"entry": {"name": "a", "mode": 1, "tags": [1, 2], "at": "Fil"}, "big": 1}"#,
            "entry.at: there is no variant \"Fil\"; did you mean File?",
        ),
        (
            r#"{"entry": {"name": "a", "mode": 1, "tags": [1, 2], "at": "File", "x\u001b[2J": 1}, "big": 1}"#,
            "entry: there is no field \"x\\u001b[2J\"; there is name, mode, tags, at",
        ),
        (r#"{"entry": 1, "big": 1}"#, "entry: is an object with the fields name, mode, tags, at"),
        (r#"[1, 2, 3]"#, "there are more arguments than entry: Entry, big: i8"),
        (r#"1"#, "the arguments are an object, with a name for each"),
    ] {
        let why = of.arguments_of(&Json::parse(given).unwrap()).unwrap_err();
        assert_eq!(why.to_string(), said);
    }
    let why = words(&of, &["a", "b", "c"]).unwrap_err();
    assert!(why.starts_with("entry: line 1 column 1 of the JSON: a value was expected"), "{why}");
    let of = signature("null()");
    assert_eq!(words(&of, &["a"]).unwrap_err(), "\"a\" is one word too many; the arguments are none");
    assert_eq!(words(&of, &["a=1"]).unwrap_err(), "there is no argument \"a\"; there is none");
    let of = signature("read(piece: out [u8])");
    assert_eq!(
        words(&of, &[]).unwrap_err(),
        "piece: is filled by the procedure: give its length, a number of elements"
    );
    let of = signature("greet(name: String)");
    assert_eq!(words(&of, &["name=a", "name=b"]).unwrap_err(), "name: is given twice");
    assert_eq!(words(&of, &["name=@none"]).unwrap_err(), "name: no such file");
}

#[test]
fn numbers_are_never_rounded() {
    let of = signature("f(a: u64, b: i128, c: f32, d: f64)");
    let json = r#"{"a": 18446744073709551615, "b": "-170141183460469231731687303715884105728", "c": 0.1, "d": 5e-324}"#;
    let arguments = of.arguments_of(&Json::parse(json).unwrap()).unwrap();
    assert_eq!(of.json_of_arguments(&arguments).to_string(), json);
    for wrong in ["18446744073709551616", "1.0", "1e3", "-0", "-1", "\"\"", "\"1 \""] {
        let json = Json::parse(&format!(r#"{{"a": {wrong}, "b": 1, "c": 1, "d": 1}}"#)).unwrap();
        let taken = of.arguments_of(&json);
        assert!(taken.is_err(), "{wrong}: {taken:?}");
    }
    for wrong in ["1e39", "\"1\"", "\"nan\"", "\"NaN(0x3f800000)\"", "\"NaN(0x1ffffffff)\""] {
        let json = Json::parse(&format!(r#"{{"a": 1, "b": 1, "c": {wrong}, "d": 1}}"#)).unwrap();
        assert!(of.arguments_of(&json).is_err(), "{wrong}");
    }
}

#[test]
fn every_bit_pattern_of_a_float_comes_back() {
    let of = signature("f(c: f32, d: f64)");
    for bits in
        [0, 1, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001, 0xffff_ffff, 0x3dcc_cccd]
    {
        let wide = u64::from(bits) << 32 | 1;
        let arguments = vec![
            Argument::Value(stoop_schema::Value::F32(bits)),
            Argument::Value(stoop_schema::Value::F64(wide)),
        ];
        let json = of.json_of_arguments(&arguments);
        assert_eq!(of.arguments_of(&json).as_ref(), Ok(&arguments), "{json}");
        assert_eq!(Json::parse(&json.to_string()).as_ref(), Ok(&json));
    }
}

#[test]
fn options_of_what_may_be_null_are_told_apart() {
    let of = signature(
        "f(a: Option<Option<()>>, b: Option<Unit>, c: Option<New(Option<u8>)>, d: Option<Box<u8>>)",
    );
    for json in [
        r#"{"a": null, "b": null, "c": null, "d": null}"#,
        r#"{"a": [null], "b": [null], "c": [null], "d": 1}"#,
        r#"{"a": [[null]], "b": [null], "c": [5], "d": 1}"#,
    ] {
        let arguments = of.arguments_of(&Json::parse(json).unwrap()).unwrap();
        assert_eq!(of.json_of_arguments(&arguments).to_string(), json);
    }
}

#[test]
fn printed_json_has_no_character_that_a_terminal_obeys() {
    let text = "\u{1b}]0;x\u{7}\u{202e}\u{9b}31m\u{85}\u{feff}\u{e0041}é\n";
    let json = Json::text(text).to_string();
    assert_eq!(json, r#""\u001b]0;x\u0007\u202e\u009b31m\u0085\ufeff\udb40\udc41é\n""#);
    assert_eq!(Json::parse(&json), Ok(Json::text(text)));
}

#[test]
fn json_is_parsed_as_the_specification_says() {
    for right in [
        "null",
        " [ ] ",
        "{}",
        "[1, -0.5e+7, \"\\u00e9\\ud83d\\ude00\\/\"]",
        "{\"a\": {\"a\": [true, false]}}",
    ] {
        assert!(Json::parse(right).is_ok(), "{right}");
    }
    for wrong in [
        "",
        "nul",
        "[1,]",
        "{\"a\"}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "\"\\x\"",
        "\"\n\"",
        "\"\\ud800\"",
        "[1] 2",
        "{\"a\": 1, \"a\": 2}",
        "\"",
        "\"\\",
        "\"\\u12",
        "[",
        "{\"a\":",
        "'a'",
        "\"\\u+123\"",
        "\"\\é\"",
    ] {
        assert!(Json::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(
        Json::parse("[1,\n  x]").unwrap_err().to_string().split(':').next(),
        Some("line 2 column 3 of the JSON")
    );
    assert!(Json::parse(&"[".repeat(100_000)).is_err());
}

#[test]
fn what_fits_stays_on_one_line() {
    let json = Json::parse(r#"{"name": "a", "list": [1, 2, 3], "empty": {}}"#).unwrap();
    assert_eq!(json.pretty(80), json.to_string());
    assert_eq!(json.pretty(20), "{\n  \"name\": \"a\",\n  \"list\": [1, 2, 3],\n  \"empty\": {}\n}");
}
