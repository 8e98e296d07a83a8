//! The native form of values.

#[path = "../common/mod.rs"]
mod common;

mod depth;
mod forms;
mod hostile;
mod instructions;
mod round_trip;
