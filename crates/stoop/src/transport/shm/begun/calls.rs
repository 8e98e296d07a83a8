//! The table of the begun calls of one session.

use crate::calling::background::{Driven, hand_over};
use crate::calling::begun::{BeginsCalls, CallBatch, Outcome, OutstandingCalls, PipeTerms};
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::short_result::Short;
use crate::context::TimeBounds;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::transport::shm::begun::lane_slot::{LaneSlot, Seen, Stage};
use crate::transport::shm::begun::lane_slots::{LaneSlots, Reservation};
use crate::transport::shm::begun::managed_calls::ManagedCalls;
use crate::transport::shm::caller::published::why_no_result;
use crate::transport::shm::caller::result_wait::ResultWait;
use crate::transport::shm::caller::session::Session;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_shm::layout::SLOT;
use stoop_shm::{AnswerKind, Answers};
use stoop_wire::MAX_DATAGRAM;

/// The calls that are begun over one session.
///
/// The number of a call is that of its slot. A call that never had a slot has the number of its managed call, with [`MANAGED`].
pub(crate) struct SessionCalls {
    pub(super) managed: Arc<ManagedCalls>,
    pub(super) session: Arc<Session>,
    pub(super) slots: LaneSlots,
    /// Held by a thread that publishes calls that were held back, or cancels one of them.
    pub(super) publishing: Mutex<()>,
    /// Buffers for arguments and results.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Waiters that no thread uses.
    pub(super) waits: Mutex<Vec<ResultWait>>,
}

/// Marks the numbers of calls that never had slots.
const MANAGED: u32 = 1 << 31;
/// Most buffers for later calls, and bytes of the longest.
const BUFFERS: usize = 64;
const BUFFER_MAX: usize = 64 * 1024;

/// Where a call is.
pub(super) enum Location<'a> {
    Slot(&'a LaneSlot, Seen),
    /// The background thread manages it, by that number. A call that had a slot still has it: its handle gives it back.
    Managed(u32, Option<&'a LaneSlot>),
}

impl SessionCalls {
    pub(super) fn new(managed: &Arc<ManagedCalls>, session: Arc<Session>) -> Self {
        Self {
            managed: Arc::clone(managed),
            session,
            slots: LaneSlots::default(),
            publishing: Mutex::default(),
            buffers: Mutex::default(),
            waits: Mutex::default(),
        }
    }

    /// Whether there are slots that are not free.
    pub(super) fn is_in_use(&self) -> bool {
        self.slots.iter().any(|slot| slot.look().stage() != Stage::Free)
    }

    /// Calls that had slots.
    pub(super) fn begun(&self) -> u64 {
        self.slots.iter().map(LaneSlot::begun).sum()
    }

    /// Calls that are held back in their slots.
    pub(super) fn held(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.look().stage() == Stage::Held).count() as u64
    }

    /// Calls that have slots, and have not ended there.
    pub(super) fn open(&self) -> u64 {
        let is_open = |slot: &&LaneSlot| matches!(slot.look().stage(), Stage::Held | Stage::Open);
        self.slots.iter().filter(is_open).count() as u64
    }

    #[inline]
    pub(super) fn find(&self, call: u32) -> Location<'_> {
        if call & MANAGED != 0 {
            return Location::Managed(call & !MANAGED, None);
        }
        let slot = self.slots.get(call);
        let seen = slot.look();
        match seen.stage() {
            Stage::Moved => Location::Managed(slot.moved_to(), Some(slot)),
            _ => Location::Slot(slot, seen),
        }
    }

    /// Whether a call has ended, without looking after it.
    #[inline(always)]
    pub(super) fn has_ended(&self, call: u32) -> bool {
        match self.find(call) {
            Location::Slot(slot, seen) => self.has_short_answer(slot, seen),
            Location::Managed(call, _) => self.managed.has_ended(call),
        }
    }

    /// Whether the answer to a call is there, with its message in the answer's line or slot. Hands a call with another answer over.
    #[inline]
    fn has_short_answer(&self, slot: &LaneSlot, seen: Seen) -> bool {
        if !slot.is_answered(seen, &self.session) {
            return false;
        }
        let is_short = slot.has_short_answer(&self.session);
        if !is_short {
            self.hand_over_answered(slot, seen);
        }
        is_short
    }

    /// Hands a call over to the background thread because its answer is long, invalid, or a refusal.
    #[cold]
    fn hand_over_answered(&self, slot: &LaneSlot, seen: Seen) {
        self.hand_over(slot, seen);
        self.managed.wake_background();
    }

    /// Hands a published call over to the background thread, unless that has been done.
    #[cold]
    pub(super) fn hand_over(&self, slot: &LaneSlot, seen: Seen) {
        let id = self.managed.new_id();
        let state = &mut *self.managed.state();
        // No other thread moves it while the managed calls are locked.
        if seen.stage() != Stage::Open || slot.look() != seen {
            return;
        }
        let (managed, deadline_ns) = slot.to_managed(&self.session, id);
        let number = state.calls.open(deadline_ns, managed);
        match slot.move_to(seen, number) {
            true => {
                state.sent.push((number, id));
                self.managed.count_slow();
            }
            // Its handle has just taken the answer.
            false => drop(state.calls.abandon(number)),
        }
    }

    /// Hands over the calls that the background thread has to drive: those with long results, those that were refused, and, if the
    /// session is lost, those without answers.
    pub(super) fn hand_over_due(&self) {
        let is_lost = self.session.is_lost();
        for slot in self.slots.iter() {
            let seen = slot.look();
            let is_due = seen.stage() == Stage::Open
                && match slot.is_answered(seen, &self.session) {
                    true => !slot.has_short_answer(&self.session),
                    false => is_lost,
                };
            if is_due {
                self.hand_over(slot, seen);
            }
        }
    }

    /// Looks whether a call that has not been answered has lost its server, or is past its deadline.
    pub(super) fn check(&self, call: u32) {
        if let Location::Slot(slot, seen) = self.find(call)
            && (self.session.is_lost() || clock::has_come(slot.deadline_ns()))
            && !slot.is_answered(seen, &self.session)
        {
            self.hand_over(slot, seen);
            self.managed.wake_background();
            self.managed.advance();
        }
    }

    /// The handle of a managed call gives the slot back, if the call had one. The lane is with the managed call.
    fn free_slot(&self, slot: Option<&LaneSlot>) {
        if let Some(slot) = slot {
            slot.set_lane(None);
            slot.free();
        }
    }

    /// Takes the outcome of a call from its lane. `false`: it is not there, or no more.
    fn take_from(&self, slot: &LaneSlot, seen: Seen, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let session = &*self.session;
        if !slot.is_answered(seen, session) {
            return false;
        }
        // Read once: the server can write another answer at any time, so the checked copy is the one that is used.
        let Some((lane, answer)) = slot.short_answer(session) else {
            self.hand_over_answered(slot, seen);
            return false;
        };
        if answer.kind == AnswerKind::Refusal {
            self.hand_over_answered(slot, seen);
            return false;
        }
        session.saw_server_on(answer.cpu);
        let len = answer.len as usize;
        if let Some(message) = Answers::short_message(&session.segment, lane, &answer)
            && answer.kind == AnswerKind::Result
        {
            let closed = slot.close_and_free(seen);
            if closed {
                with(Ok(Reader::new(&message[..len])));
            }
            return closed;
        }
        let mut message = self.buffer();
        message.clear();
        Answers::message(&session.segment, lane, &answer, &mut message);
        let closed = slot.close_and_free(seen);
        if closed {
            with(match why_no_result(&answer, &message) {
                None => Ok(Reader::new(&message)),
                Some(why) => Err(self.name(why)),
            });
        }
        self.recycle(message);
        closed
    }

    /// Whether a call has ended, which had not when it was last looked at.
    #[inline(never)]
    fn is_ready_now(&self, call: u32) -> bool {
        self.publish_held(call);
        self.check(call);
        self.has_ended(call)
    }

    fn buffer(&self) -> Vec<u8> {
        locked(&self.buffers).pop().unwrap_or_default()
    }

    fn recycle(&self, buffer: Vec<u8>) {
        let mut buffers = locked(&self.buffers);
        if buffers.len() < BUFFERS && buffer.capacity() <= BUFFER_MAX {
            buffers.push(buffer);
        }
    }
}

impl Drop for SessionCalls {
    fn drop(&mut self) {
        self.managed.count(self.begun());
        self.session.give_back(self.slots.iter().filter_map(LaneSlot::lane));
        hand_over(&self.managed);
    }
}

impl BeginsCalls for SessionCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let limit = self.managed.binding.options.max_message.min(u32::MAX as usize);
        let mut buffer = self.buffer();
        if buffer.len() < MAX_DATAGRAM {
            buffer.resize(MAX_DATAGRAM, 0);
        }
        CallBatch::unclocked(buffer, 0, limit, timeout_ns)
    }

    #[inline]
    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        if !TimeBounds::current(batch.timeout_ns).has_time() {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        if len <= SLOT
            && self.session.takes_calls()
            && let Some(call) = self.hold(batch, procedure, len)
        {
            return Ok(call);
        }
        batch.read_clock();
        Ok(self.managed.enqueue(batch, procedure, len)? | MANAGED)
    }

    fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        batch.read_clock();
        let (call, ends) = self.managed.begin_piped(batch, (procedure, len), terms).map_err(Some)?;
        Ok((call | MANAGED, ends))
    }

    fn submit(&self, batch: CallBatch) {
        self.publish(Reservation::held_in(&batch));
        Reservation::left_in(&batch).give_back(&self.slots);
        self.recycle(batch.packet);
    }
}

impl OutstandingCalls for SessionCalls {
    fn server(&self) -> String {
        self.managed.binding.uri.clone()
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.has_ended(call) || self.is_ready_now(call)
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        if self.is_ready(call) {
            return true;
        }
        if let Location::Slot(slot, seen) = self.find(call) {
            self.hand_over(slot, seen);
        }
        match self.find(call) {
            Location::Managed(call, _) => self.managed.poll(call, waker),
            Location::Slot(..) => self.is_ready(call),
        }
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        self.wait(calls, until.as_nanos())
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        let Location::Slot(slot, seen) = self.find(call) else { return None };
        let session = &*self.session;
        if !slot.is_answered(seen, session) {
            return None;
        }
        let word = slot.word_answer(session)?;
        session.saw_server_on(word.cpu);
        slot.close_and_free(seen).then(|| Short::from_bits(word.bits, word.len))
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        loop {
            match self.find(call) {
                Location::Slot(slot, seen) => {
                    if self.take_from(slot, seen, with) {
                        return true;
                    }
                    if slot.look() == seen {
                        return false;
                    }
                }
                Location::Managed(number, slot) => {
                    let taken = self.managed.take(self, number, with);
                    if taken {
                        self.free_slot(slot);
                    }
                    return taken;
                }
            }
        }
    }

    fn distrust(&self, call: u32) {
        if let Location::Slot(slot, seen) = self.find(call) {
            self.hand_over_answered(slot, seen);
        }
    }

    fn cancel(&self, call: u32) {
        loop {
            match self.find(call) {
                Location::Slot(slot, seen) if seen.stage() == Stage::Held => {
                    let _publishing = locked(&self.publishing);
                    if slot.look() == seen {
                        return slot.cancel_held();
                    }
                }
                Location::Slot(slot, seen) => {
                    let is_answered = self.has_short_answer(slot, seen);
                    if !slot.close(seen) {
                        continue;
                    }
                    if !is_answered && let Some(lane) = slot.lane() {
                        slot.set_lane(None);
                        self.session.abandon(lane, None, Vec::new());
                    }
                    return slot.free();
                }
                Location::Managed(number, slot) => {
                    self.managed.cancel(number);
                    return self.free_slot(slot);
                }
            }
        }
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        self.publish_held(call);
        loop {
            match self.find(call) {
                Location::Slot(slot, seen) => {
                    if !self.has_short_answer(slot, seen) {
                        self.hand_over(slot, seen);
                    } else if slot.close_and_free(seen) {
                        return;
                    }
                }
                Location::Managed(number, slot) => {
                    self.managed.detach(number, ordered);
                    if self.session.is_lost() {
                        self.managed.wake_background();
                    }
                    return self.free_slot(slot);
                }
            }
        }
    }

    fn has_left(&self, call: u32) -> bool {
        match self.find(call) {
            Location::Slot(..) => true,
            Location::Managed(number, _) => self.managed.has_left(number),
        }
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        match self.managed.state().calls.reclaim(which) {
            Reclaimed::Call(call, ordered) => Reclaimed::Call(call | MANAGED, ordered),
            other => other,
        }
    }

    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        self.wait_for_reclaimed_call(call, until.as_nanos());
    }

    fn detached(&self) -> usize {
        self.managed.state().calls.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.managed.state().calls.failures);
    }
}
