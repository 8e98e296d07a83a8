//! Who is connected: accepting, finding and closing connections.

use crate::transport::stream::server::connection::Connection;
use crate::users::Users;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::{Accepted, StreamListener};

/// A listener and its connections, all in one poller.
pub(super) struct Connections {
    listener: StreamListener,
    pub(super) poller: Poller,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    count: AtomicUsize,
    next_token: AtomicU64,
    /// When accepting goes on after the system had no descriptor left; 0 while it goes on, `u64::MAX` until some
    /// connection is closed.
    paused_until_ns: AtomicU64,
    message_max: usize,
    allowed: Users,
    connections_max: usize,
    /// Connections that hold answers back.
    holding: Arc<AtomicUsize>,
}

/// What the poller calls the listener.
pub(super) const LISTENER: u64 = 0;
/// What it calls that which ends all waiting.
pub(super) const END: u64 = 1;
/// What it calls that which tells of pending calls.
pub(super) const PENDING: u64 = 2;
const FIRST_CONNECTION: u64 = 3;

/// Connections at the same time. For another, the oldest that is not bound has to go; if all are bound, it waits in the
/// kernel until one is closed.
const CONNECTIONS_MAX: usize = 1024;
/// Connections accepted before the others are looked at again.
const ACCEPTED_AT_ONCE: usize = 16;
/// Time before accepting again after the system had no descriptor or memory left.
const PAUSE: Duration = Duration::from_millis(100);

impl Connections {
    pub(super) fn new(listener: StreamListener, message_max: usize, allowed: Users) -> io::Result<Self> {
        let poller = Poller::new()?;
        listener.set_nonblocking(true)?;
        poller.add(&listener, LISTENER, Interest::READ)?;
        Ok(Self {
            listener,
            poller,
            connections: Mutex::default(),
            count: AtomicUsize::new(0),
            next_token: AtomicU64::new(FIRST_CONNECTION),
            paused_until_ns: AtomicU64::new(0),
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

    /// Accepts who waits at the listener.
    pub(super) fn accept(&self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let silent = self.oldest_unbound_if_full();
            if silent.is_none() && self.is_full() {
                return self.pause(u64::MAX);
            }
            match self.listener.accept() {
                // One that broke meanwhile is passed over.
                Ok(Accepted::Stream(stream)) => {
                    if let Some(silent) = silent {
                        self.close(&silent);
                    }
                    let token = self.next_token.fetch_add(1, Ordering::Relaxed);
                    let holding = Arc::clone(&self.holding);
                    if let Ok(connection) =
                        Connection::new(stream, token, self.message_max, &self.allowed, holding)
                    {
                        self.add(connection);
                    }
                }
                Ok(Accepted::Nothing | Accepted::WokenUp) => return,
                Err(_) => return self.pause(clock::now_ns() + PAUSE.as_nanos() as u64),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.count() >= self.connections_max
    }

    /// The connection that has been there longest without a binding: it has to go when another comes. Whoever connects
    /// and says nothing keeps nobody out: callers bind at once.
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
        if self.poller.add(&connection.stream, connection.token, Interest::READ).is_ok() {
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
        let _ = self.poller.remove(&connection.stream);
        let mut connections = self.connections();
        connections.remove(&connection.token);
        self.count.store(connections.len(), Ordering::Relaxed);
        drop(connections);
        if self.paused_until_ns.load(Ordering::SeqCst) != 0 {
            self.resume();
        }
        true
    }

    fn pause(&self, until_ns: u64) {
        self.paused_until_ns.store(until_ns, Ordering::SeqCst);
        let _ = self.poller.modify(&self.listener, LISTENER, Interest::NONE);
        // A connection that was closed meanwhile has not seen the pause.
        if until_ns == u64::MAX && !self.is_full() {
            self.resume();
        }
    }

    fn resume(&self) {
        self.paused_until_ns.store(0, Ordering::SeqCst);
        // It is no longer there when the server shuts down.
        let _ = self.poller.modify(&self.listener, LISTENER, Interest::READ);
    }

    /// How long to sleep at most; `None`: until something happens. Ends a pause that is over.
    #[inline]
    pub(super) fn sleep_limit(&self) -> Option<Duration> {
        match self.paused_until_ns.load(Ordering::Relaxed) {
            0 | u64::MAX => None,
            until_ns => {
                let now_ns = clock::now_ns();
                if now_ns >= until_ns {
                    self.resume();
                    return None;
                }
                Some(Duration::from_nanos(until_ns - now_ns))
            }
        }
    }

    /// Accepts no more.
    pub(super) fn shut_down(&self) {
        let _ = self.poller.remove(&self.listener);
        // A listening socket can always be shut down.
        let _ = self.listener.wake_acceptors();
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::stream::server::connections::*;
    use std::net::TcpStream;
    use stoop_net::stream::StreamAddress;

    #[test]
    fn who_connects_and_does_not_bind_keeps_nobody_out() {
        let any = StreamAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = StreamListener::bind(&any).unwrap();
        let StreamAddress::Tcp(address) = listener.local_addr().clone() else { unreachable!("it is one") };
        let reception =
            Connections { connections_max: 2, ..Connections::new(listener, 1 << 20, Users::Own).unwrap() };
        let tokens = || {
            let mut tokens: Vec<_> = reception.all().iter().map(|connection| connection.token).collect();
            tokens.sort_unstable();
            tokens
        };
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            reception.accept();
            stream
        };
        let _first = [connect(), connect()];
        assert_eq!(tokens(), [3, 4]);
        reception.find(3).unwrap().set_bound();
        let _third = connect();
        assert_eq!(tokens(), [3, 5]);
        reception.find(5).unwrap().set_bound();
        let _fourth = connect();
        assert_eq!(tokens(), [3, 5]);
        reception.close(&reception.find(3).unwrap());
        reception.accept();
        assert_eq!(tokens(), [5, 6]);
    }
}
