//! The slot of a begun call while all goes well: its lane, and the data that is needed if something goes wrong.
//!
//! A slot is used without a lock, with one exception. The thread that has reserved it owns it, then the handle of its call. Other
//! threads may only turn an [open](Stage::Open) call into a [moved](Stage::Moved) one; the values that they have read before count only if
//! that succeeds. The exception: a call that is [held back](Stage::Held) is published or cancelled under the table's lock for
//! that, by the thread that began it or by one that waits for it.

use crate::context::TimeBounds;
use crate::locked::locked;
use crate::transport::shm::begun::managed::ManagedCall;
use crate::transport::shm::caller::lanes::Lane;
use crate::transport::shm::caller::session::Session;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, Answers, Requests, WordResult};

/// A slot for a call, which shares no cache line with others.
#[repr(align(128))]
pub(super) struct LaneSlot {
    /// The [`Stage`], and above it how many calls have been here: a call is not taken for another.
    word: AtomicU64,
    lane: AtomicU32,
    /// Of the last call on the lane.
    number: AtomicU32,
    ticket: AtomicU64,
    /// When the call was published. While it is held back: its timeout.
    begun_ns: AtomicU64,
    /// While the call is held back: the deadline that it inherits.
    deadline_ns: AtomicU64,
    procedure: AtomicU32,
    /// Of a moved call: the number by which it is managed.
    moved_to: AtomicU32,
    arguments: Arguments,
}

/// A copy of a call's arguments, in case that it is published again: the server can change the shared memory.
#[derive(Default)]
struct Arguments {
    len: AtomicU32,
    short: [AtomicU64; SHORT / 8],
    long: Mutex<Vec<u8>>,
}

/// Bytes of arguments that are stored in words: as many as the line of a request has.
const SHORT: usize = 32;

/// The stage of a slot's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Free,
    /// A call will be begun here.
    Reserved,
    /// Begun, and held back to be published with others.
    Held,
    /// Published; the answer will be taken from the lane.
    Open,
    /// The background thread manages it. Its handle finds it there.
    Moved,
}

/// A value of [`LaneSlot::word`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(u64);

const STAGES: u64 = 8;
const NO_LANE: u32 = u32::MAX;

impl Seen {
    #[inline]
    pub(super) fn stage(self) -> Stage {
        match self.0 % STAGES {
            0 => Stage::Free,
            1 => Stage::Reserved,
            2 => Stage::Held,
            3 => Stage::Open,
            _ => Stage::Moved,
        }
    }

    fn with(self, stage: Stage) -> u64 {
        self.0 - self.0 % STAGES + stage as u64
    }
}

/// A call that begins.
pub(super) struct Begun {
    pub(super) lane: Lane,
    pub(super) bounds: TimeBounds,
    pub(super) procedure: u16,
}

impl Default for LaneSlot {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(Stage::Free as u64),
            lane: AtomicU32::new(NO_LANE),
            number: AtomicU32::default(),
            ticket: AtomicU64::default(),
            begun_ns: AtomicU64::default(),
            deadline_ns: AtomicU64::default(),
            procedure: AtomicU32::default(),
            moved_to: AtomicU32::default(),
            arguments: Arguments::default(),
        }
    }
}

impl LaneSlot {
    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Pairs with the releases of all that change it.
        Seen(self.word.load(Acquire))
    }

    /// Reserves it: by the thread that has seen that it is free, and holds the lock of the free slots.
    #[inline]
    pub(super) fn reserve(&self) {
        self.word.store(Seen(self.word.load(Relaxed)).with(Stage::Reserved), Release);
    }

    /// Its owner gives it back.
    #[inline]
    pub(super) fn free(&self) {
        self.word.store(Seen(self.word.load(Relaxed)).with(Stage::Free), Release);
    }

    /// Its owner begins a call, which is held back.
    #[inline]
    pub(super) fn hold(&self, begun: &Begun, arguments: &[u8]) {
        self.number.store(begun.lane.last, Relaxed);
        let (timeout_ns, inherited_ns) = begun.bounds.to_nanos();
        self.begun_ns.store(timeout_ns, Relaxed);
        self.deadline_ns.store(inherited_ns, Relaxed);
        self.procedure.store(begun.procedure.into(), Relaxed);
        self.arguments.set(arguments);
        let next = (self.word.load(Relaxed) / STAGES + 1) * STAGES;
        self.word.store(next + Stage::Held as u64, Release);
    }

    /// Its owner cancels the call that is held back.
    pub(super) fn cancel_held(&self) {
        self.number.store(Answers::number_before(self.number.load(Relaxed)), Relaxed);
        self.free();
    }

    /// The call that is held back is published with that ticket. The precise clock shows `now_ns`.
    #[inline]
    pub(super) fn post(&self, session: &Session, ticket: u64, cpu: u16, now_ns: u64) {
        let mut short = [0; SHORT];
        let arguments = self.arguments.short(&mut short);
        let len = self.arguments.len.load(Relaxed) as usize;
        let bounds = TimeBounds::from_nanos((self.begun_ns.load(Relaxed), self.deadline_ns()));
        let deadline_ns = bounds.deadline_ns(now_ns);
        self.begun_ns.store(now_ns, Relaxed);
        self.deadline_ns.store(deadline_ns, Relaxed);
        let procedure = self.procedure.load(Relaxed) as u16;
        let procedure = session.bound.number(procedure);
        let request = session.request(self.last(), procedure, len, deadline_ns, cpu);
        self.ticket.store(ticket, Relaxed);
        // From now on the call can be answered, and the slot used for another.
        self.word.store(Seen(self.word.load(Relaxed)).with(Stage::Open), Release);
        Requests::post(&session.segment, ticket, &request, arguments);
    }

    /// The lane of a slot that has one, as of its last call.
    #[inline]
    fn last(&self) -> Lane {
        Lane { number: self.lane.load(Relaxed) as u16, last: self.number.load(Relaxed) }
    }

    /// The lane, as of its last call; `None` if it has none yet, or none any more.
    #[inline]
    pub(super) fn lane(&self) -> Option<Lane> {
        (self.lane.load(Relaxed) != NO_LANE).then(|| self.last())
    }

    /// Its owner gives it a lane, or takes the lane away.
    pub(super) fn set_lane(&self, lane: Option<Lane>) {
        self.lane.store(lane.map_or(NO_LANE, |lane| lane.number.into()), Relaxed);
        self.number.store(lane.map_or(0, |lane| lane.last), Relaxed);
    }

    #[inline]
    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// The number by which the moved call is managed.
    pub(super) fn moved_to(&self) -> u32 {
        self.moved_to.load(Relaxed)
    }

    /// Whether the call that was seen is open, and has been answered.
    #[inline]
    pub(super) fn is_answered(&self, seen: Seen, session: &Session) -> bool {
        let lane = self.last();
        seen.stage() == Stage::Open && Answers::is_there(&session.segment, lane.number, lane.last)
    }

    /// The answer to the call that is open, and which [is there](Self::is_answered); `None` when it makes no sense, or its message is
    /// longer than a slot.
    #[inline]
    pub(super) fn short_answer(&self, session: &Session) -> Option<(u16, Answer)> {
        let lane = self.lane.load(Relaxed) as u16;
        let answer = Answers::read(&session.segment, lane)?;
        (answer.len as usize <= SLOT).then_some((lane, answer))
    }

    /// Whether the answer to the call that is open, and which [is there](Self::is_answered), makes sense, is no longer than a slot, and
    /// is no refusal.
    #[inline]
    pub(super) fn has_short_answer(&self, session: &Session) -> bool {
        Answers::is_final(&session.segment, self.lane.load(Relaxed) as u16)
    }

    /// The answer to the call that is open, and which [is there](Self::is_answered), if it is a result of no more than a word.
    #[inline]
    pub(super) fn word_answer(&self, session: &Session) -> Option<WordResult> {
        Answers::word_result(&session.segment, self.lane.load(Relaxed) as u16)
    }

    /// Its owner ends the call that was seen to be open, and still owns the slot. `false`: the call was moved.
    #[inline]
    pub(super) fn close(&self, seen: Seen) -> bool {
        self.word.compare_exchange(seen.0, seen.with(Stage::Reserved), AcqRel, Acquire).is_ok()
    }

    /// As [`close`](Self::close), and gives the slot back.
    #[inline]
    pub(super) fn close_and_free(&self, seen: Seen) -> bool {
        self.word.compare_exchange(seen.0, seen.with(Stage::Free), AcqRel, Acquire).is_ok()
    }

    /// Calls that have been begun here.
    pub(super) fn begun(&self) -> u64 {
        self.word.load(Relaxed) / STAGES
    }

    /// The open call as a managed one, and its deadline.
    pub(super) fn to_managed(&self, session: &Arc<Session>, id: u64) -> (ManagedCall, u64) {
        let (procedure, begun_ns) = (self.procedure.load(Relaxed) as u16, self.begun_ns.load(Relaxed));
        let managed = ManagedCall::queued(id, procedure, begun_ns, self.arguments.get());
        (managed.sent(session, self.last(), self.ticket.load(Relaxed)), self.deadline_ns())
    }

    /// Moves the call that was seen to be open. `false`: it has ended meanwhile, and the values that were read of it are not to be used.
    pub(super) fn move_to(&self, seen: Seen, number: u32) -> bool {
        self.moved_to.store(number, Relaxed);
        self.word.compare_exchange(seen.0, seen.with(Stage::Moved), AcqRel, Acquire).is_ok()
    }
}

impl Arguments {
    #[inline]
    fn set(&self, arguments: &[u8]) {
        self.len.store(arguments.len() as u32, Relaxed);
        if arguments.len() > SHORT {
            let mut long = locked(&self.long);
            long.clear();
            long.extend_from_slice(arguments);
            return;
        }
        let (whole, rest) = arguments.as_chunks::<8>();
        for (word, bytes) in self.short.iter().zip(whole) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        if !rest.is_empty() {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            self.short[whole.len()].store(u64::from_le_bytes(padded), Relaxed);
        }
    }

    /// Arguments that are stored in words; empty if they are longer.
    #[inline]
    fn short<'a>(&self, bytes: &'a mut [u8; SHORT]) -> &'a [u8] {
        let len = self.len.load(Relaxed) as usize;
        if len > SHORT {
            return &[];
        }
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (bytes, word) in words.iter_mut().zip(&self.short).take(len.div_ceil(8)) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        &bytes[..len]
    }

    fn get(&self) -> Vec<u8> {
        match self.len.load(Relaxed) as usize > SHORT {
            true => locked(&self.long).clone(),
            false => self.short(&mut [0; SHORT]).to_vec(),
        }
    }
}
