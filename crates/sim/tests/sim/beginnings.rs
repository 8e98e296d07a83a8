//! Which calls a server begins: by their numbers, where the numbers of a lane begin anew, and by the hosts that they come
//! from.

use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::server::{Effect, Limits, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure};
use stoop_sim::{Address, Random};
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, Challenge, Header, Kind, LaneId};

const CALLER: Address = Address { host: 1, port: 9 };
const NOW: Instant = Instant::from_nanos(1);

fn interface() -> Interface {
    let procedures = vec![Procedure { name: "p".into(), signature: "p()".into() }];
    Interface { name: "I".into(), procedures, ..Interface::default() }
}

fn bound() -> (Server<Address>, BindingId) {
    let interfaces = Interfaces::new([interface()]);
    let mut server = Server::new(NOW, interfaces, Limits::default(), HostFacts::default(), [3, 4]);
    let mut binder = Binder::new(NOW, NOW + Duration::from_secs(1), interface(), HostFacts::default(), 77);
    let mut reply = Vec::new();
    loop {
        let packet = binder.transmit(NOW).expect("the server answers at once");
        server.handle_packet(NOW, &CALLER, &packet, &mut reply);
        if let BindStep::Bound(bound) = binder.handle_packet(NOW, &reply) {
            return (server, bound.binding);
        }
    }
}

/// Whether the call of that number begins; if so, it is answered. It comes alone, or `together` with others.
fn begins(
    server: &mut Server<Address>,
    from: Address,
    (binding, number): (BindingId, u32),
    together: bool,
) -> bool {
    let packet = Header::bare(Kind::Call, binding, LaneId(0), CallNumber(number)).to_bytes();
    let mut call = None;
    if together {
        server.take_calls(NOW, &from, &packet, packet.len(), |begun, _| call = Some(begun));
    }
    if call.is_none()
        && let Effect::Run(begun) = server.handle_packet(NOW, &from, &packet, &mut Vec::new())
    {
        call = Some(begun);
    }
    let Some(mut call) = call else { return false };
    call.complete(NOW, 0);
    server.finish(NOW, call);
    true
}

#[test]
fn a_call_begins_if_its_number_comes_after_the_last_across_the_wrap_too() {
    let random = &mut Random::new(5);
    let (mut server, binding) = bound();
    let mut newest = 0_u32;
    let mut wraps = 0;
    for _ in 0..20_000 {
        // Near the last one, or a long way ahead, as if many calls of the lane had been lost.
        let step = random.pick(&[1, 1, 2, 0, u32::MAX, u32::MAX - 1, 1 << 30, (1 << 31) - 1]);
        let number = newest.wrapping_add(step);
        // RFC 1982 §3.2, as the sign of a difference.
        let is_after = (number.wrapping_sub(newest) as i32) > 0;
        let begun = begins(&mut server, CALLER, (binding, number), random.chance(500));
        assert_eq!(begun, is_after, "number {number} after {newest}");
        if begun {
            wraps += u32::from(number < newest);
            newest = number;
        }
    }
    assert!(wraps > 100, "{wraps}");
}

#[test]
fn a_call_begins_only_from_the_last_four_hosts_that_have_shown_the_cookies_that_they_were_sent() {
    let random = &mut Random::new(6);
    let (mut server, binding) = bound();
    let (mut proven, mut proofs) = (vec![CALLER.host], 0);
    for number in 1..20_000 {
        let from = Address { host: 1 + random.below(12) as u16, port: 9 };
        let begun = begins(&mut server, from, (binding, number), random.chance(500));
        assert_eq!(begun, proven.contains(&from.host), "from host {}; proven: {proven:?}", from.host);
        // A challenge comes to the host that the call came from. A proof may say anything.
        let probe = Header::bare(Kind::Probe, binding, LaneId(0), CallNumber(number));
        let mut reply = Vec::new();
        server.handle_packet(NOW, &from, &probe.to_bytes(), &mut reply);
        let challenge = Header::parse(&reply).ok().and_then(|(challenge, _)| challenge.challenge());
        let lie = Challenge(random.pick(&[0, random.clone().bits(), challenge.map_or(1, |it| it.0 ^ 1)]));
        let honest = random.chance(300);
        let cookie = challenge.filter(|_| honest);
        let proof = probe.with_challenge(Kind::Proof, cookie.unwrap_or(lie)).to_bytes();
        server.handle_packet(NOW, &from, &proof, &mut reply);
        if cookie.is_some() {
            proven.push(from.host);
            if proven.len() > 4 {
                proven.remove(0);
            }
            proofs += 1;
        }
    }
    assert!(proofs > 1_000, "{proofs}");
}
