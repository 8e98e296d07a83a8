//! The caller's ends of the pipes of a begun call over a byte stream.

use crate::calling::background::Driven;
use crate::calling::begun::PipeTerms;
use crate::calling::receive_role::Pause;
use crate::calling::waiting_thread::WaitingThread;
use crate::context::bounded_deadline;
use crate::error::CallError;
use crate::pipes::contract::{Ends, FIRST_WINDOW, Pipes, next_look_ns};
use crate::pipes::ends::{Carrier, QueueEnds, Side};
use crate::pipes::error::PipeError;
use crate::pipes::helper::SendsPipes;
use crate::pipes::queue::{Awaited, PipeQueue};
use crate::pipes::waiters::Wakeup;
use crate::pipes::window::Window;
use crate::transport::stream::begun::waiting::{LOOK_EVERY_NS, sleep};
use crate::transport::stream::begun::{Outstanding, locked};
use crate::transport::stream::caller::session::Session;
use crate::transport::stream::pipes::{CallPipes, Key};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use stoop_net::clock;

/// The pipes of a begun call, and when it has to have come how far.
pub(crate) struct CallerPipes {
    pipes: Arc<CallPipes>,
    /// The session on which the call leaves.
    session: OnceLock<Arc<Session>>,
    /// The call has left: nothing of its pipes may come to the server before it.
    has_left: AtomicBool,
    step_ns: u64,
    /// When the call has to have ended: as a whole, and since its ends were closed.
    deadline_ns: AtomicU64,
    /// The ends that the program has not closed or stopped.
    open: AtomicU8,
}

/// Carries the bytes of the pipes of a call at its caller.
///
/// It keeps the session, but not the calls of the binding: with the last of them its connection ends.
struct Callers {
    calls: Weak<Outstanding>,
    pipes: Arc<CallerPipes>,
    call: u32,
    /// Bytes of the longest item.
    item_max: usize,
}

/// Between two looks whether the connection takes more.
const ROOM_LOOK: Duration = Duration::from_millis(1);

impl CallerPipes {
    pub(super) fn new(terms: &PipeTerms, step_ns: u64) -> Arc<Self> {
        let Pipes { to_procedure, from_procedure } = terms.pipes;
        let out = to_procedure.then(|| PipeQueue::new(FIRST_WINDOW, Window::Usual));
        let into = from_procedure.then(|| PipeQueue::new(terms.window.size().bytes(), terms.window));
        Arc::new(Self {
            pipes: CallPipes::new(out, into),
            session: OnceLock::new(),
            has_left: AtomicBool::new(false),
            step_ns,
            deadline_ns: AtomicU64::new(bounded_deadline(clock::now_ns(), terms.total_ns)),
            open: AtomicU8::new(u8::from(to_procedure) + u8::from(from_procedure)),
        })
    }

    /// The call leaves on that session, with that lane and number.
    pub(super) fn leave(&self, session: &Arc<Session>, (lane, number): Key) {
        let sends: Weak<Session> = Arc::downgrade(session);
        self.pipes.sent_by(sends);
        session.pipes.add(lane, number, &self.pipes);
        let _ = self.session.set(Arc::clone(session));
    }

    /// The call has left, and its items may follow it.
    pub(super) fn may_send(&self) {
        self.has_left.store(true, Ordering::SeqCst);
        self.send();
    }

    /// The session, once the pipes may send.
    fn sends_on(&self) -> Option<&Arc<Session>> {
        self.session.get().filter(|_| self.has_left.load(Ordering::SeqCst))
    }

    /// There is something to send.
    fn send(&self) {
        if let Some(session) = self.sends_on() {
            session.pipes.make_ready(&self.pipes);
            session.send_due_of_pipes();
        }
    }

    /// Whether bytes have not left.
    #[cfg(test)]
    pub(super) fn has_unsent(&self) -> bool {
        self.pipes.out.as_ref().is_some_and(|out| out.has_bytes())
    }

    /// When the call has to have ended.
    pub(super) fn whole_ns(&self) -> u64 {
        self.deadline_ns.load(Ordering::SeqCst)
    }

    /// When the call has to have ended, or its deadline is looked at again, if the server has it.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        self.pipes.is_heard().then(|| self.whole_ns().min(next_look_ns(now_ns, self.step_ns)))
    }

    /// The call has been answered with a result.
    pub(super) fn answered(&self) -> [Wakeup; 2] {
        let wakeups = self.pipes.note_answer();
        if let Some(session) = self.session.get() {
            session.pipes.forget_if_done(&self.pipes);
        }
        wakeups
    }

    /// The call has ended with this error.
    pub(super) fn end(&self, error: CallError) -> Vec<Wakeup> {
        match error {
            CallError::Failed(..) => self.answered().into(),
            error => self.fail(&PipeError::Lost(Box::new(error))),
        }
    }

    /// The pipes end at this end, for this reason.
    pub(super) fn fail(&self, why: &PipeError) -> Vec<Wakeup> {
        let wakeups = self.pipes.fail(why);
        if let Some(session) = self.session.get() {
            session.pipes.forget(&self.pipes);
        }
        wakeups
    }
}

impl Outstanding {
    /// The ends of the caller, of the call in that place of the table.
    pub(super) fn ends_of(self: &Arc<Self>, pipes: &Arc<CallerPipes>, call: u32) -> Ends {
        let (calls, pipes, item_max) =
            (Arc::downgrade(self), Arc::clone(pipes), self.binding.options.max_message);
        QueueEnds::of(Callers { calls, pipes, call, item_max })
    }

    /// Whether tasks wait for pipes.
    pub(super) fn has_polled_pipes(&self) -> bool {
        let mut polled = locked(&self.polled);
        polled.retain(|queue| queue.upgrade().is_some_and(|queue| queue.is_polled()));
        !polled.is_empty()
    }

    /// Whether only ends of pipes are left, and the connection is for them.
    pub(super) fn has_pipes_left(&self) -> bool {
        let is_used = |session: &Arc<Session>| !session.pipes.is_empty();
        self.is_left.load(Ordering::SeqCst) && locked(&self.sessions).iter().any(is_used)
    }

    /// The background thread looks whether anything is left.
    pub(super) fn wake_if_left(&self) {
        if self.is_left.load(Ordering::SeqCst) {
            self.wake_background();
        }
    }

    /// Waits for something of a pipe, at most until that time; or less, without reason.
    fn wait_for_pipe(
        self: &Arc<Self>,
        pipes: &CallerPipes,
        (queue, awaited): (&PipeQueue, Awaited),
        until_ns: u64,
    ) {
        self.submit();
        let now_ns = clock::now_ns();
        self.receive_and_expire(now_ns);
        let soon_ns = until_ns.min(now_ns + LOOK_EVERY_NS);
        let has_come = || queue.has(awaited);
        let Some(session) = pipes.session.get().filter(|session| !session.is_lost()) else {
            // It waits for a connection, which the background thread makes, or will be told that its own is lost.
            self.wake_background();
            return attend(queue, awaited, || sleep(soon_ns));
        };
        if has_come() || until_ns <= now_ns {
            return;
        }
        session.send_due_of_pipes();
        if awaited == Awaited::Room && session.outgoing.has_rest() {
            session.outgoing.await_room(&session.stream, ROOM_LOOK);
            if session.outgoing.flush(&session.stream).is_err() {
                session.lose();
            }
            session.send_due_of_pipes();
            session.receive_all();
            return;
        }
        let limit_ns = until_ns.min(self.state().calls.earliest_ns());
        let mut waiter = locked(&self.waiters).pop().unwrap_or_else(|| self.waiter());
        let is_over = || has_come() || session.is_lost();
        let role = session.role.try_take().or_else(|| {
            let pause = || match limit_ns.saturating_sub(clock::now_ns()) {
                0 => Pause::End,
                left_ns => Pause::Sleep(left_ns),
            };
            let mut role = None;
            attend(queue, awaited, || {
                role = session.role.follow(&WaitingThread::current(), is_over, pause);
            });
            role
        });
        if let Some(role) = role {
            self.receive(session, role, &mut waiter, (&is_over, true), (clock::now_ns(), limit_ns));
        }
        locked(&self.waiters).push(waiter);
        self.wake_all();
    }
}

/// Does something while the calling thread is unparked when there is what it waits for.
fn attend(queue: &PipeQueue, awaited: Awaited, wait: impl FnOnce()) {
    if queue.attend(awaited) {
        wait();
        queue.leave(awaited);
    }
}

impl Carrier for Callers {
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>> {
        match side {
            Side::Sending => self.pipes.pipes.out.as_ref(),
            Side::Receiving => self.pipes.pipes.into.as_ref(),
        }
    }

    fn appended(&self, bytes: usize, _: &Weak<QueueEnds<Self>>) {
        let Some(session) = self.pipes.sends_on() else { return };
        session.pipes.make_ready(&self.pipes.pipes);
        session.pipes.gathering.appended(bytes, || {
            let weak: Weak<Session> = Arc::downgrade(session);
            weak as Weak<dyn SendsPipes>
        });
    }

    fn granted(&self) {
        self.pipes.send();
    }

    fn ended(&self, side: Side) {
        if side == Side::Receiving {
            self.pipes.pipes.stop();
        }
        self.pipes.send();
        if self.pipes.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            let deadline_ns = clock::now_ns().saturating_add(self.pipes.step_ns);
            let deadline_ns =
                self.pipes.deadline_ns.fetch_min(deadline_ns, Ordering::SeqCst).min(deadline_ns);
            let is_own = |own: &Arc<CallerPipes>| Arc::ptr_eq(own, &self.pipes);
            if let Some(calls) = self.calls.upgrade() {
                calls.state().calls.set_deadline(self.call, |known| {
                    known.pipes.as_ref().is_some_and(is_own).then_some(deadline_ns)
                });
            }
        }
        if let Some(session) = self.pipes.session.get() {
            session.pipes.forget_if_done(&self.pipes.pipes);
        }
    }

    fn flush(&self) {
        self.pipes.send();
    }

    fn wait(&self, queue: &Arc<PipeQueue>, awaited: Awaited, until_ns: u64) {
        // Without them the pipe has ended.
        if let Some(calls) = self.calls.upgrade() {
            calls.wait_for_pipe(&self.pipes, (queue, awaited), until_ns);
        }
    }

    fn polled(&self, queue: &Arc<PipeQueue>) {
        let Some(calls) = self.calls.upgrade() else { return };
        let mut polled = locked(&calls.polled);
        let known = Arc::as_ptr(queue);
        if !polled.iter().any(|queue| queue.as_ptr() == known) {
            polled.push(Arc::downgrade(queue));
        }
        drop(polled);
        calls.wake_background();
    }

    fn callers_step_ns(&self) -> Option<u64> {
        Some(self.pipes.step_ns)
    }

    fn item_max(&self) -> usize {
        self.item_max
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        if let Some(calls) = self.calls.upgrade() {
            calls.wake_if_left();
        }
    }
}
