//! The background thread's work for calls to a server of this process: it ends polled calls at their deadlines.

use crate::calling::background::{Background, Driven, Rest};
use crate::transport::local::begun::{Calls, LOOK_EVERY};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_net::clock;

impl Driven for Calls {
    type Memory = ();

    fn background(&self) -> &Background {
        &self.background
    }

    /// Ends calls whose deadlines have passed.
    fn run_due(self: &Arc<Self>, (): &mut ()) -> Rest {
        self.expire(clock::now_ns());
        let looks_ns = self.next_look_ns();
        self.looks_ns.store(looks_ns, Ordering::SeqCst);
        // A thread that registers a waker for an earlier deadline sees the time just stored, or its call is seen here.
        match looks_ns.min(self.next_look_ns()) {
            u64::MAX => Rest::Idle,
            looks_ns => {
                let left = Duration::from_nanos(looks_ns.saturating_sub(clock::now_ns()));
                Rest::For(left.min(LOOK_EVERY))
            }
        }
    }

    fn has_nothing_to_do(&self) -> bool {
        self.next_look_ns() == u64::MAX
    }

    fn bind_again(self: &Arc<Self>) {}
}
