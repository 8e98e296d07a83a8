//! A begun call that is in no table of a transport: the operations that its handle uses.

use std::task::Waker;
use stoop_exchange::Instant;

/// A begun call that is in no table of a transport. Its drop abandons it.
pub(crate) trait OtherCall<R>: Send + Sync {
    /// Whether it has ended.
    fn is_ready(&self) -> bool;

    /// Whether it has ended; if not, its end wakes `waker`.
    fn poll(&self, waker: &Waker) -> bool;

    /// Waits for its end, at most until that time. Returns whether it has ended.
    fn wait_until(&self, until: Instant) -> bool;

    /// Its value, if it has ended; once.
    fn take(&mut self) -> Option<R>;

    /// Lets it go on without its handle.
    fn detach(self: Box<Self>);
}
