//! Interface files of packages with their stubs. The compiler finds one warning, which is meant: so it has looked for all of them.

#![deny(warnings)]
#![allow(dead_code)]

fn main() {
    let meant = ();
}

include!(concat!(env!("CARGO_TARGET_TMPDIR"), "/packages.rs"));
