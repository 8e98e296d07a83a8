use super::*;
use std::path::{Path, PathBuf};
use std::thread;

pub(super) const LONG: Duration = Duration::from_secs(20);
const LONG_NS: u64 = 20_000_000_000;

fn accept(listener: &StreamListener) -> Stream {
    match listener.accept().unwrap() {
        Accepted::Stream(stream) => stream,
        other => panic!("expected a stream, got {other:?}"),
    }
}

fn tcp_listener() -> StreamListener {
    StreamListener::bind(&StreamAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap()
}

/// An abstract name that nothing else has.
fn abstract_name() -> StreamAddress {
    StreamAddress::UnixAbstract(crate::host::random_bytes::<16>().to_vec())
}

/// A temporary directory for one test.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        let name: String =
            crate::host::random_bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("stoop-net-{name}"));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("x.sock")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

pub(super) fn unix_path(path: &Path) -> StreamAddress {
    StreamAddress::UnixPath(path.into())
}

fn recv_exactly(stream: &Stream, buffer: &mut [u8]) {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.recv(&mut buffer[filled..], Patience::Block).unwrap() {
            StreamArrival::Bytes(got) => filled += got,
            other => panic!("{other:?} after {filled} bytes"),
        }
    }
}

/// Connects, and passes a message in each direction.
fn converse(listener: &StreamListener) -> (Stream, Stream) {
    let caller = Stream::connect(listener.local_addr(), LONG).unwrap();
    let server = accept(listener);
    let mut buffer = [0; 8];
    assert_eq!(server.recv(&mut buffer, Patience::DontWait).unwrap(), StreamArrival::Nothing);
    caller.send_all(b"head", b"load").unwrap();
    recv_exactly(&server, &mut buffer);
    assert_eq!(&buffer, b"headload");
    server.send_all(b"result", b"").unwrap();
    recv_exactly(&caller, &mut buffer[..6]);
    assert_eq!(&buffer[..6], b"result");
    (caller, server)
}

#[test]
fn tcp_streams_converse_without_delay_and_know_their_addresses() {
    let listener = tcp_listener();
    let (caller, server) = converse(&listener);
    assert_eq!(caller.peer_addr().unwrap(), server.local_addr().unwrap());
    assert_eq!(server.peer_addr().unwrap(), caller.local_addr().unwrap());
    assert!(server.peer_addr().unwrap().is_some());
    assert_eq!(server.peer_credentials().unwrap(), None);
    for stream in [&caller, &server] {
        assert!(sockopt::tcp_nodelay(stream).unwrap());
        stream.set_user_timeout(Duration::from_secs(7)).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(stream).unwrap(), 7_000);
    }
}

#[test]
fn unix_streams_converse_and_know_their_peers() {
    let directory = Directory::new();
    let name: String = crate::host::random_bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    for address in [unix_path(&directory.socket()), StreamAddress::unix(&format!("@stoop-net-{name}"))] {
        let listener = StreamListener::bind(&address).unwrap();
        let (caller, server) = converse(&listener);
        let me = Credentials {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: Some(std::process::id()),
        };
        assert_eq!(server.peer_credentials().unwrap(), Some(me));
        assert_eq!(caller.peer_credentials().unwrap(), Some(me));
        assert_eq!(server.peer_addr().unwrap(), None);
        server.set_user_timeout(LONG).unwrap();
    }
}

#[test]
fn each_way_in_which_nothing_listens_has_its_error_kind() {
    let directory = Directory::new();
    // Another test may get a port of 127.0.0.1 as soon as it is free again.
    let [_, a, b, c] = crate::host::random_bytes();
    let own = SocketAddr::from(([127, a, b, 1 + c % 254], 0));
    let closed = StreamListener::bind(&StreamAddress::Tcp(own)).unwrap().local_addr().clone();
    let cases = [
        (closed, io::ErrorKind::ConnectionRefused),
        (unix_path(&directory.socket()), io::ErrorKind::NotFound),
        (StreamAddress::unix("@stoop-net-nobody"), io::ErrorKind::ConnectionRefused),
        (StreamAddress::unix(""), io::ErrorKind::InvalidInput),
    ];
    for (address, kind) in cases {
        assert_eq!(Stream::connect(&address, LONG).unwrap_err().kind(), kind, "{address}");
    }
}

#[test]
fn connecting_to_a_full_queue_ends_with_the_limit() {
    let directory = Directory::new();
    let address = unix_path(&directory.socket());
    let listener = StreamListener::bind(&address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = Stream::connect(&address, LONG).unwrap();
    let error = Stream::connect(&address, Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn address_of_a_live_server_is_in_use() {
    let directory = Directory::new();
    for first in [tcp_listener(), StreamListener::bind(&unix_path(&directory.socket())).unwrap()] {
        let second = StreamListener::bind(first.local_addr());
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse, "{}", first.local_addr());
        converse(&first);
    }
}

#[test]
fn abstract_name_of_a_live_server_is_in_use() {
    let first = StreamListener::bind(&abstract_name()).unwrap();
    let second = StreamListener::bind(first.local_addr());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    // By which the second has asked whether the first listens.
    drop(accept(&first));
    converse(&first);
}

#[test]
fn an_abstract_name_is_free_once_the_last_copy_of_a_socket_that_listens_no_more_is_closed() {
    let address = abstract_name();
    let last = StreamListener::bind(&address).unwrap();
    // As a child process has it until it executes its program.
    let copy = last.as_fd().try_clone_to_owned().unwrap();
    last.wake_acceptors().unwrap();
    drop(last);
    let name = address.unix_addr().unwrap();
    let another = stream_socket(&address).unwrap();
    assert_eq!(
        rustix::net::bind(&another, &name),
        Err(rustix::io::Errno::ADDRINUSE),
        "the copy has the name"
    );
    thread::scope(|scope| {
        let next = scope.spawn(|| StreamListener::bind(&address).unwrap());
        drop(copy);
        converse(&next.join().unwrap());
    });
}

#[test]
fn socket_file_of_a_dead_server_is_replaced() {
    let directory = Directory::new();
    // A socket that is closed without removal of its file, as by a killed process.
    drop(std::os::unix::net::UnixListener::bind(directory.socket()).unwrap());
    assert!(directory.socket().exists());
    converse(&StreamListener::bind(&unix_path(&directory.socket())).unwrap());
}

#[test]
fn one_of_many_servers_replaces_a_dead_ones_file_and_is_reachable() {
    let directory = Directory::new();
    drop(std::os::unix::net::UnixListener::bind(directory.socket()).unwrap());
    let address = unix_path(&directory.socket());
    let bound: Vec<_> = thread::scope(|scope| {
        let servers: Vec<_> = (0..8).map(|_| scope.spawn(|| StreamListener::bind(&address))).collect();
        servers.into_iter().map(|server| server.join().unwrap()).collect()
    });
    let mut winners = bound.iter().flatten();
    converse(winners.next().unwrap());
    assert!(winners.next().is_none());
}

#[test]
fn file_that_is_no_socket_stays() {
    let directory = Directory::new();
    std::fs::write(directory.socket(), "precious").unwrap();
    let error = StreamListener::bind(&unix_path(&directory.socket())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::read_to_string(directory.socket()).unwrap(), "precious");
}

#[test]
fn a_server_removes_only_its_own_socket_file() {
    let directory = Directory::new();
    let path = directory.socket();
    drop(StreamListener::bind(&unix_path(&path)).unwrap());
    assert!(!path.exists());

    let first = StreamListener::bind(&unix_path(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = StreamListener::bind(&unix_path(&path)).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn the_end_of_a_stream_is_reported_after_the_bytes_sent() {
    let (ours, theirs) = Stream::pair().unwrap();
    theirs.send_all(b"last", b"").unwrap();
    drop(theirs);
    let mut buffer = [0; 8];
    assert_eq!(ours.recv(&mut buffer, Patience::Block).unwrap(), StreamArrival::Bytes(4));
    assert_eq!(ours.recv(&mut buffer, Patience::Block).unwrap(), StreamArrival::Closed);
    assert_eq!(ours.recv(&mut buffer, Patience::DontWait).unwrap(), StreamArrival::Closed);
    assert_eq!(ours.send_all(b"x", b"").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(ours.try_send(&[IoSlice::new(b"x")]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn shutdown_wakes_blocked_threads_and_may_be_repeated() {
    let (ours, _theirs) = Stream::pair().unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| ours.recv(&mut [0; 8], Patience::Block).unwrap());
        ours.shutdown().unwrap();
        assert_eq!(receiver.join().unwrap(), StreamArrival::Closed);
    });
    ours.shutdown().unwrap();
}

#[test]
fn a_wait_without_limit_does_not_inherit_the_last_limit() {
    let (ours, theirs) = Stream::pair().unwrap();
    let mut buffer = [0; 8];
    assert_eq!(ours.recv_within(&mut buffer, 0).unwrap(), StreamArrival::Nothing);
    assert_eq!(ours.recv_within(&mut buffer, 1).unwrap(), StreamArrival::Nothing);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| ours.recv(&mut [0; 8], Patience::Block).unwrap());
        theirs.send_all(b"abc", b"").unwrap();
        assert_eq!(receiver.join().unwrap(), StreamArrival::Bytes(3));
    });
    assert_eq!(sockopt::socket_timeout(&ours, Timeout::Recv).unwrap(), None);
    theirs.send_all(b"abc", b"").unwrap();
    assert_eq!(ours.recv_within(&mut buffer, LONG_NS).unwrap(), StreamArrival::Bytes(3));
}

#[test]
fn a_message_larger_than_the_socket_buffer_arrives_whole() {
    let (ours, theirs) = Stream::pair().unwrap();
    let payload: Vec<u8> = (0..4_000_000_u32).map(|i| (i % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| ours.send_all(&[9; 32], &payload).unwrap());
        let mut received = vec![0; 32 + payload.len()];
        recv_exactly(&theirs, &mut received);
        assert!(received[..32] == [9; 32] && received[32..] == payload);
    });
}

#[test]
fn try_send_stops_when_the_buffer_is_full_and_loses_nothing() {
    let (ours, theirs) = Stream::pair().unwrap();
    let slices = [IoSlice::new(&[1; 1000]), IoSlice::new(&[2; 3000])];
    let mut sent = 0;
    loop {
        match ours.try_send(&slices).unwrap() {
            0 => break,
            n => sent += n,
        }
    }
    assert!(sent > 0);
    recv_exactly(&theirs, &mut vec![0; sent]);
    assert_eq!(theirs.recv(&mut [0; 8], Patience::DontWait).unwrap(), StreamArrival::Nothing);
}

#[test]
fn sending_to_a_peer_that_reads_nothing_ends_with_the_limit() {
    let (ours, _theirs) = Stream::pair().unwrap();
    ours.set_send_limit(Some(Duration::from_millis(1))).unwrap();
    let error = ours.send_all(&vec![0; 4_000_000], b"").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn waking_ends_every_blocked_and_later_accept() {
    let directory = Directory::new();
    for listener in [tcp_listener(), StreamListener::bind(&unix_path(&directory.socket())).unwrap()] {
        thread::scope(|scope| {
            let acceptors: Vec<_> = (0..3).map(|_| scope.spawn(|| listener.accept().unwrap())).collect();
            listener.wake_acceptors().unwrap();
            for acceptor in acceptors {
                assert!(matches!(acceptor.join().unwrap(), Accepted::WokenUp));
            }
        });
        assert!(matches!(listener.accept().unwrap(), Accepted::WokenUp));
        let refused = Stream::connect(listener.local_addr(), LONG).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}

#[test]
fn a_nonblocking_listener_reports_that_no_connection_waits() {
    let listener = tcp_listener();
    listener.set_nonblocking(true).unwrap();
    assert!(matches!(listener.accept().unwrap(), Accepted::Nothing));
}

fn assert_connecting_ends_in_time(address: &StreamAddress) {
    // On a busy machine threads wake up late, but not each time.
    let late: Vec<_> = (0..10).map(|_| median_lateness(address)).take_while(|late| *late >= NEARLY).collect();
    assert!(late.len() < 10, "{late:?}");
}

/// An attempt to connect ends less than this after its limit.
const NEARLY: Duration = Duration::from_millis(50);

/// Connects several times at once to a server that accepts nothing, and returns how late half of the attempts end at most. The timer
/// wheel of a kernel with 250 ticks a second would end half of them more than 100 ms late.
fn median_lateness(address: &StreamAddress) -> Duration {
    let limits = [2_300, 2_335, 2_370, 2_405, 2_440, 2_475, 2_510].map(Duration::from_millis);
    let mut late: Vec<_> = thread::scope(|scope| {
        let connect = |limit| {
            scope.spawn(move || {
                let begun = std::time::Instant::now();
                let error = Stream::connect(address, limit).unwrap_err();
                let took = begun.elapsed();
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                took.checked_sub(limit).unwrap_or_else(|| panic!("ended after {took:?} instead of {limit:?}"))
            })
        };
        let connects: Vec<_> = limits.into_iter().map(connect).collect();
        connects.into_iter().map(|connect| connect.join().unwrap()).collect()
    });
    late.sort_unstable();
    late[late.len() / 2]
}

/// A listening socket with a short queue, and the connections that fill it.
fn full_queue(socket: &OwnedFd, address: &StreamAddress) -> Vec<Stream> {
    rustix::net::listen(socket, 0).unwrap();
    std::iter::from_fn(|| Stream::connect(address, Duration::from_millis(100)).ok()).collect()
}

#[test]
fn connecting_over_tcp_ends_with_its_limit() {
    let any = StreamAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let socket = stream_socket(&any).unwrap();
    rustix::net::bind(&socket, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let _full = full_queue(&socket, &StreamAddress::Tcp(bound));
    assert_connecting_ends_in_time(&StreamAddress::Tcp(bound));
}

#[test]
fn connecting_to_a_unix_socket_ends_with_its_limit() {
    let directory = Directory::new();
    let address = unix_path(&directory.socket());
    let socket = stream_socket(&address).unwrap();
    rustix::net::bind(&socket, &address.unix_addr().unwrap()).unwrap();
    let _full = full_queue(&socket, &address);
    assert_connecting_ends_in_time(&address);
}

#[test]
fn a_tcp_stream_tells_how_long_ago_at_least_its_last_bytes_arrived_and_a_unix_stream_does_not() {
    let listener = StreamListener::bind(&StreamAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let (caller, server) = converse(&listener);
    let begun = std::time::Instant::now();
    server.send_all(b"x", b"").unwrap();
    recv_exactly(&caller, &mut [0]);
    let age_ns = loop {
        if let Some(age_ns) = caller.age_of_last_ns() {
            break age_ns;
        }
    };
    assert!(u128::from(age_ns) <= begun.elapsed().as_nanos(), "{age_ns}");
    let (one, other) = Stream::pair().unwrap();
    other.send_all(b"x", b"").unwrap();
    recv_exactly(&one, &mut [0]);
    assert_eq!(one.age_of_last_ns(), None);
}
