//! Peers that hand descriptors over by a Unix socket to whoever wants none, for closing one can take as long as they like; and one
//! whose bell cannot be rung.

use crate::harness::processes::{Process, TargetClient, client, name};
use crate::harness::shm_peer::Between;
use rustix::fs::OFlags;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use stoop::{BindError, BindOptions};
use stoop_shm::descriptors;

/// As long as closing the descriptor takes.
const LONG: Duration = Duration::from_secs(20);

/// Whether the system can refuse descriptors; says so if not.
fn may(test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-', '\n']).map_while(|number| number.parse::<u32>().ok());
    let can = (numbers.next(), numbers.next()) >= (Some(6), Some(16));
    if !can {
        println!("SKIPPED: {test}: before Linux 6.16 a socket takes all descriptors that its peer sends");
    }
    can
}

/// A connection whose last descriptor closes when all has been sent, or after a long time. Its other end takes nothing.
struct Lingering {
    end: TcpStream,
    silent: TcpStream,
}

impl Lingering {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let mut end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let silent = listener.accept().unwrap().0;
        end.set_nonblocking(true).unwrap();
        let full = std::iter::repeat_with(|| end.write(&[0; 65536])).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        set_socket_linger(&end, Some(LONG)).unwrap();
        Self { end, silent }
    }

    /// Sends the descriptor to a peer, which then has the last reference. Returns the descriptors that must stay open for that.
    fn hand_over(self, socket: &UnixStream) -> TcpStream {
        if let Err(refused) = descriptors::send(socket, b"!", &self.end, &self.end) {
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            // Or this thread would be held.
            set_socket_linger(&self.end, None).unwrap();
        }
        self.silent
    }
}

fn abstract_name(uri: &str) -> SocketAddr {
    let name = match uri.strip_prefix("shm:") {
        Some(name) => format!("stoop-shm/{name}"),
        None => uri.strip_prefix("unix:@").unwrap().into(),
    };
    SocketAddr::from_abstract_name(name).unwrap()
}

fn names() -> [String; 2] {
    [name(), name().replace("shm:", "unix:@")]
}

#[test]
fn a_caller_that_passes_descriptors_does_not_block_the_server() {
    if !may("a_caller_that_passes_descriptors_does_not_block_the_server") {
        return;
    }
    for uri in names() {
        let _server = Process::server(&uri);
        let earlier = client(&uri);
        let hostile = UnixStream::connect_addr(&abstract_name(&uri)).unwrap();
        let _open = Lingering::new().hand_over(&hostile);
        let begun = Instant::now();
        assert_eq!(earlier.next(1).unwrap(), 2, "{uri}");
        assert_eq!(client(&uri).next(1).unwrap(), 2, "{uri}");
        assert!(begun.elapsed() < LONG / 2, "{uri}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_server_that_passes_descriptors_blocks_no_caller_beyond_the_bind_timeout() {
    if !may("a_server_that_passes_descriptors_blocks_no_caller_beyond_the_bind_timeout") {
        return;
    }
    for uri in names() {
        let listener = UnixListener::bind_addr(&abstract_name(&uri)).unwrap();
        let (done, is_done) = mpsc::channel();
        let server = thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let open = Lingering::new().hand_over(&socket);
            is_done.recv().unwrap();
            drop((open, socket));
        });
        let options = BindOptions::new().bind_timeout(Duration::from_millis(200));
        let begun = Instant::now();
        let why = TargetClient::bind_with(&uri, &options).err().unwrap();
        assert!(matches!(why, BindError::NoAnswer { .. }), "{uri}: {why}");
        assert!(begun.elapsed() < LONG / 2, "{uri}: {:?}", begun.elapsed());
        done.send(()).unwrap();
        server.join().unwrap();
    }
}

/// Makes an eventfd blocking and full, which only the kernel can do: every write to it blocks.
fn fill(eventfd: &File) {
    rustix::fs::fcntl_setfl(eventfd, OFlags::NONBLOCK).unwrap();
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", eventfd.as_raw_fd())).unwrap();
    let count = about.lines().find_map(|line| line.strip_prefix("eventfd-count:")).unwrap();
    let count = u64::from_str_radix(count.trim(), 16).unwrap();
    (&*eventfd).write_all(&(u64::MAX - 1 - count).to_ne_bytes()).unwrap();
    let mut queue = 0_u64;
    let file = File::open("/proc/self/exe").unwrap();
    let mut byte = 0_u8;
    // As in linux/aio_abi.h: a read of a byte, whose end is told by the eventfd (IOCB_FLAG_RESFD).
    let mut request = [0_u64; 8];
    request[2] = (file.as_raw_fd() as u64) << 32;
    request[3] = (&raw mut byte) as u64;
    request[4] = 1;
    request[7] = 1 | (eventfd.as_raw_fd() as u64) << 32;
    // SAFETY: `queue` is zero and writable; `request` is what the kernel expects, and `byte` is read into before the queue is gone.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut queue), 0);
        assert_eq!(libc::syscall(libc::SYS_io_submit, queue, 1, [&raw mut request].as_ptr()), 1);
        assert_eq!(libc::syscall(libc::SYS_io_destroy, queue), 0);
    }
    rustix::fs::fcntl_setfl(eventfd, OFlags::empty()).unwrap();
}

#[test]
fn a_server_that_fills_the_bell_blocks_no_caller_beyond_the_deadline() {
    let (behind, front) = (name(), name());
    let _server = Process::server(&behind);
    let listener = UnixListener::bind_addr(&abstract_name(&front)).unwrap();
    let between = thread::spawn(move || Between::hand_on(listener.accept().unwrap().0, &behind).unwrap());
    let options = BindOptions::new().timeout(Duration::from_millis(100));
    let client = TargetClient::bind_with(&front, &options).unwrap();
    let between = between.join().unwrap();
    fill(between.server.bell());
    let (ended, has_ended) = mpsc::channel();
    // The server sleeps, and has to be rung.
    thread::spawn(move || ended.send(client.next(1).is_ok()));
    assert!(has_ended.recv_timeout(LONG).is_ok());
}
