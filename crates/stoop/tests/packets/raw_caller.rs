//! A server over UDP and a caller made by hand, which does what no client of ours would do.

use std::net::UdpSocket;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use stoop::stub::Exported;
use stoop::{RunningServer, Server};
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::{Interface, Procedure};
use stoop_wire::bind::HostFacts;
use stoop_wire::{CallNumber, Header, Kind, LaneId};

#[stoop::interface]
trait Door {
    /// Returns when the door is opened.
    fn pass(&self) -> u32;
    /// How many bytes there are.
    fn measure(&self, bytes: &[u8]) -> u32;
}

#[derive(Clone, Default)]
struct Hall(Arc<(Mutex<bool>, Condvar)>);

impl Door for Hall {
    fn pass(&self) -> u32 {
        let (open, changed) = &*self.0;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        1
    }
    fn measure(&self, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }
}

const PASS: usize = 0;
const MEASURE: usize = 1;

/// A caller over UDP that makes its packets by hand.
pub(crate) struct RawCaller {
    socket: UdpSocket,
    bound: Bound,
}

impl RawCaller {
    pub(crate) fn bind(server: &RunningServer, interface: &stoop::stub::Interface) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.uris()[0].strip_prefix("udp://").unwrap()).unwrap();
        let procedure =
            |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
        let interface = Interface {
            name: interface.name.into(),
            procedures: interface.procedures.iter().map(procedure).collect(),
            ..Interface::default()
        };
        let begun = Instant::now();
        let now = || stoop_exchange::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
        let limit = now() + Duration::from_secs(10);
        let mut binder = Binder::new(now(), limit, interface, HostFacts::default(), 77);
        let mut packet = [0; 2048];
        loop {
            if let Some(question) = binder.transmit(now()) {
                socket.send(&question).unwrap();
            }
            let wait = binder.next_timeout().since(now()).max(Duration::from_micros(1));
            socket.set_read_timeout(Some(wait)).unwrap();
            let Ok(len) = socket.recv(&mut packet) else { continue };
            if let BindStep::Bound(bound) = binder.handle_packet(now(), &packet[..len]) {
                socket.set_read_timeout(None).unwrap();
                return Self { socket, bound };
            }
        }
    }

    fn send(&self, number: u32, procedure: usize, arguments: &[u8]) {
        self.send_as(number, self.bound.procedures[procedure], arguments);
    }

    /// Sends a call of the procedure that has this number at the server.
    pub(crate) fn send_as(&self, number: u32, procedure: u16, arguments: &[u8]) {
        let mut header = Header::bare(Kind::Call, self.bound.binding, LaneId(0), CallNumber(number));
        header.procedure = procedure;
        header.message_len = arguments.len() as u32;
        header.time = 30_000_000;
        self.socket.send(&[&header.to_bytes()[..], arguments].concat()).unwrap();
    }

    /// Waits for that answer to that call; the socket hands over what comes in order, and loses nothing here.
    pub(crate) fn await_answer(&self, number: u32, kind: Kind) -> Vec<u8> {
        self.await_packet(number, kind).1
    }

    /// As [`await_answer`](Self::await_answer), with its header.
    pub(crate) fn await_packet(&self, number: u32, kind: Kind) -> (Header, Vec<u8>) {
        let mut packet = [0; 2048];
        loop {
            let len = self.socket.recv(&mut packet).unwrap();
            let (header, payload) = Header::parse(&packet[..len]).unwrap();
            if (header.number, header.kind) == (CallNumber(number), kind) {
                return (header, payload.to_vec());
            }
        }
    }
}

/// `bytes` as an argument: their count and they themselves.
fn slice(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

#[test]
fn a_receiver_that_has_run_a_waiting_call_still_takes_long_packets() {
    let hall = Hall::default();
    let export = DoorServer::new(hall.clone());
    let interface = export.interface();
    let server =
        Server::new().workers(1).export(export).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let caller = RawCaller::bind(&server, interface);
    caller.send(1, PASS, &[]);
    caller.send(2, MEASURE, &slice(b"short"));
    caller.await_answer(2, Kind::Acknowledgement);
    *hall.0.0.lock().unwrap() = true;
    hall.0.1.notify_all();
    assert_eq!(caller.await_answer(2, Kind::Result), 5_u32.to_le_bytes());
    for number in 3..6 {
        caller.send(number, MEASURE, &slice(&[7; 1400]));
        assert_eq!(caller.await_answer(number, Kind::Result), 1400_u32.to_le_bytes());
    }
}

#[test]
fn long_datagrams_that_are_no_packets_are_dropped_and_counted() {
    let server = Server::new().export(DoorServer::new(Hall::default()));
    let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The first may be part of something long, for which there is room from then on.
    while server.counters().malformed == 0 {
        socket.send_to(&[0xd7; 4000], server.uris()[0].strip_prefix("udp://").unwrap()).unwrap();
        std::thread::yield_now();
    }
    let client = DoorClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(client.measure(&[1; 9]).unwrap(), 9);
}
