//! The addresses of a server at which callers speak Sun RPC.

pub(crate) mod answer;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod datagrams;
pub(crate) mod exported;
pub(crate) mod listener;
pub(crate) mod options;
pub(crate) mod program_times;
pub(crate) mod registration;
#[cfg(feature = "seal")]
pub(crate) mod sealing;
#[cfg(feature = "seal")]
pub(crate) mod stage;
pub(crate) mod streams;

use stoop_wire::RefusalCode;

/// Of a refused call: Sun RPC has no words for the reason.
const NO_REASON: RefusalCode = RefusalCode::Other(0);
