//! Worlds of calls with pipes: callers, a server and a bad network, over the real [`stoop_exchange`].
//!
//! The [ledger](ledger) sees both ends of every pipe. It checks after each step that what was delivered is a prefix of what was sent in
//! this execution, that a clean end means all of it, that an abort is no end, that no call is executed twice, that nothing is sent
//! beyond a limit that was told, that limits go no further than what the program has taken and the memory that is reserved, and that a
//! result comes with all that was sent before it. The network heals some time; then every call ends, and nothing is held.

mod caller;
mod ledger;
mod packets;
mod plan;
mod server;
mod world;

pub use ledger::PipeReport;
pub use world::{run_pipe_seed, search_pipes};

/// A mistake that is built in, for tests of the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeSabotage {
    /// None.
    None,
    /// Data of a call that has not come begins it.
    DataBeginsCalls,
    /// Data is taken for the lane's present call, whatever its number.
    IgnoresNumbers,
    /// Receipts are taken for the lane's present call, whatever their number.
    TakesOldReceipts,
    /// A receiver grants a window beyond what has arrived, and not beyond what its program has taken.
    GrantsWhatArrived,
    /// A receiver that takes no more says so once.
    SaysStopOnce,
    /// A sender that is dropped ends its pipe as if it were whole.
    DropIsEnd,
    /// A caller does not give back to the path what was in flight when its call ended.
    KeepsWindow,
    /// A server answers only when its pipe has room.
    ResultWaitsForRoom,
    /// A sender that may not send never asks for a receipt.
    NeverAsks,
    /// A caller whose session is lost makes its call again, although an item has been delivered.
    RetriesAfterItems,
    /// A server answers a call a second time, otherwise.
    AnswersTwice,
    /// A program that waits for room never has its receiver asked.
    NeverWants,
    /// A caller takes a failure for the end of its pipe, whatever was sent before it.
    FailureCutsPipe,
    /// A late answer is taken for that of the lane's present call.
    LateAnswers,
}
