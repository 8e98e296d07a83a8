//! A sequence of packets, timeouts and operations for a caller's lane, with calls and results of one packet and of many,
//! and for a binding in the making.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{Due, Heard, Lane};
use stoop_exchange::{Instant, Interface, Procedure, RoundTrip};
use stoop_wire::bind::HostFacts;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, Receipt};

const BINDING: BindingId = BindingId(0x1234);
const LANE: LaneId = LaneId(1);
const NONCE: u64 = 5;
const LONG: usize = 30_000;

fn binder(now: Instant) -> Binder {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    let procedures = (0..130).map(procedure).collect();
    let interface = Interface { name: "I".into(), procedures, ..Interface::default() };
    Binder::new(now, now + Duration::from_millis(300), interface, HostFacts::default(), NONCE)
}

/// A lane and what its driver knows.
struct Caller {
    lane: Lane,
    path: Path,
    call: Vec<u8>,
    outstanding: bool,
    /// Bytes of the result that are here, and of all of it.
    result: Option<Vec<bool>>,
}

impl Caller {
    fn start(&mut self, now: Instant, long: bool) {
        let deadline = now + Duration::from_millis(200);
        self.result = None;
        self.outstanding = true;
        if long {
            self.lane.start_large(now, deadline, 1, LONG as u32, 5_000);
            self.pump(now);
        } else {
            self.lane.start(now, deadline, 1, &mut self.call);
        }
    }

    fn pump(&mut self, now: Instant) {
        for turn in 0.. {
            assert!(turn < 1_000, "it comes to no end");
            let Some(run) = self.lane.next_run(now, &mut self.path, 65_536) else { break };
            assert!(run.len > 0 && run.fragment > 0 && (run.offset + run.len) as usize <= LONG, "{run:?}");
            let mut header = [0; HEADER_LEN];
            let len = run.fragment.min(run.len) as usize;
            self.lane.framing(now).stamp(&mut header, (run.offset, len as u32), run.transmission);
            let packet = [&header[..], &vec![0; len]].concat();
            let (header, payload) = Header::parse(&packet).expect("it is a packet");
            assert_eq!((header.kind, header.offset, payload.len()), (Kind::Call, run.offset, len));
        }
    }

    fn ends(&mut self) {
        assert!(std::mem::take(&mut self.outstanding), "a call ends once");
        self.lane.settle(&mut self.path);
        assert_eq!(self.path.in_flight(), 0, "nothing is in flight while nothing is being sent");
    }

    fn receipt(&mut self, now: Instant) {
        let mut packet = [0; Receipt::MAX_PACKET];
        let len = self.lane.receipt(now, 10_000, &mut packet);
        if len > 0 {
            let (header, payload) = Header::parse(&packet[..len]).expect("it is a packet");
            let receipt = Receipt::decode(payload).expect("it is a receipt");
            let here = self.result.as_ref().expect("a part has come");
            assert_eq!(header.kind, Kind::Receipt);
            assert!(here[..receipt.up_to as usize].iter().all(|it| *it), "what is told is here");
        }
    }

    fn hears(&mut self, now: Instant, packet: &[u8]) {
        match self.lane.handle_packet(now, packet) {
            Heard::Result { .. } | Heard::Refused(_) | Heard::Unbound { .. } | Heard::Failed(_) => {
                self.ends();
            }
            Heard::Part(part) => {
                let here = self.result.get_or_insert_with(|| vec![false; part.message_len]);
                assert_eq!(here.len(), part.message_len, "a message has one length");
                assert!(packet.len() >= HEADER_LEN + part.len);
                here[part.offset..part.offset + part.len].fill(true);
                assert_eq!(part.complete, here.iter().all(|it| *it));
                if part.complete {
                    self.receipt(now);
                    self.ends();
                }
            }
            Heard::Receipt => {
                self.lane.take_receipt(now, packet, &mut self.path);
                self.pump(now);
            }
            Heard::Prove(_) => {
                self.lane.resume(now, &mut self.path);
                self.pump(now);
            }
            Heard::Pipe => panic!("the call has no pipes"),
            Heard::Progress | Heard::Ignored => {}
        }
        if self.lane.owes_receipt(packet.len() % 2 == 0) {
            self.receipt(now);
            assert!(!self.lane.owes_receipt(false), "it has been said");
        }
        assert_eq!(self.lane.effort(now).is_some(), self.outstanding);
    }

    fn is_due(&mut self, now: Instant) {
        for turn in 0.. {
            if !self.outstanding || self.lane.next_timeout() > now {
                break;
            }
            assert!(turn < 4, "the timer advances");
            match self.lane.handle_timeout(now, &mut self.call) {
                Due::Abandon(_) => {
                    self.lane.abandon(now).expect("it is outstanding");
                    self.ends();
                }
                Due::Resume => {
                    self.lane.resume(now, &mut self.path);
                    self.pump(now);
                }
                Due::Receipt => self.receipt(now),
                Due::Nothing | Due::Retransmit | Due::Pipes | Due::Probe(_) | Due::Cancel(_) => {}
            }
        }
    }
}

/// A packet for the lane's call, by a few bytes of the input.
fn packet(caller: &Caller, step: u8, kind: u8, time: u8, payload: &[u8]) -> Vec<u8> {
    let mut header =
        Header::bare(Kind::ALL[usize::from(kind) % Kind::ALL.len()], BINDING, LANE, caller.lane.number());
    (header.time, header.message_len) = (u32::from(time), payload.len() as u32);
    match step % 16 {
        2 => header.number = CallNumber(u32::from(time)),
        3 => header.offset = u32::from(time),
        4 => (header.binding, header.number) = (BindingId::NONE, CallNumber(NONCE as u32)),
        5..=7 => {
            // A part of a long result.
            (header.kind, header.message_len) = (Kind::Result, 2_000 + u32::from(kind & 1));
            header.offset = u32::from(time) * 8;
            return [&header.to_bytes()[..], &vec![7; payload.len() * 8]].concat();
        }
        8..=10 => {
            let word = |i| u32::from(payload.get(i).copied().unwrap_or(0));
            let mut receipt = Receipt::new(word(0), word(1), word(2) * 256, word(3) * 120);
            for i in 4..payload.len() {
                let _ = receipt.push(word(i) * 120, word(i) * 120 + 1440);
            }
            let mut payload = [0; Receipt::MAX_LEN];
            let len = receipt.put(&mut payload);
            (header.kind, header.message_len) = (Kind::Receipt, len as u32);
            return [&header.to_bytes()[..], &payload[..len]].concat();
        }
        _ => {}
    }
    [&header.to_bytes()[..], payload].concat()
}

fuzz_target!(|input: &[u8]| {
    let mut now = Instant::from_nanos(1);
    let mut caller = Caller {
        lane: Lane::new(BINDING, LANE, RoundTrip::default(), 1),
        path: Path::new(1440, RoundTrip::default(), 2),
        call: vec![0; HEADER_LEN + 4],
        outstanding: false,
        result: None,
    };
    let mut binder = binder(now);
    let mut rest = input;
    while let [step, kind, time, len, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        now = now + Duration::from_micros(u64::from(*time) * 200);
        if !caller.outstanding {
            caller.start(now, step & 128 != 0);
        }
        match step % 16 {
            0 => caller.hears(now, payload),
            1 => {
                if let Due::Abandon(_) = caller.lane.handle_unreachable(now) {
                    caller.lane.abandon(now).expect("it is outstanding");
                    caller.ends();
                }
            }
            11 => {
                caller.lane.cancel(now).expect("it is outstanding");
                caller.lane.settle(&mut caller.path);
            }
            _ => {}
        }
        let packet = packet(&caller, *step, *kind, *time, payload);
        caller.hears(now, &packet);
        caller.is_due(now);
        let _ = binder.transmit(now);
        if binder.has_expired(now) || binder.handle_packet(now, &packet) != BindStep::Continue {
            binder = self::binder(now);
        }
    }
});
