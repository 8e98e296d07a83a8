//! The calls that have been sent on a connection, as their handles see them.

use crate::calling::begun::{BeginsCalls, CallBatch, Outcome, OutstandingCalls};
use crate::calling::completion_table::CompletionTable;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::receive_role::{Pause, RoleGuard};
use crate::calling::table_lock::{self, Registered};
use crate::calling::waiting_thread::WaitingThread;
use crate::error::CallError;
use crate::onc::caller::connection::{Connection, Receiver, SentCall};
use crate::onc::caller::link::Arrival;
use std::sync::atomic::Ordering;
use std::task::Waker;
use stoop_net::clock;
use stoop_onc::Instant;

impl OutstandingCalls for Connection {
    fn server(&self) -> String {
        self.place.to_string()
    }

    fn is_ready(&self, call: u32) -> bool {
        self.has_ended(call)
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        table_lock::register(&self.state, call, waker) == Registered::Ended
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        let place = loop {
            if let Some(place) = self.ended_among(calls) {
                break place;
            }
            if self.is_lost.load(Ordering::Acquire) {
                self.end_all();
                continue;
            }
            // One of the calls ends then.
            let earliest_ns = calls.iter().map(|&call| self.state().table.deadline_ns(call)).min();
            let limit_ns = until.as_nanos().min(earliest_ns.unwrap_or(u64::MAX));
            if clock::now_ns() >= limit_ns {
                self.handle_timeouts();
                break self.ended_among(calls)?;
            }
            if let Some(role) = self.role.try_take().or_else(|| self.follow(calls, limit_ns)) {
                self.receive_until(role, calls, limit_ns);
            }
        };
        self.used_ns.store(clock::coarse_now_ns(), Ordering::Relaxed);
        Some(place)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        table_lock::take(self, &self.state, call, with)
    }

    /// The reply will match nothing.
    fn cancel(&self, call: u32) {
        let mut state = self.state();
        let (given_up, waker) = state.table.abandon(call);
        if let Some(SentCall { xid, is_begun, .. }) = given_up {
            state.calls.cancel(xid);
            self.begun.fetch_sub(usize::from(is_begun), Ordering::SeqCst);
        }
        drop(state);
        drop(waker);
    }

    /// The background thread drops the reply when it comes. Over UDP the call is sent again as long as the connection is there.
    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let mut state = self.state();
        let waker = state.table.detach(call, ordered);
        if state.table.detached() > 0 {
            state.kept = self.itself.upgrade();
        }
        drop(state);
        drop(waker);
    }

    fn has_left(&self, _: u32) -> bool {
        true
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.state().table.reclaim(which)
    }

    fn detached(&self) -> usize {
        self.state().table.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.state().table.failures);
    }
}

/// A client of Sun RPC begins its calls itself, and asks for no batch.
impl BeginsCalls for Connection {
    fn open_batch(&self, _: u64) -> CallBatch {
        begins_itself()
    }

    fn begin(&self, _: &mut CallBatch, _: u16, _: usize) -> Result<u32, CallError> {
        begins_itself()
    }

    fn submit(&self, _: CallBatch) {
        begins_itself()
    }
}

#[cold]
fn begins_itself() -> ! {
    unreachable!("a client of Sun RPC begins its calls itself")
}

/// A connection that was not used for so long is looked at before a call: servers close idle ones.
const IDLE_NS: u64 = 1_000_000_000;

impl Connection {
    /// Whether the server has closed it while no call was in flight.
    pub(super) fn was_closed(&self, now_ns: u64) -> bool {
        let idle_ns = now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed));
        idle_ns >= IDLE_NS && self.state().calls.is_empty() && self.link.is_readable() && self.has_ended_now()
    }

    /// Receives what is there, which need not be the end: a reply that came late, or a message of TLS.
    #[cold]
    fn has_ended_now(&self) -> bool {
        // A thread that has the role finds the end.
        let Some(mut role) = self.role.try_take() else { return false };
        match self.link.receive(&mut role.incoming, 0) {
            Ok(Arrival::Bytes(len)) => self.take_in(&mut role.incoming, len, clock::now_ns()),
            Ok(_) => {}
            Err(_) => self.lose(),
        }
        self.is_lost.load(Ordering::Relaxed)
    }

    fn has_ended(&self, call: u32) -> bool {
        match CompletionTable::covers(call) {
            true => self.completions.has_ended(call),
            false => self.state().table.has_ended(call),
        }
    }

    pub(super) fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    /// Another thread receives. Waits until one of the calls has ended, or until the role is free.
    fn follow(&self, calls: &[u32], limit_ns: u64) -> Option<RoleGuard<'_, Receiver>> {
        let thread = WaitingThread::current();
        let is_over = || self.ended_among(calls).is_some() || self.is_lost.load(Ordering::Acquire);
        let pause = || match limit_ns.saturating_sub(clock::now_ns()) {
            0 => Pause::End,
            left_ns => Pause::Sleep(left_ns),
        };
        table_lock::attend(&self.state, calls, |_| self.role.follow(&thread, is_over, pause)).flatten()
    }
}
