//! The command `stoop`.

#[cfg(not(feature = "lab"))]
mod absent;
#[cfg(feature = "lab")]
mod account;
#[cfg(feature = "lab")]
mod bench;
mod call;
mod check;
mod generate;
mod ping;
mod piped;
#[path = "../../../onc/tests/interop/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;
mod sun;
#[cfg(feature = "lab")]
mod tables;
mod top;
