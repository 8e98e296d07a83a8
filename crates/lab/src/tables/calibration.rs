//! The machine's own speed before and after the tables. It decides whether a run is void because the machine was disturbed.

use crate::placement::{Sides, pin};
use crate::samples::Quartiles;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::net::UdpSocket;
use std::time::Instant;

/// The speed of two loops that make no calls, on each processor of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Calibration {
    /// Nanoseconds of a multiplication that depends on the one before.
    pub(crate) multiplication_ns: Speed,
    /// Nanoseconds to send a datagram over loopback and to receive it, in one thread.
    pub(crate) datagram_ns: Speed,
}

/// The speed of a loop: the median and the quartiles of its batches.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Speed {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Batches of each loop, about a second together. A program that is not optimised measures nothing, and is built for tests only.
const BATCHES: usize = if cfg!(debug_assertions) { 20 } else { 600 };
/// Batches before those that count: the kernel may still be cleaning up after the processes that ran before.
const WARM_UP: usize = BATCHES / 2;
const MULTIPLICATIONS: u32 = 500_000;
const DATAGRAMS: u32 = 600;

/// The largest share by which two medians may differ: of one calibration and all of a run, of two halves of a run, or of two runs.
pub(crate) const AGREE_WITHIN: f64 = 0.05;
/// The largest distance of the quartiles on a quiet machine, as a share of the median.
const SPREAD_MAX: f64 = 0.10;

impl Calibration {
    /// Runs the loops on both processors, half of the batches each, and leaves this thread on that of the caller.
    pub(crate) fn measure(sides: Sides) -> Result<Self, String> {
        let (mut multiplications, mut datagrams) = (Vec::new(), Vec::new());
        let socket = Loop::open().map_err(|error| format!("calibration: {error}"))?;
        for cpu in [sides.server, sides.caller] {
            pin(cpu).map_err(|error| format!("pinning to processor {cpu}: {error}"))?;
            for at in 0..(WARM_UP + BATCHES) / 2 {
                let multiplication = batch(MULTIPLICATIONS, multiply);
                let datagram = batch(DATAGRAMS, |times| socket.send_and_receive(times));
                if at >= WARM_UP / 2 {
                    multiplications.push(multiplication);
                    datagrams.push(datagram);
                }
            }
        }
        Ok(Self { multiplication_ns: Speed::of(multiplications), datagram_ns: Speed::of(datagrams) })
    }

    /// The reason why a run is void in which the machine was as fast as these say, before its tables and after each round.
    pub(crate) fn why_void(all: &[Calibration]) -> Option<String> {
        moved(all, "computing", |it| it.multiplication_ns)
            .or_else(|| moved(all, "a datagram over loopback", |it| it.datagram_ns))
            .or_else(|| all.iter().find_map(Calibration::noisy))
    }

    /// The reason why the machine is noisy, if it is.
    pub(crate) fn noisy(&self) -> Option<String> {
        let loops = [("computing", self.multiplication_ns), ("a datagram over loopback", self.datagram_ns)];
        loops.into_iter().find_map(|(name, speed)| {
            let spread = (speed.high - speed.low) / speed.median;
            let words = || format!("the quartiles of {name} lie {:.0} % apart", 100.0 * spread);
            (spread > SPREAD_MAX).then(words)
        })
    }

    /// Both speeds in one line of text.
    pub(crate) fn describe(&self) -> String {
        let Calibration { multiplication_ns, datagram_ns } = self;
        format!(
            "a multiplication {:.3} ns ({:.3}–{:.3}), a datagram over loopback {:.0} ns ({:.0}–{:.0})",
            multiplication_ns.median,
            multiplication_ns.low,
            multiplication_ns.high,
            datagram_ns.median,
            datagram_ns.low,
            datagram_ns.high
        )
    }
}

/// The reason why a run is void, if a loop was once slower or faster than in the median of the run.
fn moved(all: &[Calibration], name: &str, speed: impl Fn(&Calibration) -> Speed) -> Option<String> {
    let medians: Vec<f64> = all.iter().map(|it| speed(it).median).collect();
    let usual = Quartiles::of(medians.clone()).median;
    let off = |&(_, median): &(usize, f64)| (median / usual - 1.0).abs();
    let (round, median) =
        medians.into_iter().enumerate().max_by(|one, other| off(one).total_cmp(&off(other)))?;
    (off(&(round, median)) > AGREE_WITHIN).then(|| {
        let when = if round == 0 { "before the tables".into() } else { format!("after round {round}") };
        let moved = 100.0 * (median / usual - 1.0);
        let than = if moved > 0.0 { "more" } else { "less" };
        format!("{name} took {:.0} % {than} time {when} than in the median of the run", moved.abs())
    })
}

impl Speed {
    fn of(values: Vec<f64>) -> Self {
        let Quartiles { low, median, high } = Quartiles::of(values);
        Self { median, low, high }
    }
}

/// Nanoseconds of one of `times` repetitions.
fn batch(times: u32, run: impl FnOnce(u32)) -> f64 {
    let before = Instant::now();
    run(times);
    before.elapsed().as_nanos() as f64 / f64::from(times)
}

fn multiply(times: u32) {
    let mut product = black_box(1_u64);
    for _ in 0..times {
        product = product.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1;
    }
    black_box(product);
}

/// A socket that is connected to itself.
struct Loop(UdpSocket);

impl Loop {
    fn open() -> std::io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(socket.local_addr()?)?;
        Ok(Self(socket))
    }

    fn send_and_receive(&self, times: u32) {
        let mut packet = [0; 32];
        for _ in 0..times {
            let moved = self.0.send(&packet).and_then(|_| self.0.recv(&mut packet));
            moved.expect("a socket that is connected to itself receives what it sends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(multiplication: f64, datagram: f64, spread: f64) -> Calibration {
        let speed = |median: f64| Speed { median, low: median, high: median * (1.0 + spread) };
        Calibration { multiplication_ns: speed(multiplication), datagram_ns: speed(datagram) }
    }

    #[test]
    fn run_is_void_when_the_machine_changed_its_speed_meanwhile() {
        let before = calibration(1.0, 1000.0, 0.01);
        let with = |[one, other]: [Calibration; 2]| Calibration::why_void(&[before.clone(), one, other]);
        assert_eq!(with([calibration(1.04, 960.0, 0.01), calibration(0.96, 1040.0, 0.01)]), None);
        let why = with([calibration(1.0, 1400.0, 0.01), before.clone()]).expect("it is 40 % slower");
        assert!(why.contains("datagram") && why.contains("40 % more") && why.contains("round 1"), "{why}");
        let slow = calibration(1.2, 1000.0, 0.01);
        let why = with([slow.clone(), slow]).expect("the machine was faster before the tables");
        assert!(why.contains("computing") && why.contains("17 % less time before the tables"), "{why}");
    }

    #[test]
    fn run_is_void_when_the_machine_is_noisy() {
        let quiet = calibration(1.0, 1000.0, 0.05);
        assert!(Calibration::why_void(&[quiet, calibration(1.0, 1000.0, 0.2)]).is_some());
    }
}
