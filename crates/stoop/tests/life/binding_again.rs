//! Begun calls whose server was lost, while the next one at its address does not answer yet.

use crate::harness::lab::{Bench, LabClient, LabServer};
use crate::harness::{loopback, runtime, transports};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};
use stoop::{BindOptions, Ran, Server};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn counter() -> Server {
    Server::new().export(LabServer::new(Bench::default()))
}

/// Transports over which a client learns that its server is gone before it sends another call.
const CONNECTED: [&str; 3] = ["tcp", "unix", "shm"];

/// A client that knows that its server is gone, and the address, which is free.
fn deserted(transport: &str) -> (LabClient, String) {
    let server = counter().listen(&transports::address(transport)).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    let client = LabClient::bind_with(&uri, &BindOptions::new().timeout(LONG).bind_timeout(LONG)).unwrap();
    assert_eq!(client.begin().count().wait().unwrap(), 0);
    server.shut_down();
    // A call that leaves before the client has noticed may have run.
    while client.count().unwrap_err().ran() != Ran::No {}
    loopback::await_free(&uri);
    (client, uri)
}

/// A listener that accepts connections and answers none.
enum Mute {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Mute {
    fn listen(uri: &str) -> io::Result<Self> {
        let name = match uri.split_once(':').unwrap() {
            ("tcp", address) => return TcpListener::bind(&address[2..]).map(Self::Tcp),
            ("shm", name) => format!("stoop-shm/{name}"),
            (_, name) => name[1..].into(),
        };
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).map(Self::Unix)
    }

    /// Waits for a connection.
    fn accept(&self) -> OwnedFd {
        match self {
            Self::Tcp(listener) => listener.accept().unwrap().0.into(),
            Self::Unix(listener) => listener.accept().unwrap().0.into(),
        }
    }
}

#[test]
fn a_begun_call_waits_for_the_next_server_even_after_another_calls_deadline() {
    for transport in CONNECTED {
        let (client, uri) = deserted(transport);
        // It can be connected to, and does not answer before it is started.
        let server = counter().listen(&uri).unwrap();
        let short = client.begin().with_timeout(SHORT).count();
        let long = client.begin().count();
        let error = short.wait().unwrap_err();
        assert!(error.ran() == Ran::No && error.is_timeout(), "{transport}: {error}");
        let _server = server.start().unwrap();
        assert_eq!(long.wait().unwrap(), 0, "{transport}");
    }
}

#[test]
fn a_future_ends_at_its_deadline_while_its_client_binds_again_for_another_call() {
    for transport in CONNECTED {
        let (client, uri) = deserted(transport);
        let mute = Mute::listen(&uri).unwrap();
        let _long = client.begin().count();
        let _connected = mute.accept();
        let begun = Instant::now();
        let error = runtime::block_on(client.begin().with_timeout(SHORT).count()).unwrap_err();
        let took = begun.elapsed();
        assert!(error.ran() == Ran::No && error.is_timeout(), "{transport}: {error}");
        assert!(took >= SHORT && took < LONG / 4, "{transport}: {took:?}");
    }
}
