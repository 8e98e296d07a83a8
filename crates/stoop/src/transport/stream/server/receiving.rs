//! How a worker waits for calls: at the last active connection, at all of them, or asleep.

use crate::serving::acceptor::{END, LISTENER, NOTIFIED};
use crate::serving::workers::Looked;
use crate::transport::stream::server::StreamEndpoint;
use crate::transport::stream::server::call::StreamCall;
use crate::transport::stream::server::connection::Connection;
use crate::transport::stream::server::worker::WorkerState;
use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::memory;
use stoop_net::poller::Events;
use stoop_probe::{Point, stamp};

/// Looks of a spinning receiver at the last active connection before it looks at all, a fifth of a microsecond each:
/// while there are others, and while only the listener could have something.
const LOOKS_AMONG_OTHERS: u32 = 16;
const LOOKS_ALONE: u32 = 256;
/// Time for which a connection alone may keep the others waiting.
const ALONE: Duration = Duration::from_millis(2);
/// Connections told at once.
const EVENTS: usize = 32;

thread_local! {
    /// Memory for what the poller tells this thread.
    static TOLD: Cell<Option<Events>> = const { Cell::new(None) };
}

impl StreamEndpoint {
    /// Waits until there is a call, or until `interrupted` is set.
    #[inline]
    pub(super) fn wait_for_call(
        &self,
        worker: &mut WorkerState,
        interrupted: &AtomicBool,
    ) -> Option<StreamCall> {
        let mut wait = worker.waiter.begin(worker.clock_ns);
        // The parts of the call before are no parts of the next.
        worker.has_part = false;
        loop {
            if wait.sleeps() {
                wait.uncount();
                self.sleep(worker);
            } else {
                self.look_in_turn(worker);
            }
            if let Some(call) = worker.found.take().or_else(|| self.next_pending(worker)) {
                worker.waiter.arrived(&wait, worker.clock_ns);
                stamp(Point::CallFound);
                return Some(call);
            }
            if interrupted.load(Ordering::Relaxed) {
                return None;
            }
            if wait.spins() {
                self.service.background.yield_to_running_procedures();
            }
            worker.clock_ns = clock::now_ns();
            match mem::take(&mut worker.has_part) {
                true => worker.waiter.part_arrived(&mut wait, worker.clock_ns),
                false => worker.waiter.go_on(&mut wait, worker.clock_ns),
            }
        }
    }

    /// Looks once, for a guest, which may sleep for so long before.
    pub(super) fn look_once(&self, worker: &mut WorkerState, sleep_ns: u64) -> Looked<StreamCall> {
        worker.patient = true;
        match sleep_ns {
            0 => self.look_in_turn(worker),
            _ if self.may_wait_for_last_active(worker) => self.look_at_last_active(worker, sleep_ns),
            _ => self.ask(worker, Some(Duration::from_nanos(sleep_ns))),
        }
        worker.clock_ns = clock::now_ns();
        let call = worker.found.take().or_else(|| self.next_pending(worker));
        call.map_or(Looked::Nothing, Looked::Call)
    }

    /// Looks at the last active connection, and now and then at all.
    #[inline]
    fn look_in_turn(&self, worker: &mut WorkerState) {
        match worker.looks < self.looks_max() {
            true => self.look_at_last_active(worker, 0),
            false => self.ask(worker, Some(Duration::ZERO)),
        }
    }

    /// Looks at the connection that was last active, if that one is to be looked at.
    #[inline]
    fn look_at_last_active(&self, worker: &mut WorkerState, limit_ns: u64) {
        worker.looks = worker.looks.saturating_add(1);
        let is_open =
            worker.last_active.upgrade().is_some_and(|last_active| self.read(worker, &last_active, limit_ns));
        self.share_others(worker);
        if !is_open {
            worker.looks = u32::MAX;
        }
    }

    #[inline]
    fn looks_max(&self) -> u32 {
        if self.connections.count() > 1 { LOOKS_AMONG_OTHERS } else { LOOKS_ALONE }
    }

    /// Asks the poller, and does what it tells.
    pub(super) fn ask(&self, worker: &mut WorkerState, limit: Option<Duration>) {
        let mut events = TOLD.take().unwrap_or_else(|| Events::with_capacity(EVENTS));
        // Fails for no reason that waiting again would not show.
        let _ = self.connections.acceptor.poller.wait(&mut events, limit);
        (worker.looks, worker.asked_ns) = (0, clock::now_ns());
        if events.iter().next().is_none() {
            self.drained_ns.store(worker.asked_ns, Ordering::Relaxed);
        }
        for ready in events.iter() {
            match ready.token {
                LISTENER => self.connections.accept(),
                NOTIFIED => {
                    self.connections.acceptor.notifier.drain();
                    memory::give_back_end_of_arena();
                }
                END => {}
                token => {
                    // Closed by another since the poller told it.
                    let Some(connection) = self.connections.find(token) else { continue };
                    if ready.writable {
                        self.flush(&connection);
                    }
                    if ready.readable && self.read(worker, &connection, 0) {
                        worker.follow(&connection);
                    }
                }
            }
        }
        TOLD.set(Some(events));
        self.share_others(worker);
    }

    /// There is room to send on a connection.
    fn flush(&self, connection: &Connection) {
        let mut left = Vec::new();
        match connection.flush(&self.connections.acceptor.poller, &mut left) {
            Ok(true) => self.service.activity.announce_end(),
            Ok(false) => {}
            Err(_) => self.close(connection),
        }
        left.into_iter().for_each(|packet| self.recycle_buffer(packet));
    }

    /// Sleeps until something happens.
    fn sleep(&self, worker: &mut WorkerState) {
        let limit = self.connections.acceptor.sleep_limit();
        if limit.is_none() && self.may_wait_for_last_active(worker) {
            return self.look_at_last_active(worker, ALONE.as_nanos() as u64);
        }
        self.ask(worker, limit);
    }

    /// Whether nothing can happen but on the last active connection, or so rarely that it may wait a little. Nobody
    /// else is at work whose result could find the connection full.
    fn may_wait_for_last_active(&self, worker: &WorkerState) -> bool {
        let alone_ns = ALONE.as_nanos() as u64;
        worker
            .last_active
            .upgrade()
            .is_some_and(|last_active| !last_active.is_closed() && last_active.is_flushed())
            && self.connections.count() == 1
            && self.service.activity.is_quiet()
            && worker.clock_ns.saturating_sub(worker.asked_ns) < alone_ns
            && !self.service.activity.is_shutting_down()
    }
}
