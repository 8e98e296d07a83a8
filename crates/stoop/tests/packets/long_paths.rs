//! Calls over long round trips, through a proxy that delays every packet: how many packets a call takes once the path is known.

use crate::harness::lab::{Bench, LabClient};
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Server};

/// Datagrams on their way, and when they arrive.
#[derive(Default)]
struct Line(Mutex<VecDeque<(Instant, Vec<u8>, SocketAddr)>>, Condvar);

impl Line {
    fn put(&self, at: Instant, datagram: &[u8], to: SocketAddr) {
        self.0.lock().unwrap().push_back((at, datagram.to_vec(), to));
        self.1.notify_one();
    }

    /// Sends each datagram when its time has come.
    fn deliver(&self, socket: &UdpSocket) {
        loop {
            let mut line = self.1.wait_while(self.0.lock().unwrap(), |line| line.is_empty()).unwrap();
            let (datagram, to) = loop {
                let left = line[0].0.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let (_, datagram, to) = line.pop_front().expect("it is not empty");
                    break (datagram, to);
                }
                line = self.1.wait_timeout(line, left).unwrap().0;
            };
            drop(line);
            // The peer may have ended.
            let _ = socket.send_to(&datagram, to);
        }
    }
}

/// A proxy in front of one server.
struct Proxy {
    address: SocketAddr,
    /// Call packets that callers have sent.
    calls: Arc<AtomicU64>,
}

const CALL: u8 = 3;

impl Proxy {
    /// Delays what goes to the server by `trip`, and nothing on the way back.
    fn before(server: SocketAddr, trip: Duration) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let (address, calls) = (front.local_addr().unwrap(), Arc::<AtomicU64>::default());
        let counted = Arc::clone(&calls);
        thread::spawn(move || {
            let mut callers: Vec<(SocketAddr, Arc<Line>)> = Vec::new();
            let mut buffer = [0; 2048];
            while let Ok((len, caller)) = front.recv_from(&mut buffer) {
                counted.fetch_add(u64::from(buffer[2] == CALL), Ordering::SeqCst);
                if !callers.iter().any(|(known, _)| *known == caller) {
                    callers.push((caller, connect(Arc::clone(&front), caller)));
                }
                let (_, line) = callers.iter().find(|(known, _)| *known == caller).unwrap();
                line.put(Instant::now() + trip, &buffer[..len], server);
            }
        });
        Self { address, calls }
    }
}

/// The way of one caller to the server, through a socket of its own.
fn connect(front: Arc<UdpSocket>, caller: SocketAddr) -> Arc<Line> {
    let (back, line) = (Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()), Arc::<Line>::default());
    let (sender, there) = (Arc::clone(&back), Arc::clone(&line));
    thread::spawn(move || there.deliver(&sender));
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, _)) = back.recv_from(&mut buffer) {
            let _ = front.send_to(&buffer[..len], caller);
        }
    });
    line
}

/// Calls of one round.
const ROUND: usize = 10;
/// Rounds until the path must be known. A machine that is too busy to deliver in time makes a round fail.
const ROUNDS: usize = 20;

/// Makes rounds of calls until one takes at most 1.1 packets a call.
fn one_packet_a_call(trip_ms: u64, round: impl Fn(&LabClient)) {
    let server = Bench::default().serve(Server::new(), "udp://127.0.0.1:0");
    let address = server.uris()[0].strip_prefix("udp://").unwrap().parse().unwrap();
    let proxy = Proxy::before(address, Duration::from_millis(trip_ms));
    let options = BindOptions::new().timeout(Duration::from_secs(60)).bind_timeout(Duration::from_secs(60));
    let client = LabClient::bind_with(&format!("udp://{}", proxy.address), &options).unwrap();
    round(&client);
    let packets = |_| {
        let before = proxy.calls.load(Ordering::SeqCst);
        round(&client);
        proxy.calls.load(Ordering::SeqCst) - before
    };
    let rounds: Vec<u64> =
        (0..ROUNDS).map(packets).take_while(|packets| 10 * packets > 11 * ROUND as u64).collect();
    assert!(rounds.len() < ROUNDS, "packets of {ROUND} calls at {trip_ms} ms: {rounds:?}");
}

fn blocking(client: &LabClient) {
    (0..ROUND).for_each(|_| client.null().unwrap());
}

/// Together, so that a round takes one round trip.
fn begun(client: &LabClient) {
    let begin = client.begin();
    let calls: Vec<_> = (0..ROUND).map(|_| begin.null()).collect();
    drop(begin);
    calls.into_iter().for_each(|call| call.wait().unwrap());
}

#[test]
fn blocking_calls_take_one_packet_each_way_at_1_to_100_ms() {
    thread::scope(|scope| {
        for trip_ms in [1, 10, 30, 60, 100] {
            scope.spawn(move || one_packet_a_call(trip_ms, blocking));
        }
    });
}

#[test]
fn begun_calls_take_one_packet_each_way_at_1_to_500_ms() {
    thread::scope(|scope| {
        for trip_ms in [1, 30, 100, 200, 500] {
            scope.spawn(move || one_packet_a_call(trip_ms, begun));
        }
    });
}
