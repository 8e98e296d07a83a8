//! Values without their types have the bytes that their types give them, and every type can be shown and taken as JSON.

#![allow(unreachable_pub, reason = "modules of other tests")]

mod common;
mod depth;
mod hostile;
mod json;
mod messages;
/// The corpus of all types, in which every value is checked by [`common::assert_travels`].
#[path = "../../../marshal/tests/marshal/round_trip.rs"]
mod round_trip;
mod rust;
#[cfg(feature = "x")]
mod sun;
