//! A proxy before a server that flips bits in packets. It sends them on by sockets, so that the kernel gives each a UDP checksum that
//! is right: so does a router whose memory is broken, or a network address translation.

use rustix::net::sockopt;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A proxy; each caller's port has a port of its own behind it.
pub(super) struct Network {
    /// Where callers find it.
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    front: Option<thread::JoinHandle<()>>,
}

struct Shared {
    /// Where callers send to.
    front: UdpSocket,
    server: SocketAddr,
    /// Packets of a thousand that are corrupted.
    per_mille: u64,
    corrupted: AtomicU64,
    /// Bytes of the longest datagram so far.
    longest: AtomicUsize,
    ended: AtomicBool,
}

/// How long a thread waits for a packet before it looks whether the proxy has ended.
const TICK: Duration = Duration::from_millis(20);

/// Room for the longest datagram.
const LONGEST: usize = 1 << 16;

/// Bytes asked for in each socket's buffer: a long message comes faster than a thread takes its packets.
const ROOM: usize = 4 << 20;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TICK)).unwrap();
    // If the system grants less, packets are lost, and sent again.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, ROOM));
    socket
}

impl Network {
    /// A proxy before `server` that corrupts so many of a thousand packets, in either direction.
    pub(super) fn new(server: SocketAddr, seed: u64, per_mille: u64) -> Self {
        let front = socket();
        let address = front.local_addr().unwrap();
        let (corrupted, longest, ended) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { front, server, per_mille, corrupted, longest, ended });
        let there = Arc::clone(&shared);
        Self { address, shared, front: Some(thread::spawn(move || there.run(seed))) }
    }

    /// Bytes of the longest datagram so far.
    pub(super) fn longest(&self) -> usize {
        self.shared.longest.load(Ordering::Relaxed)
    }

    /// Packets corrupted so far.
    pub(super) fn corrupted(&self) -> u64 {
        self.shared.corrupted.load(Ordering::Relaxed)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let ended = self.front.take().expect("taken only here").join();
        assert!(ended.is_ok() || thread::panicking(), "the network has broken down");
    }
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The way of all callers to the server.
    fn run(self: Arc<Self>, seed: u64) {
        let mut random = Random(seed);
        let mut ports: HashMap<SocketAddr, (Arc<UdpSocket>, thread::JoinHandle<()>)> = HashMap::new();
        let mut buffer = vec![0; LONGEST];
        while !self.has_ended() {
            let Ok((len, caller)) = self.front.recv_from(&mut buffer) else { continue };
            let seed = seed << 32 | ports.len() as u64;
            let (port, _) = ports.entry(caller).or_insert_with(|| {
                let port = Arc::new(socket());
                port.connect(self.server).unwrap();
                let (shared, behind) = (Arc::clone(&self), Arc::clone(&port));
                (port, thread::spawn(move || shared.bring_back(&behind, caller, seed)))
            });
            self.corrupt(&mut random, &mut buffer[..len]);
            // A packet that is not sent is one that is lost.
            let _ = port.send(&buffer[..len]);
        }
        ports.into_values().for_each(|(_, back)| back.join().unwrap());
    }

    /// The way of the server's packets to one caller.
    fn bring_back(&self, port: &UdpSocket, caller: SocketAddr, seed: u64) {
        let mut random = Random(seed);
        let mut buffer = vec![0; LONGEST];
        while !self.has_ended() {
            let Ok(len) = port.recv(&mut buffer) else { continue };
            self.corrupt(&mut random, &mut buffer[..len]);
            let _ = self.front.send_to(&buffer[..len], caller);
        }
    }

    /// Flips bits of some packets: one, several anywhere, or most of a few bytes.
    fn corrupt(&self, random: &mut Random, packet: &mut [u8]) {
        self.longest.fetch_max(packet.len(), Ordering::Relaxed);
        if packet.is_empty() || random.below(1000) >= self.per_mille {
            return;
        }
        let bits = 8 * packet.len() as u64;
        let flipped: Vec<u64> = match random.below(3) {
            0 => vec![random.below(bits)],
            1 => (0..2 + random.below(7)).map(|_| random.below(bits)).collect(),
            _ => {
                let first = random.below(bits);
                (first..bits.min(first + 32)).filter(|_| random.below(2) == 0).collect()
            }
        };
        let before = packet.to_vec();
        flipped.iter().for_each(|bit| packet[(bit / 8) as usize] ^= 1 << (bit % 8));
        // The same bit may have been flipped twice.
        self.corrupted.fetch_add(u64::from(packet != before), Ordering::Relaxed);
    }
}

/// SplitMix64 (Steele, Lea & Flood 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}
