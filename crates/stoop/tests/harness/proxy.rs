//! A wire that can be cut, or clogged.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Stands between a client and a server, and can cut what connects them.
pub(crate) struct Proxy {
    pub(crate) uri: String,
    connected: Arc<Mutex<Vec<TcpStream>>>,
    valve: Arc<Valve>,
    closes: Arc<AtomicBool>,
    closed: Arc<AtomicU32>,
}

/// Lets pass what clients send; or only so many bytes more.
#[derive(Default)]
struct Valve {
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Valve {
    fn set(&self, left: Option<usize>) {
        *self.left.lock().unwrap() = left;
        self.changed.notify_all();
    }

    /// Waits until so many bytes may pass.
    fn pass(&self, bytes: usize) {
        let is_closed = |left: &mut Option<usize>| left.is_some_and(|left| left < bytes);
        let mut left = self.changed.wait_while(self.left.lock().unwrap(), is_closed).unwrap();
        if let Some(left) = &mut *left {
            *left -= bytes;
        }
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            self.pass(len);
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
    }
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("tcp://{}", listener.local_addr().unwrap());
        let connected = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&connected);
        let valve = Arc::<Valve>::default();
        let clients = Arc::clone(&valve);
        let (closes, closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (is_closing, count) = (Arc::clone(&closes), Arc::clone(&closed));
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_closing.load(Ordering::Relaxed) {
                    count.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                all.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (mut to, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                let valve = Arc::clone(&clients);
                thread::spawn(move || valve.copy(client, server));
            }
        });
        Self { uri, connected, valve, closes, closed }
    }

    /// Lets so many bytes more pass that clients send; all if it is not said how many.
    pub(crate) fn let_pass(&self, bytes: Option<usize>) {
        self.valve.set(bytes);
    }

    /// Cuts all connections; new ones can be made.
    pub(crate) fn cut(&self) {
        for stream in self.connected.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts all connections, and closes those that are made from now on.
    pub(crate) fn close(&self) {
        self.closes.store(true, Ordering::Relaxed);
        self.cut();
    }

    /// How many connections it has [closed](Self::close) as soon as they were made.
    pub(crate) fn closed(&self) -> u32 {
        self.closed.load(Ordering::Relaxed)
    }
}
