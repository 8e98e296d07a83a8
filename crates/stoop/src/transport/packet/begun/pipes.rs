//! The pipes of begun calls, behind the lock of their table: what leaves and what arrives by the lanes of their calls.

use crate::calling::begun::CallBatch;
use crate::error::{CallError, SendError};
use crate::pipes::contract::{Close, FIRST_WINDOW};
use crate::pipes::error::PipeError;
use crate::pipes::queue::PipeQueue;
use crate::pipes::waiters::Wakeup;
use crate::transport::packet::begun::call_pipes::{CallerPipes, SlotPipes};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Owner, Slot, Stage};
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, MAX_SEGMENTS, MAX_SEGMENTS_LEN, PacketLink};
use crate::transport::packet::now;
use crate::transport::packet::packet_run::Framed;
use crate::transport::packet::pipes::{MARGIN, Outlet, Protected};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::caller::OpenPipes;
use stoop_exchange::pipe::{Drawn, Rest};
use stoop_marshal::EncodeError;
use stoop_wire::HEADER_LEN;

impl<L: PacketLink> Calls<L> {
    /// Begins a call with pipes, and sends it if it is one packet.
    #[cold]
    pub(super) fn begin_piped(
        &mut self,
        begin: &CallBatch,
        (procedure, len): (u16, usize),
        shared: &Arc<CallerPipes>,
    ) -> Result<u32, CallError> {
        if len > self.longest_call {
            let why = EncodeError::TooLarge { needed_at_least: len, limit: self.longest_call };
            return Err(CallError::not_sent(SendError::Arguments(why)));
        }
        let call = self.take_slot()?;
        shared.slot.store(call, Ordering::SeqCst);
        let arguments = &begin.packet[HEADER_LEN..HEADER_LEN + len];
        let slot = self.slots[call as usize].expand(self.path);
        slot.owner = Owner::Handle;
        let first = FIRST_WINDOW.min(slot.session.bound.window.into()) as u32;
        let granted = shared.into.as_ref().map(|into| (into.limit() + MARGIN) as u32);
        let open = OpenPipes {
            to_server: shared.out.as_ref().map(|_| first),
            from_server: granted.map(|bytes| (bytes, bytes)),
        };
        slot.begin_piped(procedure, (begin.begun, shared.whole), arguments, open);
        // The server is to take the call by then.
        slot.deadline = begin.deadline.min(shared.whole);
        slot.pipes = Some(Box::new(SlotPipes {
            shared: Arc::clone(shared),
            outlet: Outlet::default(),
            is_ending: false,
            has_failed: false,
        }));
        slot.stage = Stage::Sent;
        let deadline = slot.deadline;
        if slot.is_large {
            self.large.sends(call);
        } else {
            slot.is_under_way = true;
            // A packet that the system does not send is treated like a lost one.
            let _ = slot.session.protection.send(&self.link.endpoint, &slot.call);
            self.flow.on_sent(1);
        }
        self.outstanding += 1;
        self.next_deadline = self.next_deadline.min(deadline);
        self.arm(call);
        Ok(call)
    }

    /// The slot whose lane carries these pipes, while one does.
    pub(super) fn slot_of(&mut self, shared: &Arc<CallerPipes>) -> Option<u32> {
        let call = shared.slot.load(Ordering::SeqCst);
        let pipes = self.slots.get(call as usize)?.pipes.as_ref()?;
        pipes.is_of(shared).then_some(call)
    }

    /// A task waits for the queue.
    pub(super) fn note_polled(&mut self, queue: &Arc<PipeQueue>) {
        self.polled.entry(Arc::as_ptr(queue) as usize).or_insert_with(|| Arc::downgrade(queue));
    }

    /// Whether tasks wait for pipes, or have waited.
    pub(super) fn is_polled(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Forgets the queues for which no task waits any more.
    pub(super) fn forget_unpolled(&mut self) {
        self.polled.retain(|_, queue| queue.upgrade().is_some_and(|queue| queue.is_polled()));
    }

    /// These tasks are woken when the lock is released.
    fn wake(&mut self, wakeups: impl IntoIterator<Item = Wakeup>) {
        self.wakeups.wakers.extend(wakeups.into_iter().filter_map(Wakeup::into_waker));
    }

    /// The program has taken the bytes before the first offset, and may be sent those before the second.
    pub(super) fn credit_pipe(&mut self, shared: &Arc<CallerPipes>, (taken, limit): (u64, u64)) {
        let Some(call) = self.slot_of(shared) else { return };
        let slot = &mut self.slots[call as usize];
        slot.lane.pipe_credit(taken, limit + MARGIN);
        if slot.lane.owes_receipt(false) {
            self.send_receipt(call, now());
        }
    }

    /// The program takes no more of the pipe from the procedure.
    pub(super) fn stop_pipe(&mut self, shared: &Arc<CallerPipes>) {
        let Some(call) = self.slot_of(shared) else { return };
        let clock = now();
        let slot = &mut self.slots[call as usize];
        self.waits.leave(&mut slot.lane);
        slot.lane.pipe_stop(clock);
        if slot.lane.owes_receipt(false) {
            self.send_receipt(call, clock);
        }
        self.look_at_pipes(call);
    }

    /// The program has closed its ends: the result has to come within a step.
    pub(super) fn expect_end(&mut self, shared: &Arc<CallerPipes>) {
        let Some(call) = self.slot_of(shared) else { return };
        let slot = &mut self.slots[call as usize];
        if slot.stage != Stage::Sent {
            return;
        }
        slot.deadline = now().after_nanos(shared.step_ns).min(shared.whole);
        if let Some(pipes) = &mut slot.pipes {
            pipes.is_ending = true;
        }
        self.next_deadline = self.next_deadline.min(slot.deadline);
        self.arm(call);
    }

    /// Whether a call whose step has ended in time goes on. If not, its deadline has passed.
    pub(super) fn begins_next_step(&mut self, call: u32, clock: Instant) -> bool {
        let slot = &mut self.slots[call as usize];
        let Some(pipes) = slot.pipes.as_ref().filter(|pipes| !pipes.is_ending) else { return false };
        let goes_on = slot.lane.last_was_acknowledged() && clock < pipes.shared.whole;
        if goes_on {
            slot.deadline = pipes.shared.whole;
        }
        goes_on
    }

    /// Looks at the pipes for which packets have come.
    #[cold]
    pub(super) fn look_at_all_pipes(&mut self) {
        while let Some(call) = self.piped.pop() {
            self.look_at_pipes(call);
        }
    }

    /// Passes what has arrived by a lane to the program, and notes how much may be sent. Frees the lane if nothing more is to come.
    pub(super) fn look_at_pipes(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        let Some(pipes) = &mut slot.pipes else { return };
        let SlotPipes { shared, has_failed, .. } = &mut **pipes;
        let lane = &mut slot.lane;
        let mut wakeups = [Wakeup::default(), Wakeup::default()];
        if let Some(into) = &shared.into {
            wakeups[0] = into.arrive_by(|bytes| {
                let drawn = lane.pipe_draw(bytes)?;
                let is_cut = *has_failed && drawn.rest == Rest::Finished;
                Some(if is_cut { Drawn { rest: Rest::Aborted, ..drawn } } else { drawn })
            });
        }
        if let Some(out) = &shared.out {
            wakeups[1] = match lane.pipe_limit() {
                Some(limit) => out.grant(limit.saturating_sub(MARGIN)),
                None if lane.pipe_is_stopped() => out.stop(PipeError::Stopped),
                None => Wakeup::default(),
            };
        }
        let _ = lane.pipe_news();
        self.wake(wakeups);
        let slot = &self.slots[call as usize];
        if slot.stage == Stage::Draining && !slot.lane.is_outstanding() {
            self.end_draining(call, None);
        } else if slot.stage == Stage::Draining || slot.stage == Stage::Sent {
            if slot.lane.owes_receipt(true) {
                self.large.owes(call);
            }
            self.large.sends(call);
            self.arm(call);
        }
    }

    /// Ends the pipes of a call that has been answered, with a result or with a failure; of the pipe from the procedure only what has
    /// not been sent before. Its slot is free for the outcome; another goes on with the lane, if that goes on.
    pub(super) fn answer_pipes(&mut self, call: u32, has_failed: bool) {
        let slot = &mut self.slots[call as usize];
        let Some(pipes) = &mut slot.pipes else { return };
        pipes.has_failed = has_failed;
        let shared = Arc::clone(&pipes.shared);
        let goes_on = slot.lane.is_outstanding();
        self.look_at_pipes(call);
        self.slots[call as usize].steps(&self.link.endpoint, 0).settle();
        if let Some(out) = &shared.out {
            self.wake(out.fail(&PipeError::Ended));
        }
        match goes_on {
            true => self.drain_apart(call, &shared),
            false => {
                self.slots[call as usize].pipes = None;
                let close = if has_failed { Close::Aborted } else { Close::Whole };
                let wakeup = shared.into.as_ref().and_then(|into| into.close(close));
                self.wake(wakeup.into_iter().flatten());
            }
        }
    }

    /// A call with pipes ends, with the result that is in its slot, or with this error.
    #[cold]
    pub(super) fn end_pipes(&mut self, call: u32, error: Option<&CallError>) {
        match error {
            None => self.answer_pipes(call, false),
            Some(CallError::Failed(..)) => self.answer_pipes(call, true),
            Some(error) => {
                let error = error.clone().at(&self.link.binding.uri);
                self.fail_pipes(call, &PipeError::Lost(Box::new(error)));
            }
        }
    }

    /// Gives the lane of a call that has been answered to another slot, until the rest of its pipe has come.
    fn drain_apart(&mut self, call: u32, shared: &Arc<CallerPipes>) {
        let other = match self.take_slot() {
            Ok(other) => other,
            Err(why) => return self.fail_pipes(call, &PipeError::Lost(Box::new(why))),
        };
        let (first, second) = self.two_slots(call, other);
        debug_assert!(!second.compact.is_outstanding(), "it is free");
        mem::swap(&mut first.lane, &mut second.lane);
        mem::swap(&mut first.compact, &mut second.compact);
        mem::swap(&mut first.session, &mut second.session);
        second.pipes = first.pipes.take();
        (second.stage, second.owner, second.procedure) = (Stage::Draining, Owner::Detached, first.procedure);
        (second.begun, second.sent, second.deadline) = (first.begun, first.sent, shared.whole);
        (second.is_large, second.is_receiving) = (false, false);
        shared.slot.store(other, Ordering::SeqCst);
        self.outstanding += 1;
        self.map_lane(call);
        self.map_lane(other);
        self.arm(other);
        if self.slots[other as usize].lane.owes_receipt(true) {
            self.large.owes(other);
        }
    }

    fn two_slots(&mut self, first: u32, second: u32) -> (&mut Slot, &mut Slot) {
        let [first, second] = self
            .slots
            .get_disjoint_mut([first as usize, second as usize])
            .expect("a slot that is free is another than one that has a call");
        (first, second)
    }

    /// The rest of a pipe has come, or does not come, for this reason. Frees its slot.
    pub(super) fn end_draining(&mut self, call: u32, error: Option<CallError>) {
        if let Some(error) = error {
            self.fail_pipes(call, &PipeError::Lost(Box::new(error)));
        }
        let slot = &mut self.slots[call as usize];
        slot.pipes = None;
        self.waits.leave(&mut slot.lane);
        slot.steps(&self.link.endpoint, 0).settle();
        self.timeouts[call as usize] = u64::MAX;
        self.outstanding -= 1;
        if self.slots[call as usize].lane.owes_receipt(true) {
            self.send_receipt(call, now());
        }
        self.free(call);
    }

    /// Ends the pipes of a call at this end, for this reason.
    pub(super) fn fail_pipes(&mut self, call: u32, why: &PipeError) {
        let Some(pipes) = self.slots[call as usize].pipes.take() else { return };
        for queue in [&pipes.shared.out, &pipes.shared.into].into_iter().flatten() {
            self.wake(queue.fail(why));
        }
        self.slots[call as usize].steps(&self.link.endpoint, 0).settle();
    }

    /// Writes the next packets of the pipe to the procedure of a call to `room`.
    pub(super) fn frame_pipe(
        &mut self,
        call: u32,
        clock: Instant,
        room: &mut <Endpoint<L> as CallerEndpoint>::Room,
    ) -> Option<Framed> {
        let slot = &mut self.slots[call as usize];
        // Data that comes before the whole of its call is dropped.
        if slot.stage != Stage::Sent || slot.is_large && !slot.lane.last_was_acknowledged() {
            return None;
        }
        self.waits.leave(&mut slot.lane);
        let wakeup = slot.pass(clock, &self.link.endpoint)?;
        let session = Arc::clone(&slot.session);
        let mut path = session.path(&self.link.endpoint, slot.lane.path());
        let most = (MAX_SEGMENTS * path.packet_len(path.fragment())).min(MAX_SEGMENTS_LEN);
        let framed = slot.lane.next_pipe_run(clock, &mut path, most).map(|run| {
            self.link.endpoint.lend(room);
            slot.lane.frame_pipe_run(clock, &run, &path, &mut Protected(room, &session.protection));
            run.fragment > path.fragment()
        });
        drop(path);
        if !slot.lane.owes_receipt(true) {
            self.large.settles(call);
        }
        self.wake([wakeup]);
        framed.map(|is_probe| Framed { is_probe, session })
    }
}

impl Slot {
    /// Begins a call with pipes and these arguments.
    #[cold]
    fn begin_piped(
        &mut self,
        procedure: u16,
        (begun, whole): (Instant, Instant),
        arguments: &[u8],
        open: OpenPipes,
    ) {
        if arguments.len() > self.session.bound.binding.packet_data() {
            let mut packet = vec![0; HEADER_LEN];
            packet.extend_from_slice(arguments);
            self.begin_large(procedure, (begun, whole), packet);
            self.lane.open_pipes(open, None);
            return;
        }
        self.hold(procedure, (begun, whole), arguments);
        self.is_large = false;
        self.start_again(begun);
        self.lane.open_pipes(open, Some(&mut self.call));
    }

    /// Passes what the program has sent to the lane. `None`: there is no pipe to the procedure.
    fn pass(&mut self, clock: Instant, endpoint: &impl CallerEndpoint) -> Option<Wakeup> {
        let Self { lane, pipes, session, .. } = self;
        let SlotPipes { shared, outlet, .. } = &mut **pipes.as_mut()?;
        let out = shared.out.as_ref()?;
        if lane.pipe_limit().is_none() {
            outlet.clear();
            // An abort or an end may have to be sent again.
            return Some(Wakeup::default());
        }
        let passed = outlet.pass(out, |bytes| lane.pipe_send(clock, bytes));
        match passed.closed {
            Some(Close::Whole) => lane.pipe_finish(clock),
            // What was sent before arrives before.
            Some(Close::Aborted) if !lane.pipe_is_under_way() => {
                let mut path = session.path(endpoint, lane.path());
                lane.pipe_abort(clock, &mut path);
            }
            Some(Close::Aborted) | None => {
                if out.wants_room() {
                    lane.pipe_want(clock, &session.path(endpoint, lane.path()));
                }
            }
        }
        Some(passed.wakeup)
    }
}
