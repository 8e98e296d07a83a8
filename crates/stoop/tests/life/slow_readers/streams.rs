//! Over a Unix socket: a reader takes a little now and then, or nothing any more.

use super::*;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;

const PIECE: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(250);
/// Takes longer than the server waits for a reader that makes no progress.
const RESULT: u32 = 26 * PIECE as u32;

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

fn name(role: &str) -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("slow-readers-{role}-{}-{next}", std::process::id())
}

/// Between a server and a client: takes long pieces from the server slowly, and no more when `stops` has been dropped.
fn slow_reader(server: &str, pieces: usize, stops: mpsc::Receiver<()>) -> String {
    let (uri, server) = (name("reader"), abstract_name(server));
    let listener = UnixListener::bind_addr(&abstract_name(&uri)).unwrap();
    thread::spawn(move || {
        let (client, server) = (listener.accept().unwrap().0, UnixStream::connect_addr(&server).unwrap());
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        copy_slowly(server, client, pieces, &stops);
    });
    format!("unix:@{uri}")
}

fn copy_slowly(mut from: UnixStream, mut to: UnixStream, mut pieces: usize, stops: &mpsc::Receiver<()>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).is_err() {
            return;
        }
        if len > PIECE / 4 {
            thread::sleep(PAUSE);
            pieces -= 1;
        }
        if pieces == 0 {
            // Holds both connections until it is to stop.
            let _ = stops.recv();
            let _ = to.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// The result arrives whole.
pub(super) fn reads_slowly() {
    let server_name = name("server");
    let server = office(&format!("unix:@{server_name}"));
    let (_stop, stops) = mpsc::channel();
    let client = OfficeClient::bind(&slow_reader(&server_name, usize::MAX, stops)).unwrap();
    assert!(client.last_words(RESULT).unwrap() == vec![7; RESULT as usize]);
    server.wait();
}

/// The server does not wait for its reader.
pub(super) fn stops_reading() {
    let server_name = name("server");
    let server = office(&format!("unix:@{server_name}"));
    let (stop, stops) = mpsc::channel();
    let client = OfficeClient::bind(&slow_reader(&server_name, 3, stops)).unwrap();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.last_words(RESULT));
        assert_ends_soon(&server);
        drop(stop);
        call.join().unwrap().unwrap_err();
    });
}
