//! How to wait for what comes soon: spin for it, or sleep in the kernel.
//!
//! A wake-up between processors is the largest cost of a call: tens of microseconds, where a spinning
//! hand-over takes a fraction of one. But spinning uses a processor, and when the other end needs that
//! very processor, it waits for a whole time slice (8 ms). So [`Wait`] decides before each wait, from
//! what is known:
//!
//! - what a wake-up costs here: [`MachineCosts`], measured once per process;
//! - whether both ends can run at once, exchanged at bind: [`Company`];
//! - how many threads of this process are waiting now: [`Crowd`];
//! - how long this lane's waits were lately.

mod adaptive;
mod costs;
mod crowd;

pub use adaptive::{Company, Wait, WaitCounts};
pub use costs::MachineCosts;
pub use crowd::{Crowd, Member, Present};

/// How an end of a binding waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Spin for a bounded time while what is waited for is likely to come soon, then sleep in the kernel.
    #[default]
    Adaptive,
    /// Never sleep. For ends that each own a processor; when they share one, a call takes milliseconds.
    Spin,
    /// Sleep at once. The least processor time, and right when many callers share few processors.
    Block,
}
