//! Stamps in a buffer for each thread.

use crate::{Point, Stamp, Stamps, cycles};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stamps that a thread's buffer holds.
const ROOM: usize = 1 << 15;

/// Bits of a word in which the point is; the others are the lower bits of the cycle counter.
const POINT_BITS: u32 = 8;

/// A thread's stamps. Only its thread writes, and only [`take`] empties it.
struct Buffer {
    thread: u32,
    len: AtomicU32,
    lost: AtomicU64,
    words: Box<[AtomicU64]>,
}

/// All buffers that were ever made.
static ALL: Mutex<Vec<&'static Buffer>> = Mutex::new(Vec::new());
/// Those whose threads have ended.
static UNUSED: Mutex<Vec<&'static Buffer>> = Mutex::new(Vec::new());

thread_local! {
    static BUFFER: Cell<Option<&'static Buffer>> = const { Cell::new(None) };
    /// Gives the buffer back when the thread ends. Apart, because access to a value with a destructor is slower.
    static LOAN: Cell<Option<Loan>> = const { Cell::new(None) };
}

struct Loan(&'static Buffer);

impl Drop for Loan {
    fn drop(&mut self) {
        // Another destructor of the thread may make stamps.
        BUFFER.set(None);
        locked(&UNUSED).push(self.0);
    }
}

/// Notes that this thread passes the point.
#[inline]
pub(crate) fn record(point: Point) {
    let Some(buffer) = BUFFER.get() else { return record_first(point) };
    let len = buffer.len.load(Relaxed);
    match buffer.words.get(len as usize) {
        Some(word) => {
            word.store(crate::cycles::ordered() << POINT_BITS | u64::from(point.number()), Relaxed);
            buffer.len.store(len + 1, Relaxed);
        }
        None => buffer.lost.store(buffer.lost.load(Relaxed) + 1, Relaxed),
    }
}

/// The thread's first stamp.
#[cold]
fn record_first(point: Point) {
    let buffer = locked(&UNUSED).pop().unwrap_or_else(new_buffer);
    BUFFER.set(Some(buffer));
    // A thread that is ending, and has no place for the loan any more, keeps the buffer.
    let _ = LOAN.try_with(|loan| loan.set(Some(Loan(buffer))));
    record(point);
}

fn new_buffer() -> &'static Buffer {
    let mut all = locked(&ALL);
    let thread = u32::try_from(all.len()).expect("threads at a time have numbers of 32 bits");
    let words = (0..ROOM).map(|_| AtomicU64::new(0)).collect();
    let buffer =
        Box::leak(Box::new(Buffer { thread, len: AtomicU32::new(0), lost: AtomicU64::new(0), words }));
    all.push(buffer);
    buffer
}

pub(crate) fn take() -> Stamps {
    let now = cycles();
    let mut taken = Stamps::default();
    for buffer in locked(&ALL).iter() {
        let words = &buffer.words[..buffer.len.swap(0, Relaxed) as usize];
        taken.stamps.extend(words.iter().filter_map(|word| read(buffer.thread, word.load(Relaxed), now)));
        taken.lost += buffer.lost.swap(0, Relaxed);
    }
    taken
}

/// The stamp in a word. The upper bits of the counter, which the word has not, are those of the latest time before `now`.
fn read(thread: u32, word: u64, now: u64) -> Option<Stamp> {
    let ago = (now << POINT_BITS).wrapping_sub(word & !0xff) >> POINT_BITS;
    Some(Stamp { thread, point: Point::from_number(word as u8)?, cycles: now.wrapping_sub(ago) })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{stamp, switch_on};
    use std::thread;

    /// The switch and the buffers are the process's: one test at a time.
    static ONE: Mutex<()> = Mutex::new(());

    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        locked(&ONE)
    }

    #[test]
    fn a_point_is_noted_only_while_it_is_on() {
        let _one = locked(&ONE);
        let before = cycles();
        switch_on(&[Point::CallSeen]);
        stamp(Point::CallSeen);
        stamp(Point::CallFound);
        switch_on(&[]);
        stamp(Point::CallSeen);
        let Stamps { stamps, lost } = take();
        assert_eq!((stamps.len(), lost), (1, 0));
        assert_eq!(stamps[0].point, Point::CallSeen);
        assert!((before..=cycles()).contains(&stamps[0].cycles));
        assert_eq!(take(), Stamps::default());
    }

    #[test]
    fn a_full_buffer_counts_what_it_loses() {
        let _one = locked(&ONE);
        switch_on(&[Point::StubBegun]);
        (0..ROOM + 3).for_each(|_| stamp(Point::StubBegun));
        switch_on(&[]);
        let Stamps { stamps, lost } = take();
        assert_eq!((stamps.len(), lost), (ROOM, 3));
    }

    #[test]
    fn threads_that_follow_each_other_share_a_buffer_and_lose_nothing() {
        let _one = locked(&ONE);
        switch_on(&[Point::ProcedureBegun]);
        let follow = || thread::spawn(|| stamp(Point::ProcedureBegun)).join().expect("it only makes a stamp");
        follow();
        let buffers = locked(&ALL).len();
        (1..50).for_each(|_| follow());
        // The thread of another test that ends meanwhile gives its buffer back, and the next thread may take that one: the stamps can be
        // in several buffers, but none is new.
        assert_eq!(locked(&ALL).len(), buffers);
        switch_on(&[]);
        let stamps = take().stamps;
        assert_eq!(stamps.len(), 50);
    }

    #[test]
    fn the_counter_is_whole_again_though_a_word_lacks_its_upper_bits() {
        for now in [1 << 56, (1 << 56) + 5, u64::MAX, 77, 3 << 60] {
            for ago in [0, 1, 6, 70] {
                let at = now.wrapping_sub(ago);
                let word = at << POINT_BITS | u64::from(Point::ResultRead.number());
                let stamp = read(0, word, now).expect("it is a point");
                assert_eq!((stamp.point, stamp.cycles), (Point::ResultRead, at));
            }
        }
    }
}
