//! The threads of a server that run procedures with pipes: apart from the workers, because such a procedure may run as long as its
//! connection lasts.

use crate::later::pool::{Bounds, Declined, Job, Pool};
use crate::later::room::{OpenRoom, Place};
use std::sync::Arc;

/// Procedures with pipes that keep a thread and run at the same time at a server, unless set.
pub(crate) const PIPE_THREADS_MAX: usize = 256;

/// Threads, and how many of them each owner has.
pub(crate) struct PipeThreads {
    threads: Arc<Pool<PipedRun>>,
    room: Arc<OpenRoom>,
}

/// A procedure that is to run.
pub(crate) struct PipedRun(pub(crate) Box<dyn FnOnce() + Send>);

impl Job for PipedRun {
    fn run(self) {
        (self.0)();
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

impl PipeThreads {
    pub(crate) fn new(most: usize) -> Self {
        // A place is given for each thread before there is a job for it.
        let bounds = Bounds { workers: most, queue: usize::MAX };
        Self { threads: Arc::new(Pool::new(bounds)), room: Arc::new(OpenRoom::new(most, 0)) }
    }

    /// A thread for the owner of the call that this thread serves; `None`: there are no more, or it has its share of them.
    pub(crate) fn enter(&self) -> Option<Place> {
        self.room.check().ok()?;
        self.room.enter_task()
    }

    /// Runs a procedure in a thread.
    ///
    /// # Errors
    /// The system gives none.
    pub(crate) fn submit(&self, run: PipedRun) -> Result<(), Declined> {
        self.threads.submit(run)
    }
}
