//! Broadcast calls to several hosts: network namespaces at one bridge, each with an rpcbind and a server process of its own.

use crate::sandbox::{self, Process, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use stoop::CallError;
use stoop::error::SendError;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{self, AuthStatus, BroadcastAddress, BroadcastReply, Client, VersionId};
use stoop_xdr::DecodeOwned;

/// A number for any use.
const PROGRAM: u32 = 0x2000_0042;
const VERSION: VersionId = VersionId { program: PROGRAM, version: 1 };
/// Procedures: the one that is broadcast, which tells the number of its host; how often that was called; let it go on.
const HOST: u32 = 1;
const CALLS: u32 = 2;
const GO_ON: u32 = 3;

/// The network of the hosts (RFC 5737 §3: for documentation), in which a host has the address of its number.
const NETWORK: [u8; 3] = [192, 0, 2];
const CALLER: u8 = 1;
const EVERYBODY: u8 = 255;

fn address(host: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, host)
}

/// Longer than a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(60);

/// How a host treats the call.
const ANSWERS: u8 = 11;
const ANSWERS_TOO: u8 = 12;
const ANSWERS_LATE: u8 = 13;
const DENIES: u8 = 14;
const HAS_NO_SUCH_PROGRAM: u8 = 15;
/// Not by rpcbind, but by a program that sends what an rpcbind would not.
const ANSWERS_TWICE: u8 = 16;

/// They have no program over IPv4.
const OVER_IPV6: [u8; 2] = [21, 22];

/// Set for the processes that are hosts: the number.
const IS_HOST: &str = "STOOP_BROADCAST_HOST";

/// The server of a host.
struct Server {
    host: u8,
    calls: Mutex<u32>,
    goes_on: Mutex<bool>,
    changed: Condvar,
}

impl Program for Server {
    fn version(&self) -> VersionId {
        VERSION
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        match call.procedure() {
            HOST => {
                *self.calls.lock().unwrap() += 1;
                match self.host {
                    DENIES => return Err(NoResult::Denied(AuthStatus::TOO_WEAK)),
                    ANSWERS_LATE => {
                        let goes_on = self.goes_on.lock().unwrap();
                        drop(self.changed.wait_while(goes_on, |goes_on| !*goes_on).unwrap());
                    }
                    _ => {}
                }
                call.reply(&u32::from(self.host))
            }
            CALLS => call.reply(&*self.calls.lock().unwrap()),
            GO_ON => {
                *self.goes_on.lock().unwrap() = true;
                self.changed.notify_all();
                call.reply(&())
            }
            _ => Err(NoResult::ProcedureUnavailable),
        }
    }
}

/// The process of a host, until it is killed.
fn be_host(host: u8) {
    match host {
        HAS_NO_SUCH_PROGRAM => loop {
            std::thread::park();
        },
        ANSWERS_TWICE => answer_twice(),
        _ => {
            let (calls, goes_on) = (Mutex::new(0), Mutex::new(false));
            let server = Server { host, calls, goes_on, changed: Condvar::new() };
            let answers = || sandbox::rpcinfo(&["-u", "127.0.0.1", "100000", "4"]);
            if !OVER_IPV6.contains(&host) {
                wait_until("rpcbind answers", answers);
                return onc::register(server).unwrap().wait();
            }
            wait_until("the host has an address of its link", || has_link_address("eth0"));
            let _rpcbind = Process::spawn(Command::new("rpcbind").args(["-f", "-r"]));
            wait_until("rpcbind answers", answers);
            let server = onc::Server::new().program(server).listen("onc+udp://[::]").unwrap();
            server.register().start().unwrap().wait();
        }
    }
}

/// Whether this host has an address over IPv6 at that interface, and no other host claims that.
fn has_link_address(interface: &str) -> bool {
    let shown = Command::new("ip").args(["-6", "address", "show", "dev", interface]).output();
    let shown = shown.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    shown.contains("fe80:") && !shown.contains("tentative")
}

/// Receives calls of rpcbind's CALLIT and sends to each: bytes that are no message, the reply to another call, a refusal, a result that is no
/// number, and the reply, twice.
fn answer_twice() {
    let socket = UdpSocket::bind("0.0.0.0:111").unwrap();
    let mut call = [0; 1000];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut call) else { continue };
        // xid, REPLY, MSG_ACCEPTED, verifier AUTH_NONE without bytes, status; then CALLIT's result: address and result, each opaque.
        let reply = |xid: &[u8], status: u32, result: &[u32]| {
            let words = [1, 0, 0, 0, status, 0, 4 * result.len() as u32];
            let words = words.iter().chain(result).flat_map(|word| word.to_be_bytes());
            [xid, &words.collect::<Vec<u8>>()[..]].concat()
        };
        let xid = &call[..len.min(4)];
        let (number, other) = (u32::from(ANSWERS_TWICE), xid.iter().map(|byte| !byte).collect::<Vec<u8>>());
        let good = reply(xid, 0, &[number]);
        let all = [
            xid.to_vec(),
            reply(&other, 0, &[number]),
            reply(xid, 5, &[]),
            reply(xid, 0, &[]),
            good.clone(),
            good,
        ];
        all.iter().for_each(|message| drop(socket.send_to(message, from)));
    }
}

/// Starts a host: a process in namespaces of its own, at the bridge.
fn start(test: &str, host: u8) -> Process {
    let rpcbind = match host {
        ANSWERS_TWICE => "",
        // It is started when the host has an address.
        21 | 22 => "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind && chown _rpc /run/rpcbind",
        _ => {
            "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind && chown _rpc /run/rpcbind && rpcbind -f -r &"
        }
    };
    let script = format!("echo ready; ip link set lo up; {rpcbind}\nexec \"$@\" >/dev/null");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "sh", "-c", &script, "host"]);
    command.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    let (process, line) = Process::and_first_line(command.env(IS_HOST, host.to_string()));
    assert_eq!(line, "ready", "it has namespaces of its own");
    let id = process.id();
    run(&format!("ip link add host{host} type veth peer name eth0 netns {id}"));
    run(&format!("ip link set host{host} master bridge0 up"));
    run(&format!("nsenter --net -t {id} ip address add {}/24 broadcast + dev eth0", address(host)));
    run(&format!("nsenter --net -t {id} ip link set eth0 up"));
    process
}

fn run(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    assert!(Command::new(words[0]).args(&words[1..]).status().is_ok_and(|s| s.success()), "{command}");
}

fn wait_until_ready(host: u8) {
    let registered = || onc::rpcinfo(&address(host).to_string());
    wait_until("the host is ready", || match host {
        ANSWERS_TWICE => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let sent = socket.send_to(b"ping", (address(host), 111));
            sent.is_ok() && socket.recv(&mut [0; 8]).is_ok()
        }
        HAS_NO_SUCH_PROGRAM => registered().is_ok(),
        _ => registered()
            .is_ok_and(|all| all.iter().any(|e| e.version == VERSION && e.netid.starts_with("udp"))),
    });
}

/// Calls the server of a host, not by broadcast.
fn call<R: DecodeOwned>(host: u8, procedure: u32) -> R {
    onc::call(&address(host).to_string(), PROGRAM, 1, procedure, &()).unwrap()
}

/// Broadcasts [`HOST`], and adds each reply to those so far; `is_enough` sees them.
fn broadcast(
    timeout: Duration,
    mut is_enough: impl FnMut(&[BroadcastReply<u32>]) -> bool,
) -> (Result<bool, CallError>, Vec<BroadcastReply<u32>>) {
    let mut replies = Vec::new();
    let result = onc::broadcast(address(EVERYBODY).into(), VERSION, HOST, &(), timeout, |reply| {
        replies.push(reply);
        is_enough(&replies)
    });
    (result, replies)
}

fn number_from(replies: &[BroadcastReply<u32>], host: u8) -> usize {
    replies.iter().filter(|reply| reply.from.ip() == address(host)).count()
}

#[test]
fn each_server_that_answers_a_broadcast_is_heard_and_no_other() {
    const TEST: &str = "broadcast::each_server_that_answers_a_broadcast_is_heard_and_no_other";
    if let Ok(host) = std::env::var(IS_HOST) {
        return be_host(host.parse().unwrap());
    }
    sandbox::run(TEST, || {
        let (result, _) = broadcast(LIMIT, |_| true);
        let error = result.unwrap_err();
        assert!(
            matches!(error, CallError::NotSent(SendError::Io(_), ..)),
            "no network has broadcast: {error}"
        );

        run("ip link add bridge0 type bridge");
        run(&format!("ip address add {}/24 broadcast + dev bridge0", address(CALLER)));
        run("ip link set bridge0 up");
        let numbers = [ANSWERS, ANSWERS_TOO, ANSWERS_LATE, DENIES, HAS_NO_SUCH_PROGRAM, ANSWERS_TWICE];
        let _hosts = numbers.map(|host| start(TEST, host));
        numbers.into_iter().for_each(wait_until_ready);

        // One server answers only when it is told to: here, after the others have.
        let mut is_told = false;
        let (result, replies) = broadcast(LIMIT, |replies| {
            let have_answered = [(ANSWERS, 1), (ANSWERS_TOO, 1), (ANSWERS_TWICE, 2)];
            if !is_told && have_answered.iter().all(|&(host, times)| number_from(replies, host) >= times) {
                wait_until("the call was denied", || call::<u32>(DENIES, CALLS) > 0);
                call::<()>(ANSWERS_LATE, GO_ON);
                is_told = true;
            }
            number_from(replies, ANSWERS_LATE) > 0
        });
        assert!(result.unwrap(), "the late one answers in time: {replies:?}");
        assert_eq!(replies.last().map(|reply| reply.result), Some(ANSWERS_LATE.into()));
        for reply in &replies {
            let host = u8::try_from(reply.result).unwrap();
            assert_eq!(reply.from.ip(), address(host), "each has told its own number");
            match (host, reply.program) {
                (ANSWERS_TWICE, program) => assert_eq!(program, None, "it says no address"),
                (ANSWERS | ANSWERS_TOO | ANSWERS_LATE, Some(program)) => {
                    assert_eq!(program.ip(), address(host));
                    let client = Client::bind(&format!("onc+udp://{program}/{VERSION}")).unwrap();
                    assert_eq!(client.call::<_, u32>(HOST, &()).unwrap(), reply.result);
                }
                _ => panic!("{reply:?}"),
            }
        }
    });
}

#[test]
fn servers_answer_a_call_to_all_hosts_of_a_link_over_ipv6() {
    const TEST: &str = "broadcast::servers_answer_a_call_to_all_hosts_of_a_link_over_ipv6";
    if let Ok(host) = std::env::var(IS_HOST) {
        return be_host(host.parse().unwrap());
    }
    sandbox::run(TEST, || {
        run("ip link add bridge0 type bridge");
        run(&format!("ip address add {}/24 broadcast + dev bridge0", address(CALLER)));
        run("ip link set bridge0 up");
        let _hosts = OVER_IPV6.map(|host| start(TEST, host));
        OVER_IPV6.into_iter().for_each(wait_until_ready);
        wait_until("the caller has an address of its link", || has_link_address("bridge0"));

        let link = BroadcastAddress::on_link("bridge0").unwrap();
        let version = VersionId { program: interface::HOSTPROG, version: interface::HOSTVERS };
        let mut heard = Vec::new();
        let mut with = |reply: BroadcastReply<u32>| {
            let SocketAddr::V6(from) = reply.from else { panic!("{reply:?}") };
            assert!(from.ip().is_unicast_link_local(), "{reply:?}");
            let program = reply.program.expect("rpcbind names an address of its host");
            let client = interface::HostversClient::bind(&format!("onc+udp://{program}")).unwrap();
            assert_eq!(client.host_number().unwrap(), reply.result, "the address is that of the program");
            heard.push(reply.result);
            OVER_IPV6.iter().all(|&host| heard.contains(&host.into()))
        };
        let result = onc::broadcast(link, version, interface::HOST_NUMBER, &(), LIMIT, &mut with);
        assert!(result.unwrap(), "all hosts are heard");
    });
}

/// [`HOST`] as an interface file has it.
mod interface {
    stoop::x! {
        program HOSTPROG {
            version HOSTVERS {
                unsigned HOST_NUMBER(void) = 1;
            } = 1;
        } = 0x20000042;
    }
}

#[test]
fn server_that_answers_after_the_time_of_a_broadcast_is_not_waited_for() {
    const TEST: &str = "broadcast::server_that_answers_after_the_time_of_a_broadcast_is_not_waited_for";
    if let Ok(host) = std::env::var(IS_HOST) {
        return be_host(host.parse().unwrap());
    }
    sandbox::run(TEST, || {
        run("ip link add bridge0 type bridge");
        run(&format!("ip address add {}/24 broadcast + dev bridge0", address(CALLER)));
        run("ip link set bridge0 up");
        let _host = start(TEST, ANSWERS_LATE);
        wait_until_ready(ANSWERS_LATE);
        let (result, replies) = broadcast(Duration::from_millis(200), |_| true);
        assert!(!result.unwrap() && replies.is_empty(), "{replies:?}");
        // Its call has run, and another one is answered.
        wait_until("the server was called", || call::<u32>(ANSWERS_LATE, CALLS) > 0);
        call::<()>(ANSWERS_LATE, GO_ON);
        let (result, replies) = broadcast(LIMIT, |_| true);
        assert!(result.unwrap() && number_from(&replies, ANSWERS_LATE) == 1, "{replies:?}");
    });
}
