//! The compiler's output for the files in `golden/` is the one under version control.
//!
//! With `UPDATE=1` in the environment, the files are written; the test `golden` then compiles and uses them.

use std::path::Path;
use stoop_x::{Options, Strings, build};

fn check(name: &str, options: &Options) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text =
        std::fs::read_to_string(folder.join(format!("{name}.x"))).expect("the golden file can be read");
    let compiled = stoop_x::compile(&format!("{name}.x"), &text, options, &mut build::includes(options));
    let rust = compiled.unwrap_or_else(|error| panic!("{error}")).rust;
    let path = folder.join(format!("{name}.rs"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, rust).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file can be read");
    assert_eq!(rust, golden, "{name}.x: run with UPDATE=1 if the change is meant");
}

#[test]
fn everything_of_the_language_is_emitted_as_before() {
    check("everything", &Options::new());
}

#[test]
fn strings_are_bytes_if_asked_for() {
    let options = Options::new().strings(Strings::Bytes);
    check("bytes", &options.extern_const("HANDLE_LEN", 16).extern_type("gid_t", "u32"));
}

#[test]
fn data_stays_where_it_was_received_if_asked_for() {
    check("borrowed", &Options::new().borrowed(true));
}

#[test]
fn versions_are_interfaces_if_asked_for() {
    check("interfaces", &Options::new().interfaces(true));
}
