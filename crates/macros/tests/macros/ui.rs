//! What a mistake in an interface is answered with: where it points, and what it says to write instead.
//!
//! The answers are the `.stderr` files beside the mistakes; `TRYBUILD=overwrite cargo test -p stoop-macros --test macros ui::`
//! writes them anew, to be read before they are committed.

#[test]
fn mistakes_point_at_the_offending_token_and_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
