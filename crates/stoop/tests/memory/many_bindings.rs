//! Ten thousand bindings to one server, each with a call, and what they cost it.

use crate::harness::lab::{Bench, LabServer};
use crate::harness::processes::Process;
use std::collections::HashMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use stoop::Server;
use stoop::stub::Exported;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::caller::{Due, Heard, Lane};
use stoop_exchange::{Interface, Procedure};
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, HEADER_LEN, Header, LaneId, MAX_DATAGRAM};

const BINDINGS: u32 = 10_000;
/// As many at a time as an ordinary socket buffer holds.
const TOGETHER: u32 = 50;
/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-many-bindings" {
        return false;
    }
    // Each worker has buffers, a stack and an arena. They would count as memory of the bindings if more workers start meanwhile.
    let server = Bench::default().serve(Server::new().workers(1), uri);
    println!("{}", server.uris()[0]);
    for _ in std::io::stdin().lines() {
        // Holes that a table has left when it grew are no memory of the bindings.
        #[cfg(target_env = "gnu")]
        // SAFETY: it has no conditions.
        unsafe {
            libc::malloc_trim(0);
        }
        println!("trimmed");
    }
    true
}

/// Bytes of memory that a server's process has touched, without its code.
fn memory(server: &mut Process) -> usize {
    server.tell("");
    server.await_line("trimmed");
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.pid())).unwrap();
    let line =
        rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("the kernel sums up the memory");
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// One socket for all bindings.
struct Caller {
    socket: UdpSocket,
    begun: Instant,
}

impl Caller {
    fn now(&self) -> stoop_exchange::Instant {
        stoop_exchange::Instant::from_nanos(self.begun.elapsed().as_nanos() as u64)
    }

    /// Hands over what arrives until `done` says so; `due` is called when nothing has for a while.
    fn drive(&self, mut due: impl FnMut(), mut done: impl FnMut(&[u8]) -> bool) {
        let mut packet = [0; 2 * MAX_DATAGRAM];
        loop {
            match self.socket.recv(&mut packet) {
                Ok(len) if done(&packet[..len]) => return,
                Ok(_) => {}
                Err(_) => due(),
            }
        }
    }

    /// Binds for the numbers in the range; the nonce tells what is whose.
    fn bind(
        &self,
        numbers: std::ops::Range<u32>,
        interface: &stoop::stub::Interface,
    ) -> Vec<(BindingId, u16)> {
        let procedure =
            |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
        let interface = Interface {
            name: interface.name.into(),
            procedures: interface.procedures.iter().map(procedure).collect(),
            ..Interface::default()
        };
        let limit = self.now() + Duration::from_secs(60);
        let binders: HashMap<u32, Binder> = numbers
            .map(|n| {
                (n, Binder::new(self.now(), limit, interface.clone(), HostFacts::default(), u64::from(n)))
            })
            .collect();
        let binders = std::cell::RefCell::new(binders);
        let transmit = |binder: &mut Binder| {
            if let Some(question) = binder.transmit(self.now()) {
                self.socket.send(&question).unwrap();
            }
        };
        binders.borrow_mut().values_mut().for_each(transmit);
        let mut bound = Vec::new();
        self.drive(
            || binders.borrow_mut().values_mut().for_each(transmit),
            |packet| {
                let number = Header::parse(packet).unwrap().0.number.0;
                let mut binders = binders.borrow_mut();
                let Some(binder) = binders.get_mut(&number) else { return false };
                match binder.handle_packet(self.now(), packet) {
                    BindStep::Bound(it) => {
                        bound.push((it.binding, it.procedures[0]));
                        binders.remove(&number);
                    }
                    BindStep::Continue => transmit(binder),
                    other => panic!("{other:?}"),
                }
                binders.is_empty()
            },
        );
        bound
    }

    /// Calls once on each binding, all together.
    fn call(&self, bindings: &[(BindingId, u16)]) {
        struct Call {
            lane: Lane,
            packet: [u8; HEADER_LEN + 4],
            argument: u32,
        }
        let limit = self.now() + Duration::from_secs(60);
        let mut calls = HashMap::new();
        for (argument, (binding, procedure)) in (7..).zip(bindings) {
            let mut lane = Lane::new(*binding, LaneId(0), Default::default(), binding.0);
            let mut packet = [0; HEADER_LEN + 4];
            packet[HEADER_LEN..].copy_from_slice(&u32::to_le_bytes(argument));
            lane.start(self.now(), limit, *procedure, &mut packet);
            self.socket.send(&packet).unwrap();
            calls.insert(*binding, Call { lane, packet, argument });
        }
        let calls = std::cell::RefCell::new(calls);
        self.drive(
            || {
                for call in calls.borrow_mut().values_mut() {
                    if call.lane.handle_timeout(self.now(), &mut call.packet) == Due::Retransmit {
                        self.socket.send(&call.packet).unwrap();
                    }
                }
            },
            |packet| {
                let (header, payload) = Header::parse(packet).unwrap();
                let mut calls = calls.borrow_mut();
                let Some(call) = calls.get_mut(&header.binding) else { return false };
                if let Heard::Result { .. } = call.lane.handle_packet(self.now(), packet) {
                    assert_eq!(payload, u32::to_le_bytes(call.argument + 1));
                    calls.remove(&header.binding);
                }
                calls.is_empty()
            },
        );
    }
}

#[test]
fn ten_thousand_bindings_are_all_answered_and_take_little_memory() {
    let mut server = Process::start("serve-many-bindings", "udp://127.0.0.1:0");
    let uri = server.find_line(|line| line.starts_with("udp://"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(uri.strip_prefix("udp://").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(4))).unwrap();
    let caller = Caller { socket, begun: Instant::now() };
    let counter = LabServer::new(Bench::default());
    let interface = counter.interface();
    let warm = caller.bind(BINDINGS..BINDINGS + TOGETHER, interface);
    caller.call(&warm);
    let before = memory(&mut server);
    let mut bindings = Vec::new();
    for first in (0..BINDINGS).step_by(TOGETHER as usize) {
        bindings.extend(caller.bind(first..first + TOGETHER, interface));
    }
    assert_eq!(bindings.len(), BINDINGS as usize);
    for together in bindings.chunks(TOGETHER as usize) {
        caller.call(together);
    }
    let each = (memory(&mut server) - before) / BINDINGS as usize;
    println!("{each} bytes of the server's memory for each binding");
    // Of which the copy of the last answer, still retained, is a quarter.
    assert!(each <= 1024, "{each} bytes for each binding");
}
