//! The connections of an endpoint: accepts, finds and closes them.

use crate::context::owner_of;
use crate::serving::acceptor::{ACCEPTED_AT_ONCE, Acceptor, FIRST_TOKEN};
use crate::serving::message_memory::MessageMemory;
use crate::serving::shares::ConnectionShares;
use crate::transport::stream::server::connection::Connection;
use crate::users::Users;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "seal")]
use stoop_exchange::shares::Owner;
use stoop_exchange::shares::OwnerId;
use stoop_net::host;
use stoop_net::poller::Interest;
use stoop_net::stream::StreamListener;

/// A listener and its connections, all in one poller.
pub(super) struct Connections {
    pub(super) acceptor: Acceptor,
    connections: Mutex<Table>,
    count: AtomicUsize,
    next_token: AtomicU64,
    message_max: usize,
    allowed: Users,
    /// Connections that hold answers back.
    holding: Arc<AtomicUsize>,
    /// For long messages.
    pub(super) memory: Arc<MessageMemory>,
}

/// The connections by their tokens, and the shares of their owners.
struct Table {
    all: HashMap<u64, Entry>,
    shares: ConnectionShares,
}

struct Entry {
    connection: Arc<Connection>,
    owner: OwnerId,
    is_bound: bool,
}

impl Table {
    /// The unbound connection that has to go: the oldest of the owner with the most. Callers bind at once, so that a
    /// process that connects and does not bind keeps no caller out.
    fn oldest_unbound(&self) -> Option<Arc<Connection>> {
        let unbound = || self.all.values().filter(|entry| !entry.is_bound);
        let of_owner = |entry: &Entry| self.shares.unbound_of(entry.owner);
        let most = unbound().map(of_owner).max()?;
        let of_that = unbound().filter(|entry| of_owner(entry) == most);
        of_that.min_by_key(|entry| entry.connection.token).map(|entry| Arc::clone(&entry.connection))
    }
}

/// One part in so many of the process's descriptors is left to the rest of the process: files, other addresses, and the
/// connections that are no bindings.
const DESCRIPTORS_LEFT: u64 = 4;

impl Connections {
    pub(super) fn new(
        listener: StreamListener,
        message_max: usize,
        allowed: Users,
        bindings_max: usize,
        memory: Arc<MessageMemory>,
    ) -> io::Result<Self> {
        let descriptors = host::descriptors_max();
        let most = usize::try_from(descriptors - descriptors / DESCRIPTORS_LEFT).unwrap_or(usize::MAX);
        let shares = ConnectionShares::new(bindings_max.min(most));
        Ok(Self {
            acceptor: Acceptor::new(listener)?,
            connections: Mutex::new(Table { all: HashMap::new(), shares }),
            count: AtomicUsize::new(0),
            next_token: AtomicU64::new(FIRST_TOKEN),
            message_max,
            allowed,
            holding: Arc::default(),
            memory,
        })
    }

    fn connections(&self) -> MutexGuard<'_, Table> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether answers are held back on one of them.
    pub(super) fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Relaxed) > 0
    }

    pub(super) fn find(&self, token: u64) -> Option<Arc<Connection>> {
        self.connections().all.get(&token).map(|entry| Arc::clone(&entry.connection))
    }

    /// All connections at this moment.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        self.connections().all.values().map(|entry| Arc::clone(&entry.connection)).collect()
    }

    /// Accepts the connections that wait at the listener.
    pub(super) fn accept(&self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let stream = match self.acceptor.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(_) => return self.acceptor.pause(),
            };
            let token = self.next_token.fetch_add(1, Ordering::Relaxed);
            let shared = (Arc::clone(&self.holding), &self.memory);
            // A broken connection is skipped.
            if let Ok(connection) = Connection::new(stream, token, self.message_max, &self.allowed, shared)
                && let Some(crowded_out) = self.add(connection)
            {
                crowded_out.tell_crowded_out();
                self.close(&crowded_out);
            }
        }
    }

    /// Adds a connection. Returns one that has to go instead.
    fn add(&self, connection: Connection) -> Option<Arc<Connection>> {
        let (owner, connection) = (owner_of(&connection.caller), Arc::new(connection));
        let mut table = self.connections();
        self.acceptor.poller.add(&connection.stream, connection.token, Interest::READ).ok()?;
        let owner = table.shares.connect(owner);
        table.all.insert(connection.token, Entry { connection, owner, is_bound: false });
        self.count.store(table.all.len(), Ordering::Relaxed);
        if table.shares.is_crowded() { table.oldest_unbound() } else { None }
    }

    /// Makes a binding of a connection. `false`: its host or user has its share, or the connection is closed.
    pub(super) fn bind(&self, connection: &Connection) -> bool {
        let table = &mut *self.connections();
        let Some(entry) = table.all.get_mut(&connection.token) else { return false };
        if !entry.is_bound && table.shares.bind(entry.owner) {
            entry.is_bound = true;
        }
        entry.is_bound
    }

    /// The same for the owner that its caller has proved to be.
    #[cfg(feature = "seal")]
    pub(super) fn bind_for(&self, connection: &Connection, owner: Owner) -> bool {
        let table = &mut *self.connections();
        let Some(entry) = table.all.get_mut(&connection.token) else { return false };
        if !entry.is_bound
            && let Some(named) = table.shares.bind_for(entry.owner, owner)
        {
            (entry.owner, entry.is_bound) = (named, true);
            connection.memory.move_to(owner);
        }
        entry.is_bound
    }

    /// Runs `then`, unless the connection has been closed: what it enters, the end of the connection finds. Returns whether it ran.
    pub(super) fn if_open(&self, connection: &Connection, then: impl FnOnce()) -> bool {
        let table = self.connections();
        let is_open = table.all.contains_key(&connection.token);
        if is_open {
            then();
        }
        is_open
    }

    /// Ends a connection. Returns whether it was this that ended it.
    pub(super) fn close(&self, connection: &Connection) -> bool {
        if !connection.close() {
            return false;
        }
        // It is in the poller as long as it is open.
        let _ = self.acceptor.poller.remove(&connection.stream);
        let table = &mut *self.connections();
        if let Some(entry) = table.all.remove(&connection.token) {
            table.shares.close(entry.owner, entry.is_bound);
        }
        self.count.store(table.all.len(), Ordering::Relaxed);
        if self.acceptor.is_paused() {
            self.acceptor.resume();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::unbind_notice;
    use crate::limits::Limits;
    use crate::transport::stream::server::connections::*;
    use rustix::net::{self, AddressFamily, SocketType};
    use std::net::SocketAddr;
    use std::os::fd::OwnedFd;
    use stoop_net::stream::StreamAddress;
    use stoop_wire::{HEADER_LEN, UnbindReason};

    /// Connections with at most so many bindings, and the address.
    fn listening(bindings_max: usize) -> (Connections, SocketAddr) {
        let any = StreamAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = StreamListener::bind(&any).unwrap();
        let StreamAddress::Tcp(address) = listener.local_addr().clone() else { unreachable!("it is one") };
        let memory = MessageMemory::new(&Limits::new(), 1 << 20);
        (Connections::new(listener, 1 << 20, Users::Own, bindings_max, memory).unwrap(), address)
    }

    /// Connects from a loopback address, and accepts that. Returns the caller's end and the connection's token.
    fn connect_from(connections: &Connections, host: u8, to: SocketAddr) -> (OwnedFd, u64) {
        let from = SocketAddr::from(([127, 0, 0, host], 0));
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &from).unwrap();
        net::connect(&socket, &to).unwrap();
        let next = connections.next_token.load(Ordering::Relaxed);
        connections.accept();
        (socket, next)
    }

    #[test]
    fn connections_that_do_not_bind_keep_no_caller_out() {
        let (connections, address) = listening(32);
        let hostile: Vec<_> = (0..40).map(|_| connect_from(&connections, 1, address)).collect();
        assert_eq!(connections.count(), 4, "only the last few are left");
        let (_victim, token) = connect_from(&connections, 2, address);
        let _more: Vec<_> = (0..40).map(|_| connect_from(&connections, 1, address)).collect();
        let victim = connections.find(token).expect("the host with fewer is not the one to go");
        assert!(connections.bind(&victim));
        assert!(connections.find(hostile[0].1).is_none());
        let mut notice = [0; HEADER_LEN];
        assert_eq!(rustix::io::read(&hostile[0].0, &mut notice), Ok(HEADER_LEN));
        assert_eq!(unbind_notice::parse(&notice), Some(UnbindReason::Crowded));
    }

    #[test]
    fn a_host_with_all_bindings_that_it_can_get_keeps_no_other_out() {
        let (connections, address) = listening(16);
        let mut kept = Vec::new();
        let mut bind_from = |host| {
            let (socket, token) = connect_from(&connections, host, address);
            let connection = connections.find(token).expect("it was accepted");
            kept.push(socket);
            let bound = connections.bind(&connection);
            if !bound {
                connections.close(&connection);
            }
            bound.then_some(connection)
        };
        let hoarded: Vec<_> = (0..20).filter_map(|_| bind_from(1)).collect();
        assert_eq!(hoarded.len(), 12);
        assert!(bind_from(2).is_some());
        assert!(bind_from(1).is_none());
        hoarded.iter().take(3).for_each(|connection| assert!(connections.close(connection)));
        assert!(bind_from(1).is_some(), "after it has closed some");
    }
    #[test]
    fn what_is_entered_for_a_connection_its_end_finds() {
        let (connections, address) = listening(8);
        let (_socket, token) = connect_from(&connections, 1, address);
        let connection = connections.find(token).expect("it was accepted");
        assert!(connections.if_open(&connection, || connection.set_bound(stoop_wire::BindingId(7))));
        assert!(connections.close(&connection) && connection.bound_as().is_some());
        assert!(!connections.if_open(&connection, || unreachable!("its end has passed")));
    }
}
