//! Other traffic on the Ethernet: pings, and a TCP connection that echoes.

use super::{ADDRESSES, Ethernet};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
        let pings = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || send_pings(&ping, &stop)
        });
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
            move || talk(stream, &stop, &bytes)
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

/// Sends an echo request each millisecond (RFC 792), and waits up to half a second for the answer.
fn send_pings(socket: &rustix::fd::OwnedFd, stop: &AtomicBool) -> (u64, u64) {
    let to: SocketAddr = format!("{}:0", ADDRESSES[1]).parse().unwrap();
    let (mut sent, mut lost) = (0u64, 0);
    while !stop.load(Ordering::Relaxed) {
        sent += 1;
        let number = (sent as u16).to_be_bytes();
        // Type 8, code 0, checksum, identifier, sequence number.
        let mut request = [8, 0, 0, 0, 0x57, 0x0b, number[0], number[1]];
        let sum: u32 = request.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        rustix::net::sendto(socket, &request, SendFlags::empty(), &to).unwrap();
        if !is_answered(socket, number) {
            lost += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (sent, lost)
}

fn is_answered(socket: &rustix::fd::OwnedFd, number: [u8; 2]) -> bool {
    let mut answer = [0; 256];
    loop {
        // An IPv4 header of 20 bytes, then the answer.
        match rustix::net::recv(socket, &mut answer[..], RecvFlags::empty()) {
            Ok((_, 28..))
                if answer[20] == 0 && answer[24..26] == [0x57, 0x0b] && answer[26..28] == number =>
            {
                return true;
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        stream.write_all(&buffer[..len]).unwrap();
    }
}

/// Sends bytes that change from one message to the next, and compares them with what comes back.
fn talk(mut stream: TcpStream, stop: &AtomicBool, bytes: &AtomicU64) {
    let mut seed = 1u8;
    while !stop.load(Ordering::Relaxed) {
        let sent: Vec<u8> = (0..3000).map(|at| seed.wrapping_mul(31).wrapping_add(at as u8)).collect();
        let mut back = vec![0; sent.len()];
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(sent, back, "TCP has lost or changed bytes");
        bytes.fetch_add(sent.len() as u64, Ordering::Relaxed);
        seed = seed.wrapping_add(1);
    }
}
