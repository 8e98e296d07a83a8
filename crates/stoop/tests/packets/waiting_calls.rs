//! Thousands of begun calls that wait for a server in another process, which holds them until it is told to answer.
//!
//! The server is the real exchange with a driver of its own: no server of the library takes so many calls before it has a thread for each.

use crate::harness::LIMIT;
use crate::harness::loopback;
use crate::harness::processes::Process;
use std::io::BufRead;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use stoop::stub::Exported;
use stoop::{BindOptions, CallError, PacketOptions, Pending, Ran};
use stoop_exchange::server::{Assignment, Effect, Limits, Peer, Server};
use stoop_exchange::{Interface, Interfaces, Procedure};
use stoop_wire::bind::HostFacts;
use stoop_wire::{CallList, HEADER_LEN, Header, Kind};

#[stoop::interface]
trait Later {
    /// Its answer comes later.
    fn ask(&self, number: u32) -> u32;
}

/// Has no procedure that runs: the signatures are what a server needs.
struct NoProgram;

impl Later for NoProgram {
    fn ask(&self, _number: u32) -> u32 {
        unreachable!("the exchange holds its calls")
    }
}

#[derive(Clone, Copy, Debug)]
struct From(SocketAddr);

impl Peer for From {
    fn host(&self) -> [u8; 16] {
        match self.0.ip() {
            std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(ip) => ip.octets(),
        }
    }
    fn port(&self) -> u16 {
        self.0.port()
    }
}

/// A server that holds its calls, and what it has received.
struct Holding {
    socket: UdpSocket,
    begun: Instant,
    server: Server<From>,
    held: Vec<(Assignment<From>, u32)>,
    probes: u64,
    packets_of_probes: u64,
    calls_in_probes: u64,
}

impl Holding {
    fn listen(address: &str) -> Self {
        let export = LaterServer::new(NoProgram);
        let told: &stoop::stub::Interface = export.interface();
        let procedure =
            |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
        let procedures = told.procedures.iter().map(procedure).collect();
        let interfaces =
            Interfaces::new([Interface { name: told.name.into(), procedures, ..Interface::default() }]);
        let begun = Instant::now();
        let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let secret = [start.as_nanos() as u64, std::process::id().into()];
        let limits = Limits { calls: 64, ..Limits::default() };
        let now = stoop_exchange::Instant::default();
        let server = Server::new(now, interfaces, limits, HostFacts::default(), secret);
        let socket = UdpSocket::bind(address).unwrap();
        let (probes, packets_of_probes, calls_in_probes) = (0, 0, 0);
        Self { socket, begun, server, held: Vec::new(), probes, packets_of_probes, calls_in_probes }
    }

    fn now(&self) -> stoop_exchange::Instant {
        stoop_exchange::Instant::from_nanos(self.begun.elapsed().as_nanos() as u64)
    }

    fn count(&mut self, packet: &[u8]) {
        let Ok((header, payload)) = Header::parse(packet) else { return };
        match header.kind {
            Kind::Probe => self.probes += 1,
            Kind::Probes => {
                self.packets_of_probes += 1;
                let list = CallList::decode(&header, payload).unwrap();
                self.calls_in_probes += list.calls().len() as u64;
            }
            _ => {}
        }
    }

    fn take(&mut self, packet: &[u8], from: SocketAddr, reply: &mut Vec<u8>) {
        self.count(packet);
        match self.server.handle_packet(self.now(), &From(from), packet, reply) {
            Effect::Run(mut call) => {
                let number = *call.arguments_and_result(packet).0.first_chunk().unwrap();
                self.held.push((call, u32::from_le_bytes(number)));
            }
            // A packet that does not leave is lost.
            Effect::Reply | Effect::Cancelled(..) => _ = self.socket.send_to(reply, from),
            Effect::Transmit | Effect::Pipe(..) | Effect::Unbound(_) | Effect::Nothing => {}
        }
    }

    /// Answers all calls. `loses`: the answers do not leave.
    fn answer(&mut self, loses: bool) {
        for (mut call, number) in std::mem::take(&mut self.held) {
            let packet = call.packet_mut();
            packet.resize(packet.len().max(HEADER_LEN + 4), 0);
            packet[HEADER_LEN..][..4].copy_from_slice(&(number + 1).to_le_bytes());
            let now = self.now();
            let from = call.peer.0;
            let answer = call.complete(now, 4);
            if !loses {
                _ = self.socket.send_to(answer, from);
            }
            self.server.finish(now, call);
        }
    }

    /// Serves and does what it is told by lines of its input.
    fn run(mut self) {
        println!("udp://{}", self.socket.local_addr().unwrap());
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (mut packet, mut reply) = ([0; 2048], Vec::new());
        loop {
            match told.try_recv().as_deref() {
                Ok("count") => {
                    let Self { held, probes, packets_of_probes, calls_in_probes, .. } = &self;
                    println!("count {} {probes} {packets_of_probes} {calls_in_probes}", held.len());
                }
                Ok("lose") => self.answer(true),
                Ok("answer") => self.answer(false),
                Ok(other) => panic!("{other}"),
                Err(_) => {}
            }
            if let Ok((len, from)) = self.socket.recv_from(&mut packet) {
                self.take(&packet[..len], from, &mut reply);
            }
        }
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, address: &str) -> bool {
    match role {
        "hold-calls" => Holding::listen(address).run(),
        _ => return false,
    }
    true
}

/// What a server has: calls that it holds, probes of one call, packets with probes of many, and calls in these.
#[derive(Clone, Copy, Debug)]
struct Count {
    held: u64,
    probes: u64,
    packets: u64,
    calls: u64,
}

fn count(server: &mut Process) -> Count {
    server.tell("count");
    let line = server.find_line(|line| line.starts_with("count "));
    let mut numbers = line.split(' ').skip(1).map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    Count { held: next(), probes: next(), packets: next(), calls: next() }
}

/// Waits until the server has received what makes the condition true.
fn await_count(server: &mut Process, is_it: impl Fn(Count) -> bool) -> Count {
    let limit = Instant::now() + LIMIT;
    loop {
        let present = count(server);
        if is_it(present) {
            return present;
        }
        assert!(Instant::now() < limit, "{present:?}");
    }
}

const CALLS: u32 = 3_000;

type Asked = Pending<Result<u32, CallError>>;

fn held(address: &str, options: PacketOptions) -> (Process, String, Vec<Asked>) {
    let mut server = Process::start("hold-calls", address);
    let uri = server.find_line(|line| line.starts_with("udp:"));
    let options = BindOptions::new().timeout(LIMIT).with(options);
    let client = LaterClient::bind_with(&uri, &options).unwrap();
    let calls = client.begin();
    let pending = (0..CALLS).map(|number| calls.ask(number)).collect();
    drop(calls);
    await_count(&mut server, |count| count.held == u64::from(CALLS));
    (server, uri, pending)
}

fn any_port() -> String {
    format!("{}:0", loopback::address())
}

#[test]
fn calls_that_wait_are_probed_together_and_their_results_come() {
    let (mut server, _, pending) = held(&any_port(), PacketOptions::new());
    let waiter = thread::spawn(move || stoop::wait_all(pending));
    // Until all have been acknowledged, and asked about together, once.
    let first = await_count(&mut server, |count| count.calls >= u64::from(CALLS));
    let then = await_count(&mut server, |count| count.calls >= first.calls + 4 * u64::from(CALLS));
    let (packets, calls) = (then.packets - first.packets, then.calls - first.calls);
    assert!(packets * 100 <= calls, "{packets} packets for {calls} probes");
    assert!((then.probes - first.probes) * 100 <= calls, "{first:?}, {then:?}");
    server.tell("answer");
    let results: Vec<u32> = waiter.join().unwrap().into_iter().map(Result::unwrap).collect();
    assert!(results.into_iter().eq(1..=CALLS));
}

#[test]
fn results_that_were_lost_come_after_probes() {
    let (mut server, _, pending) = held(&any_port(), PacketOptions::new());
    // Each of them has been acknowledged, and is not sent again.
    await_count(&mut server, |count| count.calls >= 2 * u64::from(CALLS));
    server.tell("lose");
    let results: Vec<u32> = stoop::wait_all(pending).into_iter().map(Result::unwrap).collect();
    assert!(results.into_iter().eq(1..=CALLS));
    let asked = count(&mut server);
    assert!(asked.probes >= u64::from(CALLS) * 9 / 10, "each is asked about alone: {asked:?}");
}

#[test]
fn calls_that_wait_end_as_unknown_when_their_server_is_killed() {
    let (mut server, _, pending) = held(&any_port(), PacketOptions::new());
    await_count(&mut server, |count| count.calls > 0);
    server.kill();
    assert_all_unknown(pending);
}

#[test]
fn calls_that_wait_end_as_unknown_when_their_server_is_stopped() {
    let (mut server, _, pending) = held(&any_port(), PacketOptions::new());
    await_count(&mut server, |count| count.calls > 0);
    server.stop();
    assert_all_unknown(pending);
}

#[test]
fn calls_that_wait_end_as_unknown_when_their_server_is_restarted() {
    let (mut server, uri, pending) = held(&any_port(), PacketOptions::new().silence_limit(LIMIT));
    await_count(&mut server, |count| count.calls > 0);
    server.kill();
    let mut next = Process::start("hold-calls", uri.strip_prefix("udp://").unwrap());
    next.find_line(|line| line.starts_with("udp:"));
    assert_all_unknown(pending);
    assert_eq!(count(&mut next).held, 0, "none runs a second time");
}

fn assert_all_unknown(pending: Vec<Asked>) {
    let begun = Instant::now();
    for ended in stoop::wait_all(pending) {
        let error: CallError = ended.unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    }
    println!("all ended after {:?}", begun.elapsed());
}
