//! The connections of an endpoint: accepts, finds and closes them.

use crate::serving::acceptor::{ACCEPTED_AT_ONCE, Acceptor, FIRST_TOKEN};
use crate::transport::stream::server::connection::Connection;
use crate::users::Users;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_net::poller::Interest;
use stoop_net::stream::StreamListener;

/// A listener and its connections, all in one poller.
pub(super) struct Connections {
    pub(super) acceptor: Acceptor,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    count: AtomicUsize,
    next_token: AtomicU64,
    message_max: usize,
    allowed: Users,
    connections_max: usize,
    /// Connections that hold answers back.
    holding: Arc<AtomicUsize>,
}

/// Connections at the same time. For another, the oldest that is not bound has to go; if all are bound, it waits in the
/// kernel until one is closed.
const CONNECTIONS_MAX: usize = 1024;

impl Connections {
    pub(super) fn new(listener: StreamListener, message_max: usize, allowed: Users) -> io::Result<Self> {
        Ok(Self {
            acceptor: Acceptor::new(listener)?,
            connections: Mutex::default(),
            count: AtomicUsize::new(0),
            next_token: AtomicU64::new(FIRST_TOKEN),
            message_max,
            allowed,
            connections_max: CONNECTIONS_MAX,
            holding: Arc::default(),
        })
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
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
        self.connections().get(&token).cloned()
    }

    /// All connections at this moment.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        self.connections().values().cloned().collect()
    }

    /// Accepts the connections that wait at the listener.
    pub(super) fn accept(&self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let silent = self.oldest_unbound_if_full();
            if silent.is_none() && self.is_full() {
                return self.pause();
            }
            let stream = match self.acceptor.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(_) => return self.acceptor.pause(),
            };
            if let Some(silent) = silent {
                self.close(&silent);
            }
            let token = self.next_token.fetch_add(1, Ordering::Relaxed);
            let holding = Arc::clone(&self.holding);
            // A broken connection is skipped.
            if let Ok(connection) = Connection::new(stream, token, self.message_max, &self.allowed, holding) {
                self.add(connection);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.count() >= self.connections_max
    }

    /// The connection that has been there longest without a binding: it has to go when another comes. Callers bind at
    /// once, so that a process that connects and does not bind cannot keep callers out.
    fn oldest_unbound_if_full(&self) -> Option<Arc<Connection>> {
        if !self.is_full() {
            return None;
        }
        let connections = self.connections();
        let unbound = connections.values().filter(|connection| !connection.was_bound());
        unbound.min_by_key(|connection| connection.token).cloned()
    }

    fn add(&self, connection: Connection) {
        let connection = Arc::new(connection);
        let mut connections = self.connections();
        if self.acceptor.poller.add(&connection.stream, connection.token, Interest::READ).is_ok() {
            connections.insert(connection.token, connection);
            self.count.store(connections.len(), Ordering::Relaxed);
        }
    }

    /// Ends a connection. Returns whether it was this that ended it.
    pub(super) fn close(&self, connection: &Connection) -> bool {
        if !connection.close() {
            return false;
        }
        // It is in the poller as long as it is open.
        let _ = self.acceptor.poller.remove(&connection.stream);
        let mut connections = self.connections();
        connections.remove(&connection.token);
        self.count.store(connections.len(), Ordering::Relaxed);
        drop(connections);
        if self.acceptor.is_paused() {
            self.acceptor.resume();
        }
        true
    }

    /// Accepts nothing until a connection is closed.
    fn pause(&self) {
        self.acceptor.pause_until(u64::MAX);
        // A connection that was closed meanwhile has not seen the pause.
        if !self.is_full() {
            self.acceptor.resume();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::stream::server::connections::*;
    use std::net::TcpStream;
    use stoop_net::stream::StreamAddress;

    #[test]
    fn connections_that_do_not_bind_keep_no_caller_out() {
        let any = StreamAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = StreamListener::bind(&any).unwrap();
        let StreamAddress::Tcp(address) = listener.local_addr().clone() else { unreachable!("it is one") };
        let connections =
            Connections { connections_max: 2, ..Connections::new(listener, 1 << 20, Users::Own).unwrap() };
        let tokens = || {
            let mut tokens: Vec<_> = connections.all().iter().map(|connection| connection.token).collect();
            tokens.sort_unstable();
            tokens
        };
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            connections.accept();
            stream
        };
        let _first = [connect(), connect()];
        assert_eq!(tokens(), [4, 5]);
        connections.find(4).unwrap().set_bound();
        let _third = connect();
        assert_eq!(tokens(), [4, 6]);
        connections.find(6).unwrap().set_bound();
        let _fourth = connect();
        assert_eq!(tokens(), [4, 6]);
        connections.close(&connections.find(4).unwrap());
        connections.accept();
        assert_eq!(tokens(), [6, 7]);
    }
}
