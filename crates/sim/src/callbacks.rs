//! Worlds of callbacks: a client that offers an object, and a server that calls it, also from procedures that the object's own procedures
//! call; either may end at any time.
//!
//! What decides is the code that ships: which callback of a client may run ([`stoop_calls::callbacks::Turns`]), and what records say. The
//! pipes in which records travel are simple here: what arrives does so in order, late if something was lost, until the session ends; pipes
//! have [worlds of their own](crate::run_pipe_seed). The server's table of outstanding callbacks, threads and locks are not in these
//! worlds: `stoop`'s tests run them.

mod client;
mod ledger;
mod server;
mod world;

pub use ledger::CallbackReport;
pub use world::run_callback_seed;

/// A mistake that is built in, for tests of the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackSabotage {
    /// None.
    None,
    /// A client answers a callback of a former session in the present one.
    AnswersInLaterSession,
    /// A server says of a callback whose client has gone that it has not run.
    LostIsNotRun,
    /// A client runs callbacks however many wait for calls of their own.
    DepthIsUnbounded,
    /// A client runs one-way callbacks while others wait for calls of their own.
    ForgetsOrder,
    /// A server waits for an answer also after the deadline.
    WaitsOn,
}
