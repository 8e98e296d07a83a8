//! The form of values in Sun RPC.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
#[path = "../oracle/mod.rs"]
mod oracle;

mod depth;
mod golden;
mod hostile;
mod libtirpc;
mod refusals;
mod round_trip;
