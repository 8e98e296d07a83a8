//! The exports of an endpoint at which callers bind over a connection, and the number of its calls that run.

use crate::context::{Caller, Credentials};
use crate::options::Waiting;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::drain::wait_for_readers;
use crate::serving::running::Setup;
use crate::serving::workers::Background;
use crate::users::Users;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stoop_exchange::Interfaces;
use stoop_net::clock;
use stoop_net::host::HostFacts;
use stoop_net::stream::Stream;
use stoop_net::waiting::Placement;

/// The exports of an endpoint, what it says when it binds, and the calls that it has not answered.
pub(crate) struct Service {
    pub(crate) exports: Arc<Exports>,
    pub(crate) interfaces: Interfaces,
    pub(crate) own: HostFacts,
    /// Tells this start of the server from others.
    pub(crate) incarnation: u64,
    /// When the endpoint began to receive, by [`boot_now_ns`](clock::boot_now_ns).
    pub(crate) started_ns: u64,
    /// Bytes of the longest arguments and of the longest result.
    pub(crate) message_max: usize,
    /// Lanes of a binding.
    pub(crate) lanes: u32,
    pub(crate) waiting: Waiting,
    pub(crate) spinners_max: u32,
    /// Calls that have arrived and are not answered.
    active: AtomicUsize,
    shutting_down: AtomicBool,
    /// Guards nothing: for a thread that waits until all calls are answered.
    quiet: Mutex<()>,
    ended: Condvar,
    pub(crate) background: Background,
    pub(crate) refused: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) bindings: AtomicU64,
    pub(crate) binds_refused: AtomicU64,
}

/// A server that shuts down does not wait for readers that have taken nothing for so long.
const READERS_QUIET: Duration = Duration::from_secs(5);

impl Service {
    pub(crate) fn new(setup: &Setup, incarnation: u64, lanes: u32) -> Self {
        let own = HostFacts::gather();
        Self {
            exports: Arc::clone(&setup.exports),
            interfaces: setup.exports.interfaces(),
            spinners_max: Placement::of(&own, &own).waiting_max,
            own,
            incarnation,
            started_ns: clock::boot_now_ns(),
            message_max: setup.max_message,
            lanes,
            waiting: setup.waiting,
            active: AtomicUsize::new(0),
            shutting_down: AtomicBool::new(false),
            quiet: Mutex::new(()),
            ended: Condvar::new(),
            background: Background::default(),
            refused: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            bindings: AtomicU64::new(0),
            binds_refused: AtomicU64::new(0),
        }
    }

    /// Counts a call that has arrived. `false`: the server shuts down, and the call is to be refused and [ended](Self::end_call).
    #[inline]
    pub(crate) fn begin_call(&self) -> bool {
        // Counted first: then the thread that shuts down waits for the call, or the call sees that the server shuts down.
        self.active.fetch_add(1, Ordering::SeqCst);
        !self.is_shutting_down()
    }

    /// Counts calls that have arrived with one that has [begun](Self::begin_call) and not ended.
    pub(crate) fn begin_more_calls(&self, calls: usize) {
        self.active.fetch_add(calls, Ordering::SeqCst);
    }

    /// A call has been answered.
    #[inline]
    pub(crate) fn end_call(&self) {
        self.end_calls(1);
    }

    /// Calls have been answered.
    #[inline]
    pub(crate) fn end_calls(&self, calls: usize) {
        if self.active.fetch_sub(calls, Ordering::SeqCst) == calls {
            self.announce_end();
        }
    }

    /// Whether all calls that have arrived are answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Something for which [`drain`](Self::drain) may wait has happened.
    pub(crate) fn announce_end(&self) {
        if self.is_shutting_down() {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::SeqCst)
    }

    /// Refuses calls and binds from now on.
    pub(crate) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
    }

    /// Waits until all calls are answered, and until the callers have read the answers or have stopped reading: until `unread` is
    /// `None` or stays the same.
    pub(crate) fn drain(&self, unread: impl Fn() -> Option<u64>) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        wait_for_readers(quiet, &self.ended, READERS_QUIET, |()| unread());
    }

    /// The counters at this moment, with this number of calls.
    pub(crate) fn counters(&self, calls: u64) -> ServerCounters {
        ServerCounters {
            calls,
            refused: self.refused.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            bindings: self.bindings.load(Ordering::Relaxed),
            binds_refused: self.binds_refused.load(Ordering::Relaxed),
            ..ServerCounters::default()
        }
    }
}

/// The caller at the other end of a connection, and whether a server that allows these users serves it.
///
/// # Errors
/// The connection is broken.
pub(crate) fn caller_of(stream: &Stream, allowed: &Users) -> io::Result<(Caller, bool)> {
    let Some(peer) = stream.peer_credentials()? else {
        let address = stream.peer_addr()?.ok_or(io::ErrorKind::NotConnected)?;
        return Ok((Caller::Network(address), true));
    };
    // Zero: the kernel does not tell, because the process is in another namespace.
    let pid = peer.pid.map_or(0, |pid| pid as i32);
    Ok((Caller::Process(Credentials { uid: peer.uid, gid: peer.gid, pid }), allowed.contains(peer.uid)))
}
