//! A sequence of packets, answers and timeouts for a server, of which the input chooses everything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::server::{Arrival, Assignment, Limits, Next, Peer, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure};
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, FailureCode, Header, Kind, LaneId, RefusalCode};

#[derive(Clone, Copy, Debug)]
struct From(u8);

impl Peer for From {
    fn host(&self) -> [u8; 16] {
        [self.0; 16]
    }
    fn port(&self) -> u16 {
        u16::from(self.0)
    }
}

fn interface() -> Interface {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    Interface { name: "I".into(), procedures: (0..3).map(procedure).collect() }
}

fn bind(server: &mut Server<From>, now: Instant, nonce: u64) -> Option<BindingId> {
    let mut binder =
        Binder::new(now, now + Duration::from_secs(1), interface(), HostFacts::default(), nonce);
    let mut reply = Vec::new();
    for _ in 0..3 {
        let packet = binder.transmit(now)?;
        server.handle_packet(now, From(1), &packet, &mut reply);
        if let BindStep::Bound(bound) = binder.handle_packet(now, &reply) {
            return Some(bound.binding);
        }
    }
    None
}

/// Takes the input apart.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

fn answer(server: &mut Server<From>, now: Instant, mut call: Assignment<From>, manner: u8) {
    match manner % 3 {
        0 => drop(call.complete(now, usize::from(manner)).to_vec()),
        1 => drop(call.refuse(RefusalCode::Overloaded, "busy").to_vec()),
        _ => drop(call.fail(FailureCode::Panicked, "it panicked").to_vec()),
    }
    if let Next::Run(call, packet) = server.finish(now, call) {
        assert!(Header::parse(&packet).is_ok());
        answer(server, now, call, manner);
    }
}

fuzz_target!(|input: &[u8]| {
    let limits = Limits { bindings: 4, lanes: 8, silence: Duration::from_millis(40), ..Limits::default() };
    let mut server = Server::new(Interfaces::new([interface()]), limits, HostFacts::default(), [1, 2]);
    let mut now = Instant::from_nanos(1);
    let mut input = Input(input);
    let mut binding = bind(&mut server, now, 7).expect("there is room");
    let mut running = Vec::new();
    let mut reply = Vec::new();
    while let Some(step) = input.byte() {
        let packet = match step % 8 {
            0 => {
                let len = usize::from(input.byte().unwrap_or(0));
                input.bytes(len).to_vec()
            }
            1 => {
                now = now + Duration::from_millis(u64::from(input.byte().unwrap_or(0)));
                server.handle_timeout(now);
                assert!(server.next_timeout() > now, "the timer advances");
                continue;
            }
            2 => {
                if let Some(call) = running.pop() {
                    answer(&mut server, now, call, input.byte().unwrap_or(0));
                }
                continue;
            }
            3 => {
                binding = bind(&mut server, now, u64::from(step)).unwrap_or(binding);
                continue;
            }
            4 if step == 252 => {
                server.shut_down();
                continue;
            }
            _ => {
                let fields = input.bytes(5);
                let field = |i| fields.get(i).copied().unwrap_or(0);
                let kind = Kind::ALL[usize::from(field(0)) % Kind::ALL.len()];
                let lane = LaneId(u16::from(field(1)) % 10);
                let mut header = Header::bare(kind, binding, lane, CallNumber(u32::from(field(2))));
                header.time = u32::from(field(3)) * 1000;
                header.message_len = u32::from(field(4));
                let payload = input.bytes(usize::from(field(4)));
                [&header.to_bytes()[..], payload].concat()
            }
        };
        match server.handle_packet(now, From(step >> 6), &packet, &mut reply) {
            Arrival::Run(call) => running.push(call),
            Arrival::Reply => assert!(Header::parse(&reply).is_ok(), "what it sends are packets"),
            Arrival::Nothing => {}
        }
        assert!(server.bytes_held() < 64 * 1632 + 1024 + 4 * (256 + 8 * 3232));
    }
    let now = now + Duration::from_secs(1);
    while let Some(call) = running.pop() {
        answer(&mut server, now, call, 0);
    }
    assert_eq!(server.running(), 0);
});
