//! A relay between client and server that changes their datagrams.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use stoop_wire::{Header, Kind};

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// To the server.
    There,
    /// To the client.
    Back,
}

/// The fate of a datagram.
pub(crate) type Change = fn(Way, &[u8]) -> Vec<Vec<u8>>;

/// Stands between clients and a server. It ends when it is dropped.
pub(crate) struct Relay {
    pub(crate) uri: String,
    joins: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

/// How long a thread of a relay waits until it looks whether the relay has ended.
const LOOK: Duration = Duration::from_millis(100);

impl Relay {
    pub(crate) fn to(server: &str, change: Change) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let uri = format!("udp://{}", socket.local_addr().unwrap());
        let relay = Self { uri, joins: Arc::default(), ended: Arc::default() };
        let (joins, ended) = (Arc::clone(&relay.joins), Arc::clone(&relay.ended));
        thread::spawn(move || {
            let mut onward: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
            carry(&ended, &socket.clone(), &joins, |from, datagram| {
                let to = onward.entry(from).or_insert_with(|| {
                    let to = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                    to.connect(server).unwrap();
                    let (back, socket) = (Arc::clone(&to), Arc::clone(&socket));
                    let (joins, ended) = (Arc::clone(&joins), Arc::clone(&ended));
                    thread::spawn(move || {
                        carry(&ended, &back, &joins, |_, datagram| {
                            for changed in change(Way::Back, datagram) {
                                let _ = socket.send_to(&changed, from);
                            }
                        });
                    });
                    to
                });
                for changed in change(Way::There, datagram) {
                    let _ = to.send(&changed);
                }
            });
        });
        relay
    }

    /// From now on two parts of one message that come one behind the other leave as one datagram.
    pub(crate) fn joins_parts(&self) {
        self.joins.store(true, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

fn is_part(datagram: &[u8]) -> bool {
    let is_message =
        datagram.get(2).is_some_and(|kind| [Kind::Call as u8, Kind::Result as u8].contains(kind));
    is_message
        && Header::parse(datagram).is_ok_and(|(header, payload)| header.message_len as usize > payload.len())
}

/// Gives `then` what arrives at a socket.
fn carry(
    ended: &AtomicBool,
    socket: &UdpSocket,
    joins: &AtomicBool,
    mut then: impl FnMut(SocketAddr, &[u8]),
) {
    let mut held: Option<(SocketAddr, Vec<u8>)> = None;
    let mut buffer = vec![0; 1 << 16];
    while !ended.load(Ordering::SeqCst) {
        let limit = if held.is_some() { Duration::from_millis(1) } else { LOOK };
        socket.set_read_timeout(Some(limit)).unwrap();
        let arrived = socket.recv_from(&mut buffer).ok();
        let before = held.take();
        match (before, arrived) {
            (Some((from, first)), Some((len, also))) if from == also && is_part(&buffer[..len]) => {
                then(from, &[&first[..], &buffer[..len]].concat());
            }
            (before, arrived) => {
                if let Some((from, first)) = before {
                    then(from, &first);
                }
                let Some((len, from)) = arrived else { continue };
                if joins.load(Ordering::SeqCst) && is_part(&buffer[..len]) {
                    held = Some((from, buffer[..len].to_vec()));
                } else {
                    then(from, &buffer[..len]);
                }
            }
        }
    }
}
