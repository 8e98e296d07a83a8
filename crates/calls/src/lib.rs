//! Decides what becomes of a call whose attempt gave no result.
//!
//! Blocking and begun calls of all transports, and the simulator's callers, ask [`life`]. It knows no bytes, no threads, no clock and
//! no table.

#![no_std]
#![forbid(unsafe_code)]

pub mod life;
