//! Interfaces as Rust text. (That it compiles and binds, tests of the examples show.)

use stoop_schema::Signature;
use stoop_schema::rust::{Interface, Procedure};

fn interface(signatures: &[&str]) -> Interface {
    let procedure = |text: &&str| {
        let signature = Signature::parse(text).unwrap_or_else(|why| panic!("{why}: {text}"));
        Procedure { signature, idempotent: false, docs: String::new() }
    };
    let procedures = signatures.iter().map(procedure).collect();
    Interface { name: "Store".into(), procedures, ..Interface::default() }
}

#[test]
fn an_interface_is_printed_with_its_types_and_documentation() {
    let mut store = interface(&[
        "get(name: String) -> Option<Entry{name: String, kind: Kind{File | Folder(u8)}}>",
        "one_way put(entry: Entry{name: String, kind: Kind{File | Folder(u8)}}, overwrite: bool, type: Option<[u8]>)",
    ]);
    store.docs = "Entries by name.\n\nMore\u{1b}[2J.".into();
    store.procedures[0].docs = "The entry.".into();
    store.procedures[0].idempotent = true;
    store.types = [("Entry", "An entry."), ("Entry.name", "Its name."), ("Kind::File", "A file.")]
        .map(|(a, b)| (a.into(), b.into()))
        .into();
    assert_eq!(
        store.rust(),
        "\
/// Entries by name.
///
/// More\u{fffd}[2J.
#[stoop::interface]
pub trait Store {
    /// The entry.
    #[idempotent]
    fn get(&self, name: &str) -> Option<Entry>;
    #[one_way]
    fn put(&self, entry: &Entry, overwrite: bool, r#type: Option<&[u8]>);
}

/// An entry.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    pub kind: Kind,
}

#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub enum Kind {
    /// A file.
    File,
    Folder(u8),
}
"
    );
}

#[test]
fn namesakes_are_in_modules_of_their_own() {
    let text = interface(&[
        "f(a: P(u8), b: P#2(P), c: Store)",
        "g(a: P(P#2(u8)), b: String{x: P#2}) -> Result<(), String>",
    ])
    .rust();
    for line in [
        "    fn f(&self, a: &P, b: &p_2::P, c: &store_2::Store);",
        "    fn g(&self, a: &p_2::P, b: &String) -> Result<(), String>;",
        "pub mod p_2 {",
        "    pub struct P(pub super::P);",
        "pub struct String {",
    ] {
        assert!(text.lines().any(|of| of == line), "{line}\n{text}");
    }
}
