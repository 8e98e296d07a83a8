//! One model of an interface and one emitter of stubs, for every front end.
//!
//! A front end turns its syntax into a [`model::Interface`]; [`check::interface`] finds what cannot be called from
//! afar, and says what to write instead; [`emit::interface`] writes the stubs.

#![forbid(unsafe_code)]

pub mod check;
pub mod emit;
pub mod model;
