//! What a mistake in an interface is answered with: where it points, and what it says to write instead.
//!
//! The answers are the `.stderr` files beside the mistakes; `STOOP_OVERWRITE=1 cargo test -p stoop-macros --test macros ui::`
//! writes them anew, to be read before they are committed.

use crate::compiler;
use std::path::{Path, PathBuf};

#[test]
fn mistakes_point_at_the_offending_token_and_say_what_to_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui").read_dir().expect("it is there");
    let names = folder.map(|entry| entry.expect("the folder can be read").file_name());
    let mistakes = names.map(|name| Path::new("tests/ui").join(name));
    let mistakes: Vec<PathBuf> =
        mistakes.filter(|path| path.extension().is_some_and(|x| x == "rs")).collect();
    compiler::answers_as_in_files(&mistakes);
}
