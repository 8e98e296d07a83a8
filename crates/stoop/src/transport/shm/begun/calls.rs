//! The begun calls of one session.

use crate::calling::background::Driven;
use crate::calling::begun::Outcome;
use crate::calling::begun::{CallBatch, OutstandingCalls};
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::calling::short_result::Short;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::transport::shm::begun::SharedCalls;
use crate::transport::shm::begun::lane_slot::{LaneSlot, Seen, Stage};
use crate::transport::shm::begun::lane_slots::LaneSlots;
use crate::transport::shm::begun::submission::{held_by, reserved_for};
use crate::transport::shm::caller::published::why_no_result;
use crate::transport::shm::caller::result_wait::ResultWait;
use crate::transport::shm::caller::session::Session;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_shm::layout::SLOT;
use stoop_shm::{AnswerKind, Answers};
use stoop_wire::MAX_DATAGRAM;

/// Carries the calls that are begun over one session.
///
/// The number of a call is that of its place; with [`KEPT`] it is what the background calls it, for one that never had a place.
pub(crate) struct SessionCalls {
    pub(super) flights: Arc<SharedCalls>,
    pub(super) session: Arc<Session>,
    pub(super) places: LaneSlots,
    /// Held by whoever publishes calls that were held back, or gives one of them up.
    pub(super) posting: Mutex<()>,
    /// For arguments and results.
    packets: Mutex<Vec<Vec<u8>>>,
    /// Ways of waiting that no thread uses.
    pub(super) result_waits: Mutex<Vec<ResultWait>>,
}

/// Marks calls that have no place.
pub(super) const KEPT: u32 = 1 << 31;
/// Packets kept, and bytes of the longest.
const PACKETS: usize = 64;
const PACKET_MAX: usize = 64 * 1024;

/// Where a call is.
pub(super) enum Whereabouts<'a> {
    LaneSlot(&'a LaneSlot, Seen),
    /// The background has it, by that number; perhaps it was moved there from a place, which is still its handle's.
    Background(u32, Option<&'a LaneSlot>),
}

impl SessionCalls {
    pub(super) fn new(flights: &Arc<SharedCalls>, session: Arc<Session>) -> Self {
        Self {
            flights: Arc::clone(flights),
            session,
            places: LaneSlots::default(),
            posting: Mutex::default(),
            packets: Mutex::default(),
            result_waits: Mutex::default(),
        }
    }

    /// Whether there are places that are not free.
    pub(super) fn is_in_use(&self) -> bool {
        self.places.iter().any(|place| place.look().stage() != Stage::Free)
    }

    /// Calls whose answers were taken from their lanes.
    pub(super) fn counted(&self) -> u64 {
        self.places.iter().map(LaneSlot::counted).sum()
    }

    #[inline]
    pub(super) fn find(&self, call: u32) -> Whereabouts<'_> {
        if call & KEPT != 0 {
            return Whereabouts::Background(call & !KEPT, None);
        }
        let place = self.places.get(call);
        let seen = place.look();
        match seen.stage() {
            Stage::Moved => Whereabouts::Background(place.moved_to(), Some(place)),
            _ => Whereabouts::LaneSlot(place, seen),
        }
    }

    /// Whether a call has ended, at a glance.
    #[inline(always)]
    pub(super) fn has_ended(&self, call: u32) -> bool {
        match self.find(call) {
            Whereabouts::LaneSlot(place, seen) => self.has_short_answer(place, seen),
            Whereabouts::Background(call, _) => self.flights.has_ended(call),
        }
    }

    /// Whether the answer to a call is there, and its message in the answer's line or slot. A call with another answer is handed over
    /// to the background.
    #[inline]
    fn has_short_answer(&self, place: &LaneSlot, seen: Seen) -> bool {
        if !place.is_answered(seen, &self.session) {
            return false;
        }
        let is_short = place.has_short_answer(&self.session);
        if !is_short {
            self.keep_with_answer(place, seen);
        }
        is_short
    }

    /// Hands a call over to the background whose answer is there, and is long or makes no sense.
    #[cold]
    fn keep_with_answer(&self, place: &LaneSlot, seen: Seen) {
        self.keep(place, seen);
        self.flights.wake_background();
    }

    /// Hands a call over to the background, unless that has been done.
    #[cold]
    pub(super) fn keep(&self, place: &LaneSlot, seen: Seen) {
        let id = self.flights.new_id();
        let mut state = self.flights.state();
        // Moved by nobody else while the lock is held.
        if seen.stage() != Stage::Open || place.look() != seen {
            return;
        }
        place.refine_deadline(clock::now_ns());
        let (kept, deadline_ns) = place.to_keep(&self.session, id);
        let call = state.calls.open(deadline_ns, kept);
        if place.move_to(seen, call) {
            state.sent.push((call, id));
        } else {
            // Its handle has taken the answer at this moment.
            let _ = state.calls.abandon(call);
        }
    }

    /// Hands over to the background what it has to see to: long results, and, when the session is lost, calls without an answer.
    pub(super) fn hand_over(&self) {
        let is_lost = self.session.is_lost();
        for place in self.places.iter() {
            let seen = place.look();
            if seen.stage() != Stage::Open {
                continue;
            }
            let is_long = || {
                let answer = place.answer(&self.session);
                answer.is_none_or(|(_, answer)| answer.len as usize > SLOT)
            };
            let is_to_be_kept = match place.is_answered(seen, &self.session) {
                true => is_long(),
                false => is_lost,
            };
            if is_to_be_kept {
                self.keep(place, seen);
            }
        }
    }

    /// Looks at a call that has not been answered: whether its server is lost or its deadline has passed.
    pub(super) fn look_after(&self, call: u32) {
        if let Whereabouts::LaneSlot(place, seen) = self.find(call)
            && (self.session.is_lost() || clock::has_come(place.deadline_ns()))
            && !place.is_answered(seen, &self.session)
        {
            self.keep(place, seen);
            self.flights.wake_background();
            self.flights.advance();
        }
    }

    /// The handle of a call that the background had is gone, or about to go.
    fn let_go(&self, place: Option<&LaneSlot>) {
        if let Some(place) = place {
            // The background has its lane.
            place.set_lane(None);
            place.free();
        }
    }

    /// Takes the outcome of a call from its lane. `false`: it is not there, or no more.
    fn take_from(&self, place: &LaneSlot, seen: Seen, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let session = &*self.session;
        if !place.is_answered(seen, session) {
            return false;
        }
        // Read once: the server can write another answer at any time, and what was read is what is checked and used.
        let Some((lane, answer)) = place.short_answer(session) else {
            self.keep_with_answer(place, seen);
            return false;
        };
        session.saw_server_on(answer.cpu);
        let len = answer.len as usize;
        if let Some(message) = Answers::short_message(&session.segment, lane, &answer)
            && answer.kind == AnswerKind::Result
        {
            place.count();
            if !place.close_and_free(seen) {
                return false;
            }
            with(Ok(Reader::new(&message[..len])));
            return true;
        }
        let mut message = self.packet();
        message.clear();
        Answers::message(&session.segment, lane, &answer, &mut message);
        place.count();
        let closed = place.close_and_free(seen);
        if closed {
            with(match why_no_result(&answer, &message) {
                None => Ok(Reader::new(&message)),
                Some(why) => Err(why),
            });
        }
        self.spare(message);
        closed
    }

    /// Whether a call, which had not ended at a glance, has ended.
    #[inline(never)]
    fn is_ready_after_all(&self, call: u32) -> bool {
        self.let_leave(call);
        self.look_after(call);
        self.has_ended(call)
    }

    fn packet(&self) -> Vec<u8> {
        locked(&self.packets).pop().unwrap_or_default()
    }

    fn spare(&self, packet: Vec<u8>) {
        let mut packets = locked(&self.packets);
        if packets.len() < PACKETS && packet.capacity() <= PACKET_MAX {
            packets.push(packet);
        }
    }
}

impl Drop for SessionCalls {
    fn drop(&mut self) {
        self.flights.answered.fetch_add(self.counted(), Ordering::Relaxed);
        self.session.give_back(self.places.iter().filter_map(LaneSlot::lane));
        self.flights.wake_background();
    }
}

impl OutstandingCalls for SessionCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let limit = self.flights.binding.options.max_message.min(u32::MAX as usize);
        let mut packet = self.packet();
        if packet.len() < MAX_DATAGRAM {
            packet.resize(MAX_DATAGRAM, 0);
        }
        CallBatch::unclocked(packet, 0, limit, timeout_ns)
    }

    #[inline]
    fn begin(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        if !departure.read_cheap_clock() {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        if len <= SLOT
            && !self.session.is_lost()
            && let Some(call) = self.hold(departure, procedure, len)
        {
            return Ok(call);
        }
        Ok(self.flights.enqueue(departure, procedure, len) | KEPT)
    }

    fn submit(&self, departure: CallBatch) {
        self.post(held_by(&departure));
        reserved_for(&departure).give_back(&self.places);
        self.spare(departure.packet);
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.has_ended(call) || self.is_ready_after_all(call)
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        if self.is_ready(call) {
            return true;
        }
        if let Whereabouts::LaneSlot(place, seen) = self.find(call) {
            self.keep(place, seen);
        }
        match self.find(call) {
            Whereabouts::Background(call, _) => self.flights.poll(call, waker),
            Whereabouts::LaneSlot(..) => self.is_ready(call),
        }
    }

    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize> {
        self.wait(calls, until.as_nanos())
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        let Whereabouts::LaneSlot(place, seen) = self.find(call) else { return None };
        let session = &*self.session;
        if !place.is_answered(seen, session) {
            return None;
        }
        let word = place.word_answer(session)?;
        session.saw_server_on(word.cpu);
        place.count();
        place.close_and_free(seen).then(|| Short::from_bits(word.bits, word.len))
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        loop {
            match self.find(call) {
                Whereabouts::LaneSlot(place, seen) => {
                    if self.take_from(place, seen, with) {
                        return true;
                    }
                    if place.look() == seen {
                        return false;
                    }
                }
                Whereabouts::Background(kept, place) => {
                    let taken = self.flights.take(kept, with);
                    if taken {
                        self.let_go(place);
                    }
                    return taken;
                }
            }
        }
    }

    fn distrust(&self, call: u32) {
        if let Whereabouts::LaneSlot(place, seen) = self.find(call) {
            self.keep_with_answer(place, seen);
        }
    }

    fn cancel(&self, call: u32) {
        loop {
            match self.find(call) {
                Whereabouts::LaneSlot(place, seen) if seen.stage() == Stage::Held => {
                    let _posting = locked(&self.posting);
                    if place.look() == seen {
                        return place.forget();
                    }
                }
                Whereabouts::LaneSlot(place, seen) => {
                    let is_answered = self.has_short_answer(place, seen);
                    if !place.close(seen) {
                        continue;
                    }
                    if !is_answered && let Some(lane) = place.lane() {
                        place.set_lane(None);
                        self.session.abandon(lane, None, Vec::new());
                    }
                    return place.free();
                }
                Whereabouts::Background(kept, place) => {
                    self.flights.cancel(kept);
                    return self.let_go(place);
                }
            }
        }
    }

    fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        self.let_leave(call);
        loop {
            match self.find(call) {
                Whereabouts::LaneSlot(place, seen) => {
                    if self.has_short_answer(place, seen) {
                        if place.close_and_free(seen) {
                            return;
                        }
                        continue;
                    }
                    self.keep(place, seen);
                }
                Whereabouts::Background(kept, place) => {
                    self.flights.detach(kept, calling_thread);
                    if self.session.is_lost() {
                        self.flights.wake_background();
                    }
                    return self.let_go(place);
                }
            }
        }
    }

    fn has_left(&self, call: u32) -> bool {
        match self.find(call) {
            Whereabouts::LaneSlot(..) => true,
            Whereabouts::Background(kept, _) => {
                self.flights.state().calls.get_mut(kept).is_none_or(|kept| kept.has_left())
            }
        }
    }

    fn reclaim(&self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        let (call, calling_thread) = self.flights.state().calls.reclaim(which)?;
        Some((call | KEPT, calling_thread))
    }

    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        self.wait_for_reclaimed_call(call, until.as_nanos());
    }

    fn detached(&self) -> usize {
        self.flights.state().calls.detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.flights.state().calls.failures);
    }
}
