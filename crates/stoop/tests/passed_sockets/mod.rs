//! Processes that serve at sockets which this process has made and keeps (`LISTEN_FDS`).

use rustix::io::{FdFlags, fcntl_setfd};
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, RunningServer};

/// Set in the environment of a process that is to serve: addresses with spaces between.
const ADDRESSES: &str = "STOOP_TEST_ADDRESSES";

/// In a process that is to serve: starts the server with these addresses, and serves until standard input ends.
pub(crate) fn serve<E: Display>(start: impl FnOnce(&str) -> Result<RunningServer, E>) {
    let Ok(addresses) = std::env::var(ADDRESSES) else { return };
    println!();
    match start(&addresses) {
        Ok(server) => {
            println!("ready {}", server.uris().join(" "));
            let _ = std::io::stdin().lock().lines().count();
            server.shut_down();
        }
        Err(why) => println!("failed {why}"),
    }
}

/// The sockets that stay, and what a process that serves there says at its start.
pub(crate) struct Sockets {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    pub(crate) path: PathBuf,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Sockets {
    pub(crate) fn new() -> Self {
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

    /// Over TCP, UDP and a Unix socket.
    pub(crate) fn uris(&self) -> [String; 3] {
        let (tcp, udp) = (self.tcp.local_addr().unwrap(), self.udp.local_addr().unwrap());
        [format!("tcp://{tcp}"), format!("udp://{udp}"), format!("unix:{}", self.path.display())]
    }

    /// Starts a process that gets the sockets as systemd passes them, and serves at these addresses. Returns its first line.
    pub(crate) fn serve(&self, addresses: &str) -> (Process, String) {
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

pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
}

impl Process {
    /// Ends it as a service manager does: it shuts down, and finishes what it has begun.
    pub(crate) fn end(&mut self) {
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

pub(crate) fn patient() -> BindOptions {
    let long = Duration::from_secs(60);
    BindOptions::new().timeout(long).bind_timeout(long)
}
