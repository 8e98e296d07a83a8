//! Servers whose sockets another process has made, and keeps while they are restarted (`LISTEN_FDS`).

use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Counter {
    #[idempotent]
    fn add(&self, a: u32, b: u32) -> u32;
    fn process(&self) -> u32;
    /// As `process`, when there is such a file.
    fn hold(&self, path: &str) -> u32;
}

struct Sum;

impl Counter for Sum {
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
    fn process(&self) -> u32 {
        std::process::id()
    }
    fn hold(&self, path: &str) -> u32 {
        std::fs::write(format!("{path}-held"), "").unwrap();
        while !Path::new(path).exists() {
            thread::yield_now();
        }
        std::process::id()
    }
}

/// Set in the environment of a process that is to serve: addresses with spaces between.
const ADDRESSES: &str = "STOOP_TEST_ADDRESSES";

/// The other process: serves until its standard input ends.
#[test]
fn process() {
    let Ok(addresses) = std::env::var(ADDRESSES) else { return };
    println!();
    let server = Server::new().export(CounterServer::new(Sum));
    let server = addresses.split(' ').try_fold(server, |server, uri| server.listen(uri));
    match server.and_then(Server::start) {
        Ok(server) => {
            println!("ready {}", server.uris().join(" "));
            let _ = std::io::stdin().lock().lines().count();
            server.shut_down();
        }
        Err(why) => println!("failed {why}"),
    }
}

/// The sockets that stay, and what a process that serves there says at its start.
struct Sockets {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    path: PathBuf,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Sockets {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoop-activation-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let sockets = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(&path).unwrap(),
            path,
        };
        for socket in [sockets.tcp.as_fd(), sockets.udp.as_fd(), sockets.unix.as_fd()] {
            fcntl_setfd(socket, FdFlags::empty()).unwrap();
        }
        sockets
    }

    fn descriptors(&self) -> [RawFd; 3] {
        [self.tcp.as_raw_fd(), self.udp.as_raw_fd(), self.unix.as_raw_fd()]
    }

    fn uris(&self) -> [String; 3] {
        let (tcp, udp) = (self.tcp.local_addr().unwrap(), self.udp.local_addr().unwrap());
        [format!("tcp://{tcp}"), format!("udp://{udp}"), format!("unix:{}", self.path.display())]
    }

    /// Starts a process that gets the sockets as systemd passes them, and serves at these addresses. Returns its first line.
    fn serve(&self, addresses: &str) -> (Process, String) {
        // First to places that none of them has, for one may have the place of another.
        let [a, b, c] = self.descriptors();
        let script = format!(
            "exec 103<&{a} 104<&{b} 105<&{c}; exec 3<&103 4<&104 5<&105 103<&- 104<&- 105<&-; \
             export LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:web:local; exec \"$0\" \"$@\""
        );
        let own = std::env::current_exe().unwrap();
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .arg(own)
            .args(["process", "--exact", "--nocapture"])
            .env(ADDRESSES, addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        let first = lines.find(|line| line.starts_with("ready") || line.starts_with("failed")).unwrap();
        // What it prints later is of no interest, and must not end it.
        thread::spawn(move || lines.count());
        (Process { child, input }, first)
    }
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
}

impl Process {
    /// Ends it as a service manager does: it shuts down, and finishes what it has begun.
    fn end(&mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn patient() -> BindOptions {
    let long = Duration::from_secs(60);
    BindOptions::new().timeout(long).bind_timeout(long)
}

#[test]
fn a_server_takes_the_sockets_that_were_passed_for_its_addresses() {
    let sockets = Sockets::new();
    let uris = sockets.uris();
    let (mut process, said) = sockets.serve(&uris.join(" "));
    assert_eq!(said, format!("ready {}", uris.join(" ")));
    for uri in &uris {
        let client = CounterClient::bind_with(uri, &patient()).unwrap();
        assert_eq!(client.process().unwrap(), process.child.id(), "{uri}");
    }
    process.end();
    assert!(sockets.path.exists(), "the socket's file is its maker's");
}

#[test]
fn a_server_takes_sockets_by_their_names() {
    let sockets = Sockets::new();
    let [tcp, udp, unix] = sockets.uris();
    let (mut process, said) = sockets.serve("fd:web fd:local");
    assert_eq!(said, format!("ready {tcp} {udp} {unix}"));
    process.end();
    let (_, said) = sockets.serve("fd:other");
    assert!(said.starts_with("failed") && said.contains("LISTEN_FDNAMES"), "{said}");
}

#[test]
fn callers_wait_for_the_server_that_takes_the_sockets_over() {
    let sockets = Sockets::new();
    let uris = sockets.uris();
    let (mut first, _) = sockets.serve(&uris.join(" "));
    first.end();
    thread::scope(|scope| {
        let calls = uris.each_ref().map(|uri| {
            scope.spawn(move || CounterClient::bind_with(uri, &patient()).unwrap().process().unwrap())
        });
        let (mut second, _) = sockets.serve(&uris.join(" "));
        for call in calls {
            assert_eq!(call.join().unwrap(), second.child.id());
        }
        second.end();
    });
}

#[test]
fn no_idempotent_call_fails_while_a_server_is_restarted_on_its_sockets() {
    let sockets = Sockets::new();
    let [tcp, _, unix] = sockets.uris();
    let (mut process, _) = sockets.serve(&[tcp.as_str(), &unix].join(" "));
    let (ends, made) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
    thread::scope(|scope| {
        let callers = [&tcp, &unix].into_iter().zip(&made).map(|(uri, made)| {
            let ends = &ends;
            scope.spawn(move || {
                let client = CounterClient::bind_with(uri, &patient()).unwrap();
                while !ends.load(Ordering::Relaxed) {
                    assert_eq!(client.add(2, 3).unwrap(), 5);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        let go_on = || {
            let before = made.each_ref().map(|made| made.load(Ordering::Relaxed));
            let has_gone_on =
                || made.iter().zip(before).all(|(made, before)| made.load(Ordering::Relaxed) > before + 10);
            while !has_gone_on() && !callers.iter().any(|caller| caller.is_finished()) {
                thread::yield_now();
            }
        };
        for _ in 0..3 {
            go_on();
            process.end();
            process = sockets.serve(&[tcp.as_str(), &unix].join(" ")).0;
        }
        go_on();
        ends.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    process.end();
}

#[test]
fn a_server_that_shuts_down_ends_its_calls_while_others_go_to_the_next() {
    let sockets = Sockets::new();
    let [tcp, _, unix] = sockets.uris();
    for uri in [tcp, unix] {
        let released = sockets.path.with_extension(if uri.starts_with("tcp") { "tcp" } else { "unix" });
        let arrived = PathBuf::from(format!("{}-held", released.display()));
        let (mut first, _) = sockets.serve(&uri);
        let client = CounterClient::bind_with(&uri, &patient()).unwrap();
        thread::scope(|scope| {
            let held = scope.spawn(|| client.hold(released.to_str().unwrap()).unwrap());
            while !arrived.exists() && !held.is_finished() {
                thread::yield_now();
            }
            drop(first.input.take());
            let (mut second, _) = sockets.serve(&uri);
            while client.process().unwrap() != second.child.id() {}
            assert!(!held.is_finished());
            std::fs::write(&released, "").unwrap();
            assert_eq!(held.join().unwrap(), first.child.id());
            first.end();
            second.end();
        });
        [&released, &arrived].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}
