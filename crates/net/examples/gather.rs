//! Does it pay to spare the copies of a long message? One thread sends messages in packets with headers, another puts
//! them together; each by one copy through a buffer that stays in the cache, or by a list of slices for the kernel:
//! *gathered* from where they are, *scattered* to where they are expected to belong.
//!
//!     cargo run --release -p stoop-net --example gather -- [largest packet]
//!
//! Over loopback; the largest packet is 1472 bytes unless told. Prints microseconds a message (median) and how often the
//! expectation held.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use stoop_net::udp::{CallerArrival, CallerSocket, MAX_SEGMENTS_LEN, Segments, SegmentsSending};

const HEADER: usize = 32;
/// Bytes that the receiver's buffer holds for certain: longer messages wait for a word after each such part.
const PART: usize = 512 << 10;

/// Where in the message a packet's payload belongs.
fn offset_of(header: &[u8]) -> usize {
    u64::from_le_bytes(header[..8].try_into().expect("a header has eight bytes")) as usize
}

fn header(offset: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&(offset as u64).to_le_bytes());
    header
}

/// Sends `message[from..to]` in packets with `fragment` bytes of it.
struct Sender {
    socket: CallerSocket,
    fragment: usize,
    buffer: Vec<u8>,
    headers: Vec<[u8; HEADER]>,
}

impl Sender {
    fn send(&mut self, gathers: bool, message: &[u8], from: usize, to: usize) {
        let (packet, mut at) = (HEADER + self.fragment, from);
        let most = (MAX_SEGMENTS_LEN / packet).min(64) * self.fragment;
        while at < to {
            let end = to.min(at + most);
            let sent = if gathers { self.gather(message, at, end) } else { self.copy(message, at, end) };
            assert_eq!(sent, SegmentsSending::Sent);
            at = end;
        }
    }

    fn copy(&mut self, message: &[u8], from: usize, to: usize) -> SegmentsSending {
        let (mut at, mut len) = (from, 0);
        for packet in self.buffer.chunks_mut(HEADER + self.fragment) {
            let payload = &message[at..to.min(at + self.fragment)];
            packet[..HEADER].copy_from_slice(&header(at));
            packet[HEADER..HEADER + payload.len()].copy_from_slice(payload);
            (at, len) = (at + payload.len(), len + HEADER + payload.len());
            if at == to {
                break;
            }
        }
        self.socket.send_segments(&self.buffer[..len], HEADER + self.fragment).expect("loopback takes it")
    }

    fn gather(&mut self, message: &[u8], from: usize, to: usize) -> SegmentsSending {
        self.headers.clear();
        self.headers.extend((from..to).step_by(self.fragment).map(header));
        let mut slices = Vec::with_capacity(128);
        for (header, payload) in self.headers.iter().zip(message[from..to].chunks(self.fragment)) {
            slices.push(IoSlice::new(header));
            slices.push(IoSlice::new(payload));
        }
        self.socket.send_gathered(&slices, HEADER + self.fragment).expect("loopback takes it")
    }
}

/// Puts messages together.
struct Receiver {
    socket: CallerSocket,
    fragment: usize,
    buffer: Vec<u8>,
    headers: Vec<[u8; HEADER]>,
    held: u64,
    failed: u64,
}

impl Receiver {
    /// Receives the bytes `from..to`, which come in order here as almost everywhere.
    fn receive(&mut self, scatters: bool, message: &mut [u8], from: usize, to: usize) {
        let mut at = from;
        while at < to {
            at += if scatters { self.scatter(message, at, to) } else { self.copy(message) };
        }
    }

    fn copy(&mut self, message: &mut [u8]) -> usize {
        let Ok(CallerArrival::Datagram(segments)) = self.socket.recv_segments(&mut self.buffer) else {
            return 0;
        };
        place(segments, &self.buffer, message)
    }

    /// Receives with the next payloads' places behind each header; what came otherwise is moved.
    fn scatter(&mut self, message: &mut [u8], at: usize, to: usize) -> usize {
        let most = (MAX_SEGMENTS_LEN / (HEADER + self.fragment)).min(64);
        let end = to.min(at + most * self.fragment);
        let mut slices = Vec::with_capacity(129);
        for (header, payload) in self.headers.iter_mut().zip(message[at..end].chunks_mut(self.fragment)) {
            slices.push(IoSliceMut::new(header));
            slices.push(IoSliceMut::new(payload));
        }
        // The part beyond the expected length goes here.
        slices.push(IoSliceMut::new(&mut self.buffer));
        let Ok(CallerArrival::Datagram(segments)) = self.socket.recv_scattered(&mut slices) else {
            return 0;
        };
        let (packets, packet) = (segments.count(), HEADER + self.fragment);
        let payload_len = segments.len - packets * HEADER;
        let expected = |index: usize| at + index * self.fragment;
        let held = (packets == 1 || segments.segment == packet)
            && payload_len <= end - at
            && (0..packets).all(|index| offset_of(&self.headers[index]) == expected(index));
        if held {
            self.held += 1;
            return payload_len;
        }
        self.failed += 1;
        self.put_right(message, segments, at, end)
    }

    /// The slices do not hold what was expected: puts them together as they came, and copies.
    #[cold]
    fn put_right(&mut self, message: &mut [u8], segments: Segments, at: usize, end: usize) -> usize {
        let mut whole = Vec::with_capacity(segments.len + MAX_SEGMENTS_LEN);
        for (header, payload) in self.headers.iter().zip(message[at..end].chunks(self.fragment)) {
            whole.extend_from_slice(header);
            whole.extend_from_slice(payload);
        }
        whole.extend_from_slice(&self.buffer);
        place(segments, &whole, message)
    }
}

fn place(segments: Segments, buffer: &[u8], message: &mut [u8]) -> usize {
    let mut taken = 0;
    for packet in segments.split(buffer) {
        let (header, payload) = packet.split_at(HEADER);
        message[offset_of(header)..][..payload.len()].copy_from_slice(payload);
        taken += payload.len();
    }
    taken
}

/// Two sockets connected to each other.
fn pair() -> (CallerSocket, CallerSocket) {
    let free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    let there: SocketAddr = free().expect("a free port");
    let first = CallerSocket::connect(there).expect("loopback is there");
    let own = first.local_addr().expect("it is bound");
    let server = stoop_net::udp::ServerSocket::bind(there).expect("the port is free still");
    let second = server.connected_to(&own.into()).expect("loopback is there");
    for socket in [&first, &second] {
        socket.set_gro(true).expect("this kernel knows it");
        socket.set_receive_buffer(4 << 20).expect("any room is granted");
    }
    (first, second)
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

static MODE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static END: AtomicBool = AtomicBool::new(false);

fn main() {
    let largest: usize = std::env::args().nth(1).map_or(1472, |text| text.parse().expect("a number"));
    let fragment = largest - HEADER;
    let (near, far) = pair();
    let receiving = thread::spawn(move || {
        pin(1);
        let (buffer, headers) = (vec![0; 65_536], vec![[0; HEADER]; 64]);
        let mut receiver = Receiver { socket: far, fragment, buffer, headers, held: 0, failed: 0 };
        let mut message = vec![0; 16 << 20];
        while !END.load(Ordering::Acquire) {
            let len = LEN.swap(0, Ordering::AcqRel);
            let mode = MODE.load(Ordering::Acquire);
            for from in (0..len).step_by(PART) {
                receiver.receive(mode & 2 != 0, &mut message, from, len.min(from + PART));
                receiver.socket.send(&header(0)).expect("loopback takes it");
            }
            HELD.store(receiver.held, Ordering::Relaxed);
            FAILED.store(receiver.failed, Ordering::Relaxed);
            std::hint::spin_loop();
        }
    });
    pin(0);
    let (buffer, headers) = (vec![0; 65_536], Vec::new());
    let mut sender = Sender { socket: near, fragment, buffer, headers };
    let message: Vec<u8> = (0..16_usize << 20).map(|i| (i % 251) as u8).collect();
    println!("packets of {largest} bytes   copied both   gathered   scattered   gathered and scattered");
    for len in [fragment + 1, 8 << 10, 48_000, 256 << 10, 1 << 20, 16 << 20] {
        let mut times = [const { Vec::new() }; 4];
        let mut word = vec![0; 65_536];
        let rounds = (300_000_000 / len).clamp(20, 3000);
        for round in 0..4 * rounds {
            let mode = round % 4;
            let begun = Instant::now();
            MODE.store(mode, Ordering::Release);
            LEN.store(len, Ordering::Release);
            for from in (0..len).step_by(PART) {
                sender.send(mode & 1 != 0, &message, from, len.min(from + PART));
                while !matches!(sender.socket.recv_segments(&mut word), Ok(CallerArrival::Datagram(_))) {
                    std::hint::spin_loop();
                }
            }
            times[mode].push(begun.elapsed().as_nanos() as f64 / 1000.0);
        }
        let medians = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let [base, ..] = medians;
        println!(
            "{len:>10} bytes      {base:>10.2} {}",
            medians[1..].iter().map(|m| format!("{m:>10.2} ({:.2})", m / base)).collect::<String>()
        );
    }
    let (held, failed) = (HELD.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed));
    println!("the expectation held {held} times, and failed {failed} times");
    END.store(true, Ordering::Release);
    receiving.join().expect("the receiver does not panic");
}
