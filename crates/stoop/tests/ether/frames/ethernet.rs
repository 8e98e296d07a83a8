//! The private Ethernet of the paper (Firefly §2.1): a caller and a server in network namespaces of their own, joined by a
//! veth pair.
//!
//! Three processes, all of this program: the test starts a copy of itself as the caller, and that one starts the server.
//! Each ends when the one that started it does, because that closes its standard input; namespaces and Ethernet, which
//! have no names, go with them.

use super::recording::Recorder;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdout, Command, Stdio};
use stoop::Server;
use stoop::stub::Exported;

/// Addresses for documentation (RFC 5737 §3): they mean nothing anywhere else.
pub(crate) const CALLER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Set in the environment of a process that is to be the caller.
const BE_CALLER: &str = "STOOP_TEST_FRAMES_CALLER";
/// Set in the environment of a process that is to be the server: the number of the caller's process.
const BE_SERVER_OF: &str = "STOOP_TEST_FRAMES_SERVER_OF";

/// Runs `test`, which is all there is to the test called `name`, on the caller's side of a private Ethernet: with the
/// URI of a server on the other side and a recorder of all frames. Where there can be none, it says so.
pub(crate) fn on_private_ethernet(name: &str, test: impl FnOnce(&str, &mut Recorder)) {
    if std::env::var_os(BE_CALLER).is_some() {
        end_with_starter();
        let mut recorder = Recorder::start();
        let (_server, uri) = ServerProcess::start();
        test(&uri, &mut recorder);
    } else if let Err(why) = try_namespaces() {
        println!("SKIPPED: frames: needs root for network namespaces, and iproute2: {why}");
    } else {
        run_as_caller(&format!("frames::{name}"));
    }
}

fn try_namespaces() -> Result<(), String> {
    let words = ["--net", "ip", "link", "add", "stoop-s", "type", "veth", "peer", "name", "stoop-c"];
    let output = Command::new("unshare")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`unshare`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// This program again, running one of its tests in a network namespace of its own.
fn copy_running(test: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn run_as_caller(test: &str) {
    let mut caller = copy_running(test).env(BE_CALLER, "1").stderr(Stdio::piped()).spawn().unwrap();
    let open_while_we_live = caller.stdin.take();
    let output = caller.wait_with_output().unwrap();
    drop(open_while_we_live);
    let [said, complained] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

/// Ends this process when the one that started it has ended.
fn end_with_starter() {
    std::thread::spawn(|| {
        await_end_of_input();
        std::process::exit(1);
    });
}

fn await_end_of_input() {
    // Nothing is ever written; an error is an end, too.
    let _ = std::io::stdin().read(&mut [0]);
}

/// The server on the other side of the Ethernet. It ends when this is dropped.
struct ServerProcess {
    child: Child,
    /// Read no further, and not closed, so that the process can go on writing.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Also its URI. The Ethernet is there by then.
    fn start() -> (Self, String) {
        let mut command = copy_running("frames::server_process");
        command.env_remove(BE_CALLER).env(BE_SERVER_OF, std::process::id().to_string());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let uri = output.by_ref().lines().map(Result::unwrap).find(|line| line.starts_with("udp:"));
        let process = Self { child, _output: output };
        let uri = uri.expect("the server's process has ended");
        (process, uri)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What the server's process does: makes the Ethernet and serves at one end of it.
pub(crate) fn serve_if_told_to<E: Exported>(exported: impl FnOnce() -> E) {
    let Ok(caller) = std::env::var(BE_SERVER_OF) else { return };
    make_ethernet(&caller);
    let server = Server::new()
        .security(stoop::Security::none())
        .export(exported())
        .listen(&format!("udp://{SERVER}:0"))
        .unwrap()
        .start()
        .unwrap();
    println!("\n{}", server.uris()[0]);
    await_end_of_input();
}

/// From this network namespace to that of the process `caller`.
fn make_ethernet(caller: &str) {
    let there = ["nsenter", "--target", caller, "--net"];
    run(&[], &format!("ip link add stoop-s type veth peer name stoop-c netns {caller}"));
    run(&[], &format!("ip address add {SERVER}/24 dev stoop-s"));
    run(&[], "ip link set stoop-s up");
    run(&there, &format!("ip address add {CALLER}/24 dev stoop-c"));
    run(&there, "ip link set stoop-c up");
    // The kernel tells the first end later that there is a second one, and drops what is sent before.
    while !run(&[], "ip link show stoop-s").contains("state UP") {
        std::thread::yield_now();
    }
}

fn run(before: &[&str], line: &str) -> String {
    let mut words = before.iter().copied().chain(line.split(' '));
    let mut command = Command::new(words.next().unwrap());
    let output = command.args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{before:?} {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
