//! Headers that C text includes lead to the interface files beside them.

use std::path::PathBuf;
use stoop_x::{Compiled, Error, Options, build, compile};

/// Compiles the first of the files; the others can be included from it by name.
fn compiled(files: &[(&str, &str)]) -> Result<Compiled, Error> {
    let mut include = |name: &str, _: &str| {
        let found = files.iter().find(|(file, _)| *file == name);
        found.map(|(file, text)| (file.to_string(), text.to_string())).ok_or_else(|| format!("no {name}"))
    };
    compile(files[0].0, files[0].1, &Options::new(), &mut include)
}

fn names(compiled: &Compiled) -> Vec<&str> {
    compiled.model.definitions.iter().map(|definition| definition.name.as_str()).collect()
}

#[test]
fn definitions_that_a_file_uses_come_from_the_file_beside_a_header_and_no_others() {
    let used = "
        const LEN = 3; const OTHER = 4;
        enum status { OK = 0, LATE = 7 };
        struct object { opaque id[LEN]; detail *more; };
        struct detail { int depth; };
        struct unused { int x; };
        program P { version V { void NULL(void) = 0; } = 1; } = 9;";
    let text = "
        %#include \"objects.h\"
        struct call { object what; opaque rest<OTHER>; };
        union answer switch (status s) { case OK: object found; case LATE: void; };
        const NEXT = P;";
    let compiled =
        compiled(&[("call.x", text), ("objects.x", used)]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(names(&compiled), ["call", "answer", "NEXT", "status", "object", "detail"]);
    assert!(compiled.files.contains(&"objects.x".to_owned()), "{:?}", compiled.files);
}

#[test]
fn headers_are_followed_through_headers_and_cycles_end() {
    let compiled = compiled(&[
        ("a.x", "%#include \"a.h\"\n%# include \"b.h\" /* and more */\nstruct a { b x; c *y; };"),
        ("b.x", "%#include \"c.x\"\n%#include \"a.h\"\nstruct b { c *z; };"),
        (
            "c.x",
            "%#include \"b.h\"\n#ifdef RPC_SVC\n%#include \"missing.h\"\n#endif\nstruct c { int depth; };",
        ),
    ]);
    let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(names(&compiled), ["a", "c", "b"]);
}

#[test]
fn a_definition_of_the_file_itself_comes_first_and_an_included_one_second() {
    let compiled = compiled(&[
        ("a.x", "%#include \"b.h\"\n#include \"b.x\"\nconst N = 1;\nstruct mine { int x[N]; theirs y; };"),
        ("b.x", "struct theirs { int z; };"),
    ]);
    assert_eq!(names(&compiled.unwrap()), ["theirs", "N", "mine"]);
    let other = compiled_pair("struct s { int own; };\nstruct t { s x; };", "struct s { hyper theirs; };");
    assert!(other.rust.contains("own: i32") && !other.rust.contains("theirs"), "{}", other.rust);
}

fn compiled_pair(text: &str, header: &str) -> Compiled {
    compiled(&[("a.x", &format!("%#include \"b.h\"\n{text}")), ("b.x", header)]).unwrap()
}

#[test]
fn headers_of_the_system_are_passed_over() {
    let text = "%#include <objects.h>\n#include <rpc/types.h>\nstruct call { int x; };";
    let compiled = compiled(&[("call.x", text), ("objects.x", "neither is this text")]).unwrap();
    assert_eq!(names(&compiled), ["call"]);
    let text = "%#include <objects.h>\nstruct call { object what; };";
    assert!(self::compiled(&[("call.x", text), ("objects.x", "struct object { int x; };")]).is_err());
}

#[test]
fn a_mistake_in_a_file_beside_a_header_is_reported_there() {
    let error = compiled(&[("a.x", "%#include \"b.h\"\nconst A = 1;"), ("b.x", "\nstruct b { int x }")]);
    let error = error.expect_err("b.x is wrong");
    assert_eq!((error.file.as_str(), error.line), ("b.x", 2));
    let error = compiled(&[("a.x", "%#include \"b.h\"\nstruct a { b x; };"), ("b.x", "struct b { b x; };")]);
    assert_eq!(error.expect_err("it contains itself").file, "b.x");
}

#[test]
fn files_of_headers_lie_beside_the_file_or_in_a_folder_of_the_options() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("headers");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).expect("a folder can be made");
        std::fs::write(&path, text).expect("a file can be written");
        path
    };
    let a = write("own/a.x", "%#include \"b.h\"\nstruct a { b x; };");
    let b = write("shared/b.x", "%#include \"deep/c.h\"\nstruct b { c y; };");
    let c = write("shared/deep/c.x", "struct c { int z; };");
    let error = build::file(&a, &Options::new()).expect_err("b.x is in no place that is looked at");
    let advice = ["`%#include \"FILE.h\"`", "`--include-dir`", "`--include FILE.x`", "`--extern-type`"];
    assert!(advice.iter().all(|advice| error.contains(advice)), "{error}");
    let found = build::file(&a, &Options::new().include_dir(root.join("shared"))).unwrap();
    assert_eq!(names(&found), ["a", "b", "c"]);
    assert!(
        [a, b, c].iter().all(|path| found.files.contains(&path.display().to_string())),
        "{:?}",
        found.files
    );
}
