//! The stubs that the macros emit, and their errors.

#[path = "../mock/mod.rs"]
mod mock;

mod gather;
mod instructions;
mod modes;
mod names;
mod packages;
mod ui;
