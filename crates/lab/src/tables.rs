//! The command `tables`: the tables of the three papers, measured on this machine, the papers' figures beside today's.

mod calibration;
mod catalogue;
mod earlier;
mod elliott_nutt;
mod entry;
mod firefly;
mod lab;
mod model;
mod parts;
mod peregrine;
pub(crate) mod programs;
mod render;
mod report;
mod rounds;
mod savings;
mod what_if;

use crate::account::can_be_written;
use crate::args::{Processors, TablesArgs};
use crate::machine;
use crate::network::Network;
use crate::placement::Placement;
use crate::screen;
use calibration::Calibration;
use catalogue::chosen;
use entry::Entry;
use lab::Lab;
use model::Table;
use report::Report;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Measures the tables that `args` choose. Fails when one could not be measured that can be.
pub(crate) fn run(args: &TablesArgs) -> Result<ExitCode, String> {
    let entries = chosen(&args.names)?;
    if args.list {
        entries.iter().for_each(|entry| screen::print(&entry.describe(args)));
        return Ok(ExitCode::SUCCESS);
    }
    [&args.json, &args.html].into_iter().flatten().try_for_each(|file| can_be_written(file))?;
    let earlier = args.against.as_deref().map(earlier::read).transpose()?;
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
    // While this process has one thread: only a process with one thread can make a user namespace.
    let network = Network::prepare();
    let seconds: u64 = entries.iter().map(|entry| entry.seconds(args)).sum();
    let mut lab = Lab::new(args, placement, network, u64::from(args.rounds) * seconds);
    let report = measure(&entries, &mut lab)?;
    lab.finish();
    screen::print(&render::text::run(&report));
    if let Some(earlier) = &earlier {
        screen::print(&earlier::compare(earlier, &report));
    }
    write(args, &report)?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures all tables in each round. Whether the machine was quiet is known before a table is seen.
fn measure(entries: &[&Entry], lab: &mut Lab<'_>) -> Result<Report, String> {
    let sides = lab.placement.sides(Processors::Two).or(lab.placement.sides(Processors::One));
    let sides = sides.ok_or("this process may run on no processor")?;
    let calibrate = |lab: &Lab<'_>| {
        lab.now("calibration");
        Calibration::measure(sides)
    };
    let mut report = Report::new(lab, calibrate(lab)?);
    if let Some(why) = report.before.noisy() {
        lab.aside(|| {
            eprintln!(
                "The machine is noisy: {why}. The run will be void; stop other programs, and measure again."
            )
        });
    }
    let mut tables = vec![Vec::new(); entries.len()];
    let mut passed = 0;
    for round in 1..=lab.args.rounds {
        lab.round(round);
        for (entry, rounds) in entries.iter().zip(&mut tables) {
            rounds.push(measure_one(entry, lab)?);
            passed += entry.seconds(lab.args);
            lab.passed(passed);
        }
        report.end_round(calibrate(lab)?);
    }
    report.tables = tables.into_iter().map(rounds::joined).collect();
    Ok(report)
}

fn measure_one(entry: &Entry, lab: &mut Lab<'_>) -> Result<Table, String> {
    lab.now(entry.title);
    let groups = (entry.measure)(lab);
    lab.clear()?;
    let (groups, why_not) = match groups {
        Ok(groups) => (groups, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Ok(Table { name: entry.name, title: entry.title, how: entry.how, groups, why_not, void: None })
}

fn write(args: &TablesArgs, report: &Report) -> Result<(), String> {
    let write_to = |file: &Path, text: String| {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    args.json.as_deref().map_or(Ok(()), |file| write_to(file, render::json::object(report)))?;
    args.html.as_deref().map_or(Ok(()), |file| write_to(file, render::html::page(report)))
}
