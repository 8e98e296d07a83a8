//! Lines that are not in the language of interface files: C text, directives of the preprocessor, texts of RFCs.

use stoop_x::{Compiled, Error, Options, compile, no_includes};

fn compiled(text: &str) -> Result<Compiled, Error> {
    compile("in.x", text, &Options::new(), &mut no_includes())
}

fn names(text: &str) -> Vec<String> {
    let compiled = compiled(text).unwrap_or_else(|error| panic!("{error}"));
    compiled.model.definitions.into_iter().map(|definition| definition.name).collect()
}

#[test]
fn lines_without_a_meaning_here_are_passed_over() {
    let text = "
        #pragma ident \"@(#)in.x 1.1\"
        #ident \"in.x\"
        #line 12 \"in.x\"
        # 12 \"in.x\" 2
        #warning old
        #
        #include <rpc/types.h>
        %#pragma once
        %/* any C text { \" ' */
        %
        const A = 1;";
    assert_eq!(names(text), ["A"]);
}

#[test]
fn conditions_and_macros_are_those_of_the_preprocessor() {
    let text = "
        #define LEN 3
        #define TWICE(x) ((x) * 2)
        %#define C_LEN 5
        #ifdef RPC_HDR
        const HEADER = LEN;
        #endif
        #if defined(RPC_XDR) || defined RPC_SVC || defined RPC_CLNT || defined RPC_TBL
        neither of these is defined
        #elif TWICE(LEN) == 6
        const DOUBLE = TWICE(LEN);
        #else
        nor this text
        #endif
        #undef LEN
        #ifndef LEN
        const FROM_C = C_LEN;
        #endif";
    assert_eq!(names(text), ["HEADER", "DOUBLE", "FROM_C"]);
}

#[test]
fn other_directives_are_refused_by_name() {
    for (line, expected) in [
        ("#import \"a.x\"", "no directive `#import`"),
        ("#assert machine(sparc)", "no directive `#assert`"),
        ("#error not for you", "#error not for you"),
        ("#include \"a.x\"", "`a.x` cannot be included"),
        ("#include <a.x>", "`a.x` cannot be included"),
        ("#endif", "`#endif`"),
        ("#define GLUED(x, y) x ## y", "unexpected character `#`"),
    ] {
        let error = compiled(&format!("{line}\nconst A = 1;")).expect_err(line);
        assert!(error.message.contains(expected) && error.line == 1, "{line}: {error}");
    }
}

#[test]
fn an_interface_behind_triple_slashes_is_read_as_rfc_7531_says() {
    let text = "
        /// /*
        ///  * This file was machine generated for [RFC7530].
        ///  */
        /// %#include <rpc/auth_sys.h>
        ///
        /// const NFS4_FHSIZE             = 128;
        /// typedef uint32_t        bitmap4<>;
        /// typedef opaque  nfs_fh4<NFS4_FHSIZE>;
        ///
        /// union open_claim4 switch (nfs_opnum4 claim) {
        ///  case OP_ACCESS:
        ///         bitmap4 mask;
        ///  case OP_ILLEGAL:
        ///         void;
        /// };
        ///enum nfs_opnum4 { OP_ACCESS = 3, OP_ILLEGAL = 10044 };";
    assert_eq!(names(text), ["NFS4_FHSIZE", "bitmap4", "nfs_fh4", "open_claim4", "nfs_opnum4"]);
    // Places are those of the text.
    let error = compiled("\n  /// const A = 1;\n  /// const B = C;").expect_err("there is no C");
    assert_eq!((error.line, error.column), (3, 17));
    // Beside definitions they are comments.
    assert_eq!(names("/// const A = 1;\nconst B = 2;"), ["B"]);
}

#[test]
fn the_tag_of_a_struct_may_come_before_its_name_wherever_it_is_used() {
    let text = "
        struct foo { int x; struct foo *next; };
        struct bar { struct foo *first; struct foo all<>; struct foo few[2]; struct foo one; enum hue h; };
        enum hue { RED = 1 };
        typedef struct foo *list;
        union u switch (enum hue h) { case RED: struct foo *chosen; };
        program P { version V { struct foo A(struct foo *, struct bar b) = 1; } = 1; } = 1;";
    assert_eq!(names(text), ["foo", "bar", "hue", "list", "u", "P"]);
}

#[test]
fn mistakes_near_the_extensions_are_told() {
    let error =
        compiled("enum bool { FALSE = 1, TRUE = 0 };").expect_err("this is not the language's `bool`");
    assert!(error.message.contains("`bool` is a word of the language"), "{error}");
    let error = compiled("struct a { a *next } b;").expect_err("a semicolon is missing");
    assert!(error.message.contains("expected `;`"), "{error}");
    let error = compiled("struct a { int x; }\nstruct b { int x; };").expect_err("a semicolon is missing");
    assert_eq!((error.line, error.message.contains("expected `;`")), (2, true), "{error}");
}
