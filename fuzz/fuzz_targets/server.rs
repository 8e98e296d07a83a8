//! A sequence of packets, answers and timeouts for a server, of which the input chooses everything: single packets, parts
//! of calls that overlap, contradict each other, lie about their length or never end, receipts for what was never sent,
//! cancels.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::server::{Effect, Assignment, Limits, Next, Peer, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure};
use stoop_wire::bind::HostFacts;
use stoop_wire::{
    BindingId, CallNumber, FailureCode, HEADER_LEN, Header, Kind, LaneId, Receipt, RefusalCode,
};

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
    Interface { name: "I".into(), procedures: (0..3).map(procedure).collect(), ..Interface::default() }
}

fn bind(server: &mut Server<From>, now: Instant, nonce: u64) -> Option<BindingId> {
    let mut binder = Binder::new(now, now + Duration::from_secs(1), interface(), HostFacts::default(), nonce);
    let mut reply = Vec::new();
    for _ in 0..3 {
        let packet = binder.transmit(now)?;
        server.handle_packet(now, &From(1), &packet, &mut reply);
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

type Identity = (u64, u16, u32);

/// The outcome of each call.
#[derive(Default)]
struct Known {
    begun: HashSet<Identity>,
    refused: HashSet<Identity>,
}

impl Known {
    /// A call is given out to run.
    fn begins(&mut self, call: &Assignment<From>) {
        let (binding, lane, number) = call.identity();
        let identity = (binding.0, lane.0, number.0);
        assert!(self.begun.insert(identity), "it runs a second time");
        assert!(!self.refused.contains(&identity), "it runs after it was said that it does not");
    }

    /// The server sends something.
    fn hears(&mut self, packet: &[u8]) {
        let (header, _) = Header::parse(packet).expect("what it sends are packets");
        // Refusals of impossible calls are not remembered: a repeated call is refused again.
        let unseen = [RefusalCode::UnknownBinding, RefusalCode::MessageTooLarge, RefusalCode::TooManyLanes];
        if header.kind == Kind::Refusal && !unseen.contains(&RefusalCode::from_code(header.time)) {
            self.refused.insert((header.binding.0, header.lane.0, header.number.0));
        }
    }
}

fn answer(
    server: &mut Server<From>,
    now: Instant,
    mut call: Assignment<From>,
    packet: &[u8],
    manner: u8,
    known: &mut Known,
) {
    let (arguments, _) = call.arguments_and_result(packet);
    assert!(arguments.len() <= LIMITS.max_message as usize);
    match manner % 5 {
        0 => drop(call.complete(now, usize::from(manner)).to_vec()),
        1 => known.hears(call.refuse(RefusalCode::Overloaded, "busy")),
        2 => drop(call.fail(FailureCode::Panicked, "it panicked").to_vec()),
        _ => {
            let len = usize::from(manner) * 40;
            let packet = call.packet_mut();
            packet.resize(packet.len().max(HEADER_LEN + len), 0);
            call.complete(now, len);
        }
    }
    match server.finish(now, call) {
        Next::Run(call, packet) => {
            assert!(Header::parse(&packet).is_ok());
            known.begins(&call);
            answer(server, now, call, &packet, manner, known);
        }
        Next::Reply(_, packet) => known.hears(&packet),
        Next::Nothing => {}
    }
}

/// Sends what there is to be sent.
fn transmit(server: &mut Server<From>, now: Instant, known: &mut Known) {
    let mut out = Vec::new();
    for turn in 0.. {
        assert!(turn < 1_000, "it comes to no end");
        let Some(transmission) = server.next_transmission(now, 65_536, &mut out) else { break };
        assert!(!out.is_empty() && out.len() <= 65_536);
        out.chunks(transmission.segment).for_each(|datagram| known.hears(datagram));
    }
}

const LIMITS: Limits = Limits {
    bindings: 4,
    lanes: 8,
    all_lanes: 1000,
    packets: 1000,
    silence: Duration::from_millis(40),
    max_message: 20_000,
    window: 4_000,
    calls: 40,
    incomplete: 50_000,
    retained: 40_000,
    pipes: 64 << 10,
    patience: Duration::from_millis(15),
    flags: 5,
};

fuzz_target!(|input: &[u8]| {
    let limits = LIMITS;
    let mut known = Known::default();
    let mut server =
        Server::new(Instant::default(), Interfaces::new([interface()]), limits, HostFacts::default(), [1, 2]);
    let mut now = Instant::from_nanos(1);
    let mut input = Input(input);
    let mut binding = bind(&mut server, now, 7).expect("there is room");
    let mut running: Vec<(Assignment<From>, Vec<u8>)> = Vec::new();
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
                transmit(&mut server, now, &mut known);
                assert!(server.next_timeout() > now, "the timer advances");
                continue;
            }
            2 => {
                if let Some((call, packet)) = running.pop() {
                    answer(&mut server, now, call, &packet, input.byte().unwrap_or(0), &mut known);
                    transmit(&mut server, now, &mut known);
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
            4 if step % 16 == 4 => {
                if server.drained() {
                    transmit(&mut server, now, &mut known);
                }
                continue;
            }
            5 => {
                // A part of a call, or a receipt for parts of a result.
                let fields = input.bytes(6);
                let field = |i| u32::from(fields.get(i).copied().unwrap_or(0));
                let lane = LaneId(field(0) as u16 % 4);
                let kind = if step & 64 == 0 { Kind::Call } else { Kind::Receipt };
                let mut header = Header::bare(kind, binding, lane, CallNumber(field(1) % 8));
                header.time = field(2);
                if kind == Kind::Call {
                    header.message_len = 1441 + field(3) * 75;
                    header.offset = field(4) * 75;
                    let payload = vec![field(1) as u8; field(5) as usize * 75];
                    [&header.to_bytes()[..], &payload].concat()
                } else {
                    let mut receipt = Receipt::new(field(3), field(2), field(4) * 75, field(5) * 75);
                    receipt.push(field(5) * 75 + 75, field(5) * 75 + field(3));
                    let mut payload = [0; Receipt::MAX_LEN];
                    let len = receipt.put(&mut payload);
                    header.message_len = len as u32;
                    [&header.to_bytes()[..], &payload[..len]].concat()
                }
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
        match server.handle_packet(now, &From(step >> 6), &packet, &mut reply) {
            Effect::Run(call) => {
                known.begins(&call);
                running.push((call, packet));
            }
            Effect::Reply | Effect::Cancelled(..) => known.hears(&reply),
            Effect::Transmit | Effect::Pipe(..) => transmit(&mut server, now, &mut known),
            Effect::Unbound(_) | Effect::Nothing => {}
        }
        assert!(server.incomplete_bytes() <= LIMITS.incomplete, "{}", server.incomplete_bytes());
        assert!(server.retained_bytes() <= LIMITS.retained, "{}", server.retained_bytes());
        let long = LIMITS.pipes + LIMITS.incomplete + LIMITS.retained + 8 * 2 * 20_032;
        assert!(server.bytes_held() < 64 * 1632 + 4096 + 4 * (512 + 8 * 3600) + long);
    }
    let now = now + Duration::from_secs(1);
    while let Some((call, packet)) = running.pop() {
        answer(&mut server, now, call, &packet, 0, &mut known);
    }
    assert_eq!(server.running(), 0);
    let mut now = now;
    for _ in 0..10_000 {
        let Some(due) = Some(server.next_timeout()).filter(|due| *due != Instant::NEVER) else { break };
        now = due.max(now);
        server.handle_timeout(now);
        transmit(&mut server, now, &mut known);
    }
    assert_eq!((server.bindings(), server.incomplete_bytes(), server.retained_bytes()), (0, 0, 0));
    assert_eq!(server.pipe_bytes(), 0);
});
