//! How a thread waits for begun calls: it receives, unless another thread does; then that thread notifies it.

use crate::calling::background::Driven;
use crate::calling::receive_role::Pause;
use crate::calling::waiting_thread::WaitingThread;
use crate::transport::stream::begun::{Outstanding, locked};
use crate::transport::stream::caller::session::{Lost, Role, Session};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use stoop_net::clock;
use stoop_net::waiting::Waiter;

/// A thread whose call waits for another connection looks at least so often whether there is one; and a thread that receives while a
/// long call leaves, whether that has ended.
pub(super) const LOOK_EVERY_NS: u64 = 5_000_000;

impl Outstanding {
    /// Waits until one of these calls has ended, at most until that time.
    pub(super) fn wait_any(self: &Arc<Self>, calls: &[u32], until_ns: u64) -> Option<usize> {
        if let Some(place) = self.ended_among(calls) {
            return Some(place);
        }
        self.submit();
        let mut waiter = locked(&self.waiters).pop().unwrap_or_else(|| self.waiter());
        let place = loop {
            let now_ns = clock::now_ns();
            self.receive_and_expire(now_ns);
            if let Some(place) = self.ended_among(calls) {
                break Some(place);
            }
            if until_ns <= now_ns {
                break None;
            }
            let limit_ns = until_ns.min(self.earliest_ns(calls));
            self.wait_once(&mut waiter, calls, now_ns, limit_ns);
            self.wake_all();
        };
        locked(&self.waiters).push(waiter);
        place
    }

    pub(super) fn waiter(&self) -> Waiter {
        Waiter::new(self.binding.options.waiting, self.binding.present().placement)
    }

    fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        calls.iter().position(|&call| self.has_ended(call))
    }

    fn earliest_ns(&self, calls: &[u32]) -> u64 {
        let state = self.state();
        calls.iter().map(|&call| state.calls.deadline_ns(call)).min().unwrap_or(u64::MAX)
    }

    /// Waits until something has happened, at most until that time.
    fn wait_once(self: &Arc<Self>, waiter: &mut Waiter, calls: &[u32], now_ns: u64, limit_ns: u64) {
        let session = self.binding.present();
        if session.is_lost() || session.is_closing() || self.are_elsewhere(calls, &session) {
            // The background thread binds again, and receives.
            self.wake_background();
            let limit_ns = limit_ns.min(now_ns + LOOK_EVERY_NS);
            return self.attend(calls, || sleep(limit_ns));
        }
        match session.role.try_take() {
            Some(role) => {
                let is_over = || self.ended_among(calls).is_some();
                self.receive(&session, role, waiter, (&is_over, false), (now_ns, limit_ns));
            }
            None => self.follow(&session, waiter, calls, limit_ns),
        }
    }

    /// Receives with the role until what the thread waits for has come; or, unless it `stays`, until the server shuts down.
    pub(super) fn receive(
        self: &Arc<Self>,
        session: &Session,
        mut role: Role<'_>,
        waiter: &mut Waiter,
        (is_over, stays): (&impl Fn() -> bool, bool),
        (now_ns, limit_ns): (u64, u64),
    ) {
        role.sends_pipes = true;
        let mut wait = waiter.begin(now_ns);
        let mut clock_ns = now_ns;
        // Before each look at the calls: while a long one leaves, the thread that sends it may end it.
        let long_leaves = || self.long_leaves.load(Ordering::SeqCst);
        let mut is_leaving = long_leaves();
        // The thread that had the role before may have received what ends one.
        let mut has_ended = is_over();
        let mut lost = false;
        while !has_ended && !lost && clock_ns < limit_ns && (stays || !session.is_closing()) {
            let patience_ns = match () {
                () if !wait.sleeps() => 0,
                () if is_leaving => LOOK_EVERY_NS.min(limit_ns - clock_ns),
                () => limit_ns - clock_ns,
            };
            let came = session.receive(&mut role, patience_ns);
            clock_ns = clock::now_ns();
            match came {
                Ok(true) => {
                    session.heard(clock_ns);
                    lost = session.deliver(&mut role).is_err();
                    session.send_due_of_pipes();
                    is_leaving = long_leaves();
                    has_ended = is_over();
                    if !has_ended && role.has_part() {
                        waiter.part_arrived(&mut wait, clock_ns);
                    }
                    self.submit();
                }
                Ok(false) if is_leaving => {
                    is_leaving = long_leaves();
                    has_ended = is_over();
                }
                Ok(false) => {}
                Err(Lost) => lost = true,
            }
            waiter.go_on(&mut wait, clock_ns);
        }
        if has_ended {
            waiter.arrived(&wait, clock_ns);
        }
        drop(wait);
        role.sends_pipes = false;
        drop(role);
        if lost {
            session.lose();
            self.wake_background();
        }
    }

    /// Another thread receives. Waits until it has ended one of the calls, or until the role is free.
    fn follow(self: &Arc<Self>, session: &Session, waiter: &mut Waiter, calls: &[u32], limit_ns: u64) {
        let is_over = || self.ended_among(calls).is_some() || session.is_lost() || session.is_closing();
        let pause = || match limit_ns.saturating_sub(clock::now_ns()) {
            0 => Pause::End,
            left_ns => Pause::Sleep(left_ns),
        };
        let thread = WaitingThread::current();
        let role = self.attend(calls, || session.role.follow(&thread, is_over, pause));
        if let Some(role) = role {
            let is_over = || self.ended_among(calls).is_some();
            self.receive(session, role, waiter, (&is_over, false), (clock::now_ns(), limit_ns));
        }
    }

    /// Does something while the calling thread is told when one of the calls ends.
    fn attend<R>(&self, calls: &[u32], wait: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        let ended = state.calls.ended_among(calls).is_some();
        state.calls.attend(calls, Some(&thread::current()));
        drop(state);
        if ended {
            // No other thread will tell it.
            thread::current().unpark();
        }
        let waited = wait();
        self.state().calls.attend(calls, None);
        waited
    }

    /// Receives and delivers what has arrived, unless another thread does.
    pub(super) fn receive_all(self: &Arc<Self>) {
        let session = self.binding.present();
        // The background thread knows of a loss.
        if session.is_lost() {
            return;
        }
        match session.receive_all() {
            true => self.submit(),
            false => self.wake_background(),
        }
    }
}

pub(super) fn sleep(until_ns: u64) {
    thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(clock::now_ns())));
}
