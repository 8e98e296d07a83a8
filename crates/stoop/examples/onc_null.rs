//! Null() of Sun RPC beside the bare exchange and libtirpc: `bench/peers/libtirpc/run` starts it.

use std::hint::spin_loop;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{env, thread};
use stoop::Waiting;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{Client, ClientOptions, Server, VersionId};

const PROGRAM: u32 = 0x2000_0098;
/// Calls of a slice, as in `null.c`.
const CALLS: u32 = 2000;
/// Bytes of a call and of a reply of Null() with AUTH_NONE.
const CALL: usize = 40;
const REPLY: usize = 24;

struct Null;

impl Program for Null {
    fn version(&self) -> VersionId {
        VersionId { program: PROGRAM, version: 1 }
    }

    fn dispatch(&self, _: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        Err(NoResult::ProcedureUnavailable)
    }
}

fn waiting(name: &str) -> Waiting {
    if name == "block" { Waiting::Block } else { Waiting::Adaptive }
}

/// Serves Null() and the bare exchanges, and prints where.
fn serve(how: &str) {
    let server = Server::new().program(Null).waiting(waiting(how));
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    let server = server.start().unwrap();
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (udp_address, tcp_address) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    println!("{} {} {udp_address} {tcp_address}", server.uris()[0], server.uris()[1]);
    let spins = how != "block";
    thread::spawn(move || {
        // While the others are measured, a spinning server would take their processor: it spins only between calls.
        let mut buffer = [0; 1000];
        let (mut idle, mut is_spinning) = (0, false);
        loop {
            match udp.recv_from(&mut buffer) {
                Ok((_, peer)) => {
                    udp.send_to(&[0; REPLY], peer).unwrap();
                    idle = 0;
                    if spins && !is_spinning {
                        is_spinning = true;
                        udp.set_nonblocking(true).unwrap();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    idle += 1;
                    if idle > 300 {
                        is_spinning = false;
                        udp.set_nonblocking(false).unwrap();
                    }
                    spin_loop();
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    for stream in tcp.incoming() {
        let mut stream = stream.unwrap();
        thread::spawn(move || {
            stream.set_nodelay(true).unwrap();
            let (mut idle, mut is_spinning) = (0, false);
            loop {
                match stream.read(&mut [0; CALL + 4]) {
                    Ok(0) => return,
                    Ok(_) => {
                        stream.write_all(&[0; REPLY + 4]).unwrap();
                        idle = 0;
                        if spins && !is_spinning {
                            is_spinning = true;
                            stream.set_nonblocking(true).unwrap();
                        }
                    }
                    Err(_) => {
                        idle += 1;
                        if idle > 300 {
                            is_spinning = false;
                            stream.set_nonblocking(false).unwrap();
                        }
                        spin_loop();
                    }
                }
            }
        });
    }
}

/// Nanoseconds of one of many exchanges.
fn slice(mut exchange: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..CALLS).for_each(|_| exchange());
    begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn spinning<T>(spins: bool, mut receive: impl FnMut() -> std::io::Result<T>) {
    while receive().is_err() {
        assert!(spins, "a reply");
        spin_loop();
    }
}

/// A process that measures a slice of libtirpc's for each line.
struct Peer(Child, BufReader<std::process::ChildStdout>);

impl Peer {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().unwrap());
        Self(child, output)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn slice(&mut self) -> f64 {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line().parse().expect("nanoseconds")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

fn report(name: &str, rows: &[[f64; 3]]) {
    let column = |at: usize| quartiles(rows.iter().map(|row| row[at]).collect());
    let ratio = quartiles(rows.iter().map(|row| row[1] / row[0]).collect());
    let [bare, ours, theirs] = [0, 1, 2].map(column);
    println!(
        "{name}: bare {:.2} µs, Stoop {:.2} µs = {:.3} × ({:.3} to {:.3}), libtirpc {:.2} µs",
        bare[1] / 1000.0,
        ours[1] / 1000.0,
        ratio[1],
        ratio[0],
        ratio[2],
        theirs[1] / 1000.0
    );
}

fn measure(how: &str, processors: &str, libtirpc: &str, rounds: usize) {
    let own = env::current_exe().unwrap();
    let (server_cpu, own_cpu) = processors.split_once(' ').unwrap();
    let pinned = |cpu: &str, program: &str, rest: &[&str]| {
        let arguments: Vec<&str> = ["-c", cpu, program].into_iter().chain(rest.iter().copied()).collect();
        Peer::start("taskset", &arguments)
    };
    let mut server = pinned(server_cpu, own.to_str().unwrap(), &["serve", how]);
    let line = server.line();
    let places: Vec<&str> = line.split(' ').collect();
    let mut c_server = pinned(server_cpu, libtirpc, &["server"]);
    let c_ports = c_server.line();
    let (c_udp, c_tcp) = c_ports.split_once(' ').expect("two ports");
    let mut c_clients = [("udp", c_udp), ("tcp", c_tcp)]
        .map(|(transport, port)| pinned(own_cpu, libtirpc, &["client", transport, port]));
    let options = ClientOptions::new().waiting(waiting(how));
    let bind = |uri: &str| Client::bind_with(&format!("{uri}/{PROGRAM}:1"), &options).unwrap();
    let (udp, tcp) = (bind(places[0]), bind(places[1]));
    let spins = how != "block";
    let bare_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    bare_udp.connect(places[2].parse::<SocketAddr>().unwrap()).unwrap();
    bare_udp.set_nonblocking(spins).unwrap();
    let mut bare_tcp = TcpStream::connect(places[3]).unwrap();
    bare_tcp.set_nodelay(true).unwrap();
    bare_tcp.set_nonblocking(spins).unwrap();
    let (mut udp_rows, mut tcp_rows) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        udp_rows.push([
            slice(|| {
                bare_udp.send(&[0; CALL]).unwrap();
                spinning(spins, || bare_udp.recv(&mut [0; 1000]));
            }),
            slice(|| udp.null().unwrap()),
            c_clients[0].slice(),
        ]);
        tcp_rows.push([
            slice(|| {
                bare_tcp.write_all(&[0; CALL + 4]).unwrap();
                spinning(spins, || bare_tcp.read(&mut [0; REPLY + 4]));
            }),
            slice(|| tcp.null().unwrap()),
            c_clients[1].slice(),
        ]);
    }
    report(&format!("UDP, {how}"), &udp_rows);
    report(&format!("TCP, {how}"), &tcp_rows);
    if how == "block" {
        idle_connections(&tcp, places[1], rounds);
    }
}

/// A busy client beside 1000 idle connections.
fn idle_connections(busy: &Client, uri: &str, rounds: usize) {
    let address = uri.rsplit_once('/').unwrap().1;
    let (mut alone, mut among) = (Vec::new(), Vec::new());
    for _ in 0..rounds / 6 {
        alone.extend((0..3).map(|_| slice(|| busy.null().unwrap())));
        let idle: Vec<_> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
        among.extend((0..3).map(|_| slice(|| busy.null().unwrap())));
        drop(idle);
    }
    let (alone, among) = (quartiles(alone)[1], quartiles(among)[1]);
    println!(
        "TCP, 1000 idle connections: {:.2} µs, without {:.2} µs: {:.3} ×",
        among / 1000.0,
        alone / 1000.0,
        among / alone
    );
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("serve") => serve(&arguments[2]),
        Some("measure") => {
            // This program again, on its processor.
            let own = env::current_exe().unwrap();
            for (how, processors, cpu) in [("block", "0 0", "0"), ("adaptive", "1 0", "0")] {
                let inner = [
                    "-c",
                    cpu,
                    own.to_str().unwrap(),
                    "inner",
                    how,
                    processors,
                    &arguments[2],
                    &arguments[3],
                ];
                assert!(Command::new("taskset").args(inner).status().unwrap().success(), "{how}");
            }
        }
        Some("inner") => measure(&arguments[2], &arguments[3], &arguments[4], arguments[5].parse().unwrap()),
        _ => eprintln!("start bench/peers/libtirpc/run"),
    }
}
