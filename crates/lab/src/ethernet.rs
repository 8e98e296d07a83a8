//! The measurement `bench --ethernet`: what calls in Ethernet frames are to reach, and whether they do.
//!
//! The cells of a comparison are measured in turn, several rounds of them. A figure is computed from the cells of one round, which
//! met with the same episodes of the machine; the line has the median of the rounds, and their quartiles. A cell that other programs
//! disturbed is measured again at once.

mod bars;

use crate::args::{BenchArgs, Part, Processors, name_of};
use crate::effort::Effort;
use crate::network::Network;
use crate::placement::{Placement, Sides};
use crate::plan::Cell;
use crate::row::Row;
use crate::samples::Quartiles;
use crate::session::Session;
use crate::{cell, machine, screen, table};
use bars::{Bar, Comparison, Wanted, comparison};
use clap::ValueEnum;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// How long a cell is measured in a round: short, because the machine has episodes of a second, in which all that is compared is to be
/// measured.
const SHARE: Duration = Duration::from_millis(360);
/// Cells of a comparison in all rounds together, so that each part takes about a minute.
const MEASURED: usize = 72;
/// Attempts at a cell that others disturb.
const ATTEMPTS: usize = 3;

/// A line for machines.
#[derive(Serialize)]
struct Line<'a> {
    part: String,
    bar: &'a str,
    figure: f64,
    low: f64,
    high: f64,
    wanted: Wanted,
    met: Option<bool>,
    rounds: usize,
    /// Rounds in which other programs disturbed it at every attempt.
    disturbed: usize,
}

/// Measures the parts that `args` choose, or all.
pub(crate) fn run(args: &BenchArgs, parts: &[Part]) -> Result<ExitCode, String> {
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    let sides = placement.sides(Processors::Two).ok_or("both ends spin: two processors are needed")?;
    machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
    let network = Network::prepare();
    if !network.has_frames {
        return Err(format!("frames need a private Ethernet; this is {}", network.describe()));
    }
    if !args.json {
        screen::print(&table::headed("machine", &machine::describe()));
        screen::print(&table::headed("network", &network.describe()));
        screen::print(&table::headed("processors", &placement.describe()));
        println!("\n{:name$} {:>6}  {:13} {:>7}", "", "median", "quartiles", "bar", name = name());
    }
    let mut failed = false;
    for part in if parts.is_empty() { Part::value_variants() } else { parts } {
        let mut measuring = Measuring { args, network: &network, sides, session: None };
        if let Err(why) = measuring.part(*part) {
            eprintln!("stoop bench --ethernet {}: {why}", name_of(*part));
            failed = true;
        }
    }
    if !args.json {
        screen::print(&format!(
            "\n~ n: others disturbed it in n rounds at each of {ATTEMPTS} attempts; measure again"
        ));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Characters of the column of names.
fn name() -> usize {
    screen::width().saturating_sub(42).min(52)
}

struct Measuring<'a> {
    args: &'a BenchArgs,
    network: &'a Network,
    sides: Sides,
    session: Option<Session>,
}

impl Measuring<'_> {
    fn part(&mut self, part: Part) -> Result<(), String> {
        let Comparison { cells, bars } = comparison(part);
        // A given number of calls is for a look at whether it works.
        let rounds = if self.args.calls.is_some() { 1 } else { (MEASURED / cells.len()).clamp(5, 18) };
        let measured: Result<Vec<Vec<Row>>, String> = (0..rounds).map(|_| self.round(&cells)).collect();
        let measured = measured?;
        for bar in &bars {
            self.print(part, bar, &measured);
        }
        Ok(())
    }

    fn round(&mut self, cells: &[Cell]) -> Result<Vec<Row>, String> {
        cells.iter().map(|cell| self.cell(cell)).collect()
    }

    /// Measures a cell until others leave it alone.
    fn cell(&mut self, cell: &Cell) -> Result<Row, String> {
        let mut best: Option<Row> = None;
        for _ in 0..ATTEMPTS {
            let row = self.attempt(cell).map_err(|why| format!("{}: {why}", cell.describe()))?;
            if best.as_ref().is_none_or(|best| row.others_cpu < best.others_cpu) {
                best = Some(row);
            }
            if best.as_ref().is_some_and(|best| !best.is_disturbed()) {
                break;
            }
        }
        Ok(best.expect("at least one attempt"))
    }

    fn attempt(&mut self, cell: &Cell) -> Result<Row, String> {
        if !self.session.as_ref().is_some_and(|session| session.fits(cell)) {
            // The old server goes before the new one comes.
            self.session = None;
            self.session = Some(Session::open(cell, self.sides, self.network)?);
        }
        let session = self.session.as_mut().expect("opened above");
        cell::measure(cell, Effort::new(cell, SHARE, self.args.calls), session, self.network)
    }

    fn print(&self, part: Part, bar: &Bar, rounds: &[Vec<Row>]) {
        let Quartiles { low, median, high } =
            Quartiles::of(rounds.iter().map(|rows| bar.figure.of(rows)).collect());
        let is_disturbed = |rows: &&Vec<Row>| {
            rows.iter().enumerate().any(|(cell, row)| bar.figure.uses(cell) && row.is_disturbed())
        };
        let disturbed = rounds.iter().filter(is_disturbed).count();
        let met = bar.wanted.is_met(median);
        if self.args.json {
            let line = Line {
                part: name_of(part),
                bar: bar.name.trim(),
                figure: median,
                low,
                high,
                wanted: bar.wanted,
                met,
                rounds: rounds.len(),
                disturbed,
            };
            println!("{}", serde_json::to_string(&line).expect("a line is numbers and names"));
            return;
        }
        let wanted = match bar.wanted {
            Wanted::AtMost(most) => format!("≤ {most:.2}"),
            Wanted::AtLeast(least) => format!("≥ {least:.2}"),
            Wanted::Nothing => String::new(),
        };
        let verdict = met.map_or("", |met| if met { "met" } else { "missed" });
        let note = if disturbed > 0 { format!(" ~ {disturbed}") } else { String::new() };
        let quartiles = format!("({low:.2}–{high:.2})");
        let (above, name) = screen::label(&bar.name, name());
        println!("{above}{name} {median:6.2}  {quartiles:13} {wanted:>7} {verdict}{note}");
    }
}
