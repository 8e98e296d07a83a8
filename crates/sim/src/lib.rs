//! A seeded simulator for the packet exchange, and for Sun RPC ([`run_sun_seed`]): callers, a server and a bad network in one thread, on a virtual clock.
//!
//! The protocol that runs is the one that ships ([`stoop_exchange`]); simulated are the network, the processes around it and
//! the time. The ledger knows what both sides did and complains as soon as a promise is broken: no call is executed
//! twice or after its caller was told that it did not run, no result reaches another call, every byte of a message is
//! the one that was sent, of one lane no two calls run at once, every call ends by its deadline, no sender goes beyond
//! what its receiver asked for, nothing stays in flight, the server's memory is bounded, timers advance, and in the end
//! everything comes to rest.
//!
//! There are four [families](Family) of worlds: in one, messages are a packet; in another they are up to hundreds of
//! kilobytes, lines have rates and queues, sockets fill, bits flip, and calls are cancelled; in the third, callers have more
//! calls than the servers can do, keep to credits, send refused calls again, and go from one server to the next; in the fourth,
//! bindings are sealed, and an attacker is on the way.
//!
//! Calls with pipes have worlds and a ledger of their own ([`run_pipe_seed`]), and so have callbacks ([`run_callback_seed`]).
//!
//! Small worlds are searched instead: [`Sim::search`] goes through every way in which a few things can go wrong.
//! `tests/throughput.table` says how fast messages travel.
//!
//! The same seed gives the same run. `cargo test -p stoop-sim` runs 10,000 of the first family and 1,000 of each other; a
//! longer run is `cargo run --release -p stoop-sim -- [--large | --load | --sealed | --pipes] --seeds 1000000`. `STOOP_TRACE=1` prints every event.
#![forbid(unsafe_code)]

mod bundles;
mod by_hand;
mod callbacks;
mod caller_process;
mod clock;
mod events;
mod invariants;
mod ledger;
mod machines;
mod network;
mod pipes;
mod planted;
mod random;
mod report;
mod run;
mod sabotage;
mod scenario;
mod sealed;
mod server_process;
mod sun;
mod task;
mod violation;
mod world;

pub use callbacks::{CallbackReport, CallbackSabotage, run_callback_seed};
pub use clock::Stop;
pub use ledger::{CallId, Told};
pub use network::{Address, FRAME_OVERHEAD, Faults, Line, Losses, Side};
pub use pipes::{PipeReport, PipeSabotage, run_pipe_seed, search_pipes};
pub use random::{Random, Script};
pub use report::Report;
pub use sabotage::Sabotage;
pub use scenario::{Scenario, Span};
pub use sun::{SunReport, SunSabotage, run_sun_seed};
pub use violation::{Family, Violation};
pub use world::Sim;
