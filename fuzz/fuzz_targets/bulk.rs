//! Both ends of messages of many packets, with forged receipts and parts among the real ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use stoop_exchange::bulk::{Incoming, Outgoing, Path, Run, Taken};
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::Receipt;

/// A message under way.
struct Message {
    len: u32,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Selection of its bytes the receiver has taken.
    here: Vec<bool>,
    received: usize,
    /// The furthest byte that its sender has been allowed to send.
    limit: u32,
    sent: Vec<Run>,
}

impl Message {
    fn new(len: u32, limit: u32) -> Self {
        Self {
            len,
            outgoing: Outgoing::new(len, limit),
            incoming: Incoming::new(len),
            here: vec![false; len as usize],
            received: 0,
            limit,
            sent: Vec::new(),
        }
    }

    fn send(&mut self, now: Instant, path: &mut Path) {
        for turn in 0.. {
            assert!(turn < 10_000, "it comes to no end");
            let Some(run) = self.outgoing.next_run(now, path, 65_536) else { break };
            assert!(run.len > 0 && run.fragment > 0);
            let end = run.offset.checked_add(run.len).expect("a run is within its message");
            // A question, whether there is room now, is one packet.
            let is_question = run.len <= run.fragment;
            assert!(end <= self.len && (end <= self.limit || is_question), "{run:?}, limit {}", self.limit);
            self.sent.push(run);
        }
    }

    fn arrives(&mut self, now: Instant, offset: u32, len: u32, transmission: Option<u32>) {
        match self.incoming.take(now, offset, len, transmission) {
            Taken::New => {
                let part = &mut self.here[offset as usize..(offset + len) as usize];
                let new = part.iter().filter(|here| !**here).count();
                assert!(new > 0);
                self.received += new;
                part.fill(true);
            }
            Taken::Duplicate => {
                assert!(self.here[offset as usize..(offset + len) as usize].iter().all(|here| *here));
            }
            Taken::TooScattered => {}
        }
        assert_eq!(self.incoming.received() as usize, self.received, "bytes are counted once");
        assert_eq!(self.incoming.is_complete(), self.received == self.len as usize);
    }

    fn takes(&mut self, now: Instant, receipt: &Receipt, path: &mut Path) {
        self.limit = self.limit.max(receipt.limit.min(self.len));
        let _ = self.outgoing.on_receipt(now, receipt, path);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut now = Instant::from_nanos(1);
    let mut path = Path::new(9_000, RoundTrip::default(), 3);
    let mut messages = [Message::new(40_000, 9_000), Message::new(2_000, 0)];
    for step in input.chunks_exact(5).take(2_000) {
        let word = u16::from_le_bytes([step[2], step[3]]);
        let (a, b) = (u32::from(word), u32::from(step[4]));
        let message = &mut messages[usize::from(step[1] & 1)];
        now = now + Duration::from_micros(u64::from(step[1]) * 8);
        match step[0] % 10 {
            0..=2 => message.send(now, &mut path),
            3 | 4 => {
                // Something that was sent arrives.
                if !message.sent.is_empty() {
                    let place = a as usize % message.sent.len();
                    let run = if b % 4 == 0 { message.sent[place] } else { message.sent.swap_remove(place) };
                    let fragments = run.len.div_ceil(run.fragment);
                    let nth = b % fragments;
                    let offset = run.offset + nth * run.fragment;
                    let len = run.fragment.min(run.offset + run.len - offset);
                    let transmission = (offset > 0).then_some(run.transmission + nth);
                    message.arrives(now, offset, len, transmission);
                }
            }
            5 => message.arrives(now, a, b * 16, (b > 7).then_some(a)),
            6 | 7 => {
                let receipt = message.incoming.receipt(now, a);
                message.takes(now, &receipt, &mut path);
            }
            8 => {
                // A lie.
                let mut receipt = Receipt::new(a, b, a.wrapping_mul(b), u32::from(step[1]));
                for i in 0..u32::from(step[1]) % 40 {
                    receipt.push(a.wrapping_add(i.wrapping_mul(b)), a.wrapping_add((i + 1).wrapping_mul(b)));
                }
                message.takes(now, &receipt, &mut path);
            }
            _ => {
                let due = message.outgoing.next_timeout(&path);
                if due != Instant::NEVER && due > now {
                    now = due;
                }
                // More than one thing may be due, one after the other.
                for turn in 0.. {
                    message.outgoing.on_timeout(now, &mut path);
                    message.send(now, &mut path);
                    if message.outgoing.next_timeout(&path) > now {
                        break;
                    }
                    assert!(turn < 4, "the timer advances");
                }
            }
        }
        if message.outgoing.is_acknowledged() && step[0] > 200 {
            message.outgoing.end(&mut path);
            let _ = message.outgoing.next_run(now, &mut path, 65_536).map(|run| panic!("{run:?} of nothing"));
        }
    }
    messages.iter_mut().for_each(|message| message.outgoing.end(&mut path));
    assert_eq!(path.in_flight(), 0, "nothing is in flight while nothing is being sent");
});
