//! The measurement `bench --pipes`: items a second, one item there and back, and Null() beside a busy pipe, each beside calls.
//!
//! Slices of the kinds that are compared follow each other, round by round, and the ratios are medians over the rounds.

pub(crate) mod service;
mod slices;

use crate::args::{BenchArgs, Procedure, Processors, Transport, Waiting, name_of};
use crate::cell::measure_floor;
use crate::child::Child;
use crate::effort::Effort;
use crate::floor::{RECORD, SMALL};
use crate::plan::Cell;
use crate::progress::Progress;
use crate::samples::{Quartiles, Samples};
use crate::screen::{self, Columns};
use crate::session::{socket_path, start_server};
use crate::stage::{Stage, chosen_or};
use service::PipedClient;
use slices::{CALL, Way};
use std::process::ExitCode;
use std::time::Duration;
use stoop::BindOptions;

/// Bytes of a long item.
const LONG: usize = 64 << 10;
const MIB: f64 = 1_048_576.0;

/// Slices of each kind, and how long each is.
#[derive(Clone, Copy)]
struct Rounds {
    number: usize,
    slice: Duration,
}

/// Measures each transport that `args` choose.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    let stage = Stage::set()?;
    let rounds = match args.short {
        true => Rounds { number: 1, slice: Duration::from_millis(5) },
        false => Rounds { number: 7, slice: Duration::from_millis(120) },
    };
    let transports =
        chosen_or(&args.transport, &[Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm]);
    let progress = Progress::of(6 * transports.len() as u64);
    for &transport in transports {
        let waiting = args.waiting.first().copied().unwrap_or(Waiting::Adaptive);
        let measured =
            Pair::start(transport, waiting, &stage).and_then(|pair| pair.measure(rounds, &progress));
        measured.map_err(|why| format!("{}: {why}", name_of(transport)))?;
    }
    progress.finish();
    Ok(ExitCode::SUCCESS)
}

/// A server, and a client that is bound to it.
struct Pair<'a> {
    stage: &'a Stage,
    cell: Cell,
    server: Child,
    client: PipedClient,
}

impl<'a> Pair<'a> {
    fn start(transport: Transport, waiting: Waiting, stage: &'a Stage) -> Result<Self, String> {
        let path = socket_path("pipes");
        let how = (transport, waiting, stage.sides.server);
        let started = start_server("bench-pipes-server", how, &stage.network, &path, None);
        let (server, uri) = started.map_err(|error| error.to_string())?;
        let options = BindOptions::new().waiting(crate::ours::wait(waiting)).timeout(Duration::from_secs(5));
        let client = PipedClient::bind_with(&uri, &options).map_err(|error| error.to_string())?;
        let _ = std::fs::remove_file(&path);
        let processors =
            if stage.sides.caller == stage.sides.server { Processors::One } else { Processors::Two };
        let cell = Cell { transport, waiting, processors, bytes: CALL as u32, records: true, ..Cell::NULL };
        Ok(Self { stage, cell, server, client })
    }

    fn measure(mut self, rounds: Rounds, progress: &Progress) -> Result<(), String> {
        let name = name_of(self.cell.transport);
        progress.show(&name);
        let (call, items) = self.client.take();
        items.finish();
        if let Err(why) = call.wait() {
            progress.print(&format!("\n{name}: pipes are not carried: {why}"));
            progress.advance(6);
            return Ok(());
        }
        progress.print(&format!("\n{name}\n{}", columns().head(screen::width())));
        for way in [Way::ToProcedure, Way::FromProcedure] {
            self.one_way(way, rounds)?.iter().for_each(|line| progress.print(line));
            progress.advance(2);
        }
        progress.print(&self.there_and_back(rounds)?);
        progress.advance(1);
        for way in [Way::ToProcedure, Way::FromProcedure] {
            progress.print(&self.null_beside(way, rounds)?);
        }
        progress.advance(1);
        Ok(())
    }

    /// Lines of small and of long items.
    fn one_way(&mut self, way: Way, rounds: Rounds) -> Result<[String; 2], String> {
        let (mut small, mut long, mut calls, mut floor) = (vec![], vec![], vec![], vec![]);
        for _ in 0..rounds.number {
            calls.push(slices::calls(&self.client, way, rounds.slice)? * CALL as f64);
            long.push(slices::items(&self.client, way, LONG, rounds.slice)?);
            small.push(slices::items(&self.client, way, SMALL, rounds.slice)?);
            floor.push(self.floor(way, rounds.slice)?);
        }
        let text = match way {
            Way::ToProcedure => "to the procedure",
            Way::FromProcedure => "from the procedure",
        };
        let line = |len: usize, items: &[f64], of_floor: String| {
            let of_calls = ratios(items, &calls, len as f64);
            let items = Quartiles::of(items.to_vec()).median;
            let mib = items * len as f64 / MIB;
            let len = if len == SMALL { "64 bytes" } else { "64 KiB" };
            let texts = [
                format!("  {len} {text}"),
                format!("{:.3} M/s", items / 1e6),
                format!("{mib:.0} MiB/s"),
                of_calls,
                of_floor,
            ];
            columns().row(screen::width(), &texts)
        };
        let of_floor = ratios(&small, &floor, 1.0);
        Ok([line(SMALL, &small, of_floor), line(LONG, &long, String::new())])
    }

    /// Records of small items, a second, by the same mechanism and without a protocol.
    fn floor(&mut self, way: Way, slice: Duration) -> Result<f64, String> {
        let procedure = match way {
            Way::ToProcedure => Procedure::BulkIn,
            Way::FromProcedure => Procedure::BulkOut,
        };
        let effort = Effort { pairs: 1, slice, warm_up: slice / 8, calls: None, silence: None };
        self.server.stop().map_err(|error| error.to_string())?;
        let cell = Cell { procedure, ..self.cell };
        let measured = measure_floor(&cell, effort, self.stage.sides, &self.stage.network, &mut |_| Ok(()))?;
        self.server.resume().map_err(|error| error.to_string())?;
        Ok(measured[0].calls_per_second() * (CALL / RECORD) as f64)
    }

    fn there_and_back(&self, rounds: Rounds) -> Result<String, String> {
        let (mut items, mut nulls) = (vec![], vec![]);
        for _ in 0..rounds.number {
            nulls.push(slices::null(&self.client, rounds.slice)?);
            items.push(slices::there_and_back(&self.client, rounds.slice)?);
        }
        Ok(format!("  64 bytes there and back: {}", compared(&mut items, &mut nulls, "Null()")))
    }

    fn null_beside(&self, way: Way, rounds: Rounds) -> Result<String, String> {
        let (mut beside_pipe, mut beside_calls) = (vec![], vec![]);
        for _ in 0..rounds.number {
            beside_calls.push(slices::null_beside(&self.client, way, None, 2 * rounds.slice)?);
            beside_pipe.push(slices::null_beside(&self.client, way, Some(LONG), 2 * rounds.slice)?);
        }
        let way = if way == Way::ToProcedure { "to" } else { "from" };
        let compared = compared(&mut beside_pipe, &mut beside_calls, "beside calls of 1 MiB");
        Ok(format!("  Null() beside 64 KiB items {way} the procedure: {compared}"))
    }
}

fn columns() -> Columns {
    Columns::new(&[("  items", -31), ("items", 13), ("bytes", 12)]).group(
        1,
        "of",
        &[("calls of 1 MiB", 18), ("floor", 18)],
    )
}

/// Median and quartiles of `ours · scale` to `others`, round by round.
fn ratios(ours: &[f64], others: &[f64], scale: f64) -> String {
    let ratios = ours.iter().zip(others).map(|(ours, other)| ours * scale / other);
    let Quartiles { low, median, high } = Quartiles::of(ratios.collect());
    format!("{median:.2} ({low:.2}–{high:.2})")
}

/// The percentiles of one kind of slices, of another, and the ratios.
fn compared(ours: &mut [Samples], others: &mut [Samples], name: &str) -> String {
    let mut figures = |share: f64| {
        let of = |samples: &mut [Samples]| -> Vec<f64> {
            samples.iter_mut().map(|slice| slice.percentile_ns(share)).collect()
        };
        let (ours, others) = (of(ours), of(others));
        let ratio = ratios(&ours, &others, 1.0);
        let us = |times: Vec<f64>| Quartiles::of(times).median / 1000.0;
        (us(ours), us(others), ratio)
    };
    let (p50, p99) = (figures(0.5), figures(0.99));
    format!(
        "p50 {:.2} µs, p99 {:.1} µs; {name} {:.2}, {:.1}; ratios {}, {}",
        p50.0, p99.0, p50.1, p99.1, p50.2, p99.2
    )
}
