//! Calls through iceoryx2's request-response, and between them those of `stoop bench` over `shm:`, in turn.
//!
//! `peer-iceoryx2 STOOP [ROUNDS] [CELL…]` measures with the program STOOP, and prints a line for each cell: p50 and p99 of both and
//! the median, over rounds, of Stoop's p50 by iceoryx2's, with quartiles. Caller and server are on processors 0 and 1, or both on 1.

mod cell;
mod exchange;

use cell::{Cell, Procedure, Waiting};
use exchange::Anyhow;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn main() -> Anyhow<()> {
    iceoryx2::prelude::set_log_level(iceoryx2::prelude::LogLevel::Error);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--serve", cell, name] => serve(cell::parse(cell).ok_or("no such cell")?, name),
        ["--call", cell, name, calls] => call(cell::parse(cell).ok_or("no such cell")?, name, calls.parse()?),
        [stoop] => compare(stoop, 5, cell::all()),
        [stoop, rounds] => compare(stoop, rounds.parse()?, cell::all()),
        [stoop, rounds, ref cells @ ..] => {
            let cells: Option<Vec<Cell>> = cells.iter().map(|word| cell::parse(word)).collect();
            compare(stoop, rounds.parse()?, cells.ok_or("no such cell")?)
        }
        [] => Err("peer-iceoryx2 STOOP [ROUNDS] [CELL…]".into()),
    }
}

/// Times of a slice, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    p50: f64,
    p99: f64,
}

fn compare(stoop: &str, rounds: usize, cells: Vec<Cell>) -> Anyhow<()> {
    println!(
        "procedure:waiting:processors  iceoryx2 p50    p99 | stoop p50    p99 | stoop by iceoryx2 (quartiles)"
    );
    for cell in cells {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            pairs.push((of_iceoryx2(&cell)?, of_stoop(stoop, &cell)?));
        }
        let median =
            |of: &dyn Fn(&(Times, Times)) -> f64, share| at_share(pairs.iter().map(of).collect(), share);
        let ratio = |pair: &(Times, Times)| pair.1.p50 / pair.0.p50;
        println!(
            "{:<28} {:>13.0} {:>6.0} | {:>9.0} {:>6.0} | {:.2} ({:.2}–{:.2})",
            cell.to_string(),
            median(&|pair| pair.0.p50, 0.5),
            median(&|pair| pair.0.p99, 0.5),
            median(&|pair| pair.1.p50, 0.5),
            median(&|pair| pair.1.p99, 0.5),
            median(&ratio, 0.5),
            median(&ratio, 0.25),
            median(&ratio, 0.75),
        );
    }
    Ok(())
}

/// The value that `share` of the values do not exceed.
fn at_share(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values[rank.saturating_sub(1)]
}

/// Calls of a slice, a fifth of a second or less.
fn calls(cell: &Cell) -> usize {
    match (cell.waiting, cell.processors) {
        (Waiting::Event, _) => 5_000,
        (_, 1) => 20_000,
        _ => 50_000,
    }
}

/// In processes of its own, so that nothing of an earlier slice is left.
fn of_iceoryx2(cell: &Cell) -> Anyhow<Times> {
    let program = std::env::current_exe()?;
    let word = cell.to_string();
    let name = format!("stoop-peer/{}", std::process::id());
    let slice = Command::new(program).args(["--call", &word, &name, &calls(cell).to_string()]).output()?;
    let output = String::from_utf8(slice.stdout)?;
    let times: Vec<f64> = output.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [p50, p99] = times[..] else {
        return Err(format!("{word}: {}", String::from_utf8_lossy(&slice.stderr)).into());
    };
    Ok(Times { p50, p99 })
}

fn of_stoop(stoop: &str, cell: &Cell) -> Anyhow<Times> {
    let (processors, calls) = (cell.processors.to_string(), calls(cell).to_string());
    let slice = Command::new(stoop)
        .args([
            "bench",
            "--json",
            "--transport",
            "shm",
            "--callers",
            "1",
            "--procedure",
            cell.procedure.name(),
        ])
        .args(["--waiting", cell.waiting.of_stoop(), "--processors", &processors, "--calls", &calls])
        .output()?;
    let row: serde_json::Value = serde_json::from_slice(&slice.stdout)
        .map_err(|_| format!("{cell}: {}", String::from_utf8_lossy(&slice.stderr)))?;
    let figure = |key: &str| row[key].as_f64().ok_or("stoop bench gave no such figure");
    Ok(Times { p50: figure("p50_ns")?, p99: figure("p99_ns")? })
}

fn pin(cpu: usize) -> Anyhow<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

fn serve(cell: Cell, name: &str) -> Anyhow<()> {
    pin(1)?;
    match cell.procedure {
        Procedure::Null => exchange::serve::<u64, u64>(name, cell.waiting),
        Procedure::MaxArg => exchange::serve::<[u8; 1440], u64>(name, cell.waiting),
        Procedure::MaxResult => exchange::serve::<u64, [u8; 1440]>(name, cell.waiting),
    }
}

fn call(cell: Cell, name: &str, calls: usize) -> Anyhow<()> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["--serve", &cell.to_string(), name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    pin(if cell.processors == 1 { 1 } else { 0 })?;
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut String::new())?;
    let mut ready = server.stdin.take().expect("piped");
    let times = match cell.procedure {
        Procedure::Null => exchange::call::<u64, u64>(name, cell.waiting, calls, &mut ready),
        Procedure::MaxArg => exchange::call::<[u8; 1440], u64>(name, cell.waiting, calls, &mut ready),
        Procedure::MaxResult => exchange::call::<u64, [u8; 1440]>(name, cell.waiting, calls, &mut ready),
    };
    let times: Vec<f64> = times?.into_iter().map(|ns| ns as f64).collect();
    server.wait()?;
    println!("{} {}", at_share(times.clone(), 0.5), at_share(times, 0.99));
    Ok(())
}
