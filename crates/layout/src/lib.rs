//! Checks that the folders of a crate form layers: imports point down, and no circle of them passes through a folder.
//!
//! The rule holds in every folder of the source tree. Its direct files and its subfolders are the nodes there; a subfolder
//! stands for all that lies below it, and `foo.rs` beside `foo/` belongs to that folder. An arrow leads from the file that
//! names an item to the file that defines it. Then
//!
//! - no circle of arrows passes through a subfolder, and
//! - a circle among direct files has at most [`MAX_CIRCLE`] files.
//!
//! An import is a `use`, or a path written out in an expression, a type, a pattern or the arguments of a macro. A name that
//! is imported through a re-export leads to the file that defines it; re-exports and `mod` lines themselves are no arrows.
//! Test modules and items are left out. A name that a macro's own text mentions counts only if it begins with `crate`.

#![forbid(unsafe_code)]

mod attributes;
mod folders;
mod graph;
mod imports;
mod layers;
mod modules;
mod names;
mod resolve;
mod sources;

pub use folders::{Fault, MAX_CIRCLE, faults};
pub use imports::{Import, imports};
pub use layers::layers;
pub use modules::Error;
pub use sources::Sources;

#[cfg(test)]
mod tests;
