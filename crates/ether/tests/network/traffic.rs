//! Other traffic on the Ethernet: pings, and a TCP connection that echoes.

use super::{ADDRESSES, Ethernet};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// The traffic, until it is told to end.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    pings: JoinHandle<(u64, u64)>,
    bytes: Arc<AtomicU64>,
    connection: JoinHandle<()>,
}

impl Traffic {
    /// Pings from side a to side b, and a TCP connection from a to b.
    pub(crate) fn start(ethernet: &Ethernet) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let ping = ethernet.a.inside(|| {
            rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(ipproto::ICMP),
            )
            .unwrap()
        });
        rustix::net::sockopt::set_socket_timeout(
            &ping,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_millis(500)),
        )
        .unwrap();
        let (next_ping, next) = mpsc::sync_channel(1);
        let pings = std::thread::spawn(move || send_pings(&ping, &next));
        let listener = ethernet.b.inside(|| TcpListener::bind((ADDRESSES[1], 7)).unwrap());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            sender.send(()).unwrap();
            echo(stream);
        });
        let stream = ethernet.a.inside(|| TcpStream::connect((ADDRESSES[1], 7)).unwrap());
        receiver.recv().unwrap();
        let connection = std::thread::spawn({
            let (stop, bytes) = (Arc::clone(&stop), Arc::clone(&bytes));
            move || talk(stream, &stop, &bytes, &next_ping)
        });
        Self { stop, pings, bytes, connection }
    }

    /// Bytes that have come back over TCP, each as it was sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the traffic. Returns how many pings were sent, and how many of them were lost.
    pub(crate) fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.connection.join().unwrap();
        self.pings.join().unwrap()
    }
}

/// Sends an echo request (RFC 792) for each word from `next`, and at the end until one more is answered, behind which no earlier answer
/// can come. Returns how many were sent before, and how many of these were not answered.
fn send_pings(socket: &rustix::fd::OwnedFd, next: &Receiver<()>) -> (u64, u64) {
    let mut pings = Pings { socket, sent: 0, unanswered: HashSet::new() };
    while next.recv().is_ok() {
        pings.send_one();
    }
    let (sent, lost) = (pings.sent, pings.unanswered.clone());
    while !pings.send_one() {}
    (sent, lost.intersection(&pings.unanswered).count() as u64)
}

struct Pings<'a> {
    socket: &'a rustix::fd::OwnedFd,
    sent: u64,
    unanswered: HashSet<u64>,
}

impl Pings<'_> {
    /// Sends one and returns whether its answer has come soon. A late one counts, too.
    fn send_one(&mut self) -> bool {
        let to: SocketAddr = format!("{}:0", ADDRESSES[1]).parse().unwrap();
        self.sent += 1;
        self.unanswered.insert(self.sent);
        // Type 8, code 0, checksum, identifier, sequence number; and data, which the answer repeats.
        let mut request = [[8, 0, 0, 0, 0x57, 0x0b, 0, 0], self.sent.to_be_bytes()].concat();
        let sum: u32 = request.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        rustix::net::sendto(self.socket, &request, SendFlags::empty(), &to).unwrap();
        while let Some(answered) = self.next_answer() {
            self.unanswered.remove(&answered);
            if answered == self.sent {
                return true;
            }
        }
        false
    }

    fn next_answer(&self) -> Option<u64> {
        let mut answer = [0; 256];
        loop {
            // An IPv4 header of 20 bytes, then the answer.
            match rustix::net::recv(self.socket, &mut answer[..], RecvFlags::empty()) {
                Ok((_, 36..)) if answer[20] == 0 && answer[24..26] == [0x57, 0x0b] => {
                    return Some(u64::from_be_bytes(answer[28..36].try_into().unwrap()));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        stream.write_all(&buffer[..len]).unwrap();
    }
}

/// Sends messages, each with other bytes, and compares each with its echo. Another thread sends a ping with each message, unless its
/// last one is still on its way.
fn talk(mut stream: TcpStream, stop: &AtomicBool, bytes: &AtomicU64, ping: &SyncSender<()>) {
    let mut seed = 1u8;
    while !stop.load(Ordering::Relaxed) {
        let sent: Vec<u8> = (0..3000).map(|at| seed.wrapping_mul(31).wrapping_add(at as u8)).collect();
        let mut back = vec![0; sent.len()];
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(sent, back, "TCP has lost or changed bytes");
        bytes.fetch_add(sent.len() as u64, Ordering::Relaxed);
        seed = seed.wrapping_add(1);
        let _ = ping.try_send(());
    }
}
