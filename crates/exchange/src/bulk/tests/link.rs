//! A model of a bottleneck: a rate, a delay, a queue that drops packets when it is full, and random faults.

use super::{Random, fragments};
use crate::Instant;
use crate::bulk::{Incoming, Outgoing, Path};
use crate::{RoundTrip, bulk};
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use stoop_wire::{HEADER_LEN, Receipt};

/// Ethernet, IPv4 and UDP.
const FRAMING: u32 = 14 + 20 + 8;

/// Behaviour of the network. Chances are per mille of packets.
#[derive(Clone, Copy)]
pub(super) struct Network {
    pub(super) bits_per_second: u64,
    /// Round trip without queueing.
    pub(super) round_trip: Duration,
    pub(super) queue_bytes: u32,
    /// Length of the queue. The packet that is being sent counts.
    pub(super) counts_current: bool,
    pub(super) lose: u32,
    pub(super) repeat: u32,
    /// Delayed by up to three round trips.
    pub(super) delay: u32,
    /// Larger frames are dropped silently.
    pub(super) largest_frame: u32,
    /// No packet passes in between.
    pub(super) dead: (Instant, Instant),
}

/// 10 Mbit/s, one millisecond, and a queue of twice the product of the two.
pub(super) const NARROW: Network = Network {
    bits_per_second: 10_000_000,
    round_trip: Duration::from_millis(1),
    queue_bytes: 2500,
    counts_current: false,
    lose: 0,
    repeat: 0,
    delay: 0,
    largest_frame: 1514,
    dead: (Instant::NEVER, Instant::NEVER),
};

/// One direction of the link.
struct Direction {
    network: Network,
    free_at: u64,
    /// For each packet that is waiting: when it will be on the wire, and its size.
    waiting: VecDeque<(u64, u32)>,
}

impl Direction {
    /// When a packet of `bytes` that is sent now arrives; two times if it is duplicated.
    fn send(&mut self, now: u64, bytes: u32, random: &mut Random) -> Vec<u64> {
        let Network { bits_per_second, round_trip, lose, repeat, delay, dead, .. } = self.network;
        let frame = bytes + FRAMING;
        let time = u64::from(frame) * 8_000_000_000 / bits_per_second;
        let counts_until = |on_wire: u64| if self.network.counts_current { on_wire + time } else { on_wire };
        while self.waiting.front().is_some_and(|&(on_wire, _)| counts_until(on_wire) <= now) {
            self.waiting.pop_front();
        }
        let queued: u32 = self.waiting.iter().map(|&(_, bytes)| bytes).sum();
        if self.free_at > now && queued + frame > self.network.queue_bytes
            || frame > self.network.largest_frame
        {
            return vec![];
        }
        let on_wire = self.free_at.max(now);
        self.waiting.push_back((on_wire, frame));
        self.free_at = on_wire + time;
        if random.below(1000) < lose || dead.0.as_nanos() <= now && now < dead.1.as_nanos() {
            return vec![];
        }
        let trip = round_trip.as_nanos() as u64;
        let late = if random.below(1000) < delay { trip * u64::from(random.below(3000)) / 1000 } else { 0 };
        let arrives = self.free_at + trip / 2 + late;
        if random.below(1000) < repeat { vec![arrives, arrives + trip / 3] } else { vec![arrives] }
    }
}

enum Packet {
    Fragment { offset: u32, len: u32, transmission: u32 },
    Receipt { number: u32, receipt: Box<Receipt> },
}

/// A sender, its message and the receiver.
pub(super) struct Flow {
    pub(super) path: Path,
    pub(super) outgoing: Outgoing,
    incoming: Incoming,
    here: Vec<bool>,
    window: u32,
    receipts: u32,
    newest_receipt: u32,
    /// Messages before this one.
    pub(super) messages: u32,
    /// When the last byte arrived.
    pub(super) complete: Option<u64>,
    pub(super) fragments: u32,
    pub(super) probes: u32,
}

impl Flow {
    pub(super) fn new(message_len: u32, largest: u32, network: &Network, seed: u64) -> Self {
        // The round trip that a bind and a short call would have measured.
        let mut round_trip = RoundTrip::default();
        (0..4).for_each(|_| round_trip.sample(network.round_trip + Duration::from_micros(100)));
        const WINDOW: u32 = 1 << 20;
        Self {
            path: Path::new(largest, round_trip, seed),
            outgoing: Outgoing::new(message_len, WINDOW),
            incoming: Incoming::new(message_len),
            here: vec![false; message_len as usize],
            window: WINDOW,
            receipts: 0,
            newest_receipt: 0,
            messages: 0,
            complete: None,
            fragments: 0,
            probes: 0,
        }
    }

    /// Begins the next message, which is as long as the last one.
    pub(super) fn begin_next(&mut self) {
        let len = self.here.len() as u32;
        self.outgoing.end(&mut self.path);
        (self.outgoing, self.incoming) = (Outgoing::new(len, self.window), Incoming::new(len));
        self.here.fill(false);
        self.messages += 1;
        (self.receipts, self.newest_receipt, self.complete) = (0, 0, None);
    }

    pub(super) fn with_window(mut self, first: u32, window: u32) -> Self {
        (self.outgoing, self.window) = (Outgoing::new(self.here.len() as u32, first), window);
        self
    }
}

/// Events with equal times are handled in the order in which they were made.
type Event = Reverse<(u64, usize)>;

pub(super) struct World {
    pub(super) now: u64,
    pub(super) flows: Vec<Flow>,
    there: Direction,
    back: Direction,
    random: Random,
    events: BinaryHeap<Event>,
    packets: Vec<Option<(usize, u32, Packet)>>,
}

impl World {
    pub(super) fn new(network: Network, flows: Vec<Flow>, seed: u64) -> Self {
        let direction = || Direction { network, free_at: 0, waiting: VecDeque::new() };
        let mut world = Self {
            now: 0,
            flows,
            there: direction(),
            back: direction(),
            random: Random(seed),
            events: BinaryHeap::new(),
            packets: Vec::new(),
        };
        (0..world.flows.len()).for_each(|flow| world.send_what_there_is(flow));
        world
    }

    /// Runs until every sender knows that its message has arrived, or the time is over. Returns whether all have
    /// arrived.
    pub(super) fn run(&mut self, until: Duration) -> bool {
        let until = until.as_nanos() as u64;
        (0..self.flows.len()).for_each(|flow| self.send_what_there_is(flow));
        while self.flows.iter().any(|flow| !flow.outgoing.is_acknowledged()) {
            let timeout = |flow: &Flow| flow.outgoing.next_timeout(&flow.path).as_nanos();
            let (due, flow) = self.flows.iter().map(timeout).zip(0..).min().expect("there is a flow");
            let arrival = self.events.peek().map_or(u64::MAX, |&Reverse((at, _))| at);
            self.now = self.now.max(due.min(arrival));
            assert!(self.now != u64::MAX, "no event is left");
            if self.now > until {
                return false;
            }
            if due < arrival {
                let flow = &mut self.flows[flow];
                flow.outgoing.on_timeout(Instant::from_nanos(self.now), &mut flow.path);
            } else if let Some(Reverse((_, packet))) = self.events.pop() {
                let (flow, message, packet) = self.packets[packet].take().expect("a packet arrives once");
                if message == self.flows[flow].messages {
                    self.arrive(flow, packet);
                }
            }
            (0..self.flows.len()).for_each(|flow| self.send_what_there_is(flow));
        }
        true
    }

    fn arrive(&mut self, flow: usize, packet: Packet) {
        let now = Instant::from_nanos(self.now);
        let at = &mut self.flows[flow];
        match packet {
            Packet::Receipt { number, receipt } => {
                if number > at.newest_receipt {
                    at.newest_receipt = number;
                    at.outgoing.on_receipt(now, &receipt, &mut at.path);
                }
            }
            Packet::Fragment { offset, len, transmission } => {
                let number = (offset > 0).then_some(transmission);
                if at.incoming.take(now, offset, len, number) != bulk::Taken::TooScattered {
                    at.here[offset as usize..(offset + len) as usize].fill(true);
                }
                if at.incoming.is_complete() && at.complete.is_none() {
                    assert!(at.here.iter().all(|&here| here), "complete, and something is missing");
                    at.complete = Some(self.now);
                }
                if at.incoming.receipt_is_due() {
                    at.receipts += 1;
                    let (number, receipt) = (at.receipts, Box::new(at.incoming.receipt(now, at.window)));
                    let bytes = (HEADER_LEN + receipt.encoded_len()) as u32;
                    let arrivals = self.back.send(self.now, bytes, &mut self.random);
                    for arrival in arrivals {
                        let receipt = receipt.clone();
                        self.event(arrival, flow, Packet::Receipt { number, receipt });
                    }
                }
            }
        }
    }

    fn event(&mut self, at: u64, flow: usize, packet: Packet) {
        self.events.push(Reverse((at, self.packets.len())));
        self.packets.push(Some((flow, self.flows[flow].messages, packet)));
    }

    fn send_what_there_is(&mut self, flow: usize) {
        loop {
            let at = &mut self.flows[flow];
            let Some(run) = at.outgoing.next_run(Instant::from_nanos(self.now), &mut at.path, 65_507) else {
                return;
            };
            at.probes += u32::from(run.fragment > at.path.fragment());
            for (offset, len, transmission) in fragments(run) {
                self.flows[flow].fragments += 1;
                let arrivals = self.there.send(self.now, len + HEADER_LEN as u32, &mut self.random);
                for arrival in arrivals {
                    self.event(arrival, flow, Packet::Fragment { offset, len, transmission });
                }
            }
        }
    }
}
