//! A wire that can be cut.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Stands between a client and a server, and can cut what connects them.
pub(crate) struct Proxy {
    pub(crate) uri: String,
    connected: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("tcp://{}", listener.local_addr().unwrap());
        let connected = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&connected);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                all.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (mut to, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                let (mut to, mut from) = (server, client);
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        Self { uri, connected }
    }

    /// Cuts all connections; new ones can be made.
    pub(crate) fn cut(&self) {
        for stream in self.connected.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
