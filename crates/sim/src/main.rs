//! A longer run of the simulator: `cargo run --release -p stoop-sim -- [--large | --load | --sealed | --pipes] --seeds 1000000 [--from 10000]`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use stoop_sim::{Family, PipeReport, PipeSabotage, Report, Sabotage, Sim, run_pipe_seed};

const USAGE: &str = "usage: stoop-sim [--large | --load | --sealed | --pipes] [--seeds NUMBER] [--from SEED]";

/// The worlds for which a seed stands.
#[derive(Clone, Copy)]
enum Worlds {
    Of(Family),
    Pipes,
}

impl Worlds {
    fn named(argument: &str) -> Option<Self> {
        match argument {
            "--large" => Some(Self::Of(Family::Large)),
            "--load" => Some(Self::Of(Family::Load)),
            "--sealed" => Some(Self::Of(Family::Sealed)),
            "--pipes" => Some(Self::Pipes),
            _ => None,
        }
    }

    /// The variable that names one of their seeds to the tests, and these tests.
    fn repeats(self) -> (&'static str, &'static str) {
        match self {
            Self::Of(family) => (family.variable(), "seeds"),
            Self::Pipes => ("STOOP_PIPE_SEED", "pipes"),
        }
    }

    fn run(self, seed: u64, reports: &mut Reports) -> Result<(), String> {
        match self {
            Self::Of(family) => {
                let part = Sim::run_seed(family, seed, Sabotage::None).map_err(|it| it.to_string())?;
                reports.0.add(&part);
            }
            Self::Pipes => reports.1.add(&run_pipe_seed(seed, PipeSabotage::None)?),
        }
        Ok(())
    }
}

/// What the worlds have met.
#[derive(Default)]
struct Reports(Report, PipeReport);

/// Scenarios from which the seeds choose, the first seed and the number of seeds.
fn arguments() -> Result<(Worlds, u64, u64), String> {
    let (mut worlds, mut from, mut seeds) = (Worlds::Of(Family::Small), 0, 100_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if let Some(named) = Worlds::named(&name) {
            worlds = named;
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
    Ok((worlds, from, seeds))
}

/// Names the seed when the protocol itself panics.
struct Names(Worlds, u64);

impl Drop for Names {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, (variable, tests)) = (self.1, self.0.repeats());
            eprintln!(
                "panic in seed {seed}; to repeat: {variable}={seed} cargo test -p stoop-sim --test sim {tests}::"
            );
        }
    }
}

/// Takes seeds until there are none left or one has failed.
fn work(worlds: Worlds, next: &AtomicU64, end: u64, failed: &AtomicBool) -> Reports {
    let mut reports = Reports::default();
    while !failed.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let _names = Names(worlds, seed);
        if let Err(violation) = worlds.run(seed, &mut reports) {
            eprintln!("{violation}");
            failed.store(true, Ordering::Relaxed);
        }
    }
    reports
}

fn main() -> ExitCode {
    let (worlds, from, seeds) = match arguments() {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::FAILURE;
        }
    };
    let (next, failed) = (&AtomicU64::new(from), &AtomicBool::new(false));
    let end = from.saturating_add(seeds);
    let begun = Instant::now();
    let mut reports = Reports::default();
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(worlds, next, end, failed))).collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => {
                    reports.0.add(&part.0);
                    reports.1.add(&part.1);
                }
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
        }
    });
    match worlds {
        Worlds::Of(_) => print!("{}", reports.0),
        Worlds::Pipes => print!("{}", reports.1),
    }
    println!("{:>12}  seconds", begun.elapsed().as_secs());
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
