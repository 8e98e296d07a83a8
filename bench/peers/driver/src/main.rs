//! Measures the Test interface over Stoop and over its peers in turn, and prints them beside each other.
//!
//! `peers [--rounds N] [--milliseconds N] [--only NAME,…] [--json FILE]`. README.md says what is measured.

mod cells;
mod lines;
mod measure;
mod options;
mod peers;
mod program;
mod report;

use options::Options;
use std::error::Error;
use std::process::ExitCode;

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let peers = peers::present(&options.only)?;
    let samples = measure::rounds(&peers, &options)?;
    print!("{}", report::text(&peers, &samples));
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(&samples))?;
    }
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
