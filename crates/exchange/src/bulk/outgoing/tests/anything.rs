//! Random sequences of events for messages that share a path.

use super::*;
use crate::bulk::tests::{Random, fragments};
use crate::bulk::{Incoming, Taken};
use stoop_wire::HEADER_LEN;

/// Events of an ordinary network and of a malicious receiver, in any order.
struct Anything {
    random: Random,
    path: Path,
    messages: Vec<(Outgoing, Incoming)>,
    on_the_way: Vec<(usize, (u32, u32, u32))>,
    now: Instant,
}

impl Anything {
    fn step(&mut self, honest: bool) {
        self.now = self.now.after_nanos(u64::from(self.random.below(2_000_000)));
        let which = self.random.below(self.messages.len() as u32) as usize;
        let outgoing = &mut self.messages[which].0;
        match self.random.below(if honest { 9 } else { 12 }) {
            0..3 => self.send(which),
            3..6 => (0..self.random.below(30)).for_each(|_| self.arrive()),
            6 => {
                let window = self.random.below(100_000);
                let receipt = self.messages[which].1.receipt(self.now, window);
                self.messages[which].0.on_receipt(self.now, &receipt, &mut self.path);
            }
            7 => {
                let due = outgoing.next_timeout(&self.path).min(self.now + Duration::from_secs(1));
                self.now = self.now.max(due);
                outgoing.on_timeout(self.now, &mut self.path);
            }
            8 => outgoing.ask_again(&mut self.path),
            9 => self.path.set_largest(self.random.below(70_000)),
            10 => self.lie(which),
            _ if self.random.below(20) == 0 => outgoing.end(&mut self.path),
            _ => {}
        }
        self.check();
    }

    fn send(&mut self, which: usize) {
        let (most, outgoing) = (self.random.below(70_000) as usize, &mut self.messages[which].0);
        let Some(run) = outgoing.next_run(self.now, &mut self.path, most) else { return };
        assert!(run.len > 0 && run.offset + run.len <= outgoing.message_len, "{run:?}");
        let datagrams = run.len.div_ceil(run.fragment) as usize * HEADER_LEN + run.len as usize;
        assert!(datagrams <= most, "{run:?} in {most}");
        self.on_the_way.extend(fragments(run).map(|fragment| (which, fragment)));
    }

    /// Loses or delivers one of the next few packets, and perhaps delivers it again later.
    fn arrive(&mut self) {
        if self.on_the_way.is_empty() {
            return;
        }
        let place = self.random.below(self.on_the_way.len().min(5) as u32) as usize;
        let (which, (offset, len, number)) = self.on_the_way[place];
        if self.random.below(10) > 0 {
            self.on_the_way.remove(place);
        }
        if self.random.below(4) > 0 {
            let number = (offset > 0).then_some(number);
            let taken = self.messages[which].1.take(self.now, offset, len, number);
            assert_ne!(taken, Taken::TooScattered);
        }
    }

    /// A receipt for bytes that may have been sent, in any order, and a few more.
    fn lie(&mut self, which: usize) {
        let (random, outgoing) = (&mut self.random, &mut self.messages[which].0);
        let most = outgoing.next + 2;
        let (latest, delay) = (random.below(outgoing.transmission + 2), random.below(u32::MAX));
        let mut lie = Receipt::new(latest, delay, random.below(2 * MIB), random.below(most.min(3000)));
        let mut from = lie.up_to;
        for _ in 0..random.below(33) {
            let start = from + random.below(most / 20 + 2);
            from = start + random.below(most / 20 + 2);
            lie.push(start, from);
        }
        outgoing.on_receipt(self.now, &lie, &mut self.path);
    }

    fn check(&self) {
        let mut in_flight = 0;
        for (outgoing, _) in &self.messages {
            if !outgoing.is_acknowledged() {
                outgoing.check();
            }
            in_flight += outgoing.sent.all().map(|(start, end)| u64::from(end - start)).sum::<u64>();
        }
        assert_eq!(in_flight, self.path.in_flight());
        assert!(self.path.window() >= u64::from(2 * 256u32));
    }
}

fn anything(seed: u64) -> Anything {
    let mut random = Random(seed);
    let mut path = path_of([0, 5][random.below(2) as usize]);
    path.set_largest([1440, 9000, u32::MAX][random.below(3) as usize]);
    let messages = (0..1 + random.below(3))
        .map(|_| {
            let len = 1 + random.below(300_000);
            (Outgoing::new(len, random.below(200_000)), Incoming::new(len))
        })
        .collect();
    Anything { random, path, messages, on_the_way: Vec::new(), now: at(1) }
}

#[test]
fn any_sequence_with_false_receipts_keeps_the_state_consistent() {
    for seed in 0..150 {
        let mut world = anything(seed);
        (0..400).for_each(|_| world.step(false));
    }
}

#[test]
fn any_sequence_of_honest_events_ends_with_every_message_delivered() {
    for seed in 0..100 {
        let mut world = anything(seed);
        for _ in 0..100_000 {
            world.step(true);
            if world.messages.iter().all(|(outgoing, _)| outgoing.is_acknowledged()) {
                break;
            }
        }
        for (outgoing, incoming) in &world.messages {
            assert!(outgoing.is_acknowledged() && incoming.is_complete(), "seed {seed}: {outgoing:?}");
        }
        assert_eq!(world.path.in_flight(), 0);
    }
}
