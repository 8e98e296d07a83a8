//! How begun calls leave: as many as there are lanes for, by one write; and long ones fragment by fragment, by the background thread.

use crate::calling::background::Driven;
use crate::calling::begun::CallBatch;
use crate::calling::call_table::{CallTable, Wakeup};
use crate::calling::fate::Fate;
use crate::context::TimeBounds;
use crate::error::{CallError, SendError, UnknownCause};
use crate::message_buffer::keep_arguments;
use crate::transport::stream::begun::piped::CallerPipes;
use crate::transport::stream::begun::{BegunCall, Outstanding, Progress, State, locked};
use crate::transport::stream::caller::lane_table::CallId;
use crate::transport::stream::caller::sending_half::Unsent;
use crate::transport::stream::caller::session::{Session, TakesAnswers};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use stoop_calls::life::Next;
use stoop_exchange::Instant;
use stoop_exchange::stream::OutgoingMessage;
use stoop_net::clock;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId, STREAM_FRAGMENT, left_of_nanos};

/// Bytes of calls that leave by one write, about.
const WRITE_MAX: usize = 64 * 1024;

/// Half of the outstanding calls leave together, so that the server runs them while the caller begins the other half: at least and
/// at most so many calls,
const TOGETHER_MIN: usize = 16;
const TOGETHER_MAX: usize = 64;
/// and about so many bytes.
const TOGETHER_BYTES: usize = 64 * 1024;
/// A call that is sent fragment by fragment. Other calls may leave between two fragments.
struct LongCall {
    call: CallId,
    lane: LaneId,
    header: Header,
    packet: Vec<u8>,
    deadline_ns: u64,
}

impl Outstanding {
    /// Sends the short calls in the queue, as far as there are lanes. Does not wait for the server.
    pub(super) fn submit(self: &Arc<Self>) {
        while self.has_short() {
            let now_ns = clock::now_ns();
            let session = self.binding.present();
            if !session.takes_calls(now_ns) {
                // It gets another connection.
                return self.wake_background();
            }
            self.take_answers_of(&session);
            let mut bytes = locked(&self.sending);
            bytes.clear();
            let mut state = self.state();
            // A session that the binding has left is received only while it has calls: see `receive_on_former`.
            if session.generation != self.binding.generation() {
                continue;
            }
            let piped = state.take_lanes(&session, &mut bytes, now_ns);
            drop(state);
            if bytes.is_empty() {
                return;
            }
            if self.post(&session, &bytes).is_err() {
                session.lose();
                return self.wake_background();
            }
            // Behind their calls.
            piped.iter().for_each(|pipes| pipes.may_send());
        }
    }

    /// Sends whole fragments without waiting. The background thread sends what the stream does not take.
    #[inline]
    pub(super) fn post(&self, session: &Session, fragments: &[u8]) -> io::Result<()> {
        let has_left = session.outgoing.post(&session.stream, fragments)?;
        if !has_left && self.background.is_idle() {
            self.wake_background();
        }
        Ok(())
    }

    /// Whether short calls are queued. The background thread is told of long ones.
    fn has_short(&self) -> bool {
        let mut state = self.state();
        let newly_queued = state.leave();
        let (has_short, has_long) = (!state.queue.is_empty(), !state.long.is_empty());
        drop(state);
        if has_long && newly_queued {
            self.wake_background();
        }
        has_short
    }

    /// The answers that arrive in that session are for these calls. Called when there is a call to send: threads that begin their first
    /// calls at once may make a table too many, which is dropped unused.
    #[inline]
    fn take_answers_of(self: &Arc<Self>, session: &Arc<Session>) {
        session.set_begun(|| {
            locked(&self.sessions).push(Arc::clone(session));
            let weak: Weak<Self> = Arc::downgrade(self);
            weak as Weak<dyn TakesAnswers>
        });
    }

    /// Sends the first long call in the queue, if there is a lane for it. Only the background thread does so.
    pub(super) fn send_long(self: &Arc<Self>, session: &Arc<Session>) {
        let Some(long) = self.state().take_long(session, clock::now_ns()) else { return };
        self.long_leaves.store(true, Ordering::SeqCst);
        self.send_taken(session, long);
        // After the call has ended, if it has: a thread that waits for it looks once more. See `receive`.
        self.long_leaves.store(false, Ordering::SeqCst);
    }

    fn send_taken(self: &Arc<Self>, session: &Arc<Session>, long: LongCall) {
        self.take_answers_of(session);
        let LongCall { call, lane, header, mut packet, deadline_ns } = long;
        let message = OutgoingMessage::new(header, &mut packet);
        // While the server takes nothing, other calls leave, are answered, and end at their deadlines.
        let mut meanwhile = || {
            self.submit();
            self.receive_all();
            self.expire(clock::now_ns());
            self.wake_all();
        };
        let stream = &session.stream;
        let sent = session.outgoing.send_beside(stream, &packet, message, deadline_ns, &mut meanwhile);
        if matches!(sent, Err(Unsent::Lost)) {
            // Before it is decided that the call goes to another session.
            session.lose();
        }
        let mut lanes = session.lanes();
        if matches!(sent, Err(Unsent::Late)) {
            lanes.give_back(lane);
        }
        lanes.left(lane);
        drop(lanes);
        let mut state = self.state();
        // It may have expired while it left, and then no other thread could end it.
        state.calls.remind(deadline_ns);
        let known = state.known(call);
        match sent {
            Ok(()) | Err(Unsent::LateButOnItsWay) => {
                let generation = session.generation;
                let Some(known) = known else {
                    drop(state);
                    return self.send_cancel(generation, lane, call);
                };
                if let Some(pipes) = &known.pipes {
                    pipes.may_send();
                }
                let was_refused = known.progress == Progress::LeavingRefused;
                (known.progress, known.packet) = (Progress::Sent { generation, lane }, packet);
                if let Some(error) = known.refused.take_if(|_| was_refused) {
                    let wakeup = self.end_or_come_again(&mut state, call, *error);
                    drop(state);
                    self.give(wakeup);
                }
            }
            Err(Unsent::Late) => {
                let wakeup = self.fail(&mut state, call, CallError::not_sent(SendError::DeadlinePassed));
                drop(state);
                self.give(wakeup);
            }
            Err(Unsent::Lost) => {
                let mut wakeup = None;
                if let Some(known) = known {
                    // Part of it is missing: it did not run.
                    (known.packet, known.progress) = (packet, Progress::Queued);
                    wakeup = self.leave_session(&mut state, call, false);
                }
                drop(state);
                self.give(wakeup);
            }
        }
    }

    /// Tells the server that a call is not waited for any more. Its answer makes the lane free.
    pub(super) fn send_cancel(&self, generation: u64, lane: LaneId, call: CallId) {
        let Some(session) = self.session_of(generation) else { return };
        // The thread that chose its lane has sent it when it lets go of this.
        let _sent = locked(&self.sending);
        let abandoned = session.lanes().abandon(lane, call);
        if let Some(number) = abandoned {
            let cancel = Header::bare(Kind::Cancel, session.bound.binding, lane, number);
            if self.post(&session, &cancel.to_bytes()).is_err() {
                session.lose();
            }
        }
    }

    /// The calls of connections that have been lost: those that may be sent again are queued for another, the others end.
    pub(super) fn recover_lost(&self) {
        let sessions = locked(&self.sessions).clone();
        // Delivers answers: without a lock.
        let lost: Vec<_> = sessions.iter().filter(|session| session.is_lost()).collect();
        let lost: Vec<_> = lost.iter().map(|lost| (lost.generation, lost.may_have_run_more())).collect();
        // Until a thread that sends has sent: a call that has a lane counts as sent.
        let sending = locked(&self.sending);
        let mut state = self.state();
        let loss = |call: &BegunCall| match call.progress {
            Progress::Sent { generation, .. } => lost.iter().find(|lost| lost.0 == generation),
            Progress::Queued | Progress::Postponed | Progress::Leaving | Progress::LeavingRefused => None,
        };
        let is_lost = |call: &BegunCall| loss(call).is_some();
        let mut wakeups = Vec::new();
        for place in state.calls.open_where(is_lost) {
            let call = state.calls.get_mut(place).expect("it is open");
            let may_have_run = loss(call).is_none_or(|(_, may_have_run)| *may_have_run);
            call.progress = Progress::Queued;
            let id = call.id;
            wakeups.extend(self.leave_session(&mut state, CallId { place, id }, may_have_run));
        }
        drop((state, sending));
        self.give(wakeups);
    }

    /// A call was lost with its session: it is queued for another if it may be made again, and ends otherwise.
    fn leave_session(&self, state: &mut State, id: CallId, may_have_run: bool) -> Option<Wakeup> {
        let call = state.known(id)?;
        if call.pipes.is_some() {
            // Items may have gone with it, and would be missing.
            let error = call.lost(may_have_run);
            return self.fail_with(state, id, error);
        }
        let idempotent = self.is_idempotent(call.procedure);
        let loss = may_have_run.then(|| UnknownCause::ConnectionLost.into());
        match call.fate.after_loss(loss, idempotent) {
            Next::End(told) => {
                let error = call.fate.error(told, None, || call.waited());
                self.fail_with(state, id, error)
            }
            Next::Bind(_) | Next::Send | Next::Later(_) => {
                state.requeue(id);
                None
            }
        }
    }
}

impl State {
    /// Queues a call with the arguments that are in the batch. Returns its place in the table.
    pub(super) fn queue_call(
        &mut self,
        batch: &CallBatch,
        procedure: u16,
        len: usize,
        pipes: Option<&Arc<CallerPipes>>,
    ) -> Result<u32, CallError> {
        let mut packet = self.packets.pop().unwrap_or_default();
        packet.resize(HEADER_LEN, 0);
        keep_arguments(&mut packet, &batch.packet[batch.start..batch.start + len])?;
        self.last_id += 1;
        // Its time does not run yet.
        let (id, begun, bounds) = (self.last_id, Instant::NEVER, TimeBounds::current(batch.timeout_ns));
        let (fate, refused, progress) = (Fate::default(), None, Progress::Queued);
        let pipes = pipes.cloned();
        let call = BegunCall { id, procedure, begun, bounds, fate, refused, packet, progress, pipes };
        let place = self.calls.open(u64::MAX, call);
        self.queue_for(len).push_back(CallId { place, id });
        self.held_back.0.push(CallId { place, id });
        self.held_back.1 += HEADER_LEN + len;
        Ok(place)
    }

    /// The calls that are held back leave now, if there are any: their time runs from now on.
    pub(super) fn leave(&mut self) -> bool {
        if self.held_back.0.is_empty() {
            return false;
        }
        // Read under the lock: no earlier than any of them was begun.
        let now_ns = clock::now_ns();
        let (mut held, _) = std::mem::take(&mut self.held_back);
        for id in held.drain(..) {
            self.calls.set_deadline(id.place, |call| {
                (call.id == id.id).then(|| {
                    call.begun = Instant::from_nanos(now_ns);
                    call.bounds.deadline_ns(now_ns)
                })
            });
        }
        self.held_back.0 = held;
        true
    }

    /// Whether the calls that are held back are to leave.
    #[inline]
    pub(super) fn holds_enough(&self) -> bool {
        let (calls, bytes) = (self.held_back.0.len(), self.held_back.1);
        calls >= (self.calls.open_count() / 2).clamp(TOGETHER_MIN, TOGETHER_MAX) || bytes >= TOGETHER_BYTES
    }

    /// No call has a deadline, or is queued again, before that time.
    pub(super) fn next_due_ns(&self) -> u64 {
        self.postponed.iter().map(|(due_ns, _)| *due_ns).fold(self.calls.earliest_ns(), u64::min)
    }

    /// The queue for calls with so many bytes of arguments.
    pub(super) fn queue_for(&mut self, len: usize) -> &mut VecDeque<CallId> {
        if len > STREAM_FRAGMENT { &mut self.long } else { &mut self.queue }
    }

    /// Takes calls from the queue, gives each a lane, and writes them to `bytes`. Those whose time has passed are not sent.
    /// Returns the pipes of those that have some.
    pub(super) fn take_lanes(
        &mut self,
        session: &Arc<Session>,
        bytes: &mut Vec<u8>,
        now_ns: u64,
    ) -> Vec<Arc<CallerPipes>> {
        let (mut lanes, mut piped) = (session.lanes(), Vec::new());
        while let Some(&id) = self.queue.front() {
            let Self { calls, queue, .. } = &mut *self;
            let Some((call, deadline_ns)) =
                queued(calls, id).filter(|(_, deadline_ns)| now_ns < *deadline_ns)
            else {
                queue.pop_front();
                continue;
            };
            let is_held_back = call.begun == Instant::NEVER;
            if is_held_back || !bytes.is_empty() && bytes.len() + call.packet.len() > WRITE_MAX {
                break;
            }
            let Some((lane, number)) = lanes.take_for_call(id) else { break };
            queue.pop_front();
            if let Some(pipes) = &call.pipes {
                pipes.leave(session, (lane, number));
                piped.push(Arc::clone(pipes));
            }
            let left_ns = call.whole_ns(deadline_ns).saturating_sub(now_ns);
            bytes.extend_from_slice(&header(session, call, (lane, number), left_ns).to_bytes());
            bytes.extend_from_slice(&call.packet[HEADER_LEN..]);
            (call.progress, call.refused) = (Progress::Sent { generation: session.generation, lane }, None);
            self.left += 1;
        }
        piped
    }

    /// Takes the first call from the queue of long ones, and gives it a lane.
    fn take_long(&mut self, session: &Arc<Session>, now_ns: u64) -> Option<LongCall> {
        while let Some(&id) = self.long.front() {
            let call = queued(&mut self.calls, id).filter(|(_, deadline_ns)| now_ns < *deadline_ns);
            let Some((call, deadline_ns)) = call else {
                self.long.pop_front();
                continue;
            };
            if call.begun == Instant::NEVER {
                // It is held back.
                return None;
            }
            let (lane, number) = session.lanes().take_for_long_call(id)?;
            if let Some(pipes) = &call.pipes {
                pipes.leave(session, (lane, number));
            }
            let left_ns = call.whole_ns(deadline_ns).saturating_sub(now_ns);
            let header = header(session, call, (lane, number), left_ns);
            let packet = std::mem::take(&mut call.packet);
            (call.progress, call.refused) = (Progress::Leaving, None);
            self.left += 1;
            self.long.pop_front();
            return Some(LongCall { call: id, lane, header, packet, deadline_ns });
        }
        None
    }

    /// Whether a call waits to be sent. Forgets calls that have ended.
    pub(super) fn has_queued(&mut self) -> bool {
        let Self { calls, queue, long, .. } = self;
        [queue, long].into_iter().any(|queue| {
            while let Some(&id) = queue.front() {
                if queued(calls, id).is_some() {
                    return true;
                }
                queue.pop_front();
            }
            false
        })
    }
}

/// A call that waits to be sent, and its deadline; `None` if it has ended.
#[inline]
fn queued(calls: &mut CallTable<BegunCall>, id: CallId) -> Option<(&mut BegunCall, u64)> {
    let deadline_ns = calls.deadline_ns(id.place);
    let call = calls.get_mut(id.place).filter(|call| call.id == id.id)?;
    (call.progress == Progress::Queued).then_some((call, deadline_ns))
}

#[inline]
fn header(session: &Session, call: &BegunCall, (lane, number): (LaneId, CallNumber), left_ns: u64) -> Header {
    let bound = &session.bound;
    let mut header = Header::bare(Kind::Call, bound.binding, lane, number);
    header.procedure = bound.number(call.procedure);
    header.message_len = (call.packet.len() - HEADER_LEN) as u32;
    header.time = left_of_nanos(left_ns);
    header
}
