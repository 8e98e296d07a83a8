//! The code that the compiler emits compiles without warnings, and works.

// A test does not use all that a protocol declares, and exports nothing.
#![allow(dead_code, unreachable_pub, clippy::enum_variant_names)]

mod calls;

mod everything {
    include!("everything.rs");
}

mod bytes {
    include!("bytes.rs");
}

mod borrowed {
    include!("borrowed.rs");
}

mod rfcs {
    stoop::x!("tests/golden/rfcs.x");
}

mod keywords {
    stoop::x!("tests/golden/keywords.x");
}

mod interfaces {
    include!("interfaces.rs");
}
