//! No packet makes either half panic or take unbounded memory: random, truncated and bit-flipped packets for both halves
//! of the exchange. The fuzz targets in `fuzz/` do the same for hours; this form runs with every test.

use std::collections::HashSet;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{Due, Heard, Lane};
use stoop_exchange::server::{Assignment, Effect, Limits, Next, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure, RoundTrip};
use stoop_sim::{Address, Random};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, HostFacts};
use stoop_wire::{BindingId, CallNumber, Challenge, HEADER_LEN, Header, Kind, LaneId, Receipt};

const PACKETS: u32 = 200_000;
const CALLER: Address = Address { host: 1, port: 9 };
const LIMITS: Limits = Limits {
    bindings: 16,
    lanes: 16,
    all_lanes: 1000,
    packets: 40,
    silence: Duration::from_millis(50),
    max_message: 100_000,
    window: 20_000,
    calls: 40,
    incomplete: 300_000,
    retained: 200_000,
    pipes: 64 << 10,
    patience: Duration::from_millis(20),
    flags: 0,
};

fn interface() -> Interface {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    Interface { name: "I".into(), procedures: (0..3).map(procedure).collect(), ..Interface::default() }
}

/// Gets a binding, with what was said to make it; none if the server has no more room.
fn bind(server: &mut Server<Address>, now: Instant, nonce: u64) -> Option<(BindingId, Vec<Vec<u8>>)> {
    let binder = Binder::new(now, now + Duration::from_secs(1), interface(), HostFacts::default(), nonce);
    let mut binder = binder.accepting(100_000, 20_000);
    let (mut said, mut reply) = (Vec::new(), Vec::new());
    loop {
        let packet = binder.transmit(now).expect("the server answers at once");
        assert!(matches!(server.handle_packet(now, &CALLER, &packet, &mut reply), Effect::Reply));
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
            if kind == Kind::Receipt {
                let word = |random: &mut Random| random.pick(&[0, 1, 2, 5, 1440, 2880, 4000, u32::MAX]);
                let mut receipt = Receipt::new(word(random), word(random), word(random), word(random));
                while random.chance(400) && receipt.push(word(random), word(random)) {}
                let mut payload = [0; Receipt::MAX_LEN];
                header.message_len = receipt.put(&mut payload) as u32;
                let payload = &payload[..header.message_len as usize];
                return [&header.to_bytes()[..], payload].concat();
            }
            header.message_len = random.pick(&[0, 0, 7, 1440, 1441, 4000, 4000, 4000, 90_000, u32::MAX]);
            header.offset = random.pick(&[0, 0, 0, 1, 1440, 1440, 2880, u32::MAX]);
            let payload = random.pick(&[0, 7, 1440, 1440, 3000]);
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

/// A call as it should be, on a lane with a call soon before it.
fn plain_call(binding: BindingId, number: u32) -> Vec<u8> {
    let mut header = Header::bare(Kind::Call, binding, LaneId(LIMITS.lanes - 1), CallNumber(number));
    header.time = 1_000_000;
    header.to_bytes().to_vec()
}

/// Calls that have run, by binding, lane and number.
type Begun = HashSet<(u64, u16, u32)>;

fn begins(begun: &mut Begun, call: &Assignment<Address>) {
    let (binding, lane, number) = call.identity();
    assert_eq!(call.peer.host, CALLER.host, "a call runs that came from a host which has shown no cookie");
    assert!(begun.insert((binding.0, lane.0, number.0)), "{lane:?} {number:?} runs a second time");
}

/// Lets a server answer a call in one of its ways.
fn answer(
    server: &mut Server<Address>,
    now: Instant,
    mut call: Assignment<Address>,
    manner: u64,
    begun: &mut Begun,
) {
    match manner {
        0 => drop(call.complete(now, 1440).to_vec()),
        1 => drop(call.refuse(stoop_wire::RefusalCode::Overloaded, "so much to do").to_vec()),
        2 => drop(call.fail(stoop_wire::FailureCode::Panicked, &"é".repeat(1000)).to_vec()),
        _ => {
            call.packet_mut().resize(HEADER_LEN + 5_000, 7);
            call.complete(now, 5_000);
        }
    }
    if let Next::Run(call, _) = server.finish(now, call) {
        begins(begun, &call);
        answer(server, now, call, manner, begun);
    }
}

/// Sends what there is to be sent.
fn transmit(server: &mut Server<Address>, now: Instant) -> u64 {
    let (mut out, mut packets) = (Vec::new(), 0);
    while let Some(transmission) = server.next_transmission(now, 65_536, &mut out) {
        for datagram in out.chunks(transmission.segment) {
            Header::parse(datagram).expect("what a server sends is a packet");
            packets += 1;
            assert!(packets < 10_000, "it comes to no end");
        }
    }
    packets
}

#[test]
fn random_packets_do_not_break_a_server() {
    let (random, ways) = (&mut Random::new(1), &mut Random::new(6));
    let mut batched = 0;
    let mut server =
        Server::new(Instant::default(), Interfaces::new([interface()]), LIMITS, HostFacts::default(), [3, 4]);
    let mut now = Instant::from_nanos(1);
    let (mut binding, known) = bind(&mut server, now, 77).unwrap();
    let mut running: Vec<Assignment<Address>> = Vec::new();
    let mut reply = Vec::new();
    let (mut runs, mut rebinds, mut sent, mut begun) = (0, 0, 0, Begun::new());
    for i in 0..PACKETS {
        let is_plain = ways.chance(100);
        let packet = if is_plain { plain_call(binding, i) } else { nearly(random, &known, binding) };
        let from = if random.chance(950) {
            CALLER
        } else {
            Address { host: 2 + (random.bits() % 2) as u16, port: 1 }
        };
        now = now + Duration::from_micros(random.below(200));
        if is_plain || ways.chance(500) {
            let mut together = Vec::new();
            server.take_calls(now, &from, &packet, packet.len().max(1), |call, _| together.push(call));
            for call in together {
                batched += 1;
                begins(&mut begun, &call);
                running.push(call);
            }
        }
        match server.handle_packet(now, &from, &packet, &mut reply) {
            Effect::Run(call) => {
                runs += u32::from(!is_plain);
                begins(&mut begun, &call);
                running.push(call);
            }
            Effect::Reply | Effect::Cancelled(..) => {
                Header::parse(&reply).expect("what a server sends is a packet");
            }
            Effect::Unbound(_) | Effect::Transmit | Effect::Pipe(..) | Effect::Nothing => {}
        }
        if running.len() > 8 || random.chance(300) && !running.is_empty() {
            let call = running.swap_remove(random.below(running.len() as u64) as usize);
            answer(&mut server, now, call, random.below(5), &mut begun);
        }
        server.handle_timeout(now);
        if random.chance(300) {
            server.drained();
        }
        sent += transmit(&mut server, now);
        assert!(server.next_timeout() > now, "a timer that is due for ever");
        assert!(server.incomplete_bytes() <= LIMITS.incomplete && server.retained_bytes() <= LIMITS.retained);
        if i % 64 == 0 {
            let long =
                LIMITS.pipes + LIMITS.incomplete + LIMITS.retained + 8 * 2 * LIMITS.max_message as usize;
            let held = server.bytes_held();
            assert!(held < 64 * 1632 + 4096 + 16 * (256 + 16 * 3232) + long, "{held}");
            if let Some((another, _)) = bind(&mut server, now, random.bits()) {
                rebinds += 1;
                binding = another;
            }
        }
    }
    assert!(runs > 1000 && rebinds > 1000, "{runs} {rebinds}: the packets are not nearly right");
    assert!(sent > 5_000, "{sent}: hardly any long result");
    assert!(batched > 1_000, "{batched} calls as if they had come together");
}

#[test]
fn random_packets_do_not_break_a_lane() {
    let random = &mut Random::new(2);
    let binding = BindingId(0x1234);
    let mut lane = Lane::new(binding, LaneId(3), RoundTrip::default(), 1);
    let mut path = Path::new(1440, RoundTrip::default(), 2);
    let mut call = vec![0; HEADER_LEN + 8];
    let mut now = Instant::default();
    let (mut parts, mut receipts) = (0, 0);
    for _ in 0..PACKETS {
        if lane.next_timeout() == Instant::NEVER {
            lane.settle(&mut path);
            assert_eq!(path.in_flight(), 0, "nothing is in flight while nothing is being sent");
            let deadline = now + Duration::from_millis(30);
            match random.chance(500) {
                true => lane.start_large(now, deadline, 1, 10_000, 5_000),
                false => lane.start(now, deadline, 1, &mut call),
            }
        }
        let mut packet = nearly(random, &[call.clone()], binding);
        if packet.len() >= HEADER_LEN && random.chance(500) {
            packet[4..6].copy_from_slice(&3_u16.to_le_bytes());
            packet[16..20].copy_from_slice(&lane.number().0.to_le_bytes());
            if random.chance(200) {
                packet[2] = Kind::Result as u8;
            }
        }
        now = now + Duration::from_micros(random.below(2_000));
        while lane.next_run(now, &mut path, 65_536).is_some() {}
        match lane.handle_packet(now, &packet) {
            Heard::Part(part) => {
                parts += 1;
                assert!(part.offset + part.len <= part.message_len && HEADER_LEN + part.len <= packet.len());
            }
            Heard::Receipt => {
                receipts += 1;
                lane.take_receipt(now, &packet, &mut path);
            }
            _ => {}
        }
        if lane.owes_receipt(random.chance(500)) {
            let mut packet = [0; Receipt::MAX_PACKET];
            let len = lane.receipt(now, 10_000, &mut packet);
            Header::parse(&packet[..len]).expect("what a lane sends is a packet");
        }
        if random.chance(10) {
            lane.handle_unreachable(now);
        }
        if random.chance(10) && lane.cancel(now).is_some() {
            lane.settle(&mut path);
        }
        for turn in 0.. {
            if now < lane.next_timeout() {
                break;
            }
            assert!(turn < 5, "a timer that is due for ever");
            match lane.handle_timeout(now, &mut call) {
                Due::Abandon(_) => drop(lane.abandon(now).expect("it was outstanding")),
                Due::Resume => {
                    lane.resume(now, &mut path);
                    while lane.next_run(now, &mut path, 65_536).is_some() {}
                }
                _ => {}
            }
        }
    }
    assert!(lane.counters().calls > 1000 && parts > 1000 && receipts > 500, "{parts} {receipts}");
}

#[test]
fn random_packets_do_not_break_a_binder() {
    let random = &mut Random::new(3);
    let mut server =
        Server::new(Instant::default(), Interfaces::new([interface()]), LIMITS, HostFacts::default(), [3, 4]);
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
        cookie: Challenge(2),
        packet_data: Some(1000),
        ..BindRequest::new(1, "Interface", (0..9).collect())
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
