//! Answers that come later than their procedures return: what procedures, the emitted stubs and the worker pools share.

pub(crate) mod beginning;
pub(crate) mod deferred;
pub(crate) mod lent;
pub(crate) mod open_calls;
pub(crate) mod pipe_threads;
pub(crate) mod piped;
pub(crate) mod pool;
pub(crate) mod reply;
pub(crate) mod reply_error;
pub(crate) mod room;
pub(crate) mod tasks;
pub(crate) mod unserved;
pub(crate) mod waiting;
