//! Written once for all servers: worker pool, the life of a call, dispatch, answers to binds.

pub(crate) mod acceptor;
pub(crate) mod activity;
mod answer_metadata;
pub(crate) mod binder;
pub(crate) mod counters;
pub(crate) mod dispatch;
pub(crate) mod drain;
#[cfg(feature = "seal")]
pub(crate) mod handshake_thread;
#[cfg(feature = "seal")]
pub(crate) mod handshakes;
pub(crate) mod here;
#[cfg(feature = "seal")]
pub(crate) mod identity;
pub(crate) mod intercepted;
pub(crate) mod message_memory;
pub(crate) mod one_call;
pub(crate) mod outcome;
pub(crate) mod procedure_time;
pub(crate) mod procedures;
pub(crate) mod restricted;
pub(crate) mod running;
pub(crate) mod service;
pub(crate) mod shares;
pub(crate) mod terms;
pub(crate) mod watched;
pub(crate) mod workers;
