//! Endpoints leave all other traffic, and the interface, as they are; also when their process is killed.

use crate::network;
use crate::network::traffic::Traffic;
use crate::network::{BACKENDS, Ethernet, GENERIC, NATIVE, if_possible, next};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use stoop_ether::frame::Checksum;
use stoop_ether::{Backend, Endpoint, Interface, OpenError, Options};

/// Set in the environment of a process that is to hold an endpoint: the number of the backend.
const HOLD: &str = "STOOP_TEST_ETHER_HOLD";
/// The port of such an endpoint.
const PORT: u16 = 7400;

/// What such a process does: it opens an endpoint, says how that went, and waits until it is told to end.
#[test]
fn holding_process() {
    let Ok(number) = std::env::var(HOLD) else { return };
    let backend = BACKENDS[number.parse::<usize>().unwrap()];
    let options = Options::of_many_lanes();
    let opened = Interface::by_name("stoop-b").and_then(|interface| {
        network::patiently(|| Endpoint::listen(&interface, Some(PORT), backend, &options))
    });
    match opened {
        Ok(endpoint) => {
            println!("\nholding {endpoint}");
            let _ = std::io::stdin().read(&mut [0]);
        }
        Err(why) => println!("\nrefused {why}"),
    }
}

/// A process that holds an endpoint, or has been refused one.
struct Holder {
    child: Child,
    said: String,
    /// Read no further, and not closed, so that the process can go on writing.
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts one at side b, by `command` and its first words.
    fn start(ethernet: &Ethernet, backend: Backend, command: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        let words =
            command.iter().copied().chain([program, "--exact", "neighbours::holding_process", "--nocapture"]);
        let words: Vec<&str> = words.collect();
        let number = BACKENDS.iter().position(|other| *other == backend).unwrap();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env(HOLD, number.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ethernet.b.inside(|| command.spawn()).unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.by_ref().lines().map(Result::unwrap);
        let said = lines.find(|line| line.starts_with("holding ") || line.starts_with("refused "));
        Self { child, said: said.expect("the process has ended"), _output: output }
    }

    /// Kills it by SIGKILL, or lets it end by itself.
    fn end(mut self, kill: bool) {
        if kill {
            self.child.kill().unwrap();
        }
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Endpoints of each backend that come and go. `STOOP_RESTARTS` has another number, such as 1000.
fn restarts() -> u32 {
    std::env::var("STOOP_RESTARTS").map_or(12, |number| number.parse().expect("a number of restarts"))
}

#[test]
fn pings_and_tcp_go_on_while_endpoints_come_and_go_and_their_processes_are_killed() {
    let test = "pings_and_tcp_go_on_while_endpoints_come_and_go_and_their_processes_are_killed";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let before = (ethernet.b.interface(), ethernet.b.state());
    for backend in BACKENDS {
        if if_possible(test, ethernet.b.listen(PORT, backend, &Options::of_many_lanes())).is_none() {
            continue;
        }
        let traffic = Traffic::start(&ethernet);
        let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
        let mut attachments = 0;
        for round in 0..restarts() {
            let bytes = traffic.bytes();
            let holder = Holder::start(&ethernet, backend, &[]);
            assert!(holder.said.starts_with("holding "), "{}", holder.said);
            attachments += 1;
            // Frames of our own for the endpoint, and while it is killed.
            let address = stoop_ether::address::Address { mac: before.0.mac, port: PORT };
            for _ in 0..100 {
                caller.send(&caller.template(address, Checksum::Computed), &[1; 1000]).unwrap();
            }
            network::wait_until(|| traffic.bytes() > bytes);
            assert_eq!(ethernet.b.interface().xdp.is_some(), backend != Backend::PacketRing);
            holder.end(round % 2 == 0);
        }
        let (pings, lost) = traffic.end();
        println!("{backend:?}: {attachments} endpoints; {lost} of {pings} pings lost");
        let permitted = if backend == NATIVE { attachments } else { 0 };
        assert!(lost <= permitted, "{lost} of {pings} pings lost over {backend:?}");
        assert_eq!((ethernet.b.interface(), ethernet.b.state()), before, "after {backend:?}");
    }
}

#[test]
fn endpoint_works_at_once_after_its_predecessor_was_killed() {
    let test = "endpoint_works_at_once_after_its_predecessor_was_killed";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
    for backend in BACKENDS {
        let holder = Holder::start(&ethernet, backend, &[]);
        if holder.said.starts_with("refused ") {
            println!("SKIPPED: {test}: {}", holder.said);
            continue;
        }
        let taken = ethernet.b.listen_once(PORT, Backend::PacketRing, &Options::of_many_lanes());
        assert!(matches!(taken, Err(OpenError::PortTaken(PORT))), "by another process: {taken:?}");
        if backend != Backend::PacketRing {
            let taken = ethernet.b.listen_once(PORT + 1, GENERIC, &Options::of_many_lanes());
            assert!(matches!(taken, Err(OpenError::XdpTaken(_))), "by another process: {taken:?}");
            let instead =
                ethernet.b.listen(PORT + 1, Backend::PacketRing, &Options::of_many_lanes()).unwrap();
            caller.send(&caller.template(instead.address(), Checksum::Computed), &[8]).unwrap();
            assert_eq!(next(&instead), [8], "a packet ring beside the XDP program of another process");
        }
        holder.end(true);
        let server = ethernet.b.listen(PORT, backend, &Options::of_many_lanes()).unwrap();
        caller.send(&caller.template(server.address(), Checksum::Computed), &[9]).unwrap();
        assert_eq!(next(&server), [9], "{server}");
    }
}

#[test]
fn missing_privilege_is_named() {
    let test = "missing_privilege_is_named";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    if ethernet.b.inside(|| Command::new("setpriv").arg("--version").output()).is_err() {
        return println!("SKIPPED: {test}: needs setpriv of util-linux");
    }
    let holds = |backend, capabilities: &str| {
        let holder = Holder::start(&ethernet, backend, &["setpriv", "--bounding-set", capabilities]);
        let said = holder.said.clone();
        holder.end(false);
        said
    };
    let said = holds(Backend::PacketRing, "-net_raw");
    assert!(said.contains("lacks CAP_NET_RAW;"), "{said}");
    let said = holds(Backend::PacketRing, "-all,+net_raw");
    assert!(said.starts_with("holding packet"), "with CAP_NET_RAW alone: {said}");

    if if_possible(test, ethernet.b.listen(PORT, GENERIC, &Options::of_many_lanes())).is_none() {
        return;
    }
    for (without, named) in [
        // CAP_SYS_ADMIN stands in for CAP_NET_ADMIN and CAP_BPF in bpf(2).
        ("-net_admin,-sys_admin", "lacks CAP_NET_ADMIN;"),
        ("-bpf,-sys_admin", "lacks CAP_BPF;"),
        ("-net_raw", "lacks CAP_NET_RAW;"),
        ("-net_raw,-net_admin,-bpf,-sys_admin", "lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF;"),
    ] {
        let said = holds(GENERIC, without);
        assert!(said.contains(named), "without {without}: {said}");
    }
    for mode in [GENERIC, NATIVE] {
        let said = holds(mode, "-all,+net_raw,+net_admin,+bpf");
        assert!(said.starts_with("holding AF_XDP"), "with three capabilities: {said}");
    }
}

/// What a process of an ordinary user with only these capabilities says, which may lock this many bytes of memory.
fn said_by_user(ethernet: &Ethernet, backend: Backend, capabilities: &str, memory: u32) -> String {
    let (locked, sets) = (format!("--memlock={memory}:{memory}"), ["--inh-caps", "--ambient-caps"]);
    let sets = sets.map(|set| [set, capabilities]);
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let command: Vec<&str> = [&["prlimit", &locked, "setpriv"][..], &user, sets.as_flattened()]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    let holder = Holder::start(ethernet, backend, &command);
    let said = holder.said.clone();
    holder.end(false);
    said
}

#[test]
fn ordinary_user_needs_the_capabilities_that_errors_name_and_no_others() {
    let test = "ordinary_user_needs_the_capabilities_that_errors_name_and_no_others";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let can_run = Command::new("prlimit")
        .args(["--memlock=1:1", "setpriv", "--reuid", "65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .arg("--list")
        .output();
    if !can_run.is_ok_and(|output| output.status.success()) {
        return println!(
            "SKIPPED: {test}: needs prlimit and setpriv of util-linux, and a program that all users can run"
        );
    }
    // Less than the 8 MiB that a user may lock on most machines.
    let usual = 4 << 20;
    let said = said_by_user(&ethernet, Backend::PacketRing, "-all", usual);
    assert!(said.contains("lacks CAP_NET_RAW; grant only that by `setcap cap_net_raw+ep"), "{said}");
    let said = said_by_user(&ethernet, Backend::PacketRing, "+net_raw", 1);
    assert!(said.starts_with("holding packet"), "{said}");
    if if_possible(test, ethernet.b.listen(PORT, GENERIC, &Options::of_many_lanes())).is_none() {
        return;
    }
    for (has, lacks) in [
        ("-all", "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF;"),
        ("+net_raw", "CAP_NET_ADMIN, CAP_BPF;"),
        ("+net_raw,+net_admin", "CAP_BPF;"),
        ("+net_raw,+bpf", "CAP_NET_ADMIN;"),
        ("+net_admin,+bpf", "CAP_NET_RAW;"),
    ] {
        let said = said_by_user(&ethernet, GENERIC, has, usual);
        assert!(said.starts_with("refused ") && said.contains(&format!("lacks {lacks}")), "{has}: {said}");
        // The command takes capabilities away that it does not name.
        assert!(said.contains("by `setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM`"), "{has}: {said}");
    }
    for mode in [GENERIC, NATIVE] {
        // Memory for many frames, and for few.
        for memory in [usual, 1 << 20] {
            let said = said_by_user(&ethernet, mode, "+net_raw,+net_admin,+bpf", memory);
            assert!(said.starts_with("holding AF_XDP"), "{memory} bytes: {said}");
        }
        let said = said_by_user(&ethernet, mode, "+net_raw,+net_admin,+bpf", 64 << 10);
        assert!(said.contains("RLIMIT_MEMLOCK") && said.contains("LimitMEMLOCK=16M"), "{said}");
        let said = said_by_user(&ethernet, mode, "+net_raw,+net_admin,+bpf,+ipc_lock", 64 << 10);
        assert!(said.starts_with("holding AF_XDP"), "{said}");
    }
}
