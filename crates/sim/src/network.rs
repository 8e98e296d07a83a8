//! The network between callers and server, which decides what happens to each packet.

mod line;
mod socket;

use crate::Random;
use core::time::Duration;
use line::Traffic;
pub use line::{FRAME_OVERHEAD, Line, Losses};
pub(crate) use socket::Socket;
use std::collections::BTreeMap;
use stoop_exchange::Instant;
use stoop_exchange::bulk::Run;
use stoop_exchange::caller::Framing;
use stoop_exchange::server::Peer;
use stoop_seal::KEY_PHASE;
use stoop_wire::{HEADER_LEN, Header, Kind, flags};

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A caller.
    Caller,
    /// The server.
    Server,
}

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

/// Faults of a network. Chances are in a thousand.
#[derive(Clone, Debug)]
pub struct Faults {
    /// A packet is lost.
    pub loss: u32,
    /// A packet arrives twice, the second one about as late as any packet.
    pub duplicate: u32,
    /// A packet arrives again much later: seconds, across restarts and new bindings.
    pub late_duplicate: u32,
    /// Delay of such a packet.
    pub how_late: (Duration, Duration),
    /// Travel time of a packet; a wide range reorders.
    pub delay: (Duration, Duration),
    /// A packet travels for ten times as long.
    pub straggler: u32,
    /// Time between two partitions, and how long one lasts.
    pub partitions: Option<(Duration, Duration)>,
    /// A packet arrives with flipped bits.
    pub corruption: u32,
    /// Every packet has a checksum, so that one with flipped bits is dropped; else it is taken for what it says.
    pub checksums: bool,
    /// The way from all callers to the server.
    pub there: Line,
    /// The way from the server to all callers.
    pub back: Line,
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
            corruption: 0,
            checksums: true,
            there: Line::wide(),
            back: Line::wide(),
        }
    }

    /// When a packet arrives that is sent now: never, once, or more often. `repeated`: it arrives again so much later.
    pub(crate) fn arrivals(
        &self,
        sent: Instant,
        repeated: Option<Duration>,
        random: &mut Random,
    ) -> [Option<Instant>; 3] {
        let first = (!random.chance(self.loss)).then(|| sent + self.travel(random));
        let second = random.chance(self.duplicate).then(|| sent + self.travel(random));
        let late = match repeated {
            Some(later) => Some(sent + later),
            None => random.chance(self.late_duplicate).then(|| sent + random.between(self.how_late)),
        };
        [first, second, late]
    }

    fn travel(&self, random: &mut Random) -> Duration {
        let delay = random.between(self.delay);
        if random.chance(self.straggler) { delay * 10 } else { delay }
    }

    pub(crate) fn is_partitioned(&self, now: Instant) -> bool {
        self.partitions.is_some_and(|(between, lasts)| {
            let cycle = (between + lasts).as_nanos() as u64;
            now.as_nanos() % cycle >= between.as_nanos() as u64
        })
    }
}

/// A test's order for the next packet of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Drop,
    Repeat(Duration),
    Delay(Duration),
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) faults: Faults,
    /// The longest life of a packet.
    life: Duration,
    orders: Vec<(Side, Kind, Order)>,
    sent: BTreeMap<(Side, Kind), u64>,
    pub(crate) there: Traffic,
    pub(crate) back: Traffic,
}

/// The kind of a packet that one side sends, in whichever phase it is sealed.
fn kind_of(packet: &[u8]) -> Kind {
    let mut header = *packet.first_chunk::<HEADER_LEN>().expect("both sides send packets");
    header[3] &= !(KEY_PHASE | flags::BUNDLE);
    Header::from_beginning(&header).expect("both sides send packets").kind
}

impl Network {
    pub(crate) fn new(faults: Faults, life: Duration) -> Self {
        Self {
            faults,
            life,
            orders: Vec::new(),
            sent: BTreeMap::new(),
            there: Traffic::default(),
            back: Traffic::default(),
        }
    }

    pub(crate) fn drop_next(&mut self, from: Side, kind: Kind) {
        self.orders.push((from, kind, Order::Drop));
    }

    pub(crate) fn delay_next(&mut self, from: Side, kind: Kind, by: Duration) {
        self.orders.push((from, kind, Order::Delay(by)));
    }

    pub(crate) fn repeat_next(&mut self, from: Side, kind: Kind, later: Duration) {
        self.orders.push((from, kind, Order::Repeat(later)));
    }

    pub(crate) fn transmissions(&self, from: Side, kind: Kind) -> u64 {
        self.sent.get(&(from, kind)).copied().unwrap_or(0)
    }

    /// The arrivals of a packet sent now, and their times: none, one, or more than one.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: Side,
        packet: Vec<u8>,
        random: &mut Random,
    ) -> Vec<(Instant, Vec<u8>)> {
        let mut arriving = Vec::with_capacity(1);
        for at in self.arrivals(now, from, &packet, random).into_iter().flatten() {
            if !random.chance(self.faults.corruption) {
                arriving.push((at, packet.clone()));
            } else if !self.faults.checksums {
                arriving.push((at, with_flipped_bits(&packet, random)));
            }
        }
        arriving
    }

    /// When a packet sent now arrives: never, once, or more often.
    fn arrivals(
        &mut self,
        now: Instant,
        from: Side,
        packet: &[u8],
        random: &mut Random,
    ) -> [Option<Instant>; 3] {
        let kind = kind_of(packet);
        *self.sent.entry((from, kind)).or_default() += 1;
        let ordered = self.orders.iter().position(|order| (order.0, order.1) == (from, kind));
        let ordered = ordered.map(|position| self.orders.remove(position).2);
        if ordered == Some(Order::Drop) || self.faults.is_partitioned(now) {
            return [None; 3];
        }
        let (traffic, line) = match from {
            Side::Caller => (&mut self.there, &self.faults.there),
            Side::Server => (&mut self.back, &self.faults.back),
        };
        let Some(sent) = traffic.pass(line, now, packet.len()) else { return [None; 3] };
        if let Some(Order::Delay(by)) = ordered {
            return [Some(sent + by).filter(|at| at.since(now) <= self.life), None, None];
        }
        let repeated = if let Some(Order::Repeat(later)) = ordered { Some(later) } else { None };
        let arriving = self.faults.arrivals(sent, repeated, random);
        arriving.map(|arrives| arrives.filter(|at| at.since(now) <= self.life))
    }

    pub(crate) fn travel(&self, random: &mut Random) -> Duration {
        self.faults.travel(random)
    }
}

/// A packet as it is after one to four of its bits have changed, or some of them twice.
fn with_flipped_bits(packet: &[u8], random: &mut Random) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for _ in 0..=random.below(4) {
        // Half of the damage is where it hurts most: in the header.
        let bytes = if random.chance(500) { HEADER_LEN.min(packet.len()) } else { packet.len() };
        let bit = random.below(8 * bytes as u64) as usize;
        packet[bit / 8] ^= 1 << (bit % 8);
    }
    packet
}

/// The packets of a run.
pub(crate) fn packets_of(run: &Run, framing: Framing, message: &[u8]) -> Vec<Vec<u8>> {
    let bytes = &message[run.offset as usize..(run.offset + run.len) as usize];
    let fragments = bytes.chunks(run.fragment as usize).enumerate();
    let packet = |(i, fragment): (usize, &[u8])| {
        let mut packet = vec![0; HEADER_LEN + fragment.len()];
        let header = packet.first_chunk_mut().expect("it has a header");
        let place = (run.offset + i as u32 * run.fragment, fragment.len() as u32);
        framing.stamp(header, place, run.transmission + i as u32);
        packet[HEADER_LEN..].copy_from_slice(fragment);
        packet
    };
    fragments.map(packet).collect()
}
