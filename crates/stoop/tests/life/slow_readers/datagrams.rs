//! Over UDP: a network lets what the server sends pass slowly, or not at all.

use super::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes a second.
const RATE: u64 = 1 << 20;
/// Takes longer than the server waits for a reader that makes no progress.
const RESULT: u32 = 7 << 19;

/// A way to the server on which long datagrams of the server's pass slowly, as long as `left` bytes of them have not passed.
fn slow_way(server: SocketAddr, left: usize) -> String {
    let (ours, theirs) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let uri = format!("udp://{}", ours.local_addr().unwrap());
    theirs.connect(server).unwrap();
    let (client, queue) = (Arc::new(OnceLock::new()), std::sync::mpsc::channel::<Vec<u8>>());
    let (calls, results) = ((ours.try_clone().unwrap(), theirs.try_clone().unwrap()), theirs);
    let caller = Arc::clone(&client);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((len, from)) = calls.0.recv_from(&mut buffer) {
            caller.get_or_init(|| from);
            let _ = calls.1.send(&buffer[..len]);
        }
    });
    let (enter, leave) = queue;
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            // An error: the server's socket is closed already.
            if let Ok(len) = results.recv(&mut buffer)
                && enter.send(buffer[..len].to_vec()).is_err()
            {
                return;
            }
        }
    });
    thread::spawn(move || {
        let left = AtomicUsize::new(left);
        for datagram in leave {
            if datagram.len() > 1_000 {
                if left.load(Ordering::Relaxed) < datagram.len() {
                    continue;
                }
                left.fetch_sub(datagram.len(), Ordering::Relaxed);
                thread::sleep(Duration::from_nanos(datagram.len() as u64 * 1_000_000_000 / RATE));
            }
            let _ = ours.send_to(&datagram, client.get().unwrap());
        }
    });
    uri
}

fn address_of(server: &RunningServer) -> SocketAddr {
    server.uris()[0].strip_prefix("udp://").unwrap().parse().unwrap()
}

/// The result arrives whole.
pub(super) fn reads_slowly() {
    let server = office(&format!("udp://{}:0", loopback::address()));
    let client = OfficeClient::bind(&slow_way(address_of(&server), usize::MAX)).unwrap();
    assert!(client.last_words(RESULT).unwrap() == vec![7; RESULT as usize]);
    server.wait();
}

/// The server does not wait for its reader.
pub(super) fn stops_reading() {
    let server = office(&format!("udp://{}:0", loopback::address()));
    let client = OfficeClient::bind(&slow_way(address_of(&server), 1 << 20)).unwrap();
    client.last_words(RESULT).unwrap_err();
    assert_ends_soon(&server);
}
