//! A gate for procedures of tests: conditions instead of times.

#![allow(dead_code, reason = "each test uses its part")]

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
    pub(crate) fn await_inside(&self, count: usize) {
        let (counts, changed) = &*self.0;
        drop(changed.wait_while(counts.lock().unwrap(), |counts| counts.inside < count).unwrap());
    }
}

/// Opens a gate when it is dropped.
pub(crate) struct OpensOnDrop<'a>(&'a Gate);

impl Drop for OpensOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
