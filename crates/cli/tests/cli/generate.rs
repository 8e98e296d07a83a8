//! `stoop gen x`: a file in, Rust out.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../x/tests/golden").join(name)
}

fn stoop(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.args(["gen", "x"]).args(arguments).current_dir(golden("")).output().expect("stoop can be started")
}

#[test]
fn an_interface_file_is_printed_as_rust_or_written_to_a_file() {
    let expected = fs::read_to_string(golden("bytes.rs")).expect("the golden file can be read");
    let arguments =
        ["bytes.x", "--strings", "bytes", "--extern-const", "HANDLE_LEN=16", "--extern-type", "gid_t=u32"];
    let printed = stoop(&arguments);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), expected);
    let path = std::env::temp_dir().join(format!("stoop-gen-{}.rs", std::process::id()));
    let path_text = path.to_str().expect("the name of a temporary file is text");
    assert!(stoop(&[&arguments[..], &["-o", path_text]].concat()).stdout.is_empty());
    let written = fs::read_to_string(&path).expect("the file was written");
    fs::remove_file(&path).expect("it can be removed");
    assert_eq!(written, expected);
}

#[test]
fn a_mistake_is_printed_with_its_place() {
    let output = stoop(&["bytes.x"]);
    assert!(!output.status.success() && output.stdout.is_empty());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with("bytes.x:4:16: no constant is called `HANDLE_LEN`"), "{message}");
}
