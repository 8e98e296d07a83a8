//! The text of an interface file of Sun RPC.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_x::{Options, compile};

fuzz_target!(|text: &str| {
    let mut include = |name: &str, _: &str| match name {
        "types.x" => Ok((name.to_owned(), "typedef int types;\n#define T 1\n".to_owned())),
        _ => Err("there is only types.x".to_owned()),
    };
    match compile("in.x", text, &Options::new(), &mut include) {
        // The compiler has parsed it as Rust to format it.
        Ok(compiled) => assert!(compiled.rust.starts_with("// @generated")),
        Err(error) => {
            let lines = text.lines().count().max(3) + 1;
            assert!(error.line <= lines && error.column >= 1, "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
});
