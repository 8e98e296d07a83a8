//! The layers of all crates, and the scripts of this repository.

mod decisions;
mod published;
mod test_output;
mod workspace;
