//! Where a begun call is while all goes well: a lane, and what would be needed if it did not.
//!
//! A place is used without a lock. Whoever has reserved it, or has the handle of its call, owns it; the keeper and whoever looks
//! after all calls may only turn a call that is [open](Stage::Open) into one that has been [moved](Stage::Moved), and what they
//! read before they have done so counts only then.

use super::kept::Kept;
use crate::client::shm::session::{Lane, Session};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};
use stoop_shm::{Answer, Answers};

/// A place for a call, a line or two by itself.
#[repr(align(128))]
pub(super) struct Place {
    /// The [`Stage`], and above it how many calls have been here: a call is not taken for another.
    word: AtomicU64,
    lane: AtomicU32,
    /// Of the last call on the lane.
    number: AtomicU32,
    ticket: AtomicU64,
    begun_ns: AtomicU64,
    deadline_ns: AtomicU64,
    procedure: AtomicU32,
    /// Of a call that has been moved: what the keeper calls it.
    moved_to: AtomicU32,
    /// Calls whose answers were taken here.
    answered: AtomicU64,
    arguments: Arguments,
}

/// Arguments of a call, in case that it is to be published again: not everything that is in shared memory has come from here.
#[derive(Default)]
struct Arguments {
    len: AtomicU32,
    short: [AtomicU64; SHORT / 8],
    long: Mutex<Vec<u8>>,
}

/// Bytes of arguments that are kept in words.
const SHORT: usize = 32;

/// How far the call of a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Free,
    /// For a call to be begun.
    Reserved,
    /// Published, and its answer is to be taken from its lane.
    Open,
    /// The keeper has it. Its handle finds it there.
    Moved,
}

/// What [`Place::word`] was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(u64);

const STAGES: u64 = 4;
const NO_LANE: u32 = u32::MAX;

impl Seen {
    #[inline]
    pub(super) fn stage(self) -> Stage {
        match self.0 % STAGES {
            0 => Stage::Free,
            1 => Stage::Reserved,
            2 => Stage::Open,
            _ => Stage::Moved,
        }
    }

    fn with(self, stage: Stage) -> u64 {
        self.0 - self.0 % STAGES + stage as u64
    }
}

/// What is to be known of a call that is begun.
pub(super) struct Begun {
    pub(super) lane: Lane,
    pub(super) ticket: u64,
    pub(super) begun_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) procedure: u16,
}

impl Default for Place {
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
            answered: AtomicU64::default(),
            arguments: Arguments::default(),
        }
    }
}

impl Place {
    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Pairs with the releases of all that change it.
        Seen(self.word.load(Acquire))
    }

    /// Reserves it if it is free. By one thread at a time.
    pub(super) fn reserve(&self) -> bool {
        let seen = self.look();
        let is_free = seen.stage() == Stage::Free;
        if is_free {
            self.word.store(seen.with(Stage::Reserved), Release);
        }
        is_free
    }

    /// Its owner needs it no more.
    #[inline]
    pub(super) fn free(&self) {
        self.word.store(Seen(self.word.load(Relaxed)).with(Stage::Free), Release);
    }

    /// Its owner's call has been published.
    #[inline]
    pub(super) fn open(&self, begun: &Begun, arguments: &[u8]) {
        self.number.store(begun.lane.last, Relaxed);
        self.ticket.store(begun.ticket, Relaxed);
        self.begun_ns.store(begun.begun_ns, Relaxed);
        self.deadline_ns.store(begun.deadline_ns, Relaxed);
        self.procedure.store(begun.procedure.into(), Relaxed);
        self.arguments.keep(arguments);
        let next = (self.word.load(Relaxed) / STAGES + 1) * STAGES;
        self.word.store(next + Stage::Open as u64, Release);
    }

    /// The lane, as of its last call; `None` if it has none yet, or none any more.
    #[inline]
    pub(super) fn lane(&self) -> Option<Lane> {
        let lane = self.lane.load(Relaxed);
        (lane != NO_LANE).then(|| Lane { number: lane as u16, last: self.number.load(Relaxed) })
    }

    /// Its owner gives it a lane, or takes the lane away.
    pub(super) fn set_lane(&self, lane: Option<Lane>) {
        self.lane.store(lane.map_or(NO_LANE, |lane| lane.number.into()), Relaxed);
        self.number.store(lane.map_or(0, |lane| lane.last), Relaxed);
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// What the keeper calls the call that has been moved.
    pub(super) fn moved_to(&self) -> u32 {
        self.moved_to.load(Relaxed)
    }

    /// Whether the call that is open has been answered.
    #[inline]
    pub(super) fn is_answered(&self, session: &Session) -> bool {
        let (lane, number) = (self.lane.load(Relaxed) as u16, self.number.load(Relaxed));
        Answers::is_there(&session.segment, lane, number)
    }

    /// The answer to the call that is open, and which [is there](Self::is_answered); `None` when it makes no sense.
    #[inline]
    pub(super) fn answer(&self, session: &Session) -> Option<(u16, Answer)> {
        let lane = self.lane.load(Relaxed) as u16;
        Answers::read(&session.segment, lane).map(|answer| (lane, answer))
    }

    /// The owner ends the call that was seen to be open, and may use the place again. `false`: it has been moved.
    #[inline]
    pub(super) fn close(&self, seen: Seen) -> bool {
        self.word.compare_exchange(seen.0, seen.with(Stage::Reserved), AcqRel, Acquire).is_ok()
    }

    /// As [`close`](Self::close), and anybody may use it.
    #[inline]
    pub(super) fn close_and_free(&self, seen: Seen) -> bool {
        self.word.compare_exchange(seen.0, seen.with(Stage::Free), AcqRel, Acquire).is_ok()
    }

    /// One more answer has been taken here, by the owner.
    #[inline]
    pub(super) fn count(&self) {
        self.answered.store(self.answered.load(Relaxed) + 1, Relaxed);
    }

    pub(super) fn counted(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// What the keeper needs of the call that is open, and its deadline.
    pub(super) fn to_keep(&self, session: &std::sync::Arc<Session>, id: u64) -> (Kept, u64) {
        let lane = Lane { number: self.lane.load(Relaxed) as u16, last: self.number.load(Relaxed) };
        let procedure = self.procedure.load(Relaxed) as u16;
        let kept = Kept::sent(
            id,
            (procedure, self.begun_ns.load(Relaxed)),
            self.arguments.get(),
            (session, lane, self.ticket.load(Relaxed)),
        );
        (kept, self.deadline_ns())
    }

    /// The call that was seen to be open is moved. `false`: it has ended meanwhile, and what was read of it is of no use.
    pub(super) fn move_to(&self, seen: Seen, number: u32) -> bool {
        self.moved_to.store(number, Relaxed);
        self.word.compare_exchange(seen.0, seen.with(Stage::Moved), AcqRel, Acquire).is_ok()
    }
}

impl Arguments {
    #[inline]
    fn keep(&self, arguments: &[u8]) {
        self.len.store(arguments.len() as u32, Relaxed);
        if arguments.len() > SHORT {
            let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
            long.clear();
            long.extend_from_slice(arguments);
            return;
        }
        for (word, bytes) in self.short.iter().zip(arguments.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Relaxed);
        }
    }

    fn get(&self) -> Vec<u8> {
        let len = self.len.load(Relaxed) as usize;
        if len > SHORT {
            return self.long.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        let mut arguments: Vec<u8> =
            self.short.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        arguments.truncate(len);
        arguments
    }
}
