//! The background thread's work for begun calls over a byte stream.
//!
//! While calls are outstanding it looks once a millisecond: it receives if no other thread has since, ends calls at their deadlines,
//! submits calls for which lanes have become free, sends long calls, and has the client bound again. While wakers wait, it receives
//! for them. When nothing has been begun or received for a while, it sleeps until something arrives or a deadline passes.

use crate::calling::background::{Background, Driven, Rest, start_binding};
use crate::error::{CallError, SendError};
use crate::transport::stream::begun::Outstanding;
use crate::transport::stream::caller::lane_table::CallId;
use crate::transport::stream::caller::session::{Lost, Session};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::poller::Waker;

/// Between two looks.
const TICK: Duration = Duration::from_millis(1);
/// How long it receives before it looks at the rest: about so long, and at most so long. A call that is begun meanwhile may have
/// a deadline before all others.
const LISTEN_NS: u64 = 5_000_000;
const LISTEN_MAX_NS: u64 = 10_000_000;

/// After so long without an arrival or a call that is begun, it sleeps until there is one.
const QUIET_NS: u64 = 20_000_000;

/// The state that the thread saw in its last turn.
#[derive(Default)]
pub(crate) struct Seen {
    looked_ns: u64,
    generation: u64,
    /// The last call that was begun.
    last_id: u64,
    /// Nothing has been begun or received since.
    quiet_since_ns: u64,
}

impl Driven for Outstanding {
    type Memory = Seen;

    const LINGER: (u32, Duration) = (20, TICK);

    fn background(&self) -> &Background {
        &self.background
    }

    fn run_due(self: &Arc<Self>, seen: &mut Seen) -> Rest {
        let session = self.binding.present();
        let has_former = self.receive_on_former(&session);
        let has_polled_pipes = self.has_polled_pipes();
        let is_polled = self.state().calls.is_polled() || has_polled_pipes;
        let is_polled = is_polled && !session.is_lost() && !has_former;
        if is_polled {
            self.listen(&session);
        } else if !session.was_heard_since(seen.looked_ns) {
            self.receive_all();
        }
        seen.looked_ns = clock::now_ns();
        if std::mem::replace(&mut seen.generation, session.generation) != session.generation {
            // A blocking call has found that the connection before was lost, and has made another.
            self.recover_lost();
        }
        self.queue_postponed();
        if self.doubts.load(Ordering::SeqCst) {
            start_binding(self);
        }
        self.send_due(&session);
        let has_calls = self.receive_and_expire(clock::now_ns());
        self.wake_all();
        match () {
            // Before it rests, it asks once more.
            () if !has_calls && self.has_nothing_to_do() => Rest::Idle,
            () if !has_former && self.sleep_if_quiet(&session, seen) => Rest::None,
            () if is_polled => Rest::None,
            () => Rest::For(TICK),
        }
    }

    fn has_nothing_to_do(&self) -> bool {
        self.state().calls.open_count() == 0
            && !self.doubts.load(Ordering::SeqCst)
            && !self.has_polled_pipes()
            && !self.has_pipes_left()
    }

    /// Looks for a server that is perhaps elsewhere, and makes another connection for the calls in the queue. If that fails, it ends those that were begun before the attempt; a call
    /// that was begun later has an attempt of its own.
    fn bind_again(self: &Arc<Self>) {
        let has_doubts = self.doubts.swap(false, Ordering::SeqCst);
        let lost = self.binding.present();
        if has_doubts && !lost.is_lost() && !lost.is_closing() {
            return self.binding.look_elsewhere(Instant::NEVER);
        }
        let attempted = Instant::from_nanos(clock::now_ns());
        let bound = match () {
            () if lost.is_lost() => self.binding.rebind(&lost, None, Instant::NEVER).map(drop),
            () if lost.is_closing() => self.binding.leave(&lost, Instant::NEVER),
            () => return,
        };
        let Err(why) = bound else { return };
        let mut state = self.state();
        let begun_before = state.calls.open_where(|call| call.is_queued() && call.begun <= attempted);
        let mut wakeups = Vec::new();
        for place in begun_before {
            let call = state.calls.get_mut(place).expect("it is open");
            let error = match call.refused {
                Some(_) => call.refusal(),
                None => call.explain(CallError::not_sent(SendError::Bind(Box::new(why.clone())))),
            };
            let id = call.id;
            wakeups.extend(self.fail_with(&mut state, CallId { place, id }, error));
        }
        drop(state);
        self.give(wakeups);
    }
}

impl Outstanding {
    /// Sends what can be sent. Without a connection, it has another made if there is something to send.
    fn send_due(self: &Arc<Self>, session: &Arc<Session>) {
        if session.is_lost() || session.outgoing.flush(&session.stream).is_err() {
            session.lose();
            self.recover_lost();
        } else if !session.is_closing() {
            self.submit();
            session.send_due_of_pipes();
            return self.send_long(session);
        }
        let mut state = self.state();
        // Calls that are held back were begun before the attempt, too: if it fails, they end with the others.
        state.leave();
        if state.has_queued() {
            drop(state);
            start_binding(self);
        }
    }

    /// If nothing has happened for a while: sleeps until something arrives, a deadline passes, or the thread is woken. Returns whether it
    /// has slept.
    fn sleep_if_quiet(&self, session: &Session, seen: &mut Seen) -> bool {
        let (now_ns, last_id) = (clock::now_ns(), self.state().last_id);
        if last_id != seen.last_id || session.was_heard_since(seen.quiet_since_ns) {
            (seen.last_id, seen.quiet_since_ns) = (last_id, now_ns);
        }
        if now_ns < seen.quiet_since_ns + QUIET_NS {
            return false;
        }
        let until_ns = || {
            let mut state = self.state();
            // Calls in the queue wait for a lane, which any thread that receives makes free.
            let has_work = state.last_id != last_id
                || state.has_queued()
                || session.is_closing()
                || session.generation != self.binding.generation()
                || session.pipes.has_ready()
                || session.outgoing.has_rest();
            (!has_work).then(|| state.next_due_ns())
        };
        let sleep = |waker: &Waker, until_ns| session.sleep(waker, until_ns);
        let slept = self.background.sleep_until_arrival(until_ns, sleep);
        if slept == Some(true) {
            // Another thread may receive it.
            seen.quiet_since_ns = clock::now_ns();
        }
        slept.is_some()
    }

    /// Receives until something has come, a deadline has passed, or there is something else to look at.
    fn listen(self: &Arc<Self>, session: &Session) {
        let Some(mut role) = session.role.try_take() else { return std::thread::park_timeout(TICK) };
        let now_ns = clock::now_ns();
        let left_ns = self.state().calls.earliest_ns().saturating_sub(now_ns).max(1);
        let came = session.receive_about(&mut role, LISTEN_NS.min(left_ns), LISTEN_MAX_NS.min(left_ns));
        let lost = match came {
            Ok(true) => {
                session.heard(clock::now_ns());
                session.deliver(&mut role).is_err()
            }
            Ok(false) => false,
            Err(Lost) => true,
        };
        drop(role);
        if lost {
            session.lose();
        }
    }
}
