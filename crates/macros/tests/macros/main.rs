//! The stubs that the macros emit, and their errors.

#[path = "../mock/mod.rs"]
mod mock;

mod compiler;
mod gather;
mod modes;
mod names;
mod packages;
mod ui;
