//! A thread of the process that notices when servers die: it sleeps until the kernel says so.
//!
//! Callers sleep on words of shared memory, which do not change when the server dies.

use crate::calling::unbind_notice::{self, News};
use crate::locked::locked;
use crate::transport::shm::caller::session::Session;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use stoop_net::fork::PerProcess;
use stoop_net::poller::{Events, Interest, Poller};
use stoop_net::stream::Stream;
use stoop_net::threads;

struct DeathWatch {
    poller: Poller,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    all: HashMap<u64, Weak<Session>>,
    next: u64,
    /// The thread runs.
    is_watched: bool,
}

/// Events taken from the poller at once.
const EVENTS: usize = 16;

static WATCH: PerProcess<DeathWatch> = PerProcess::new();

fn watch() -> io::Result<&'static DeathWatch> {
    WATCH.get_or_try_make(|| Ok(DeathWatch { poller: Poller::new()?, sessions: Mutex::default() }))
}

impl DeathWatch {
    fn keep_watching(&self) {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            // Fails for no reason that waiting again would not show.
            let _ = self.poller.wait(&mut events, None);
            for ready in events.iter() {
                let session = locked(&self.sessions).all.get(&ready.token).and_then(Weak::upgrade);
                // After the handshake a server says nothing more by its socket but that it shuts down, its end, and why.
                match session.as_ref().map(|session| (session, unbind_notice::hear(&session.stream))) {
                    Some((session, News::Closing)) => session.note_closing(),
                    Some((_, News::None)) => {}
                    Some((session, News::Ended(why))) => {
                        locked(&self.sessions).all.remove(&ready.token);
                        let _ = self.poller.remove(&session.stream);
                        session.end(why);
                    }
                    None => drop(locked(&self.sessions).all.remove(&ready.token)),
                }
            }
        }
    }
}

/// The session is lost from the moment at which its server closes it, or dies.
///
/// # Errors
/// The system gives no descriptor or no thread.
pub(crate) fn add(session: &Arc<Session>) -> io::Result<()> {
    let watch = watch()?;
    let mut sessions = locked(&watch.sessions);
    if !sessions.is_watched {
        threads::start("stoop-watch", || watch.keep_watching())?;
        sessions.is_watched = true;
    }
    let token = sessions.next;
    sessions.next += 1;
    sessions.all.retain(|_, session| session.strong_count() > 0);
    sessions.all.insert(token, Arc::downgrade(session));
    watch.poller.add(&session.stream, token, Interest::READ)
}

/// A session goes. Its socket leaves the poller, in which it would be as long as a forked child has it open.
pub(crate) fn remove(stream: &Stream) {
    if let Some(watch) = WATCH.get() {
        // It is not there if its end was seen.
        let _ = watch.poller.remove(stream);
    }
}
