//! The layers of all crates, and the scripts of this repository.

mod test_output;
mod workspace;
