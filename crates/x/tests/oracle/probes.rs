//! The compiler accepts each file that rpcgen accepts.

use crate::programs::{Folder, missing};
use std::process::Command;
use stoop_x::{Options, compile, no_includes};

/// Odd spellings, each a file of its own. Some are accepted by neither; what matters is that rpcgen is not alone.
const PROBES: &[&str] = &[
    "const A = 1;",
    "const A = -1;",
    "const A = 0x1F;",
    "const A = 017;",
    "const A = B;\nconst B = 3;",
    "const A = \"text\";",
    "const A = 4294967295;",
    "#define N 4\nstruct s { int a<N>; };",
    "#define F(x) x\nconst A = F(3);",
    "#if defined(RPC_HDR) && !defined(NOT)\nstruct s { int a; };\n#endif",
    "#ifdef RPC_XDR\nstruct s { int a; };\n#elif 1\nstruct s { int b; };\n#else\nneither\n#endif",
    "  # define N 3\nstruct s { opaque a[N]; };",
    "%any C at all {{{ \"\nconst A = 1;",
    "%\nconst A = 1;\n%#ifdef X\n%#endif",
    "/* a * comment ** / */ const A /* here */ = 1; /**/",
    "/*\n% not C\n*/ const A = 1;",
    "const A = \\\n 1;",
    "enum e { A, B, C };",
    "enum e { A = 1, B, C = A };",
    "enum e { A = -5 };",
    "const N = 7; enum e { A = N };",
    "enum e { A = 0xffffffff };",
    "enum e { };",
    "enum e { A, };",
    "struct s { int a; unsigned b; unsigned int c; long d; unsigned long e; short f; unsigned short g; char h; unsigned char i; };",
    "struct s { hyper a; unsigned hyper b; float c; double d; bool e; long int f; short int g; unsigned long int h; hyper int i; };",
    "struct s { u_int a; u_long b; u_char c; u_short d; int64_t e; uint8_t f; u_int32_t g; bool_t h; int32_t i; quad_t j; };",
    "struct s { long long a; };",
    "struct s { quadruple a; };",
    "struct s { longlong_t a; u_longlong_t b; };",
    "struct s { };",
    "struct s { void; };",
    "struct s { opaque a[4]; opaque b<4>; opaque c<>; string d<4>; string e<>; };",
    "struct s { opaque a; };",
    "struct s { string a; };",
    "struct s { string a[4]; };",
    "struct s { int a[2][3]; };",
    "struct s { int *a; struct s *next; s *other; };",
    "struct s { int *a<>; };",
    "struct s { string *a; };",
    "struct s { opaque *a; };",
    "struct s { t a; }; struct t { int b; };",
    "struct s { struct t a; enum e b; union u c; }; struct t { int b; }; enum e { A }; union u switch (int x) { case 1: void; };",
    "struct s { struct { int a; } b; };",
    "struct s { int type; int self; int fn; int match; int ref; int mut; };",
    "typedef int t; typedef t u; typedef u v<5>; typedef v w[2];",
    "typedef struct s *list; struct s { int a; list next; };",
    "typedef opaque t<100>; typedef string u<>; typedef opaque v[8]; typedef t *w;",
    "typedef unsigned t; typedef unsigned int u; typedef struct s v; struct s { int a; };",
    "typedef enum e t; enum e { A };",
    "union u switch (int x) { case 1: int a; case 2: case 3: string b<>; case -4: void; default: opaque c<>; };",
    "union u switch (unsigned x) { case 1: int a; };",
    "union u switch (unsigned int x) { case 0: int *a; case 1: int b[3]; case 2: int c<3>; };",
    "union u switch (bool x) { case TRUE: int a; case FALSE: void; };",
    "union u switch (bool x) { case 1: int a; case 0: void; };",
    "union u switch (hyper x) { case 1: int a; };",
    "enum e { A, B }; union u switch (e x) { case A: int a; default: void; };",
    "enum e { A, B }; union u switch (enum e x) { case A: int a; };",
    "enum e { A, B }; union u switch (e x) { case 0: int a; };",
    "const N = 1; union u switch (int x) { case N: int a; };",
    "union u switch (int x) { case 'a': int a; };",
    "union u switch (int x) { default: void; };",
    "union u switch (char x) { case 1: void; };",
    "program P { version V { void NULL(void) = 0; } = 1; } = 0x20000000;",
    "program P { version V { int A(int) = 1; string B(string) = 2; bool C(unsigned) = 3; } = 1; version W { void A() = 1; } = 2; } = 9;",
    "program P { version V { int A(int, string<5>, unsigned hyper) = 1; } = 1; } = 9;",
    "program P { version V { int A(int left, int right) = 1; void B(void none) = 2; } = 1; } = 9;",
    "struct s { int a; }; program P { version V { struct s A(struct s) = 1; s B(s *) = 2; } = 1; } = 9;",
    "program P { version V { } = 1; } = 9;",
    "program P { } = 9;",
    "program P { version V { void A(void) = 0; } = 0; } = 0;",
    "const N = 7; program P { version V { void A(void) = N; } = N; } = N;",
    "program P { version V { void A(void) = 1; } = 1; } = 9; program Q { version V { void A(void) = 1; } = 1; } = 10;",
    "program P { version V { opaque A(void) = 1; } = 1; } = 9;",
    "program P { version V { int *A(void) = 1; } = 1; } = 9;",
    "struct s { netobj a; };",
    "const A = 1;;",
    "struct version { int a; };",
    "struct s { int program; };",
];

#[test]
fn what_rpcgen_accepts_is_accepted() {
    if let Some(why) = missing() {
        return println!("SKIPPED: what_rpcgen_accepts_is_accepted: {why}");
    }
    let folder = Folder::new("probes");
    let mut accepted = 0;
    for probe in PROBES {
        std::fs::write(folder.0.join("in.x"), probe).expect("a file can be written");
        let accepts = |mode: &str| {
            let mut rpcgen = Command::new("rpcgen");
            rpcgen.args(["-N", mode, "in.x"]).current_dir(&folder.0);
            rpcgen.output().expect("rpcgen can be started").status.success()
        };
        if !["-h", "-c", "-l", "-m"].into_iter().all(accepts) {
            continue;
        }
        accepted += 1;
        let compiled = compile("in.x", probe, &Options::new(), &mut no_includes());
        compiled.unwrap_or_else(|error| panic!("rpcgen accepts this:\n{probe}\n{error}"));
    }
    assert!(accepted > PROBES.len() / 2, "rpcgen accepts most of the probes, but only {accepted} here");
}
