//! The server's bell: an `eventfd` at which it waits.

use loom::sync::{Condvar, Mutex};

#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.heard.notify_all();
    }

    /// Returns when it has been rung since this returned last.
    pub(super) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.heard.wait(rung).unwrap();
        }
        *rung = false;
    }
}
