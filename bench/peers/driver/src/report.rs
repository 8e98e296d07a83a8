//! The samples as tables in Markdown.

use crate::cells::{BULK, CALLERS, Cell, LATENCY, Placement, STREAM};
use crate::columns;
use crate::figures::{Figure, Report, spread};
use crate::lines;
use crate::measure::Measured;
use crate::overview;
use crate::peers::{Carrier, Peer};
use crate::program::Sample;
use crate::quartiles::Quartiles;
use std::fmt::Write;

/// The tables, and the cells in which a peer is ahead of Stoop.
pub(crate) fn text(peers: &[Peer], samples: &[Measured]) -> String {
    let report = Report { peers, samples };
    let rounds = samples.first().map_or(0, |measured| measured.rounds.len());
    let mut out = format!(
        "Medians over {rounds} rounds; in parentheses their quartiles. Behind ×: a peer's figure by that of Stoop over the same\n\
         carrier in the same round.\n\n"
    );
    overview::write(&mut out, &report);
    for placement in [Placement::Two, Placement::One] {
        let title = format!("Time of one call, {}, µs", placement.name());
        report.table(&mut out, &title, placement, &LATENCY, Figure::Time);
    }
    for placement in [Placement::Two, Placement::One] {
        report.tails(&mut out, placement);
    }
    for placement in [Placement::Two, Placement::One] {
        let title = format!("Processors in use by client and server together, {}", placement.name());
        report.table(&mut out, &title, placement, &LATENCY, Figure::Processors);
    }
    let title = "Null() by 1, 2, 4 and 8 callers, calls per second";
    report.table(&mut out, title, Placement::Two, &CALLERS, Figure::Rate);
    let title = "Long arguments (in) and results (out), Mbit/s";
    report.table(&mut out, title, Placement::Two, &BULK, Figure::Bandwidth);
    let title = "Streams to one caller, items per second";
    report.table(&mut out, title, Placement::Two, &STREAM, Figure::Rate);
    report.written(&mut out);
    report.ahead(&mut out);
    out
}

impl Report<'_> {
    fn table(&self, out: &mut String, title: &str, placement: Placement, cells: &[Cell], figure: Figure) {
        self.of_each(out, title, placement, cells, |peer, cell| {
            self.find(peer, placement, cell).and_then(|measured| self.entry(measured, figure))
        });
    }

    /// The times that 99 % of the calls do not exceed.
    fn tails(&self, out: &mut String, placement: Placement) {
        let title = format!("Time that 99 % of the calls do not exceed, {}, µs", placement.name());
        let tail = |sample: &Sample| sample.times[2];
        self.of_each(out, &title, placement, &LATENCY, |peer, cell| {
            let measured = self.find(peer, placement, cell)?;
            Some(spread(Quartiles::of(measured.rounds.iter().flatten().map(tail))?, Figure::Time))
        });
    }

    /// A row for each peer that has a figure there, and a column for each cell.
    fn of_each(
        &self,
        out: &mut String,
        title: &str,
        placement: Placement,
        cells: &[Cell],
        entry: impl Fn(usize, &Cell) -> Option<String>,
    ) {
        let mut rows = vec![[vec![String::new()], cells.iter().map(Cell::name).collect()].concat()];
        for (number, peer) in self.by_carrier().filter(|(_, peer)| peer.can(&cells[0], placement)) {
            let entries = cells.iter().map(|cell| entry(number, cell).unwrap_or_else(|| "–".into()));
            rows.push([vec![peer.title()], entries.collect()].concat());
        }
        let _ = writeln!(out, "### {title}\n");
        columns::write(out, &rows);
    }

    fn by_carrier(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let all = Carrier::ALL
            .into_iter()
            .map(|carrier| self.peers.iter().enumerate().map(move |at| (carrier, at)));
        all.flatten().filter(|(carrier, (_, peer))| peer.carrier == *carrier).map(|(_, at)| at)
    }

    /// Of Stoop, its own spread; of a peer, its ratio to Stoop.
    fn entry(&self, measured: &Measured, figure: Figure) -> Option<String> {
        let own = self.quartiles(measured, figure)?;
        Some(match self.ratios(measured, figure) {
            Some(Quartiles { low, median, high }) => {
                format!("{} ×{median:.2} ({low:.2}–{high:.2})", figure.shown(own.median))
            }
            None => spread(own, figure),
        })
    }

    fn written(&self, out: &mut String) {
        let mut programs: Vec<&Peer> = self.peers.iter().collect();
        programs.sort_by_key(|peer| (lines::of(peer), peer.program));
        programs.dedup_by_key(|peer| peer.program);
        let mut rows = vec![vec![String::new(), "lines".into()]];
        rows.extend(programs.iter().map(|peer| vec![peer.library(), lines::of(peer).to_string()]));
        let _ =
            writeln!(out, "### Lines written for interface, server and client, with those that measure\n");
        columns::write(out, &rows);
    }

    fn ahead(&self, out: &mut String) {
        let _ = writeln!(out, "### Cells in which a peer is ahead of Stoop over the same carrier\n");
        let others = self.samples.iter().filter(|measured| !self.peers[measured.peer].is_stoop());
        let ahead: Vec<String> = others.filter_map(|measured| self.lead(measured)).collect();
        if ahead.is_empty() {
            out.push_str("None.\n");
        }
        ahead.iter().for_each(|lead| out.push_str(lead));
    }

    /// By how much a peer is ahead in a cell, if it is.
    fn lead(&self, measured: &Measured) -> Option<String> {
        let Cell { procedure, callers, bytes } = measured.cell;
        let figure =
            if callers > 1 || bytes > 1440 || procedure == "stream" { Figure::Rate } else { Figure::Time };
        let Quartiles { low, median, high } = self.ratios(measured, figure)?;
        let (is_ahead, word) = match figure {
            Figure::Time => (median < 1.0, "time"),
            Figure::Rate | Figure::Bandwidth | Figure::Processors => (median > 1.0, "rate"),
        };
        let (cell, placement) = (measured.cell.name(), measured.placement.name());
        is_ahead.then(|| {
            format!("- {}: {cell}, {placement}: {word} ×{median:.2} ({low:.2}–{high:.2})\n", measured.name)
        })
    }
}
