use crate::{Fault, Sources, faults, imports, layers};
use std::collections::BTreeSet;
use std::path::Path;

fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let sources = files.iter().copied().collect::<Sources>();
    let (_, imports) = imports(&sources).expect("the tree is correct");
    let arrow = |from: &Path, to: &Path| format!("{} → {}", from.display(), to.display());
    let arrows: BTreeSet<_> = imports.iter().map(|import| arrow(&import.from, &import.to)).collect();
    arrows.into_iter().collect()
}

fn faults_of(files: &[(&str, &str)]) -> Vec<Fault> {
    let (files, imports) = imports(&files.iter().copied().collect()).expect("the tree is correct");
    faults(&files, &imports)
}

#[test]
fn circle_across_folders_is_found_and_its_weakest_arrow_named() {
    let faults = faults_of(&[
        ("lib.rs", "mod client; mod server;"),
        ("client/mod.rs", "mod call; pub struct Client;"),
        ("client/call.rs", "use crate::server::{Answer, Server};\nfn f(_: Server, _: Answer) {}"),
        ("server/mod.rs", "mod answer; pub use answer::Answer; pub struct Server;"),
        ("server/answer.rs", "\nuse crate::client::Client;\npub struct Answer(Client);"),
    ]);
    assert_eq!(faults.len(), 1);
    let fault = &faults[0];
    assert_eq!(fault.circle, ["client/", "server/", "client/"]);
    assert_eq!(fault.weakest, ("server/".into(), "client/".into()));
    let text = fault.to_string();
    assert!(
        text.contains("src/server/answer.rs:2: crate::client::Client (defined in client/mod.rs)"),
        "{text}"
    );
}

#[test]
fn circle_through_the_crate_root_is_found() {
    let faults = faults_of(&[
        ("lib.rs", "mod net; pub struct World(net::Link);"),
        ("net.rs", "mod line; pub use line::Link;"),
        ("net/line.rs", "pub struct Link; fn f(_: &crate::World) {}"),
    ]);
    assert_eq!(faults[0].circle, ["net/", "lib.rs", "net/"]);
}

#[test]
fn file_that_imports_its_own_folders_root_belongs_to_the_same_folder() {
    let faults = faults_of(&[
        ("lib.rs", "mod net;"),
        ("net.rs", "mod line; pub struct Net(line::Line);"),
        ("net/line.rs", "use super::Net; pub struct Line(Box<Net>);"),
    ]);
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn file_with_only_tests_beside_it_is_no_folder() {
    let faults = faults_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A(B); #[cfg(test)] mod tests;"),
        ("a/tests.rs", ""),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
    ]);
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn four_files_of_a_folder_may_form_a_circle_and_five_may_not() {
    let ring = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| (format!("f{n}.rs"), (n + 1) % count)).collect();
        let root: String = (0..count).map(|n| format!("mod f{n};")).collect();
        let texts: Vec<_> =
            names.iter().map(|(_, next)| format!("use crate::f{next}::X; pub struct X;")).collect();
        let mut files = vec![("lib.rs", root.as_str())];
        files.extend(names.iter().zip(&texts).map(|((name, _), text)| (name.as_str(), text.as_str())));
        faults_of(&files)
    };
    assert!(ring(4).is_empty());
    assert_eq!(ring(5)[0].tangle.len(), 5);
}

#[test]
fn import_through_a_reexport_leads_to_the_file_that_defines_the_item() {
    let arrows = arrows(&[
        ("lib.rs", "mod user; mod facade; pub use facade::Item;"),
        ("user.rs", "use crate::Item as Thing; use crate::facade::item::*; fn f(_: Thing) {}"),
        ("facade.rs", "pub(crate) mod item; pub use self::item::Item;"),
        ("facade/item.rs", "pub struct Item;"),
    ]);
    assert_eq!(arrows, ["user.rs → facade/item.rs"]);
}

#[test]
fn file_that_uses_what_it_reexports_has_the_arrow() {
    let files = |code| arrows(&[("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A;"), ("b.rs", code)]);
    assert!(files("pub use crate::a::A;").is_empty());
    assert_eq!(files("pub use crate::a::A; fn f(_: A) {}"), ["b.rs → a.rs"]);
}

#[test]
fn names_that_a_glob_brings_lead_to_their_definitions() {
    let arrows = arrows(&[
        ("lib.rs", "mod user; mod prelude; mod deep;"),
        ("user.rs", "use crate::prelude::*; fn f() -> Deep { make() }"),
        ("prelude.rs", "pub use crate::deep::*;"),
        ("deep.rs", "pub struct Deep; pub fn make() -> Deep { Deep }"),
    ]);
    assert_eq!(arrows, ["user.rs → deep.rs", "user.rs → prelude.rs"]);
}

#[test]
fn glob_of_an_enum_leads_to_the_enum() {
    let arrows = arrows(&[
        ("lib.rs", "mod kind; fn f(k: kind::Kind) { use kind::Kind::*; match k { A => {} } }"),
        ("kind.rs", "pub enum Kind { A }"),
    ]);
    assert_eq!(arrows, ["lib.rs → kind.rs"]);
}

#[test]
fn paths_in_expressions_types_patterns_and_macros_count() {
    let code = [
        "fn f() { crate::a::run(); }",
        "fn f(_: super::a::A) {}",
        "use super::a; fn f() { a::run() }",
        "fn f() { use crate::a::run; run() }",
        "fn f(x: u8) { let crate::a::A { .. } = x; }",
        "fn f() { assert!(crate::a::run()); }",
        "fn f() { println!(\"{}\", [(1, super::a::run())]); }",
        "macro_rules! m { () => { $crate::a::run() } }",
        "mod inner { fn f() { super::super::a::run() } }",
        "impl crate::a::A {}",
    ];
    for code in code {
        let arrows = arrows(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A; pub fn run() -> bool { true }"),
            ("b.rs", code),
        ]);
        assert_eq!(arrows, ["b.rs → a.rs"], "{code}");
    }
}

#[test]
fn tests_visibilities_quoted_code_and_other_crates_do_not_count() {
    let code = [
        "#[cfg(test)] mod tests { use crate::a::A; }",
        "#[cfg(all(test, not(loom)))] use crate::a::A;",
        "#[cfg(any(test, loom))] fn f(_: crate::a::A) {}",
        "#[test] fn f() { crate::a::run(); }",
        "struct S; impl S { #[cfg(test)] fn f(_: crate::a::A) {} }",
        "pub(in crate::a) struct S;",
        "fn f() { quote!(crate::a::run()); }",
        "fn f() { ::a::run(); other::a::run(); }",
        "fn f() { m!(::a::run()); }",
        "use crate::a;",
    ];
    for code in code {
        let arrows =
            arrows(&[("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct A; pub fn run() {}"), ("b.rs", code)]);
        assert!(arrows.is_empty(), "{code}: {arrows:?}");
    }
}

#[test]
fn code_for_builds_without_tests_counts() {
    let arrows = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", "#[cfg(not(test))] use crate::a::A; #[cfg(any(test, unix))] mod c {}"),
    ]);
    assert_eq!(arrows, ["b.rs → a.rs"]);
}

#[test]
fn module_with_a_path_of_its_own_is_read_from_there() {
    let arrows = arrows(&[
        ("lib.rs", "#[path = \"odd/place.rs\"] mod a; mod b;"),
        ("odd/place.rs", "pub struct A;"),
        ("b.rs", "use crate::a::A;"),
    ]);
    assert_eq!(arrows, ["b.rs → odd/place.rs"]);
}

#[test]
fn exported_macro_leads_from_the_root_to_the_file_that_defines_it() {
    let arrows = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "#[macro_export] macro_rules! list { () => {} }"),
        ("b.rs", "crate::list!();"),
    ]);
    assert_eq!(arrows, ["b.rs → a.rs"]);
}

#[test]
fn imports_that_lead_to_each_other_end() {
    let arrows = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::*; pub use crate::b::X;"),
        ("b.rs", "pub use crate::a::*; pub use crate::a::X; fn f(_: X, _: Y) {}"),
    ]);
    assert!(arrows.is_empty());
}

#[test]
fn module_without_a_file_is_an_error() {
    let error = imports(&[("lib.rs", "mod a;")].into_iter().collect()).expect_err("there is no such file");
    assert_eq!(error.to_string(), "lib.rs: no file for `mod a`");
}

#[test]
fn layers_are_printed_from_top_to_bottom() {
    let files = [
        ("lib.rs", "mod high; mod low; mod peer;"),
        ("high.rs", "mod one; mod two;"),
        ("high/one.rs", "use super::two::Two; use crate::peer::Peer; pub struct One;"),
        ("high/two.rs", "use super::one::One; pub struct Two;"),
        ("low.rs", "pub struct Low;"),
        ("peer.rs", "use crate::low::Low; pub struct Peer;"),
    ];
    let (files, imports) = imports(&files.into_iter().collect()).expect("the tree is correct");
    let expected = "\
high/  lib.rs
  high:
    high.rs  one.rs = two.rs
peer.rs
low.rs
";
    assert_eq!(layers(&files, &imports), expected);
}
