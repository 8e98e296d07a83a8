//! Whole messages over a model of a link, and properties that several modules have together.

mod link;

use super::Run;
use crate::Instant;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use link::{Flow, NARROW, Network, World};

extern crate std;
use std::println;

/// Pseudo-random numbers (Vigna's splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % u64::from(bound)) as u32
    }
}

/// The packets of a run: offset, length, number.
pub(super) fn fragments(run: Run) -> impl Iterator<Item = (u32, u32, u32)> {
    let Run { offset, len, fragment, transmission } = run;
    (0..len.div_ceil(fragment))
        .map(move |i| (offset + i * fragment, fragment.min(len - i * fragment), transmission + i))
}

const MIB: u32 = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

/// Share of the link's rate that one message had until its last byte arrived: the median and the least over `seeds`
/// runs.
fn goodput(network: Network, message_len: u32, seeds: u64) -> (f64, f64) {
    let mut rates: Vec<f64> = (0..seeds)
        .map(|seed| {
            let mut world = World::new(network, vec![Flow::new(message_len, 1440, &network, seed)], seed);
            assert!(world.run(MINUTE), "not there after a minute; seed {seed}");
            let nanos = world.flows[0].complete.expect("it was acknowledged");
            assert_eq!(world.flows[0].path.in_flight(), 0);
            f64::from(message_len) * 8e9 / nanos as f64 / network.bits_per_second as f64
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() / 2], rates[0])
}

#[test]
fn a_narrow_lossy_link_is_well_used() {
    for (lose, bar) in [(0, 0.90), (10, 0.85), (50, 0.70), (200, 0.40), (300, 0.25)] {
        let (median, least) = goodput(Network { lose, ..NARROW }, MIB, 20);
        let passes = 1.0 - f64::from(lose) / 1000.0;
        println!(
            "loss {lose} per mille: {:.2} ({:.2} at least) of what passes",
            median / passes,
            least / passes
        );
        assert!(median >= bar * passes);
    }
}

#[test]
fn a_large_initial_window_on_a_narrow_link_costs_little() {
    let lan = Network { round_trip: Duration::from_micros(500), ..NARROW };
    let (median, _) = goodput(lan, MIB, 5);
    println!("64 KiB into a queue of two packets: {median:.2}");
    assert!(median >= 0.85);
}

#[test]
fn a_window_in_a_long_queue_is_sent_once_and_at_the_rate_of_the_link() {
    for bits_per_second in [10_000_000, 100_000_000] {
        let round_trip = Duration::from_micros(100);
        let network = Network { bits_per_second, round_trip, queue_bytes: 100_000, ..NARROW };
        let mut world = World::new(network, vec![Flow::new(48_000, 1440, &network, 1)], 1);
        assert!(world.run(MINUTE));
        assert_eq!(world.flows[0].fragments, 34);
        let frames = (48_000 + 34 * 74) * 8_000_000_000 / bits_per_second;
        let took = world.flows[0].complete.expect("it was acknowledged");
        println!(
            "48,000 bytes at {bits_per_second} bit/s: {:.3} of bare frames",
            frames as f64 / took as f64
        );
        assert!(took <= frames + 50_000);
    }
}

#[test]
fn a_wide_link_is_filled() {
    let network = Network { bits_per_second: 1_000_000_000, queue_bytes: 250_000, ..NARROW };
    let (median, _) = goodput(network, 16 * MIB, 2);
    println!("16 MiB, 1 Gbit/s, 1 ms: {median:.2}");
    assert!(median >= 0.85);
}

/// Runs two messages at the same time, and returns the share of the link that the slower one had while the faster one
/// ran.
fn share_of_the_slower(network: Network, seed: u64) -> f64 {
    let flows = (0..2).map(|flow| Flow::new(2 * MIB, 1440, &network, 2 * seed + flow)).collect();
    let mut world = World::new(network, flows, seed);
    assert!(world.run(MINUTE));
    let done = |flow: usize| world.flows[flow].complete.expect("it was acknowledged") as f64;
    // While both ran, each had its share; after that the rest had the link alone.
    let (first, last) = (done(0).min(done(1)), done(0).max(done(1)));
    (first - (last - first)).max(0.0) / first
}

#[test]
fn two_senders_share_a_bottleneck() {
    let fast = Network { bits_per_second: 100_000_000, queue_bytes: 25_000, ..NARROW };
    for (name, network) in [("10 Mbit/s", NARROW), ("100 Mbit/s", fast)] {
        let mut shares: Vec<f64> =
            (0..10).map(|seed| share_of_the_slower(Network { lose: 2, ..network }, seed)).collect();
        shares.sort_by(f64::total_cmp);
        println!("{name}: the slower of two has {:.2} ({:.2} at least) of the faster", shares[5], shares[0]);
        assert!(shares[5] >= 0.6 && shares[0] >= 0.3, "{shares:?}");
    }
}

#[test]
fn every_byte_arrives_through_loss_repetition_reordering_and_silence() {
    let dead = (Instant::from_nanos(300_000_000), Instant::from_nanos(2_300_000_000));
    let network = Network { lose: 300, repeat: 100, delay: 200, dead, ..NARROW };
    for seed in 0..10 {
        let flows = [1, 1441, 70_000, 300_000].map(|len| Flow::new(len, 1440, &network, seed)).into();
        let mut world = World::new(network, flows, seed);
        assert!(world.run(MINUTE), "seed {seed}");
        for flow in &world.flows {
            assert_eq!(flow.path.in_flight(), 0);
        }
    }
}

#[test]
fn fragments_grow_to_what_the_path_carries() {
    let jumbo =
        Network { bits_per_second: 1_000_000_000, queue_bytes: 250_000, largest_frame: 9014, ..NARROW };
    let mut world = World::new(jumbo, vec![Flow::new(MIB, 65_475, &jumbo, 1)], 1);
    assert!(world.run(MINUTE));
    let flow = &world.flows[0];
    println!("{} fragments of at most {}", flow.fragments, flow.path.fragment());
    assert_eq!(flow.path.fragment(), 8920);
    assert!(flow.probes <= 4);
}

#[test]
fn fragments_lost_in_a_black_hole_are_sent_again_smaller() {
    let narrow = Network { largest_frame: 1300, ..NARROW };
    let mut world = World::new(narrow, vec![Flow::new(100_000, 1440, &narrow, 1)], 1);
    assert!(world.run(Duration::from_secs(1)));
    assert_eq!(world.flows[0].path.fragment(), 1152);
}

#[test]
fn a_receiver_without_memory_is_asked_until_it_accepts_data() {
    for (first, window) in [(0, 3000), (5000, 5000), (1, 1000), (100_000, 20_000)] {
        let flow = Flow::new(100_000, 1440, &NARROW, 1).with_window(first, window);
        let mut world = World::new(NARROW, vec![flow], 1);
        assert!(world.run(MINUTE), "{first} {window}");
    }
}

#[test]
fn a_wide_window_is_paced_into_a_short_queue() {
    // A quarter of the product of rate and round trip. Unpaced, the eight messages took 3.8 s.
    let network = Network {
        bits_per_second: 100_000_000,
        round_trip: Duration::from_millis(50),
        queue_bytes: 156_000,
        ..NARROW
    };
    let mut world = World::new(network, vec![Flow::new(MIB, 1440, &network, 1)], 1);
    for _ in 0..8 {
        assert!(world.run(MINUTE));
        world.flows[0].begin_next();
    }
    println!("8 messages of 1 MiB, 100 Mbit/s, 50 ms: {} ms", world.now / 1_000_000);
    assert!(world.now < 2_000_000_000);
}
