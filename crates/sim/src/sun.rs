//! Worlds of Sun RPC: callers, a server with a reply cache and a bad network, over the real `stoop_onc`.
//!
//! Sun RPC promises less than the packet exchange. The [ledger](ledger) checks what is left: a call ends once and by its
//! deadline; a result is that of its call; a call runs twice only if the server kept no reply of it; and a caller is told
//! that a call did not run only if that is true, as far as [`stoop_onc::outcome`] says that it can know.

mod caller;
mod ledger;
mod scenario;
mod server;
mod world;

pub use ledger::SunReport;
pub use world::run_seed as run_sun_seed;

/// A mistake that is built in, for tests of the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SunSabotage {
    /// None.
    None,
    /// The server runs every call that arrives.
    KeepsNoReplies,
    /// A caller whose deadline passes is told that its call did not run.
    SilenceIsNo,
    /// A refusal counts as certain after any number of transmissions.
    RefusalIsNo,
    /// A caller takes any reply for the result of its oldest call.
    IgnoresXids,
    /// A caller takes each error of its socket for one of its present call.
    TrustsOldSockets,
}
