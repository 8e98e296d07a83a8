//! The network between callers and server: what becomes of each packet.

use crate::{Random, Side};
use core::time::Duration;
use std::collections::BTreeMap;
use stoop_exchange::Instant;
use stoop_exchange::server::Peer;
use stoop_wire::{Header, Kind};

/// Where a caller's packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A machine, or what its network translates it to.
    pub host: u16,
    /// One port for each calling thread.
    pub port: u16,
}

impl Peer for Address {
    fn host(&self) -> [u8; 16] {
        let [low, high] = self.host.to_le_bytes();
        let mut host = [0; 16];
        (host[14], host[15]) = (high, low);
        host
    }

    fn port(&self) -> u16 {
        self.port
    }
}

/// How bad a network is. Chances are in a thousand.
#[derive(Clone, Debug)]
pub struct Faults {
    /// A packet is lost, or so damaged that its checksum tells.
    pub loss: u32,
    /// A packet arrives twice, the second one about as late as any packet.
    pub duplicate: u32,
    /// A packet arrives again much later: seconds, across restarts and new bindings.
    pub late_duplicate: u32,
    /// How much later.
    pub how_late: (Duration, Duration),
    /// How long a packet travels; a wide range reorders.
    pub delay: (Duration, Duration),
    /// A packet travels for ten times as long.
    pub straggler: u32,
    /// Time between two partitions, and how long one lasts.
    pub partitions: Option<(Duration, Duration)>,
}

impl Faults {
    /// A network that only takes a little time.
    pub fn none() -> Self {
        let micros = Duration::from_micros;
        Self {
            loss: 0,
            duplicate: 0,
            late_duplicate: 0,
            how_late: (Duration::ZERO, Duration::ZERO),
            delay: (micros(20), micros(20)),
            straggler: 0,
            partitions: None,
        }
    }

    fn is_partitioned(&self, now: Instant) -> bool {
        self.partitions.is_some_and(|(between, lasts)| {
            let cycle = (between + lasts).as_nanos() as u64;
            now.as_nanos() % cycle >= between.as_nanos() as u64
        })
    }
}

/// What a test wants done to a coming packet of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Drop,
    Repeat(Duration),
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) faults: Faults,
    orders: Vec<(Side, Kind, Order)>,
    sent: BTreeMap<(Side, Kind), u64>,
}

impl Network {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, orders: Vec::new(), sent: BTreeMap::new() }
    }

    pub(crate) fn drop_next(&mut self, from: Side, kind: Kind) {
        self.orders.push((from, kind, Order::Drop));
    }

    pub(crate) fn repeat_next(&mut self, from: Side, kind: Kind, later: Duration) {
        self.orders.push((from, kind, Order::Repeat(later)));
    }

    pub(crate) fn transmissions(&self, from: Side, kind: Kind) -> u64 {
        self.sent.get(&(from, kind)).copied().unwrap_or(0)
    }

    /// When a packet sent now arrives: never, once, or more often.
    pub(crate) fn arrivals(
        &mut self,
        now: Instant,
        from: Side,
        packet: &[u8],
        random: &mut Random,
    ) -> [Option<Instant>; 3] {
        let kind = Header::parse(packet).expect("both sides send packets").0.kind;
        *self.sent.entry((from, kind)).or_default() += 1;
        let ordered = self.orders.iter().position(|order| (order.0, order.1) == (from, kind));
        let ordered = ordered.map(|position| self.orders.remove(position).2);
        if ordered == Some(Order::Drop) || self.faults.is_partitioned(now) {
            return [None; 3];
        }
        let first = (!random.chance(self.faults.loss)).then(|| now + self.travel(random));
        let second = random.chance(self.faults.duplicate).then(|| now + self.travel(random));
        let late = match ordered {
            Some(Order::Repeat(later)) => Some(now + later),
            _ => {
                random.chance(self.faults.late_duplicate).then(|| now + random.between(self.faults.how_late))
            }
        };
        [first, second, late]
    }

    pub(crate) fn travel(&self, random: &mut Random) -> Duration {
        let delay = random.between(self.faults.delay);
        if random.chance(self.faults.straggler) { delay * 10 } else { delay }
    }
}
