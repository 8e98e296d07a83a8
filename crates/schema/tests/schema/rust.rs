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

#[test]
fn pipes_and_offered_objects_are_printed_as_the_trait_has_them() {
    let signatures = [
        "tail(from: u64, lines: pipe out str) -> u64",
        "put(parts: pipe in slice<u8>, sums: pipe out [u16])",
        "join(guest: Callback{client: u64}, at: pipe in P(u8))",
        "callback(offered: Guest_00112233445566ff{client: u64}, answers: pipe in slice<u8>, calls: pipe out slice<u8>)",
    ];
    let rust = interface(&signatures).rust();
    for line in [
        "#[stoop::interface(callback = Guest)]",
        "    fn tail(&self, from: u64, lines: stoop::Sender<str>) -> u64;",
        "    fn put(&self, parts: stoop::Receiver<[u8]>, sums: stoop::Sender<Vec<u16>>);",
        "    fn join(&self, #[callback] guest: GuestClient, at: stoop::Receiver<P>);",
    ] {
        assert!(rust.lines().any(|of| of == line), "{line}\n{rust}");
    }
    assert_eq!((rust.matches("fn ").count(), rust.matches("struct ").count()), (3, 1), "{rust}");
    let all = interface(&signatures);
    assert!(all.overview().starts_with("Store.tail(from: u64, lines: pipe out str) -> u64\n"));
    assert!(all.json().to_string().contains(r#""mode": "pipe in", "type": "slice<u8>""#), "{}", all.json());
    for wrong in ["f(a: pipe in u8, b: pipe in u8)", "one_way f(a: pipe in u8)", "f(a: pipe in slice<str>)"] {
        assert!(Signature::parse(wrong).is_err(), "{wrong}");
    }
}
