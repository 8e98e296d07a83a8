//! The traffic of the other tests, as tshark reads it.

use crate::c_peers::{call_c_server, run_client};
use crate::sandbox::{self, Process, wait_until};
use crate::server;
use std::path::Path;
use std::process::{Command, Output};

const FILE: &str = "/run/capture.pcapng";

/// Reads the capture. Programs that tshark does not know are to be dissected as far as RPC goes.
fn tshark(arguments: &[&str]) -> Output {
    let mut command = Command::new("tshark");
    command.args(["-r", FILE, "-o", "rpc.dissect_unknown_programs:TRUE"]).args(arguments);
    command.output().expect("tshark starts")
}

/// Lines that tshark prints about the capture.
fn lines(arguments: &[&str]) -> Vec<String> {
    let output = tshark(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Datagrams to this port are captured once tshark is ready.
fn is_capturing() -> bool {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("there is a free port");
    socket.send_to(b"captured?", "127.0.0.1:9").expect("it is sent");
    Path::new(FILE).exists() && !tshark(&["-Y", "udp.port == 9"]).stdout.is_empty()
}

#[test]
fn tshark_finds_nothing_malformed_in_calls_and_replies() {
    let test = "capture::tshark_finds_nothing_malformed_in_calls_and_replies";
    if Command::new("tshark").arg("--version").output().is_err() {
        return println!("SKIPPED: {test}: tshark is not installed");
    }
    sandbox::run(test, || {
        let mut capture = Command::new("tshark");
        let capture = Process::spawn(capture.args(["-q", "-i", "lo", "-w", FILE]));
        wait_until("tshark captures", is_capturing);
        let folder = sandbox::c_programs("captured");
        call_c_server(&folder);
        for transport in ["udp", "tcp"] {
            server::start(0);
            run_client(&folder, transport);
        }
        // The marker comes after all traffic.
        let marker = std::net::UdpSocket::bind("127.0.0.1:0").expect("there is a free port");
        wait_until("tshark has written all", || {
            marker.send_to(b"the end", "127.0.0.1:13").expect("it is sent");
            !tshark(&["-Y", "udp.port == 13"]).stdout.is_empty()
        });
        drop(capture);
        let frames = |filter: &str| lines(&["-Y", filter]);
        assert_eq!(frames("_ws.malformed && !udp.port == 9 && !udp.port == 13"), Vec::<String>::new());
        let program = "rpc.program == 0x20000099";
        for seen in
            ["udp && rpc.msgtyp == 0", "tcp && rpc.msgtyp == 0", "rpc.auth.flavor == 1 && rpc.procedure == 5"]
        {
            assert!(!frames(&format!("{program} && {seen}")).is_empty(), "{seen}");
        }
        // What tshark says of all replies: success, and the refusals that the callers asked for.
        for state in [0, 2, 3, 4] {
            assert!(
                !frames(&format!("rpc.state_accept == {state}")).is_empty(),
                "accepted with state {state}"
            );
        }
        assert_eq!(frames("rpc.state_accept == 5 || rpc.replystat == 1"), Vec::<String>::new());
    });
}
