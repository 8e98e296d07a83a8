//! The submission queue: calls that one thread begins without the lock around the calls.
//!
//! One thread alone writes the queue; the thread that holds the lock reads it. A line of the queue is a slot that was reserved under
//! the lock, so that a call has its number at once. When the calls leave, or when a thread asks about one of them, the lock's holder
//! makes packets of the lines.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use stoop_net::udp::MAX_SEGMENTS;

/// Bytes of the longest arguments that go through the queue. Longer ones are written to their packet, under the lock.
pub(crate) const SHORT_ARGUMENTS: usize = 32;

/// The queue of one batch.
pub(crate) struct SubmissionQueue {
    /// How many calls have been submitted.
    count: AtomicU32,
    /// Some of them have left: later calls are to be begun under the lock.
    has_left: AtomicBool,
    lines: [Line; MAX_SEGMENTS],
}

#[derive(Default)]
struct Line {
    /// The slot.
    call: AtomicU32,
    /// Number of the procedure in the interface, and bytes of arguments above it.
    packed: AtomicU32,
    arguments: [AtomicU64; SHORT_ARGUMENTS / 8],
}

/// A call that was submitted.
pub(crate) struct Entry {
    pub(crate) call: u32,
    pub(crate) procedure: u16,
    /// Bytes of its arguments.
    pub(crate) len: usize,
}

impl Default for SubmissionQueue {
    fn default() -> Self {
        let lines = array::from_fn(|_| Line::default());
        Self { count: AtomicU32::new(0), has_left: AtomicBool::new(false), lines }
    }
}

impl SubmissionQueue {
    /// Empties the queue and gives it these slots. Called under the lock by the thread that writes it, when no call in it is needed any
    /// more.
    pub(crate) fn reopen(&self, places: impl Iterator<Item = u32>) {
        self.count.store(0, Ordering::Relaxed);
        self.has_left.store(false, Ordering::Relaxed);
        for (line, call) in self.lines.iter().zip(places) {
            line.call.store(call, Ordering::Relaxed);
        }
    }

    /// The slot of a line.
    pub(crate) fn slot(&self, place: usize) -> u32 {
        self.lines[place].call.load(Ordering::Relaxed)
    }

    /// How many calls have been submitted and can be [read](Self::entry).
    #[inline]
    pub(crate) fn count(&self) -> usize {
        // Pairs with the Release in `put`.
        self.count.load(Ordering::Acquire) as usize
    }

    /// The call in that line.
    #[inline]
    pub(crate) fn entry(&self, place: usize) -> Entry {
        let line = &self.lines[place];
        let packed = line.packed.load(Ordering::Relaxed);
        let call = line.call.load(Ordering::Relaxed);
        Entry { call, procedure: packed as u16, len: (packed >> 16) as usize }
    }

    /// Copies the arguments of the call in that line to `to`, which is as long as they are.
    #[inline]
    pub(crate) fn copy_arguments(&self, place: usize, to: &mut [u8]) {
        for (bytes, word) in to.chunks_mut(8).zip(&self.lines[place].arguments) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..bytes.len()]);
        }
    }

    /// Calls of the queue have left. The lock is held.
    pub(crate) fn note_leaving(&self) {
        // A submitter that misses this adds one more call to those that have left; it leaves later.
        self.has_left.store(true, Ordering::Relaxed);
    }
}

/// The writing end of a queue, for the thread that begins the calls.
pub(crate) struct Submitter {
    queue: Arc<SubmissionQueue>,
    /// Calls that it has submitted.
    count: usize,
    /// Lines that have slots.
    places: usize,
    /// Bytes of the longest arguments that it takes.
    longest: usize,
}

impl Submitter {
    /// The writing end of a queue without calls, whose first `places` lines have slots, for calls with at most `longest` bytes of
    /// arguments.
    pub(crate) fn new(queue: Arc<SubmissionQueue>, places: usize, longest: usize) -> Self {
        Self { queue, count: 0, places, longest: longest.min(SHORT_ARGUMENTS) }
    }

    /// Submits a call and returns its slot; `None` if the queue does not take it.
    #[inline]
    pub(crate) fn put(&mut self, procedure: u16, arguments: &[u8]) -> Option<u32> {
        let Self { queue, count, .. } = self;
        if *count == self.places || arguments.len() > self.longest || queue.has_left.load(Ordering::Relaxed) {
            return None;
        }
        let line = &queue.lines[*count];
        line.packed.store(u32::from(procedure) | (arguments.len() as u32) << 16, Ordering::Relaxed);
        for (word, bytes) in line.arguments.iter().zip(arguments.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        *count += 1;
        // Publishes the line; pairs with the Acquire in `count`.
        queue.count.store(*count as u32, Ordering::Release);
        Some(line.call.load(Ordering::Relaxed))
    }

    /// Whether no line is left.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count == self.places
    }

    /// The reserved slots that no call uses.
    pub(crate) fn unused(&self) -> impl Iterator<Item = u32> {
        (self.count..self.places).map(|place| self.queue.slot(place))
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::submission_queue::*;
    use std::thread;

    fn submitter(places: usize, longest: usize) -> (Arc<SubmissionQueue>, Submitter) {
        let queue = Arc::new(SubmissionQueue::default());
        queue.reopen((0..places as u32).map(|place| 100 + place));
        (Arc::clone(&queue), Submitter::new(queue, places, longest))
    }

    #[test]
    fn calls_are_submitted_while_lines_are_left_and_their_arguments_fit() {
        let (queue, mut submitter) = submitter(3, 16);
        assert_eq!(submitter.put(7, &[1; 16]), Some(100));
        assert_eq!(submitter.put(8, &[0; 17]), None);
        assert_eq!(submitter.put(9, &[]), Some(101));
        assert!(submitter.unused().eq([102]) && !submitter.is_full());
        assert_eq!(submitter.put(u16::MAX, &[5; 3]), Some(102));
        assert!(submitter.is_full() && submitter.put(1, &[]).is_none() && queue.count() == 3);
        let Entry { call, procedure, len } = queue.entry(2);
        assert_eq!((call, procedure, len), (102, u16::MAX, 3));
        let mut arguments = [0; 3];
        queue.copy_arguments(2, &mut arguments);
        assert_eq!(arguments, [5; 3]);
    }

    #[test]
    fn no_call_is_submitted_after_calls_have_left() {
        let (queue, mut submitter) = submitter(3, 0);
        assert!(submitter.put(0, &[]).is_some());
        queue.note_leaving();
        assert!(submitter.put(0, &[]).is_none() && queue.count() == 1);
    }

    #[test]
    fn calls_that_are_counted_can_be_read_by_another_thread() {
        let (queue, mut submitter) = submitter(MAX_SEGMENTS, SHORT_ARGUMENTS);
        let reader = thread::spawn(move || {
            for place in 0..MAX_SEGMENTS {
                while queue.count() <= place {
                    std::hint::spin_loop();
                }
                let mut arguments = [0; SHORT_ARGUMENTS];
                queue.copy_arguments(place, &mut arguments);
                assert_eq!(usize::from(queue.entry(place).procedure), place);
                assert_eq!(arguments, [place as u8; SHORT_ARGUMENTS]);
            }
        });
        for place in 0..MAX_SEGMENTS {
            assert!(submitter.put(place as u16, &[place as u8; SHORT_ARGUMENTS]).is_some());
        }
        reader.join().unwrap();
    }
}
