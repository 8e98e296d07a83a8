//! Processes that serve at sockets which this process has made and keeps (`LISTEN_FDS`).

use super::processes::Process;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fmt::Display;
use std::io::BufRead;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::{BindOptions, RunningServer};

/// Starts a server, and serves until standard input ends.
pub(crate) fn serve<E: Display>(start: impl FnOnce() -> Result<RunningServer, E>) {
    match start() {
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
        Self::at("127.0.0.1")
    }

    /// At that host.
    pub(crate) fn at(host: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoop-activation-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let sockets = Self {
            tcp: TcpListener::bind((host, 0)).unwrap(),
            udp: UdpSocket::bind((host, 0)).unwrap(),
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
    pub(crate) fn serve(&self, role: &str, addresses: &str) -> (Process, String) {
        // First to places that none of them has, for one may have the place of another.
        let [a, b, c] = self.descriptors();
        let script = format!(
            "exec 103<&{a} 104<&{b} 105<&{c}; exec 3<&103 4<&104 5<&105 103<&- 104<&- 105<&-; \
             export LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:web:local; exec \"$0\" \"$@\""
        );
        let mut process = Process::spawn(&mut Process::command_by("bash", &["-c", &script], role, addresses));
        let first = process.find_line(|line| line.starts_with("ready") || line.starts_with("failed"));
        (process, first)
    }
}

pub(crate) fn patient() -> BindOptions {
    let long = Duration::from_secs(60);
    BindOptions::new().timeout(long).bind_timeout(long)
}
