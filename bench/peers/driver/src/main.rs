//! Measures the Test interface over Stoop and over its peers in turn, and prints them beside each other.
//!
//! `peers [--rounds N] [--milliseconds N] [--only NAME,…] [--json FILE] [--add-to FILE]`. README.md describes what it measures.

mod cells;
mod columns;
mod figures;
mod lines;
mod measure;
mod options;
mod overview;
mod peers;
mod processor_time;
mod program;
mod quartiles;
mod report;
mod samples;

use measure::Measured;
use options::Options;
use std::error::Error;
use std::process::ExitCode;

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let peers = peers::present(&options.only)?;
    let mut samples = measure::plan(&peers);
    if let Some(file) = &options.add_to {
        samples::read(file, &mut samples).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    let files: Vec<_> = options.json.iter().chain(&options.add_to).collect();
    let write = |all: &[Measured]| files.iter().try_for_each(|file| samples::write(file, all));
    measure::rounds(&peers, &options, &mut samples, write)?;
    if samples.iter().any(|measured| measured.rounds.is_empty()) {
        return Err("there are no rounds to report".into());
    }
    print!("{}", report::text(&peers, &samples));
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}
