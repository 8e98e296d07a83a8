//! Whatever arrives, nothing panics and memory stays bounded: random, truncated and bit-flipped packets for both halves
//! of the exchange. The fuzz targets in `fuzz/` do the same for hours; this form runs with every test.

use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::caller::{Due, Lane};
use stoop_exchange::server::{Arrival, Assignment, Limits, Next, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure, RoundTrip};
use stoop_sim::{Address, Random};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, HostFacts};
use stoop_wire::{BindingId, CallNumber, Challenge, HEADER_LEN, Header, Kind, LaneId};

const PACKETS: u32 = 200_000;
const CALLER: Address = Address { host: 1, port: 9 };
const LIMITS: Limits = Limits {
    bindings: 16,
    lanes: 16,
    packets: 40,
    silence: Duration::from_millis(50),
    max_message: 100_000,
    window: 20_000,
    incomplete: 300_000,
    retained: 200_000,
    patience: Duration::from_millis(20),
};

fn interface() -> Interface {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    Interface { name: "I".into(), procedures: (0..3).map(procedure).collect() }
}

/// Gets a binding, with what was said to make it; none if the server has no more room.
fn bind(server: &mut Server<Address>, now: Instant, nonce: u64) -> Option<(BindingId, Vec<Vec<u8>>)> {
    let mut binder = Binder::new(now, now + Duration::from_secs(1), interface(), HostFacts::default(), nonce);
    let (mut said, mut reply) = (Vec::new(), Vec::new());
    loop {
        let packet = binder.transmit(now).expect("the server answers at once");
        assert!(matches!(server.handle_packet(now, CALLER, &packet, &mut reply), Arrival::Reply));
        said.extend([packet, reply.clone()]);
        match binder.handle_packet(now, &reply) {
            BindStep::Continue => {}
            BindStep::Bound(bound) => return Some((bound.binding, said)),
            BindStep::Refused(BindStatus::Full, _) => return None,
            other => panic!("{other:?}"),
        }
    }
}

/// A packet that is nearly right.
fn nearly(random: &mut Random, known: &[Vec<u8>], binding: BindingId) -> Vec<u8> {
    let mut packet = match random.below(4) {
        0 => (0..random.below(80)).map(|_| random.bits() as u8).collect(),
        1 => known[random.below(known.len() as u64) as usize].clone(),
        _ => {
            let lane = LaneId(random.below(20) as u16);
            let number = CallNumber(random.below(40) as u32);
            let kind = if random.chance(600) { Kind::Call } else { random.pick(&Kind::ALL) };
            let mut header = Header::bare(kind, binding, lane, number);
            header.procedure = random.below(4) as u16;
            header.time = random.below(3_000) as u32;
            header.message_len = random.pick(&[0, 0, 7, 1440, 1441, u32::MAX]);
            header.offset = random.pick(&[0, 0, 0, 1, 1440, u32::MAX]);
            let payload = random.pick(&[0, 7, 1440, 3000]);
            [&header.to_bytes()[..], &vec![random.bits() as u8; payload]].concat()
        }
    };
    if random.chance(300) && !packet.is_empty() {
        for _ in 0..=random.below(3) {
            let bit = random.below(8 * packet.len() as u64) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }
    if random.chance(200) {
        packet.truncate(random.below(packet.len() as u64 + 1) as usize);
    }
    packet
}

/// Lets a server answer a call in one of its ways.
fn answer(server: &mut Server<Address>, now: Instant, mut assignment: Assignment<Address>, manner: u64) {
    match manner {
        0 => drop(assignment.complete(now, 1440).to_vec()),
        1 => drop(assignment.refuse(stoop_wire::RefusalCode::Overloaded, "so much to do").to_vec()),
        _ => drop(assignment.fail(stoop_wire::FailureCode::Panicked, &"é".repeat(1000)).to_vec()),
    }
    if let Next::Run(assignment, _) = server.finish(now, assignment) {
        answer(server, now, assignment, manner);
    }
}

#[test]
fn a_server_bears_whatever_arrives() {
    let random = &mut Random::new(1);
    let mut server = Server::new(Interfaces::new([interface()]), LIMITS, HostFacts::default(), [3, 4]);
    let mut now = Instant::from_nanos(1);
    let (mut binding, known) = bind(&mut server, now, 77).unwrap();
    let mut running: Vec<Assignment<Address>> = Vec::new();
    let mut reply = Vec::new();
    let (mut runs, mut rebinds) = (0, 0);
    for i in 0..PACKETS {
        let packet = nearly(random, &known, binding);
        let from = if random.chance(950) { CALLER } else { Address { host: random.bits() as u16, port: 1 } };
        now = now + Duration::from_micros(random.below(200));
        match server.handle_packet(now, from, &packet, &mut reply) {
            Arrival::Run(assignment) => {
                runs += 1;
                running.push(assignment);
            }
            Arrival::Reply => {
                Header::parse(&reply).expect("what a server sends is a packet");
            }
            Arrival::Cancelled(..) | Arrival::Transmit | Arrival::Nothing => {}
        }
        if running.len() > 8 || random.chance(300) && !running.is_empty() {
            let assignment = running.swap_remove(random.below(running.len() as u64) as usize);
            answer(&mut server, now, assignment, random.below(3));
        }
        server.handle_timeout(now);
        if i % 64 == 0 {
            assert!(
                server.bytes_held() < 64 * 1632 + 4096 + 16 * (256 + 16 * 3232),
                "{}",
                server.bytes_held()
            );
            if let Some((another, _)) = bind(&mut server, now, random.bits()) {
                rebinds += 1;
                binding = another;
            }
        }
    }
    assert!(runs > 1000 && rebinds > 1000, "{runs} {rebinds}: the packets are not nearly right");
}

#[test]
fn a_lane_bears_whatever_arrives() {
    let random = &mut Random::new(2);
    let binding = BindingId(0x1234);
    let mut lane = Lane::new(binding, LaneId(3), RoundTrip::default(), 1);
    let mut call = vec![0; HEADER_LEN + 8];
    let mut now = Instant::default();
    for _ in 0..PACKETS {
        if lane.next_timeout() == Instant::NEVER {
            lane.start(now, now + Duration::from_millis(30), 1, &mut call);
        }
        let mut packet = nearly(random, &[call.clone()], binding);
        if packet.len() >= HEADER_LEN && random.chance(500) {
            packet[4..6].copy_from_slice(&3_u16.to_le_bytes());
            packet[16..20].copy_from_slice(&lane.number().0.to_le_bytes());
        }
        now = now + Duration::from_micros(random.below(2_000));
        lane.handle_packet(now, &packet);
        if random.chance(10) {
            lane.handle_unreachable(now);
        }
        if now >= lane.next_timeout() {
            match lane.handle_timeout(now, &mut call) {
                Due::GiveUp(_) => drop(lane.abandon(now).expect("it was outstanding")),
                _ => assert!(lane.next_timeout() > now, "a timer that is due for ever"),
            }
        }
    }
    assert!(lane.counters().calls > 1000);
}

#[test]
fn a_binder_bears_whatever_arrives() {
    let random = &mut Random::new(3);
    let mut server = Server::new(Interfaces::new([interface()]), LIMITS, HostFacts::default(), [3, 4]);
    let nonce = 77;
    let (_, known) = bind(&mut server, Instant::from_nanos(1), nonce).unwrap();
    let new = |now| Binder::new(now, now + Duration::from_secs(1), interface(), HostFacts::default(), nonce);
    let mut now = Instant::from_nanos(1);
    let mut binder = new(now);
    for _ in 0..PACKETS / 4 {
        now = now + Duration::from_micros(random.below(5_000));
        let _ = binder.transmit(now);
        if binder.has_expired(now) {
            binder = new(now);
        }
        let mut packet = nearly(random, &known, BindingId::NONE);
        if packet.len() >= HEADER_LEN && random.chance(500) {
            packet[16..20].copy_from_slice(&(nonce as u32).to_le_bytes());
        }
        if !matches!(binder.handle_packet(now, &packet), BindStep::Continue) {
            binder = new(now);
        }
    }
}

#[test]
fn a_bind_message_is_read_as_it_was_written_or_not_at_all() {
    let random = &mut Random::new(4);
    let request = BindRequest {
        nonce: 1,
        cookie: Challenge(2),
        flags: 0,
        max_message: 1440,
        window: 1440,
        host: HostFacts::default(),
        first: 0,
        interface: "Interface".into(),
        fingerprints: (0..9).collect(),
    };
    let describe = Describe { nonce: 1, interface: "I".into(), procedure: "p".into() };
    let messages = [request.encode(), describe.encode()];
    for _ in 0..PACKETS / 4 {
        let mut bytes = random.pick(&[0, 1]);
        let mut message = messages[bytes].clone();
        bytes = random.below(message.len() as u64) as usize;
        message[bytes] = random.bits() as u8;
        message.truncate(random.below(2 * message.len() as u64) as usize);
        if let Some(request) = BindRequest::decode(&message) {
            assert_eq!(BindRequest::decode(&request.encode()), Some(request));
        }
        if let Some(reply) = BindReply::decode(&message) {
            assert!(reply.procedures.len() * 2 + reply.text.len() <= message.len());
        }
        if let Some(describe) = Describe::decode(&message) {
            assert!(describe.interface.len() + describe.procedure.len() <= message.len());
        }
        if let Some(description) = Description::decode(&message) {
            assert!(description.signature.len() <= message.len());
        }
    }
}
