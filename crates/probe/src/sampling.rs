//! Sampled calls: all stamps of one call in so many of each thread, while the other calls of the process pass the points as if they were off.
//!
//! Only the first point of a caller and of a server is always on: there a thread counts its calls down, which takes a decrement and a
//! branch. When one is due, all points are switched on until it has ended. Stamps of other threads find meanwhile that these have no
//! sample under way. A sample that has ended goes to a [list](kept) of its thread as it is: a later call has the accounts take the list.

use crate::kept;
use crate::switches::{self, COUNTS};
use crate::{Point, cycles};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The side of a call that a thread is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It makes the call.
    Caller,
    /// It serves the call.
    Server,
}

impl Role {
    #[inline]
    fn of(point: Point) -> Self {
        if point.is_servers() { Role::Server } else { Role::Caller }
    }

    /// The points of this side, in the order of a call.
    pub fn points(self) -> impl DoubleEndedIterator<Item = Point> {
        Point::ALL.into_iter().filter(move |point| Role::of(*point) == self)
    }

    fn first(self) -> Point {
        match self {
            Role::Caller => Point::StubBegun,
            Role::Server => Point::CallSeen,
        }
    }

    fn last(self) -> Point {
        match self {
            Role::Caller => Point::StubEnded,
            Role::Server => Point::ResultLeft,
        }
    }

    fn bits(self) -> u64 {
        self.points().fold(0, |bits, point| bits | bit(point))
    }
}

const fn bit(point: Point) -> u64 {
    1 << point.number()
}

/// The points that are on between samples.
const COUNTING: u64 = COUNTS | bit(Point::StubBegun) | bit(Point::CallSeen);
const ALL: u64 = COUNTS | ((1 << Point::ALL.len()) - 1);

/// Of the calls of a thread one in so many is sampled; 0: none.
static ONE_IN: AtomicU32 = AtomicU32::new(0);
/// Samples under way.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);
/// The shares that were asked for.
static ASKED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// While it exists, each thread samples its calls.
#[derive(Debug)]
pub struct Sampling(u32);

impl Sampling {
    /// Samples one call in so many, at least one, of each thread: of several such wishes of a process the greatest share counts.
    #[must_use]
    pub fn one_in(calls: u32) -> Self {
        let calls = calls.max(1);
        change(|asked| asked.push(calls));
        Self(calls)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        change(|asked| {
            let own = asked.iter().position(|calls| *calls == self.0);
            asked.swap_remove(own.expect("it was added when sampling began"));
        });
    }
}

fn change(how: impl FnOnce(&mut Vec<u32>)) {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    how(&mut asked);
    ONE_IN.store(asked.iter().copied().min().unwrap_or(0), Relaxed);
    switch();
}

/// The points that are on while no measurement has switched on others.
fn points() -> u64 {
    match (ONE_IN.load(Relaxed), UNDER_WAY.load(Relaxed)) {
        (0, _) => 0,
        (_, 0) => COUNTING,
        _ => ALL,
    }
}

fn switch() {
    switches::set_sampled(points());
}

/// A sample of a call: when its thread passed each point, by the [cycle counter](cycles).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample([u64; Point::ALL.len()]);

impl Sample {
    /// When the thread passed the point; 0 if that is not a point of its side.
    #[must_use]
    pub fn at(&self, point: Point) -> u64 {
        self.0[usize::from(point.number())]
    }
}

/// A sample is under way.
const UNDER_WAY_HERE: u8 = 1;
/// The thread's [list of samples](kept) is full.
const IS_FULL: u8 = 2;

/// One side of a thread's calls.
struct Side {
    /// [`UNDER_WAY_HERE`], [`IS_FULL`], both or none.
    state: Cell<u8>,
    /// The points that the sample has passed, as bits.
    passed: Cell<u64>,
    /// Whose the sample is; nobody's: account 0.
    claim: Cell<Claim>,
}

impl Side {
    const fn new() -> Self {
        Self { state: Cell::new(0), passed: Cell::new(0), claim: Cell::new(UNCLAIMED) }
    }

    fn is_sampling(&self) -> bool {
        self.state.get() & UNDER_WAY_HERE != 0
    }

    fn set(&self, bit: u8) {
        self.state.set(self.state.get() | bit);
    }

    /// Clears a bit. Returns whether it was set.
    fn clear(&self, bit: u8) -> bool {
        let state = self.state.replace(self.state.get() & !bit);
        state & bit != 0
    }
}

const UNCLAIMED: Claim = Claim { account: 0, procedure: 0, server_ns: None };

thread_local! {
    /// For each side the calls until one is sampled. While a sample is under way it is 1, so that the next call is told of it.
    static LEFT: [Cell<u32>; 2] = const { [Cell::new(1), Cell::new(1)] };
    static SIDES: [Side; 2] = const { [Side::new(), Side::new()] };
    static TIMES: [Cell<u64>; Point::ALL.len()] = const { [const { Cell::new(0) }; Point::ALL.len()] };
    /// Ends a sample whose thread ends. Apart, because access to a value with a destructor is slower.
    static ENDING: Ending = const { Ending };
}

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        [Role::Caller, Role::Server].into_iter().for_each(end);
    }
}

/// Counts a call down at the first point of its side. Returns whether it is due, or whether a sample is still under way.
#[inline(always)]
pub(crate) fn is_due(first: Point) -> bool {
    LEFT.with(|left| {
        let left = &left[Role::of(first) as usize];
        let calls = left.get();
        let is_due = calls <= 1;
        if !is_due {
            left.set(calls - 1);
        }
        is_due
    })
}

/// The calling thread passes a point that is on. If it is a first one, [a call is due](is_due).
#[inline]
pub(crate) fn stamp(point: Point) {
    let role = Role::of(point);
    SIDES.with(|sides| {
        let side = &sides[role as usize];
        if point == role.first() && !begins(side, role) {
            return;
        }
        if side.is_sampling() {
            note(side, role, point);
        }
    });
}

/// A call is due, or the sample before it has not ended. Returns whether it is sampled.
#[cold]
fn begins(side: &Side, role: Role) -> bool {
    if side.is_sampling() {
        // A server may receive packets without a call; anything else is what a call left that has failed.
        if role == Role::Server && side.passed.get() == bit(Point::CallSeen) {
            set_left(role, 1);
            return true;
        }
        end(role);
        let left = share() - 1;
        if left > 0 {
            set_left(role, left);
            return false;
        }
    }
    begin(side, role);
    true
}

fn share() -> u32 {
    ONE_IN.load(Relaxed).max(1)
}

fn set_left(role: Role, calls: u32) {
    LEFT.with(|left| left[role as usize].set(calls));
}

fn begin(side: &Side, role: Role) {
    set_left(role, 1);
    side.passed.set(0);
    side.claim.set(UNCLAIMED);
    side.set(UNDER_WAY_HERE);
    // A thread that is ending has no place for it any more; its sample then ends with the next of another thread.
    let _ = ENDING.try_with(|_| ());
    UNDER_WAY.fetch_add(1, Relaxed);
    switch();
}

/// Ends the sample that is under way, if there is one.
#[cold]
fn end(role: Role) {
    SIDES.with(|sides| {
        if sides[role as usize].clear(UNDER_WAY_HERE) {
            set_left(role, share());
            UNDER_WAY.fetch_sub(1, Relaxed);
            switch();
        }
    });
}

fn note(side: &Side, role: Role, point: Point) {
    TIMES.with(|times| times[usize::from(point.number())].set(cycles::ordered()));
    let passed = side.passed.get();
    let may_repeat = matches!(point, Point::CallSeen | Point::ResultSeen);
    if passed & bit(point) != 0 && !may_repeat {
        // Several calls at a time: no order of steps.
        return end(role);
    }
    side.passed.set(passed | bit(point));
    if point == role.last() {
        end(role);
        keep(side, role);
    }
}

/// Keeps the sample that has just ended until its account takes it, if it is whole and claimed.
fn keep(side: &Side, role: Role) {
    if side.passed.get() == role.bits() && side.claim.get().account != 0 {
        let sample = TIMES.with(|times| Sample(std::array::from_fn(|number| times[number].get())));
        if kept::keep(side.claim.get(), sample) {
            side.set(IS_FULL);
        }
    }
}

/// Whose sample a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Number of the account; not 0.
    pub account: u64,
    /// Which procedure of it.
    pub procedure: u16,
    /// How long the call was at the server, if its caller knows that.
    pub server_ns: Option<u64>,
}

/// Whether the call that this thread makes or serves is sampled.
#[inline]
#[must_use]
pub fn is_sampled(role: Role) -> bool {
    SIDES.with(|sides| sides[role as usize].is_sampling())
}

/// Whether the call that this thread makes or serves [is sampled](is_sampled), or its thread's list of samples
/// [is full](take_is_full): most often neither, so that a load and a branch tell it.
#[inline(always)]
#[must_use]
pub fn concerns_sample(role: Role) -> bool {
    SIDES.with(|sides| sides[role as usize].state.get() != 0)
}

/// The call that this thread makes or serves is claimed: if it is sampled, the sample is for that account.
pub fn claim(role: Role, claim: Claim) {
    SIDES.with(|sides| sides[role as usize].claim.set(claim));
}

/// Whether this thread's list of samples is full: no more can be kept until it is taken. Says so once for each list.
#[inline]
#[must_use]
pub fn take_is_full(role: Role) -> bool {
    SIDES.with(|sides| sides[role as usize].clear(IS_FULL))
}

/// Cycles that a stamp of a sample takes: the least of several batches, because a stamp takes no less.
#[must_use]
pub fn stamp_cycles() -> f64 {
    const BATCH: u32 = 100;
    let side = Side::new();
    side.set(UNDER_WAY_HERE);
    let batch = || {
        let before = cycles();
        (0..BATCH).for_each(|_| {
            side.passed.set(0);
            note(&side, Role::Caller, std::hint::black_box(Point::CallStarted));
        });
        (cycles() - before) as f64 / f64::from(BATCH)
    };
    (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::alone;
    use std::sync::MutexGuard;
    use std::thread;

    /// The samples that are kept. A thread may have begun with those of another test.
    fn take_kept() -> Vec<(Claim, Sample)> {
        let mut taken = Vec::new();
        kept::take_all(&mut taken);
        taken
    }

    fn alone_without_samples() -> MutexGuard<'static, ()> {
        let one = alone();
        take_kept();
        one
    }

    /// A call of this thread, claimed as procedure 7 for `account`. Returns whether it was a sample.
    fn call(role: Role, account: u64) -> bool {
        let mut is_sampled = false;
        for point in role.points() {
            crate::stamp(point);
            if matches!(point, Point::CallLeaves | Point::ProcedureBegun) {
                is_sampled = super::is_sampled(role);
                claim(role, Claim { account, procedure: 7, server_ns: Some(9) });
            }
        }
        is_sampled
    }

    #[test]
    fn one_call_in_so_many_is_sampled_with_all_points_in_order() {
        let _one = alone_without_samples();
        let sampling = Sampling::one_in(4);
        for role in [Role::Caller, Role::Server] {
            let sampled: Vec<_> = (0..8).map(|_| call(role, 1)).collect();
            assert_eq!(sampled, [true, false, false, false, true, false, false, false]);
            let taken = take_kept();
            assert_eq!(taken.len(), 2);
            for (claim, sample) in taken {
                assert_eq!((claim.procedure, claim.server_ns), (7, Some(9)));
                let times: Vec<_> = role.points().map(|point| sample.at(point)).collect();
                assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
            }
        }
        drop(sampling);
        assert!(!(0..8).any(|_| call(Role::Caller, 1)), "sampling has ended");
    }

    #[test]
    fn a_call_is_told_once_that_the_list_of_its_thread_is_full() {
        let _one = alone_without_samples();
        let _sampling = Sampling::one_in(1);
        thread::spawn(|| {
            let calls = (1..).find(|_| {
                call(Role::Caller, 1);
                take_is_full(Role::Caller)
            });
            assert_eq!((calls, take_kept().len()), (Some(64), 64));
            assert!(!concerns_sample(Role::Caller) && !take_is_full(Role::Caller));
            call(Role::Caller, 1);
            assert!(!take_is_full(Role::Caller));
        })
        .join()
        .expect("the assertions hold");
    }

    #[test]
    fn a_sample_that_no_account_has_claimed_is_not_kept() {
        let _one = alone_without_samples();
        let _sampling = Sampling::one_in(1);
        thread::spawn(|| {
            Role::Caller.points().for_each(crate::stamp);
            assert_eq!(take_kept(), []);
        })
        .join()
        .expect("the assertions hold");
    }

    #[test]
    fn a_call_that_fails_leaves_neither_a_sample_nor_points_that_stay_on() {
        let _one = alone_without_samples();
        let _sampling = Sampling::one_in(3);
        thread::spawn(|| {
            crate::stamp(Point::StubBegun);
            crate::stamp(Point::CallStarted);
            assert_eq!(points(), ALL);
            // The next call of the thread is not due.
            crate::stamp(Point::StubBegun);
            assert_eq!(points(), COUNTING);
            crate::stamp(Point::StubBegun);
            crate::stamp(Point::StubBegun);
            assert_eq!(points(), ALL);
        })
        .join()
        .expect("the assertions hold");
        assert_eq!(points(), COUNTING, "the thread has ended within a sample");
        assert_eq!(take_kept(), []);
    }

    #[test]
    fn a_server_that_takes_two_calls_at_once_gives_no_sample_of_them() {
        let _one = alone_without_samples();
        let _sampling = Sampling::one_in(1);
        thread::spawn(|| {
            for point in [Point::CallSeen, Point::CallSeen, Point::CallFound, Point::CallFound] {
                crate::stamp(point);
            }
            assert!(!is_sampled(Role::Server));
            assert_eq!(points(), COUNTING);
        })
        .join()
        .expect("the assertions hold");
    }
}
