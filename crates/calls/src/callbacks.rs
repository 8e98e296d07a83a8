//! Callbacks at a client: what their [records](record) say, and which of them may run now.

pub mod record;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

/// Callbacks that wait for calls of their own, at most, while others run.
pub const DEPTH_MAX: usize = 8;
/// Bytes of one-way callbacks that are kept while a callback waits.
const KEPT_MAX: usize = 256 * 1024;

/// The callbacks of a session: those that run, those that wait for calls of their own, and those that are kept until none waits.
///
/// With one at a time they run in the order in which they come. One that waits for a call of its own does not count as one that runs, so
/// that the server can call back while it is called by a callback. One-way callbacks, for which no call waits, keep their order: they are
/// kept meanwhile.
#[derive(Debug)]
pub struct Turns {
    most: usize,
    running: usize,
    waiting: usize,
    received: u64,
    kept: VecDeque<Vec<u8>>,
    kept_bytes: usize,
    is_over: bool,
}

/// What becomes of a callback that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The one in the record runs now: this one, or one that was kept before it.
    Run,
    /// It is kept, and runs later.
    Kept,
    /// Too many others wait for calls of their own: it is refused.
    TooDeep,
    /// It is to come again when [fewer run](Turns::end).
    NotYet,
    /// The session has ended, and it does not run.
    Over,
}

impl Turns {
    /// None yet; so many may run at the same time.
    pub fn new(most: usize) -> Self {
        let (running, waiting, received, kept_bytes) = (0, 0, 0, 0);
        Self { most, running, waiting, received, kept: VecDeque::new(), kept_bytes, is_over: false }
    }

    /// Whether one that has come may run. If another one runs before it, that is exchanged for the one in `record`.
    pub fn admit(&mut self, is_one_way: bool, record: &mut Vec<u8>) -> Admitted {
        let is_kept = if self.waiting > 0 { is_one_way } else { !self.kept.is_empty() };
        let admitted = if self.is_over {
            return Admitted::Over;
        } else if is_kept && self.kept_bytes < KEPT_MAX {
            self.kept_bytes += record.len();
            self.kept.push_back(mem::take(record));
            if self.begin_kept(record) { Admitted::Run } else { Admitted::Kept }
        } else if is_kept || self.running >= self.most {
            return Admitted::NotYet;
        } else if self.is_too_deep() {
            Admitted::TooDeep
        } else {
            self.running += 1;
            Admitted::Run
        };
        self.received += 1;
        admitted
    }

    /// Begins one that was kept, if none waits any more.
    pub fn begin_kept(&mut self, record: &mut Vec<u8>) -> bool {
        if self.waiting > 0 || self.running >= self.most {
            return false;
        }
        let Some(kept) = self.kept.pop_front() else { return false };
        self.kept_bytes -= kept.len();
        self.running += 1;
        *record = kept;
        true
    }

    /// Begins one without a record, before which `sent` were sent, if these have all had their turns.
    pub fn begin_after(&mut self, sent: u64) -> bool {
        let begins = self.received >= sent
            && self.kept.is_empty()
            && self.running < self.most
            && !self.is_over
            && !self.is_too_deep();
        self.running += usize::from(begins);
        begins
    }

    /// One that has run has ended. Returns whether there are others that were kept and may begin.
    pub fn end(&mut self) -> bool {
        self.running -= 1;
        self.waiting == 0 && !self.kept.is_empty()
    }

    /// One that runs begins to wait for a call of its own.
    pub fn begin_wait(&mut self) {
        self.running -= 1;
        self.waiting += 1;
    }

    /// It goes on, also if another one runs meanwhile.
    pub fn end_wait(&mut self) {
        self.running += 1;
        self.waiting -= 1;
    }

    /// Those that are kept and for which `is_cancelled` holds do not run.
    pub fn cancel_kept(&mut self, mut is_cancelled: impl FnMut(&[u8]) -> bool) {
        self.kept.retain(|record| !is_cancelled(record));
        self.kept_bytes = self.kept.iter().map(Vec::len).sum();
    }

    /// None begins any more, and none is kept.
    pub fn close(&mut self) {
        (self.is_over, self.kept_bytes) = (true, 0);
        self.kept.clear();
    }

    /// Whether none begins any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many run, and wait for no calls of their own.
    pub fn running(&self) -> usize {
        self.running
    }

    /// How many have begun and not ended.
    pub fn begun(&self) -> usize {
        self.running + self.waiting
    }

    /// So many of those that were to come do not come: others have taken their places.
    pub fn skip(&mut self, records: u64) {
        self.received += records;
    }

    fn is_too_deep(&self) -> bool {
        self.begun() >= self.most + DEPTH_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn those_that_are_cancelled_give_their_room_back() {
        let mut turns = Turns::new(1);
        assert_eq!(turns.admit(false, &mut vec![0]), Admitted::Run);
        turns.begin_wait();
        assert_eq!(turns.admit(true, &mut vec![1; KEPT_MAX]), Admitted::Kept);
        assert_eq!(turns.admit(true, &mut vec![2]), Admitted::NotYet);
        turns.cancel_kept(|record| record[0] == 1);
        assert_eq!(turns.admit(true, &mut vec![2]), Admitted::Kept);
        turns.end_wait();
        assert!(turns.end());
        let mut record = Vec::new();
        assert!(turns.begin_kept(&mut record) && record == [2]);
    }
}
