//! A longer run of the simulator: `cargo run --release -p stoop-sim -- [--large | --load | --sealed] --seeds 1000000 [--from 10000]`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use stoop_sim::{Family, Report, Sabotage, Sim};

const USAGE: &str = "usage: stoop-sim [--large | --load | --sealed] [--seeds NUMBER] [--from SEED]";

fn family_named(argument: &str) -> Option<Family> {
    match argument {
        "--large" => Some(Family::Large),
        "--load" => Some(Family::Load),
        "--sealed" => Some(Family::Sealed),
        _ => None,
    }
}

/// Scenarios from which the seeds choose, the first seed and the number of seeds.
fn arguments() -> Result<(Family, u64, u64), String> {
    let (mut family, mut from, mut seeds) = (Family::Small, 0, 100_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if let Some(named) = family_named(&name) {
            family = named;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} wants a number\n{USAGE}"))?;
        let number = value.parse().map_err(|_| format!("{name} {value}: not a number\n{USAGE}"))?;
        match name.as_str() {
            "--seeds" => seeds = number,
            "--from" => from = number,
            _ => return Err(format!("unknown argument {name}\n{USAGE}")),
        }
    }
    Ok((family, from, seeds))
}

/// Names the seed when the protocol itself panics.
struct Names(Family, u64);

impl Drop for Names {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "panic in seed {}; to repeat: {}={0} cargo test -p stoop-sim --test sim seeds::",
                self.1,
                self.0.variable()
            );
        }
    }
}

/// Takes seeds until there are none left or one has failed.
fn work(family: Family, next: &AtomicU64, end: u64, failed: &AtomicBool) -> Report {
    let mut report = Report::default();
    while !failed.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let _names = Names(family, seed);
        match Sim::run_seed(family, seed, Sabotage::None) {
            Ok(part) => report.add(&part),
            Err(violation) => {
                eprintln!("{violation}");
                failed.store(true, Ordering::Relaxed);
            }
        }
    }
    report
}

fn main() -> ExitCode {
    let (family, from, seeds) = match arguments() {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::FAILURE;
        }
    };
    let (next, failed) = (&AtomicU64::new(from), &AtomicBool::new(false));
    let end = from.saturating_add(seeds);
    let begun = Instant::now();
    let mut report = Report::default();
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(family, next, end, failed))).collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => report.add(&part),
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
        }
    });
    print!("{report}");
    println!("{:>12}  seconds", begun.elapsed().as_secs());
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
