//! Begun calls as jobs of the server's threads.

use crate::error::RefusalCode;
use crate::later::pool::Job;
use crate::transport::local::begun::LocalJob;
use crate::transport::local::call::refused;

impl Job for LocalJob {
    fn run(self) {
        self.calls.run(self.call, self.id);
    }

    fn is_wanted(&self) -> bool {
        self.calls
            .table()
            .get_mut(self.call)
            .is_some_and(|known| known.id == self.id && known.arguments.is_some())
    }
}

impl LocalJob {
    /// The server has been shut down before it began.
    pub(crate) fn refuse(self) {
        self.calls.end(self.call, self.id, Err(refused(RefusalCode::ShuttingDown, String::new())));
    }
}
