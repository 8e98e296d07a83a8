//! Values of interface files: what the emitted code writes and reads, the file alone reads and writes, by way of JSON.

use self::everything as emitted;
use self::values::Values;
use stoop_schema::json::Json;
use stoop_schema::sun::{File, Procedure};
use stoop_x::{Options, compile, no_includes};
use stoop_xdr::{Decode, DecodeError, Encode, Fault, Reader};

#[path = "../../../x/tests/golden/everything.rs"]
#[rustfmt::skip]
#[allow(dead_code, unused_imports, clippy::all, clippy::pedantic, missing_docs)]
mod everything;
#[path = "../../../x/tests/oracle/values.rs"]
#[allow(dead_code)]
mod values;

const TYPES: [&str; 12] = [
    "everything",
    "forest",
    "husband",
    "shape",
    "result",
    "signed_choice",
    "flag",
    "covered",
    "node_list",
    "names",
    "triangle",
    "wrapped",
];

/// The file with a procedure for each of these types, which has one as its argument and its result.
fn compiled() -> stoop_x::Compiled {
    let procedures = TYPES.iter().enumerate();
    let procedures = procedures.map(|(place, name)| format!("{name} ECHO_{name}({name} value) = {place};"));
    let procedures = procedures.collect::<String>();
    let program = format!("program ECHO {{ version ECHO_1 {{ {procedures} }} = 1; }} = 0x20000009;");
    let text = include_str!("../../../x/tests/golden/everything.x").to_owned() + &program;
    compile("everything.x", &text, &Options::new(), &mut no_includes()).unwrap()
}

fn echo<'f>(file: &'f File, name: &str) -> Procedure<'f> {
    let version = file.versions().find(|version| version.name() == "ECHO_1").unwrap();
    version.procedure(&format!("ECHO_{name}")).unwrap()
}

/// What the emitted code reads in these bytes, as it writes it again.
fn by_type(name: &str, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    fn again<'a, T: Decode<'a> + Encode>(bytes: &'a [u8]) -> Result<Vec<u8>, DecodeError> {
        stoop_xdr::from_slice::<T>(bytes).map(|value| stoop_xdr::to_vec(&value).unwrap())
    }
    match name {
        "everything" => again::<emitted::Everything>(bytes),
        "forest" => again::<emitted::Forest>(bytes),
        "husband" => again::<emitted::Husband>(bytes),
        "shape" => again::<emitted::Shape>(bytes),
        "result" => again::<emitted::ResultType>(bytes),
        "signed_choice" => again::<emitted::SignedChoice>(bytes),
        "flag" => again::<emitted::Flag>(bytes),
        "covered" => again::<emitted::Covered>(bytes),
        "node_list" => again::<emitted::NodeList>(bytes),
        "names" => again::<emitted::Names>(bytes),
        "triangle" => again::<emitted::Triangle>(bytes),
        _ => again::<emitted::Wrapped>(bytes),
    }
}

/// What the file alone reads in them, as JSON.
fn by_file(echo: Procedure<'_>, bytes: &[u8]) -> Result<Json, DecodeError> {
    let mut reader = Reader::new(bytes);
    let json = echo.take_result(&mut reader)?;
    reader.finish().map(|()| json)
}

#[test]
fn values_of_every_type_have_the_bytes_of_the_emitted_code_and_changed_ones_are_refused_alike() {
    let compiled = compiled();
    let file = File::new(compiled.model.clone()).unwrap();
    let (mut read, mut refused) = (0, 0);
    for seed in 0..100 {
        let mut values = Values::new(&compiled.model, seed);
        for name in TYPES {
            let echo = echo(&file, name);
            let encoding = values.encoding(name);
            let changed = values.changed(&encoding);
            for bytes in [encoding, changed] {
                match (by_type(name, &bytes), by_file(echo, &bytes)) {
                    (Ok(canonical), Ok(json)) => {
                        assert_eq!(echo.put_result(&json).as_deref(), Ok(&canonical[..]), "{json}");
                        assert_eq!(Json::parse(&json.to_string()).as_ref(), Ok(&json));
                        read += 1;
                    }
                    (Err(_), Err(_)) => refused += 1,
                    // As bytes the file has them, too.
                    (Err(DecodeError { fault: Fault::NotUtf8, .. }), _) => {}
                    (by_type, by_file) => panic!("{name} {bytes:?}: {by_type:?} {by_file:?}"),
                }
            }
        }
    }
    assert!(read > 1200 && refused > 300, "{read} {refused}");
}

#[test]
fn values_are_shown_by_the_names_of_the_file() {
    let compiled = compiled();
    let file = File::new(compiled.model).unwrap();
    for (name, json) in [
        ("shape", r#"{"RED": {"x": 1, "y": -2}}"#),
        ("shape", r#"{"GREEN": [{"x": 0, "y": 0}]}"#),
        ("shape", r#""BLUE""#),
        ("result", r#"{"5": "text"}"#),
        ("result", r#"{"7": -1}"#),
        ("result", r#"{"0": {"base64": "/w=="}}"#),
        ("signed_choice", r#""-1""#),
        ("flag", r#"{"TRUE": 7}"#),
        ("flag", r#""FALSE""#),
        ("node_list", r#"[{"label": "a"}, {"label": "b"}]"#),
        ("husband", r#"{"spouse": {"age": 30, "spouse": null}, "age": 31}"#),
        ("names", r#"["a", ""]"#),
        ("triangle", "[1, 2, 3]"),
    ] {
        let json = Json::parse(json).unwrap();
        let bytes = echo(&file, name).put_result(&json).unwrap();
        assert_eq!(by_file(echo(&file, name), &bytes), Ok(json));
        let arguments = Json::object([("value", by_file(echo(&file, name), &bytes).unwrap())]);
        assert_eq!(echo(&file, name).put_call(&arguments).as_deref(), Ok(&bytes[..]));
        assert_eq!(echo(&file, name).take_call(&mut Reader::new(&bytes)), Ok(arguments));
    }
}

#[test]
fn a_value_that_does_not_fit_is_named_by_its_path() {
    let compiled = compiled();
    let file = File::new(compiled.model).unwrap();
    for (name, json, why) in [
        ("shape", r#"{"RED": {"x": 1, "z": 2}}"#, r#"RED: there is no field "z"; did you mean x?"#),
        ("shape", r#"{"RED": {"x": 1}}"#, "RED.y: is missing; its type is int"),
        (
            "shape",
            r#"{"GREEN": [{"x": 0, "y": 0.5}]}"#,
            "GREEN[0].y: expected a number of type int, from -2147483648 to 2147483647, not 0.5",
        ),
        ("shape", r#""RED""#, r#"the arm has the type point: {"RED": …}"#),
        ("shape", r#""READ""#, r#"there is no value "READ"; did you mean RED?"#),
        ("shape", r#"{"GREEN": [1, 2, 3]}"#, "GREEN: has at most 2 elements or bytes, not 3"),
        (
            "result",
            r#"{"-1": 1}"#,
            r#"the discriminant is a number of type unsigned int, from 0 to 4294967295, not "-1""#,
        ),
        ("signed_choice", r#""2""#, r#"there is no arm "2"; did you mean 1?"#),
        ("triangle", "[1]", "has 3 elements, not 1"),
        ("husband", "7", "is an object with: spouse: wife *, age: int"),
        ("flag", "null", r#"is the discriminant of an arm that is void, or {"DISCRIMINANT": …}"#),
    ] {
        let told = echo(&file, name).put_result(&Json::parse(json).unwrap()).unwrap_err();
        assert_eq!(told.to_string(), why);
    }
}

#[test]
fn words_stand_for_arguments_as_their_types_want_them() {
    let text = "
        typedef string names<>;
        enum hue { RED = 1, BLUE = 2 };
        union found switch (int status) { case 0: void; default: int why; };
        program P { version V { void F(string name, hue, unsigned size, opaque key<4>, bool, found, names *) = 1; } = 1; } = 7;";
    let compiled = compile("p.x", text, &Options::new(), &mut no_includes()).unwrap();
    let file = File::new(compiled.model).unwrap();
    let f = file.versions().next().unwrap().procedure("F").unwrap();
    let words = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut read = |_: &str| Ok(b"\xff".to_vec());
        f.arguments_of_words(&words, &mut read).and_then(|json| f.put_call(&json).map(|_| json.to_string()))
    };
    assert_eq!(
        f.overview(),
        "F(name: string<>, arg2: hue, size: unsigned int, key: opaque<4>, arg5: bool, arg6: found, arg7: names *)"
    );
    assert_eq!(
        words(&["7", "BLUE", "7", "key=@file", "true", "0", "x"]).unwrap(),
        r#"{"name": "7", "arg2": "BLUE", "size": 7, "key": {"base64": "/w=="}, "arg5": true, "arg6": "0", "arg7": "x"}"#
    );
    assert_eq!(
        words(&["size=7", r#"arg6={"5": 3}"#, "name=", "RED", "key:=[1, 2]", "false"]).unwrap(),
        r#"{"size": 7, "arg6": {"5": 3}, "name": "", "arg2": "RED", "key": [1, 2], "arg5": false}"#
    );
    assert_eq!(words(&["a", "RED", "1"]).unwrap_err().to_string(), "key: is missing; its type is opaque<4>");
    assert!(
        words(&["nam=a"])
            .unwrap_err()
            .to_string()
            .starts_with(r#"there is no argument "nam"; did you mean name?"#)
    );
}
