//! A caller whose calls, or all of whose packets, leave from two addresses in turn, as with two ways to the network: it proves the second
//! address once, and is not challenged again.

use crate::harness::lab::{Bench, LabClient};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, RunningServer, Server};
use stoop_wire::{BindingId, CallNumber, Header, Kind};

/// Stands between one client and a server, to which it sends from two addresses.
struct TwoAddresses {
    uri: String,
    /// After each result, packets leave from the other address; before, all leave from the first.
    in_turn: Arc<AtomicBool>,
    /// Each packet leaves from another address than the one before.
    by_packets: Arc<AtomicBool>,
    /// Challenges of a binding that the server has sent.
    challenges: Arc<AtomicU64>,
    /// Proofs that have left.
    proofs: Arc<AtomicU64>,
    /// Packets that have left from each address.
    sent: Arc<[AtomicU64; 2]>,
}

const ADDRESSES: [&str; 2] = ["127.0.8.1:0", "127.0.8.2:0"];

fn is_challenge(datagram: &[u8]) -> bool {
    let header = Header::parse(datagram).map(|(header, _)| header);
    header.is_ok_and(|header| header.kind == Kind::Challenge && header.binding != BindingId::NONE)
}

impl TwoAddresses {
    fn before(server: &str) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let there = Self {
            uri: format!("udp://{}", front.local_addr().unwrap()),
            in_turn: Arc::default(),
            by_packets: Arc::default(),
            challenges: Arc::default(),
            proofs: Arc::default(),
            sent: Arc::default(),
        };
        let server: SocketAddr = server.parse().unwrap();
        let (in_turn, sent) = (Arc::clone(&there.in_turn), Arc::clone(&there.sent));
        let (by_packets, proofs) = (Arc::clone(&there.by_packets), Arc::clone(&there.proofs));
        let challenges = Arc::clone(&there.challenges);
        thread::spawn(move || {
            let turn = AtomicUsize::default();
            let mut lanes: Vec<(SocketAddr, [Arc<UdpSocket>; 2])> = Vec::new();
            let mut buffer = [0; 2048];
            while let Ok((len, client)) = front.recv_from(&mut buffer) {
                if !lanes.iter().any(|(known, _)| *known == client) {
                    let back =
                        Back { front: Arc::clone(&front), client, challenges: Arc::clone(&challenges) };
                    lanes.push((client, back.connect(server)));
                }
                let (_, backs) = lanes.iter().find(|(known, _)| *known == client).unwrap();
                let header = Header::parse(&buffer[..len]).map(|(header, _)| header);
                if let Ok(Header { kind: Kind::Call, number: CallNumber(number), .. }) = header
                    && in_turn.load(Ordering::SeqCst)
                {
                    // By its number: a repetition takes the way of its call.
                    turn.store(number as usize, Ordering::SeqCst);
                }
                let step = usize::from(by_packets.load(Ordering::SeqCst));
                let from = turn.fetch_add(step, Ordering::SeqCst) % 2;
                sent[from].fetch_add(1, Ordering::SeqCst);
                backs[from].send(&buffer[..len]).unwrap();
                proofs.fetch_add(u64::from(buffer[2] == Kind::Proof as u8), Ordering::SeqCst);
            }
        });
        there
    }
}

/// The way back to one socket of the client.
#[derive(Clone)]
struct Back {
    front: Arc<UdpSocket>,
    client: SocketAddr,
    challenges: Arc<AtomicU64>,
}

impl Back {
    /// Sockets at both addresses.
    fn connect(&self, server: SocketAddr) -> [Arc<UdpSocket>; 2] {
        ADDRESSES.map(|address| {
            let socket = Arc::new(UdpSocket::bind(address).unwrap());
            socket.connect(server).unwrap();
            let (back, receiver) = (self.clone(), Arc::clone(&socket));
            thread::spawn(move || back.carry(&receiver));
            socket
        })
    }

    fn carry(&self, from: &UdpSocket) {
        let mut buffer = [0; 2048];
        while let Ok(len) = from.recv(&mut buffer) {
            let datagram = &buffer[..len];
            self.challenges.fetch_add(u64::from(is_challenge(datagram)), Ordering::SeqCst);
            // The client may have ended.
            let _ = self.front.send_to(datagram, self.client);
        }
    }
}

fn serve() -> RunningServer {
    Bench::default().serve(Server::new(), "udp://127.0.0.1:0")
}

/// A client behind the relay, which has bound and called from the first address.
fn bound(server: &RunningServer) -> (TwoAddresses, LabClient) {
    let relay = TwoAddresses::before(server.uris()[0].strip_prefix("udp://").unwrap());
    let long = Duration::from_secs(60);
    let options = BindOptions::new().timeout(long).bind_timeout(long);
    let client = LabClient::bind_with(&relay.uri, &options).unwrap();
    assert_eq!(client.next(0).unwrap(), 1);
    assert_eq!(relay.challenges.load(Ordering::SeqCst), 0, "it has bound from the first address");
    (relay, client)
}

#[test]
fn a_caller_with_two_addresses_proves_the_second_once() {
    let server = serve();
    let (relay, client) = bound(&server);
    relay.in_turn.store(true, Ordering::SeqCst);
    // The first still leaves from the first address.
    (0..4).for_each(|number| assert_eq!(client.next(number).unwrap(), number + 1));
    let proven = relay.challenges.load(Ordering::SeqCst);
    assert!(proven > 0, "the second address is new");
    let before = [0, 1].map(|of| relay.sent[of].load(Ordering::SeqCst));
    for number in 0..200 {
        assert_eq!(client.next(number).unwrap(), number + 1);
    }
    for _ in 0..10 {
        let begin = client.begin();
        let calls: Vec<_> = (0..20).map(|number| begin.next(number)).collect();
        drop(begin);
        (0..20).zip(calls).for_each(|(number, call)| assert_eq!(call.wait().unwrap(), number + 1));
    }
    assert_eq!(relay.challenges.load(Ordering::SeqCst), proven, "no call is challenged again");
    let sent = [0, 1].map(|of| relay.sent[of].load(Ordering::SeqCst) - before[of]);
    assert!(sent.iter().all(|sent| *sent >= 100), "{sent:?} packets left from the two addresses");
    server.shut_down();
}

#[test]
fn a_caller_whose_every_packet_takes_the_other_way_proves_the_second_address_once() {
    let server = serve();
    let (relay, client) = bound(&server);
    relay.by_packets.store(true, Ordering::SeqCst);
    let mut call = |number| assert_eq!(client.next(number).unwrap(), number + 1);
    // A call that was challenged may end before the challenge is read, because its repetition left from the first address.
    while relay.proofs.load(Ordering::SeqCst) == 0 {
        call(1);
    }
    // The server has taken the proof before it takes these.
    (0..4).for_each(&mut call);
    let challenges = || relay.challenges.load(Ordering::SeqCst);
    let proven = challenges();
    (0..400).for_each(&mut call);
    assert_eq!(challenges(), proven, "no call is challenged again");
    let sent = [0, 1].map(|of| relay.sent[of].load(Ordering::SeqCst));
    assert!(sent.iter().all(|sent| *sent >= 200), "{sent:?} packets left from the two addresses");
    server.shut_down();
}
