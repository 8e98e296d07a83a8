//! How a thread waits for calls in flight: it receives, if nobody else does, or is told by who does.

use crate::calling::receive_role::Pause;
use crate::calling::waiting_thread::WaitingThread;
use crate::transport::stream::begun::{Outstanding, locked};
use crate::transport::stream::caller::session::{Lost, Role, Session};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stoop_net::clock;
use stoop_net::waiting::Waiter;

impl Outstanding {
    /// Waits until one of these calls has ended, at most until that time.
    pub(super) fn wait_any(self: &Arc<Self>, calls: &[u32], until_ns: u64) -> Option<usize> {
        if let Some(place) = self.ended_among(calls) {
            return Some(place);
        }
        self.launch(true);
        let mut waiter = locked(&self.waiters).pop().unwrap_or_else(|| self.waiter());
        let place = loop {
            let now_ns = clock::now_ns();
            self.look_and_expire(now_ns);
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

    fn waiter(&self) -> Waiter {
        Waiter::new(self.binding.options.waiting, self.binding.present().placement)
    }

    fn ended_among(&self, calls: &[u32]) -> Option<usize> {
        self.state().slots.ended_among(calls)
    }

    fn earliest_ns(&self, calls: &[u32]) -> u64 {
        let state = self.state();
        calls.iter().map(|&call| state.slots.deadline_ns(call)).min().unwrap_or(u64::MAX)
    }

    /// Waits until something has happened, at most until that time.
    fn wait_once(self: &Arc<Self>, waiter: &mut Waiter, calls: &[u32], now_ns: u64, limit_ns: u64) {
        let session = self.binding.present();
        if session.is_lost() {
            self.background.call();
            return self.attend(calls, || sleep(limit_ns));
        }
        match session.role.try_take() {
            Some(role) => self.receive(&session, role, waiter, calls, now_ns, limit_ns),
            None => self.wait_among_others(&session, waiter, calls, limit_ns),
        }
    }

    /// Receives with the role until one of the calls has ended.
    fn receive(
        self: &Arc<Self>,
        session: &Session,
        mut role: Role<'_>,
        waiter: &mut Waiter,
        calls: &[u32],
        now_ns: u64,
        limit_ns: u64,
    ) {
        let mut wait = waiter.begin(now_ns);
        let mut clock_ns = now_ns;
        // Whoever had the role before may have received what ends one.
        let mut has_ended = self.ended_among(calls).is_some();
        let mut lost = false;
        while !has_ended && !lost && clock_ns < limit_ns {
            let patience_ns = if wait.sleeps() { limit_ns - clock_ns } else { 0 };
            let came = session.receive(&mut role, patience_ns);
            clock_ns = clock::now_ns();
            match came {
                Ok(true) => {
                    session.heard(clock_ns);
                    lost = session.deliver_all(&mut role).is_err();
                    has_ended = self.ended_among(calls).is_some();
                    self.launch(false);
                }
                Ok(false) => {}
                Err(Lost) => lost = true,
            }
            waiter.go_on(&mut wait, clock_ns);
        }
        drop(role);
        if has_ended {
            waiter.arrived(&wait, clock_ns);
        }
        if lost {
            session.lose();
            self.background.call();
        }
    }

    /// Another thread receives. Waits until it has ended one of the calls, or until the role is free.
    fn wait_among_others(
        self: &Arc<Self>,
        session: &Session,
        waiter: &mut Waiter,
        calls: &[u32],
        limit_ns: u64,
    ) {
        let is_over = || self.ended_among(calls).is_some() || session.is_lost();
        let pause = || match limit_ns.saturating_sub(clock::now_ns()) {
            0 => Pause::End,
            left_ns => Pause::Sleep(left_ns),
        };
        let thread = WaitingThread::current();
        let role = self.attend(calls, || session.role.follow(&thread, is_over, pause));
        if let Some(role) = role {
            self.receive(session, role, waiter, calls, clock::now_ns(), limit_ns);
        }
    }

    /// Does something while the calling thread is told when one of the calls ends.
    fn attend<R>(&self, calls: &[u32], wait: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        let ended = state.slots.ended_among(calls).is_some();
        state.slots.attend(calls, Some(&thread::current()));
        drop(state);
        if ended {
            // Nobody will tell it.
            thread::current().unpark();
        }
        let waited = wait();
        self.state().slots.attend(calls, None);
        waited
    }

    /// Receives what has arrived, if nobody else receives.
    pub(super) fn look_at_stream(self: &Arc<Self>) {
        let session = self.binding.present();
        if session.is_lost() {
            // The background knows.
            return;
        }
        let Some(mut role) = session.role.try_take() else { return };
        let lost = loop {
            match session.receive(&mut role, 0) {
                Ok(false) => break false,
                Ok(true) if session.deliver_all(&mut role).is_ok() => session.heard(clock::now_ns()),
                Ok(true) | Err(Lost) => break true,
            }
        };
        drop(role);
        if lost {
            session.lose();
            return self.background.call();
        }
        self.launch(false);
    }
}

fn sleep(until_ns: u64) {
    thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(clock::now_ns())));
}
