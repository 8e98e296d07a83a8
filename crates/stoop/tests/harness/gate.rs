//! A gate for procedures of tests: conditions instead of times.

use super::LIMIT;
use std::sync::{Arc, Condvar, Mutex};

/// Lets procedures wait until a test has seen what it wants to see.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Counts>, Condvar)>);

#[derive(Default)]
struct Counts {
    open: bool,
    inside: usize,
}

impl Gate {
    /// A procedure waits here until the gate is open.
    pub(crate) fn pass(&self) {
        let (counts, changed) = &*self.0;
        let mut counts = counts.lock().unwrap();
        counts.inside += 1;
        changed.notify_all();
        drop(changed.wait_while(counts, |counts| !counts.open).unwrap());
    }

    /// Lets every thread through from now on.
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().open = true;
        self.0.1.notify_all();
    }

    /// Opens the gate when the guard is dropped, also by an assertion that fails: a scope of threads waits for procedures
    /// at the gate before it reports the failure.
    pub(crate) fn open_on_drop(&self) -> OpensOnDrop<'_> {
        OpensOnDrop(self)
    }

    /// Lets no thread through from now on.
    pub(crate) fn shut(&self) {
        self.0.0.lock().unwrap().open = false;
    }

    /// How many procedures have come to the gate.
    pub(crate) fn inside(&self) -> usize {
        self.0.0.lock().unwrap().inside
    }

    /// Waits until so many procedures have come to the gate.
    ///
    /// # Panics
    /// They have not come for longer than a busy machine takes.
    pub(crate) fn await_inside(&self, count: usize) {
        let (counts, changed) = &*self.0;
        let counts = counts.lock().unwrap();
        let waited = changed.wait_timeout_while(counts, LIMIT, |counts| counts.inside < count).unwrap();
        let (inside, late) = (waited.0.inside, waited.1.timed_out());
        // Released, so that the gate can still be opened.
        drop(waited);
        assert!(!late, "{inside} procedures have come to the gate, and not {count}");
    }
}

/// Opens a gate when it is dropped.
pub(crate) struct OpensOnDrop<'a>(&'a Gate);

impl Drop for OpensOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
