//! The background thread of a binding's begun calls: it receives, sends again and wakes tasks when no thread waits.
//!
//! Each binding that begins calls has one, because the thread sleeps in the kernel on that binding's endpoint.

use crate::calling::background::{Background, Driven, Rest, start_binding};
use crate::transport::packet::begun::PacketCalls;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::receiver::AFTER_THE_RECEIVER;
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::now;
use crate::transport::packet::session::Session;
use std::mem;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use stoop_exchange::Instant;

/// While calls are outstanding, the thread checks at this interval whether another thread receives.
const WATCH_EVERY: Duration = Duration::from_millis(5);

impl<L: PacketLink> Driven for PacketCalls<L> {
    /// How often threads had taken the receive role when this thread last ran.
    type Memory = u64;

    const LINGER: (u32, Duration) = (200, WATCH_EVERY);

    fn background(&self) -> &Background {
        &self.background
    }

    fn run_due(self: &Arc<Self>, receptions: &mut u64) -> Rest {
        let mut calls = self.calls();
        if self.needs_binding(&calls) {
            drop(calls);
            start_binding(self);
            return Rest::None;
        }
        if calls.outstanding == 0 {
            return Rest::Idle;
        }
        if calls.large.is_sending() {
            // Their thread has left that to this one.
            self.unlock(calls, &mut Wakeups::default());
            return Rest::None;
        }
        if calls.is_polled() {
            calls.forget_unpolled();
        }
        let unattended = mem::replace(receptions, calls.receptions) == calls.receptions;
        if (calls.wakers > 0 || calls.is_polled() || unattended)
            && let Some(role) = self.role.try_take()
        {
            calls.receptions += 1;
            drop(calls);
            self.attend(role);
            return Rest::None;
        }
        Rest::For(self.look_late(calls))
    }

    fn has_nothing_to_do(&self) -> bool {
        self.calls().outstanding == 0
    }

    fn bind_again(self: &Arc<Self>) {
        if self.make_apart() {
            return;
        }
        let left = self.calls().left();
        if let Some((session, deadline)) = left {
            return self.leave_server(&session, deadline);
        }
        let Some((lost, refusal, deadline)) = self.calls().lost() else { return self.look_elsewhere() };
        let attempted = now();
        let session = self.link.binding.rebind(&lost, refusal, deadline).ok();
        let mut calls = self.calls();
        calls.rebound(&lost, (attempted, deadline), session.as_ref());
        self.unlock(calls, &mut Wakeups::default());
    }
}

impl<L: PacketLink> PacketCalls<L> {
    /// If calls have failed because the server is perhaps elsewhere: goes there.
    fn look_elsewhere(&self) {
        if mem::take(&mut self.calls().doubts) {
            self.link.binding.look_elsewhere(Instant::NEVER);
            let mut calls = self.calls();
            calls.note_session();
            self.unlock(calls, &mut Wakeups::default());
        }
    }

    /// The server of `session` shuts down: goes to the next, if there is one by `deadline`.
    fn leave_server(&self, session: &Arc<Session>, deadline: Instant) {
        let has_left = self.link.binding.leave(session, deadline).is_ok();
        let present = self.link.binding.present();
        let mut calls = self.calls();
        match has_left {
            true => calls.rebound(session, (now(), deadline), Some(&present)),
            false => calls.stay(now()),
        }
        self.unlock(calls, &mut Wakeups::default());
    }

    /// Whether calls wait for another session, or the server is perhaps elsewhere, and no thread binds yet.
    #[inline]
    pub(crate) fn needs_binding(&self, calls: &Calls<L>) -> bool {
        let needs = calls.unbound > 0 || calls.doubts || calls.leaves;
        needs && !self.background.is_binding() && (!calls.leaves || calls.can_leave() || calls.is_split())
    }

    /// Whether the background thread has something to do when no thread has the receive role.
    #[inline]
    pub(crate) fn needs_background(&self, calls: &Calls<L>) -> bool {
        calls.wakers > 0 || calls.is_polled() || self.needs_binding(calls)
    }

    /// Handles the timeouts that no other thread has handled: the thread that receives may have slept since before the calls were begun, or
    /// a program may take long to answer an item whose receipt waits for the answer. Returns the time until the next look.
    fn look_late(&self, calls: MutexGuard<'_, Calls<L>>) -> Duration {
        let clock = now();
        let late = calls.next().due() + AFTER_THE_RECEIVER;
        if clock < late {
            return late.since(clock).min(WATCH_EVERY);
        }
        self.look_instead(calls, clock);
        AFTER_THE_RECEIVER
    }
}
