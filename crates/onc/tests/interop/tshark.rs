//! Traffic of the loopback interface in a sandbox, as tshark reads it.

use crate::sandbox::{Process, wait_until};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};

const FILE: &str = "/run/capture.pcapng";
/// Ports to which only the datagrams go that show that the capture has begun, and that it is complete.
const BEGIN_PORT: u16 = 9;
const END_PORT: u16 = 13;

/// Traffic that was captured.
pub(crate) struct Capture(());

/// Whether tshark is installed; if not, says that `test` is skipped.
pub(crate) fn is_installed(test: &str) -> bool {
    let is_installed = Command::new("tshark").arg("--version").output().is_ok();
    if !is_installed {
        println!("SKIPPED: {test}: tshark is not installed");
    }
    is_installed
}

/// Captures what `traffic` sends and receives.
pub(crate) fn capture(traffic: impl FnOnce()) -> Capture {
    let mut command = Command::new("tshark");
    let process = Process::spawn(command.args(["-q", "-i", "lo", "-w", FILE]));
    wait_until("tshark captures", || has_captured(BEGIN_PORT));
    traffic();
    // It is captured after all the traffic.
    wait_until("tshark has written all", || has_captured(END_PORT));
    drop(process);
    Capture(())
}

/// Sends a datagram to a port, and says whether the capture has one by now.
fn has_captured(port: u16) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a free port");
    socket.send_to(b"captured?", ("127.0.0.1", port)).expect("it is sent");
    Path::new(FILE).exists() && !tshark(&["-Y", &format!("udp.port == {port}")]).stdout.is_empty()
}

/// Reads the capture. All of it is RPC, also at a port that the system gave and tshark knows for another protocol (44818). Programs that
/// tshark does not know are to be dissected as far as RPC goes.
fn tshark(arguments: &[&str]) -> Output {
    let mut command = Command::new("tshark");
    command.args(["-r", FILE, "-o", "rpc.dissect_unknown_programs:TRUE"]);
    command.args(["-d", "tcp.port==1-65535,rpc", "-d", "udp.port==1-65535,rpc"]).args(arguments);
    command.output().expect("tshark starts")
}

impl Capture {
    /// A line about each frame that the filter selects.
    pub(crate) fn frames(&self, filter: &str) -> Vec<String> {
        let output = tshark(&["-Y", filter]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Fails if tshark finds a frame malformed.
    pub(crate) fn check_that_nothing_is_malformed(&self) {
        let own = format!("udp.port == {BEGIN_PORT} || udp.port == {END_PORT}");
        assert_eq!(self.frames(&format!("_ws.malformed && !({own})")), Vec::<String>::new());
    }
}
