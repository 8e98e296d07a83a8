//! Decides what becomes of calls: of one whose attempt gave no result, and of callbacks that come to a client.
//!
//! Blocking and begun calls of all transports, and the simulator's callers, ask [`life`]; clients that offer objects, and those of the
//! simulator, ask [`callbacks`]. Both know no threads, no clock and no table.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod callbacks;
pub mod life;
