//! A server at a socket at which an earlier one still receives: it begins when that one has ended.

use crate::locked::locked;
use crate::serving::counters::ServerCounters;
use crate::serving::running::RunningEndpoint;
use crate::transport::packet::link::ServerEndpoint;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stoop_net::threads;

/// An address that is served as soon as no other process receives there. What comes in between waits in the socket.
pub(super) struct Successor {
    stage: Arc<Mutex<Stage>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Stage {
    /// The other process has not ended.
    Waiting,
    Serving(Arc<dyn RunningEndpoint>),
    /// The server has shut down before its turn came.
    Ended,
}

/// Between two looks whether the other process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Successor {
    /// Waits in a thread of its own until `link` can be claimed, and then begins with `serve`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start<S: ServerEndpoint>(
        uri: String,
        link: S,
        serve: impl FnOnce(S) -> io::Result<Box<dyn RunningEndpoint>> + Send + 'static,
    ) -> io::Result<Self> {
        let stage = Arc::new(Mutex::new(Stage::Waiting));
        let shared = Arc::clone(&stage);
        let wait = move || {
            let mut stage = locked(&shared);
            while !link.claim() {
                drop(stage);
                thread::sleep(LOOK_EVERY);
                stage = locked(&shared);
                if let Stage::Ended = *stage {
                    return;
                }
            }
            *stage = match serve(link) {
                Ok(endpoint) => Stage::Serving(endpoint.into()),
                Err(why) => {
                    *stage = Stage::Ended;
                    drop(stage);
                    panic!("no server begins at {uri}, for the system gives no thread: {why}");
                }
            };
        };
        let thread = threads::start("stoop-successor", wait)?;
        Ok(Self { stage, thread: Mutex::new(Some(thread)) })
    }

    /// The endpoint, once its turn has come.
    fn endpoint(&self) -> Option<Arc<dyn RunningEndpoint>> {
        match &*locked(&self.stage) {
            Stage::Serving(endpoint) => Some(Arc::clone(endpoint)),
            Stage::Waiting | Stage::Ended => None,
        }
    }
}

impl RunningEndpoint for Successor {
    fn shut_down(&self) {
        let mut stage = locked(&self.stage);
        if let Stage::Waiting = *stage {
            *stage = Stage::Ended;
        }
        drop(stage);
        self.endpoint().iter().for_each(|endpoint| endpoint.shut_down());
    }

    fn drain(&self) {
        self.endpoint().iter().for_each(|endpoint| endpoint.drain());
    }

    fn stop(&self) {
        if let Some(thread) = locked(&self.thread).take() {
            // It has said why if it has panicked.
            let _ = thread.join();
        }
        self.endpoint().iter().for_each(|endpoint| endpoint.stop());
    }

    fn counters(&self) -> ServerCounters {
        self.endpoint().map_or_else(ServerCounters::default, |endpoint| endpoint.counters())
    }

    fn is_own_thread(&self) -> bool {
        self.endpoint().is_some_and(|endpoint| endpoint.is_own_thread())
    }
}
