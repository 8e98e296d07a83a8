//! The connections of an endpoint: accepts, finds and closes them, and bounds how many there are and for how long.

#[cfg(feature = "seal")]
use crate::context::peer::Peer;
use crate::onc::server::connection::Connection;
use crate::onc::server::options::ConnectionLimits;
use crate::serving::acceptor::{ACCEPTED_AT_ONCE, Acceptor, FIRST_TOKEN};
use crate::serving::message_memory::MessageMemory;
use crate::serving::service::caller_of;
use crate::users::Users;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "seal")]
use stoop_exchange::shares::Owner;
use stoop_net::poller::Interest;
use stoop_net::stream::{Stream, StreamListener};
use stoop_onc::record::RecordLimits;

/// A listener and its connections, all in one poller.
pub(crate) struct Connections {
    pub(crate) acceptor: Acceptor,
    open: Mutex<Open>,
    count: AtomicUsize,
    next_token: AtomicU64,
    limits: ConnectionLimits,
    /// Calls come under TLS only.
    requires_tls: bool,
    pub(super) memory: Arc<MessageMemory>,
    /// When connections are next looked after; `u64::MAX` while there are none.
    next_sweep_ns: AtomicU64,
}

#[derive(Default)]
struct Open {
    by_token: HashMap<u64, Arc<Connection>>,
    /// How many each address has, but for those of callers with names.
    by_ip: HashMap<IpAddr, usize>,
    /// How many each caller with a name has, wherever it is.
    #[cfg(feature = "seal")]
    by_name: HashMap<Owner, usize>,
}

/// Counts one less.
fn count_off<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl Open {
    /// Uncounts a connection of its caller.
    fn count_off(&mut self, connection: &Connection) {
        #[cfg(feature = "seal")]
        if let Some(name) = connection.counted_by.get() {
            return count_off(&mut self.by_name, *name);
        }
        if let Some(ip) = connection.ip() {
            count_off(&mut self.by_ip, ip);
        }
    }
}

/// Time between two looks at all connections.
const SWEEP_NS: u64 = 1_000_000_000;

impl Connections {
    pub(crate) fn new(
        listener: StreamListener,
        (limits, requires_tls): (ConnectionLimits, bool),
        memory: Arc<MessageMemory>,
    ) -> io::Result<Self> {
        Ok(Self {
            acceptor: Acceptor::new(listener)?,
            open: Mutex::default(),
            count: AtomicUsize::new(0),
            next_token: AtomicU64::new(FIRST_TOKEN),
            limits,
            requires_tls,
            memory,
            next_sweep_ns: AtomicU64::new(u64::MAX),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn find(&self, token: u64) -> Option<Arc<Connection>> {
        self.open().by_token.get(&token).cloned()
    }

    /// All connections at this moment.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        self.open().by_token.values().cloned().collect()
    }

    /// Accepts the connections that wait at the listener. Returns whether there were none before.
    pub(super) fn accept(&self, now_ns: u64) -> bool {
        let were_none = self.count() == 0;
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.acceptor.accept() {
                Ok(Some(stream)) => self.take_in(stream, now_ns),
                Ok(None) => break,
                Err(_) => {
                    // No descriptor is left: one of a connection that does nothing would do.
                    self.close_most_idle();
                    self.acceptor.pause();
                    break;
                }
            }
        }
        were_none && self.count() > 0
    }

    fn take_in(&self, stream: Stream, now_ns: u64) {
        // A broken connection is skipped. Anybody may connect: the credentials of calls say who calls.
        let Ok((caller, _)) = caller_of(&stream, &Users::Everybody) else { return };
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let limits = (self.record_limits(), self.requires_tls);
        let memory = self.memory.share_of(&caller);
        let connection = Arc::new(Connection::new(stream, token, (caller, memory), limits, now_ns));
        if self.is_too_many_of(connection.ip()) {
            return;
        }
        if self.count() >= self.limits.connections_max && !self.close_most_idle() {
            return;
        }
        self.add(connection, now_ns);
    }

    /// Bounds on the records of a connection.
    pub(super) fn record_limits(&self) -> RecordLimits {
        RecordLimits { record_max: self.limits.record_max, ..RecordLimits::default() }
    }

    fn is_too_many_of(&self, ip: Option<IpAddr>) -> bool {
        ip.is_some_and(|ip| {
            self.open().by_ip.get(&ip).is_some_and(|count| *count >= self.limits.per_peer_max)
        })
    }

    /// Closes the connection that has been unused for longest, if one has no call; first of those that are not under TLS, and have to be.
    /// Returns whether it did.
    #[cold]
    fn close_most_idle(&self) -> bool {
        let idle = self.all().into_iter().filter(|connection| connection.active.load(Ordering::Relaxed) == 0);
        let most = idle
            .min_by_key(|connection| (!connection.awaits_tls(), connection.used_ns.load(Ordering::Relaxed)));
        most.is_some_and(|connection| self.close(&connection))
    }

    fn add(&self, connection: Arc<Connection>, now_ns: u64) {
        let mut open = self.open();
        if self.acceptor.poller.add(&connection.channel, connection.token, Interest::READ).is_err() {
            return;
        }
        if let Some(ip) = connection.ip() {
            *open.by_ip.entry(ip).or_default() += 1;
        }
        open.by_token.insert(connection.token, connection);
        self.count.store(open.by_token.len(), Ordering::Relaxed);
        if self.next_sweep_ns() == u64::MAX {
            self.next_sweep_ns.store(now_ns + SWEEP_NS, Ordering::SeqCst);
        }
    }

    /// Ends a connection. Returns whether it was this that ended it.
    pub(super) fn close(&self, connection: &Connection) -> bool {
        if !connection.close() {
            return false;
        }
        #[cfg(feature = "seal")]
        Peer::leave(connection.binding());
        // It is in the poller as long as it is open.
        let _ = self.acceptor.poller.remove(&connection.channel);
        let mut open = self.open();
        if open.by_token.remove(&connection.token).is_some() {
            open.count_off(connection);
        }
        self.count.store(open.by_token.len(), Ordering::Relaxed);
        true
    }

    /// Counts a connection among those of a caller with a name, and no longer among those of its host. `false`: the caller has too many.
    #[cfg(feature = "seal")]
    pub(super) fn count_by_name(&self, connection: &Connection, name: Owner) -> bool {
        let mut open = self.open();
        let count = open.by_name.get(&name).copied().unwrap_or_default();
        if count >= self.limits.per_peer_max || !open.by_token.contains_key(&connection.token) {
            return false;
        }
        open.count_off(connection);
        open.by_name.insert(name, count + 1);
        let _ = connection.counted_by.set(name);
        true
    }

    pub(super) fn next_sweep_ns(&self) -> u64 {
        self.next_sweep_ns.load(Ordering::SeqCst)
    }

    /// Closes the connections whose time is over.
    #[cold]
    pub(super) fn sweep(&self, now_ns: u64) {
        for connection in self.all() {
            if self.is_over(&connection, now_ns) {
                self.close(&connection);
            }
        }
        let next_ns = if self.count() == 0 { u64::MAX } else { now_ns + SWEEP_NS };
        self.next_sweep_ns.store(next_ns, Ordering::SeqCst);
    }

    fn is_over(&self, connection: &Connection, now_ns: u64) -> bool {
        let unused_ns = now_ns.saturating_sub(connection.used_ns.load(Ordering::Relaxed));
        let ConnectionLimits { record_time, idle_time, .. } = self.limits;
        let is_slow = connection
            .record_since_ns()
            .is_some_and(|since_ns| now_ns.saturating_sub(since_ns) > record_time.as_nanos() as u64);
        let reads_nothing = connection.unread() > 0 && unused_ns > record_time.as_nanos() as u64;
        let is_idle =
            unused_ns > idle_time.as_nanos() as u64 && connection.active.load(Ordering::Relaxed) == 0;
        #[cfg(feature = "seal")]
        let is_slow = is_slow || connection.is_late(now_ns);
        is_slow || reads_nothing || is_idle
    }
}
