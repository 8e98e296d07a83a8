//! A Rust trait as an interface file: this compiler and rpcgen accept it, and values have the same form.

use std::process::Command;
use stoop_x::{Options, no_includes};

const RUST: &str = r#"
const KEY_LEN: u32 = 5;

#[derive(stoop::Data, stoop::Xdr)]
pub enum Colour { Red = 1, Blue = -5 }

#[derive(stoop::Data, stoop::Xdr)]
pub struct Entry {
    #[xdr(max = 255)]
    name: String,
    key: [u8; KEY_LEN],
    default: Vec<u8>,
    numbers: [u32; 3],
    others: Vec<Entry>,
    texts: Vec<String>,
    colour: Option<Colour>,
    next: Option<Box<Entry>>,
}

#[derive(stoop::Data, stoop::Xdr)]
pub enum Shape { Nothing, Dot(i64), Line { from: f64, to: f64 }, Group(Vec<Shape>) }

#[stoop::interface(program = 0x2000_0042, version = 2)]
pub trait Store {
    fn get(&self, name: &str, maybe: Option<&Entry>) -> Result<Entry, Colour>;
    fn put(&self, entry: &Entry, shapes: &[Shape]);
    #[procedure(9)]
    fn turn(&self, data: &mut [u8], #[out] count: &mut u32) -> bool;
    fn all(&self) -> Vec<Entry>;
}
"#;

#[test]
fn a_trait_prints_as_an_interface_file_that_is_accepted() {
    let text = stoop_stubgen::interface_file::of_text(RUST).expect("the trait can be printed");
    let compiled = stoop_x::compile("store.x", &text, &Options::new(), &mut no_includes());
    let rust = compiled.unwrap_or_else(|error| panic!("{error}\n{text}")).rust;
    for expected in
        ["pub const STORE_TURN: u32 = 9;", "pub const STORE_PROG: u32 = 536870978;", "pub enum Shape"]
    {
        assert!(rust.contains(expected), "{expected}:\n{rust}");
    }
    let path = std::env::temp_dir().join(format!("stoop-from-trait-{}.x", std::process::id()));
    std::fs::write(&path, &text).expect("a file can be written");
    for mode in ["-h", "-c", "-l", "-m"] {
        match Command::new("rpcgen").args(["-N", mode]).arg(&path).output() {
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && errors.is_empty(), "{mode}: {errors}\n{text}");
            }
            Err(why) => println!("SKIPPED: rpcgen: {why}"),
        }
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn what_cannot_be_printed_is_a_mistake_that_says_why() {
    let of = |rust: &str| stoop_stubgen::interface_file::of_text(rust).unwrap_err();
    assert!(of("trait Plain {}").contains("no trait here has"));
    let unknown = "#[interface(program = 1, version = 1)] trait A { fn a(&self, b: &Unknown); }";
    assert!(of(unknown).contains("no type with `#[derive(Xdr)]` in this file is called `Unknown`"));
}
