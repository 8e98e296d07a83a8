//! A sequence of packets and timeouts for a caller's lane and for a binding in the making.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::caller::{Due, Heard, Lane};
use stoop_exchange::{Instant, Interface, Procedure, RoundTrip};
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId};

const BINDING: BindingId = BindingId(0x1234);
const LANE: LaneId = LaneId(1);
const NONCE: u64 = 5;

fn binder(now: Instant) -> Binder {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    let interface = Interface { name: "I".into(), procedures: (0..130).map(procedure).collect() };
    Binder::new(now, now + Duration::from_millis(300), interface, HostFacts::default(), NONCE)
}

fuzz_target!(|input: &[u8]| {
    let mut now = Instant::default();
    let mut lane = Lane::new(BINDING, LANE, RoundTrip::default(), 1);
    let mut call = vec![0; HEADER_LEN + 4];
    let mut binder = binder(now);
    let mut rest = input;
    while let [step, kind, time, len, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        now = now + Duration::from_millis(u64::from(*time) / 4);
        if lane.next_timeout() == Instant::NEVER {
            lane.start(now, now + Duration::from_millis(200), 1, &mut call);
        }
        let mut header =
            Header::bare(Kind::ALL[usize::from(*kind) % Kind::ALL.len()], BINDING, LANE, lane.number());
        (header.time, header.message_len) = (u32::from(*time), payload.len() as u32);
        match step % 8 {
            0 => drop(lane.handle_packet(now, payload)),
            1 => drop(lane.handle_unreachable(now)),
            2 => header.number = CallNumber(u32::from(*time)),
            3 => header.offset = u32::from(*time),
            4 => (header.binding, header.number) = (BindingId::NONE, CallNumber(NONCE as u32)),
            _ => {}
        }
        let packet = [&header.to_bytes()[..], payload].concat();
        let outstanding = lane.effort(now).is_some();
        let heard = lane.handle_packet(now, &packet);
        let ended = matches!(heard, Heard::Result { .. } | Heard::Refused(_) | Heard::Failed(_));
        assert_eq!(lane.effort(now).is_none(), !outstanding || ended, "a call ends once");
        if lane.next_timeout() <= now {
            match lane.handle_timeout(now, &mut call) {
                Due::GiveUp(_) => drop(lane.abandon(now).expect("it is outstanding")),
                _ => assert!(lane.next_timeout() > now, "the timer advances"),
            }
        }
        let _ = binder.transmit(now);
        if binder.has_expired(now) || binder.handle_packet(now, &packet) != BindStep::Continue {
            binder = self::binder(now);
        }
    }
});
