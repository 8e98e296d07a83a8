//! The compiler's messages about mistakes: `errors.txt` has each with its place and text.
//!
//! With `UPDATE=1` in the environment, the file is written.

use std::fmt::Write;
use std::path::Path;
use stoop_x::{Options, compile};

const MISTAKES: &[&str] = &[
    "struct point {\n\tint x\n};",
    "struct point {\n\tint x;\n\tint type name;\n};",
    "structure point { int x; };",
    "struct point { int x; }",
    "struct int { int x; };",
    "struct point { opaque x; };",
    "struct point { string name; };",
    "struct point { string name[4]; };",
    "struct point { int x[2][3]; };",
    "struct point { int *x<>; };",
    "struct point { int x<4; };",
    "struct point { int x[many]; };",
    "struct point { int x[-1]; };",
    "struct point { missing x; };",
    "struct point { int x; int x; };",
    "struct point { int x; };\nstruct point { int y; };",
    "struct point { point x; };",
    "struct a { b x; };\nstruct b { a x; };",
    "typedef a b;\ntypedef b a;",
    "typedef void nothing;",
    "const A = B;\nconst B = A;",
    "const A = 12x;",
    "const A = 1 / 0;",
    "const A = \"text;",
    "const A = \"text\";\nconst B = A + 1;",
    "const A = 1;\nconst A = 2;",
    "enum e { A = 1 B = 2 };",
    "enum e { A = 5000000000 };",
    "enum e { A };\nenum f { A };",
    "union u switch (float f) { case 1: void; };",
    "union u switch (int i) { void; };",
    "union u switch (int i) { case 1: void; case 1: int x; };",
    "union u switch (bool b) { case 2: void; };",
    "enum e { A };\nunion u switch (e x) { case 7: void; };",
    "union u switch (int i) { default: void; default: int x; };",
    "program P { version V { void NULL(void, int) = 0; } = 1; } = 1;",
    "program P { version V { void A(void) = 1; void B(void) = 1; } = 1; } = 1;",
    "program P { version V { void A(void) = 1; } = 1; version W { void A(void) = 1; } = 1; } = 1;",
    "program P { version V { void A(void); } = 1; } = 1;",
    "program P { void A(void) = 1; } = 1;",
    "const A = 1; /* never closed",
    "const A = 1 @ 2;",
    "#if 1\nconst A = 1;",
    "#else\n",
    "#if 1\n#else\n#else\n#endif",
    "#if 1 +\n#endif",
    "#include \"other.x\"",
    "#include other.x",
    "#frobnicate",
    "#error this file needs -DVERSION",
    "#define F(x) F(x) x\n#define G(x) F(x) G\nconst A = G(G(1));",
];

#[test]
fn mistakes_are_reported_with_their_place_and_what_was_expected() {
    let mut reports = String::new();
    for text in MISTAKES {
        let compiled = compile("in.x", text, &Options::new(), &mut stoop_x::no_includes());
        let error = compiled.expect_err(text);
        writeln!(reports, "{error}\n").expect("a string takes all");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, reports).expect("the file can be written");
        return;
    }
    let expected = std::fs::read_to_string(path).expect("the file can be read");
    assert_eq!(reports, expected, "run with UPDATE=1 if the change is meant");
}

#[test]
fn a_mistake_in_an_included_file_is_reported_there() {
    let mut include = |name: &str, from: &str| {
        assert_eq!((name, from), ("types.x", "in.x"));
        Ok(("dir/types.x".to_owned(), "\n\nstruct {".to_owned()))
    };
    let compiled = compile("in.x", "#include <types.x>\n", &Options::new(), &mut include);
    let error = compiled.expect_err("the included file is wrong");
    assert_eq!((error.file.as_str(), error.line, error.column), ("dir/types.x", 3, 8));
}

#[test]
fn files_that_include_each_other_end_with_an_error() {
    let mut include = |name: &str, _: &str| Ok((name.to_owned(), "#include \"in.x\"".to_owned()));
    let compiled = compile("in.x", "#include \"in.x\"", &Options::new(), &mut include);
    assert!(compiled.expect_err("there is no end").message.contains("64 deep"));
}

#[test]
fn macros_that_grow_without_end_are_an_error() {
    let mut text = String::from("#define A0 1 1 1 1 1 1 1 1 1 1\n");
    for level in 1..12 {
        let before = format!("A{} ", level - 1);
        writeln!(text, "#define A{level} {}", before.repeat(10)).expect("a string takes all");
    }
    text += "const X = A11;";
    let compiled = compile("in.x", &text, &Options::new(), &mut stoop_x::no_includes());
    assert_eq!(compiled.expect_err("it grows to 10^12 tokens").line, 13);
}

#[test]
fn what_nests_without_end_is_an_error() {
    let structs = format!("{}{}", "struct a { struct { ".repeat(1000), "} x; };".repeat(1000));
    let parentheses = format!("const A = {}1;", "(".repeat(100_000));
    let sum = format!("const A = 1{};", " + 1".repeat(100_000));
    let namespaces = "namespace a { ".repeat(100_000);
    let constants: String = (0..10_000).map(|n| format!("const A{n} = A{};", n + 1)).collect();
    for text in [structs, parentheses, sum, namespaces, constants] {
        let compiled = compile("in.x", &text, &Options::new(), &mut stoop_x::no_includes());
        compiled.expect_err("it is too deep");
    }
}
