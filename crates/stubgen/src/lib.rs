//! One model of interfaces and one emitter of stubs, shared by all front ends.
//!
//! A front end turns its syntax into a [`model::Interface`], as [`traits`] does for Rust; [`check::interface`] finds
//! what cannot be called from another process, and says what to write instead; [`emit::interface`] writes the stubs.

#![forbid(unsafe_code)]

pub mod check;
pub mod documentation;
pub mod emit;
#[cfg(feature = "interface-file")]
pub mod forms;
#[cfg(feature = "interface-file")]
pub mod interface_file;
pub mod mistakes;
pub mod model;
pub mod since;
pub mod traits;
pub mod types;
pub mod xdr;
