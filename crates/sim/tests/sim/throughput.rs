//! Speed of long messages, over loss × round trip × size: a table under version control, exact because the time
//! is virtual. A change of behaviour is a line in the review; `UPDATE=1 cargo test -p stoop-sim --test sim throughput::`
//! writes the new table.

use std::fmt::Write;
use std::time::Duration;
use stoop_sim::{Faults, Line, Sabotage, Scenario, Sim, Told};
use stoop_wire::MAX_DATAGRAM;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Case {
    megabits: u64,
    round_trip: Duration,
    /// In a thousand.
    loss: u32,
    size: usize,
    way: Way,
}

/// The outcome.
struct Outcome {
    /// Bits of messages in a second.
    goodput: f64,
    /// Frames on the line, in bytes, for each byte of message.
    carried: f64,
    dropped: u64,
}

impl Case {
    /// Bytes of twice what the line holds in a round trip.
    fn queue(&self) -> usize {
        let in_a_round_trip = self.megabits as f64 * 1e6 / 8.0 * self.round_trip.as_secs_f64();
        2 * in_a_round_trip as usize
    }

    fn scenario(&self) -> Scenario {
        let line =
            Line { largest: vec![MAX_DATAGRAM], ..Line::with_rate(self.megabits * 1_000_000, self.queue()) };
        let half = self.round_trip / 2;
        let faults = Faults {
            loss: self.loss,
            delay: (half, half),
            there: line.clone(),
            back: line,
            ..Faults::none()
        };
        Scenario { threads: 1, faults, ..Scenario::calm() }
    }

    /// Several messages one after the other, so that none of them decides; each must arrive.
    fn measure(&self) -> Outcome {
        let mut sim = Sim::new(7, self.scenario(), Sabotage::None);
        let sizes = match self.way {
            Way::In => (self.size, 0),
            Way::Out => (0, self.size),
        };
        let call = |sim: &mut Sim, sizes| {
            let id = sim.start_long_call((0, 0), sizes, Duration::from_secs(3000));
            assert_eq!(sim.end_of(id), Told::Result, "{self:?}: no call is lost");
        };
        call(&mut sim, (0, 0));
        let messages = (4 << 20) / self.size.max(64 << 10);
        let (begun, before) = (sim.elapsed(), self.line(&sim));
        (0..messages).for_each(|_| call(&mut sim, sizes));
        let (seconds, after) = ((sim.elapsed() - begun).as_secs_f64(), self.line(&sim));
        let bytes = (messages * self.size) as f64;
        Outcome {
            goodput: bytes * 8.0 / seconds,
            carried: (after.0 - before.0) as f64 / bytes,
            dropped: after.1 - before.1,
        }
    }

    /// Bytes of frames that its line has carried, and datagrams that its queue has dropped.
    fn line(&self, sim: &Sim) -> (u64, u64) {
        let (carried, losses) = (sim.carried(), sim.losses());
        match self.way {
            Way::In => (carried.0, losses.0.queue),
            Way::Out => (carried.1, losses.1.queue),
        }
    }

    /// The goodput in percent of what the line carries of frames that are not lost.
    fn percent(&self, outcome: &Outcome) -> f64 {
        let arrives = self.megabits as f64 * 1e6 * (1.0 - f64::from(self.loss) / 1000.0);
        100.0 * outcome.goodput / arrives
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let millis = Duration::from_millis;
    for (megabits, round_trip) in [
        (10, millis(1)),
        (10, millis(20)),
        (100, Duration::from_micros(200)),
        (100, millis(20)),
        (1000, Duration::from_micros(100)),
        (1000, millis(10)),
    ] {
        for size in [16 << 10, 128 << 10, 1 << 20] {
            for loss in [0, 10, 50, 200] {
                for way in [Way::In, Way::Out] {
                    cases.push(Case { megabits, round_trip, loss, size, way });
                }
            }
        }
    }
    cases
}

fn table() -> String {
    let mut table = String::from(
        "Goodput of messages, one after the other, over lines of Ethernet frames; their queue holds twice what is in flight in a round trip.\n\
         Percent are of the line's rate less what is lost; carried: bytes of frames on the line for each byte of message;\n\
         dropped: datagrams that the full queue dropped.\n\n\
         Mbit/s  round trip    size  way  loss   Mbit/s percent  carried  dropped\n",
    );
    for case in cases() {
        let outcome = case.measure();
        let Case { megabits, round_trip, loss, size, way } = case;
        let (micros, loss, goodput) = (round_trip.as_micros(), f64::from(loss) / 10.0, outcome.goodput / 1e6);
        let (percent, kib) = (case.percent(&outcome), size / 1024);
        let way = if way == Way::In { "in" } else { "out" };
        writeln!(
            table,
            "{megabits:6} {micros:8} us {kib:4}KiB  {way:3} {loss:4}% {goodput:8.2} {percent:7.1} {:8.3} {:8}",
            outcome.carried, outcome.dropped
        )
        .expect("a string takes everything");
    }
    table
}

#[test]
fn the_table_is_the_one_under_version_control() {
    let table = table();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/throughput.table");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &table).expect("the table can be written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(table == kept, "the table is now:\n{table}\nUPDATE=1 writes it");
}

/// Two callers that share a line: what each gets of it, in bits a second, from the time when the second begins.
fn shares(case: &Case) -> [f64; 2] {
    let scenario = Scenario { callers: 2, ..case.scenario() };
    let mut sim = Sim::new(11, scenario, Sabotage::None);
    let hour = Duration::from_secs(3600);
    let (first_alone, measured) = (Duration::from_secs(5), Duration::from_secs(60));
    let sizes = if case.way == Way::In { (case.size, 0) } else { (0, case.size) };
    let mut calls = [Some(sim.start_long_call((0, 0), sizes, hour)), None];
    let mut bytes = [0.0; 2];
    while sim.elapsed() < first_alone + measured && sim.go_on() {
        let both = sim.elapsed() >= first_alone;
        for caller in 0..2 {
            let told = calls[caller].map(|id| sim.told(id).map(|told| assert_eq!(told, Told::Result)));
            if told == Some(Some(())) && both {
                bytes[caller] += case.size as f64;
            }
            if told == Some(Some(())) || told.is_none() && both {
                calls[caller] = Some(sim.start_long_call((caller, 0), sizes, hour));
            }
        }
    }
    bytes.map(|bytes| bytes * 8.0 / measured.as_secs_f64())
}

/// Jain, Chiu & Hawe 1984: 1 when all get the same, 1/n when one gets everything.
fn fairness(shares: [f64; 2]) -> f64 {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn two_callers_share_a_line_fairly_and_fill_it() {
    for (round_trip, loss) in [(1, 0), (20, 0), (100, 0), (20, 10)] {
        for way in [Way::In, Way::Out] {
            let round_trip = Duration::from_millis(round_trip);
            let case = Case { megabits: 10, round_trip, loss, size: 64 << 10, way };
            let shares = shares(&case);
            let (fairness, sum) = (fairness(shares), shares[0] + shares[1]);
            let [first, second] = shares.map(|share| share / 1e6);
            println!("{round_trip:?} {way:?} loss {loss}: {first:.2} and {second:.2} Mbit/s, {fairness:.3}");
            assert!(fairness > 0.95, "{case:?}: {first:.2} and {second:.2} Mbit/s, fairness {fairness:.3}");
            // A message that takes no longer than its round trip cannot fill a line.
            let least = if round_trip < Duration::from_millis(100) { 8e6 } else { 6e6 };
            assert!(loss > 0 || sum > least, "{case:?}: {:.2} Mbit/s together", sum / 1e6);
        }
    }
}

/// The least that is expected of a slow line with a short queue.
#[test]
fn a_message_of_a_mebibyte_is_fast_enough_on_a_lossy_line() {
    for (loss, at_least) in [(10, 80.0), (50, 60.0), (200, 30.0)] {
        let case =
            Case { megabits: 10, round_trip: Duration::from_millis(1), loss, size: 1 << 20, way: Way::In };
        let percent = case.percent(&case.measure());
        println!("{loss} in a thousand lost: {percent:.1} %");
        assert!(percent >= at_least, "{case:?}: {percent:.1} %");
    }
}
