//! Written once for all callers: bindings, lanes, outstanding calls, and how threads wait.

pub(crate) mod background;
pub(crate) mod begun;
pub(crate) mod call_table;
pub(crate) mod completion_table;
pub(crate) mod counters;
pub(crate) mod deadline;
pub(crate) mod detached;
pub(crate) mod detaching;
pub(crate) mod fate;
pub(crate) mod handshake;
pub(crate) mod kept_memory;
pub(crate) mod lane_counters;
pub(crate) mod lanes;
pub(crate) mod order;
pub(crate) mod patience;
pub(crate) mod receive_role;
pub(crate) mod recovery;
pub(crate) mod refused_bind;
pub(crate) mod sessions;
pub(crate) mod short_result;
pub(crate) mod submission_queue;
pub(crate) mod table_lock;
pub(crate) mod timed_lock;
pub(crate) mod unbind_notice;
pub(crate) mod unpark;
pub(crate) mod waiting_thread;
