//! The samples as tables.

use crate::cells::{BULK, CALLERS, Cell, LATENCY, Placement};
use crate::lines;
use crate::measure::Measured;
use crate::peers::{Carrier, Peer};
use crate::program::Sample;
use std::fmt::Write;

/// The tables, and the cells in which a peer is ahead of Stoop.
pub(crate) fn text(peers: &[Peer], samples: &[Measured]) -> String {
    let report = Report { peers, samples };
    let mut out = String::new();
    for placement in [Placement::Two, Placement::One] {
        report.table(
            &mut out,
            &format!(
                "Time of one call, {}: median (99 % are shorter), µs; × Stoop's (quartiles)",
                placement.name()
            ),
            placement,
            &LATENCY,
            Figure::Time,
        );
    }
    report.table(
        &mut out,
        "Null() by 1, 2, 4, 8 callers: calls/s; × Stoop's (quartiles)",
        Placement::Two,
        &CALLERS,
        Figure::Rate,
    );
    report.table(
        &mut out,
        "Long arguments (in) and results (out): Mbit/s; × Stoop's (quartiles)",
        Placement::Two,
        &BULK,
        Figure::Bandwidth,
    );
    report.written(&mut out);
    report.ahead(&mut out);
    out
}

#[derive(Clone, Copy)]
enum Figure {
    Time,
    Rate,
    Bandwidth,
}

impl Figure {
    fn of(self, cell: &Cell, sample: &Sample) -> f64 {
        match self {
            Figure::Time => sample.times[0],
            Figure::Rate => sample.rate,
            Figure::Bandwidth => sample.rate * cell.bytes as f64 * 8.0 / 1e6,
        }
    }
}

struct Report<'a> {
    peers: &'a [Peer],
    samples: &'a [Measured],
}

impl Report<'_> {
    fn table(&self, out: &mut String, title: &str, placement: Placement, cells: &[Cell], figure: Figure) {
        let mut rows = vec![[vec![String::new()], cells.iter().map(Cell::name).collect()].concat()];
        for carrier in Carrier::ALL {
            for (number, peer) in self.peers.iter().enumerate().filter(|(_, peer)| peer.carrier == carrier) {
                let name = format!("{} over {}", peer.name, carrier.name());
                let entries = cells.iter().map(|cell| self.entry(number, placement, cell, figure)).collect();
                rows.push([vec![name], entries].concat());
            }
        }
        let _ = writeln!(out, "{title}");
        write_columns(out, &rows);
    }

    fn entry(&self, peer: usize, placement: Placement, cell: &Cell, figure: Figure) -> String {
        let Some(measured) = self.find(peer, placement, cell) else { return "–".into() };
        let middle = median(measured.rounds.iter().map(|sample| figure.of(cell, sample)));
        let own = match figure {
            Figure::Time => {
                let tail = median(measured.rounds.iter().map(|sample| sample.times[2]));
                format!("{:.2} ({:.1})", middle / 1e3, tail / 1e3)
            }
            _ => format!("{middle:.0}"),
        };
        match self.ratios(measured, figure) {
            Some([low, middle, high]) => format!("{own} ×{middle:.2} ({low:.2}–{high:.2})"),
            None => own,
        }
    }

    fn find(&self, peer: usize, placement: Placement, cell: &Cell) -> Option<&Measured> {
        self.samples.iter().find(|one| one.peer == peer && one.placement == placement && one.cell == *cell)
    }

    /// Quartiles, over rounds, of a peer's figure by that of Stoop over the same carrier.
    fn ratios(&self, measured: &Measured, figure: Figure) -> Option<[f64; 3]> {
        let carrier = self.peers[measured.peer].carrier;
        let stoop = self.peers.iter().position(|peer| peer.is_stoop() && peer.carrier == carrier)?;
        if stoop == measured.peer {
            return None;
        }
        let beside = self.find(stoop, measured.placement, &measured.cell)?;
        let of = |sample| figure.of(&measured.cell, sample);
        let ratios: Vec<f64> =
            measured.rounds.iter().zip(&beside.rounds).map(|(own, stoop)| of(own) / of(stoop)).collect();
        Some([0.25, 0.5, 0.75].map(|share| at_share(ratios.iter().copied(), share)))
    }

    fn written(&self, out: &mut String) {
        let _ = writeln!(out, "Lines written for interface, server and client (with those that measure)");
        let mut programs: Vec<&Peer> = self.peers.iter().collect();
        programs.sort_by_key(|peer| (lines::of(peer), peer.program));
        programs.dedup_by_key(|peer| peer.program);
        for peer in programs {
            let _ = writeln!(out, "{:<36}{:>6}", peer.program, lines::of(peer));
        }
        out.push('\n');
    }

    fn ahead(&self, out: &mut String) {
        let mut any = false;
        for measured in self.samples {
            let figure = if measured.cell.callers > 1 || measured.cell.bytes > 1440 {
                Figure::Rate
            } else {
                Figure::Time
            };
            let Some([_, ratio, _]) = self.ratios(measured, figure) else { continue };
            let ahead = match figure {
                Figure::Time => ratio < 1.0,
                _ => ratio > 1.0,
            };
            if ahead {
                any = true;
                let (cell, placement) = (measured.cell.name(), measured.placement.name());
                let _ = writeln!(out, "ahead of Stoop: {}, {cell}, {placement}: × {ratio:.2}", measured.name);
            }
        }
        if !any {
            let _ = writeln!(out, "No peer is ahead of Stoop over its carrier in any cell.");
        }
    }
}

/// The first column at the left, the others at the right of their widths.
fn write_columns(out: &mut String, rows: &[Vec<String>]) {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(wide).collect();
    for row in rows {
        let _ = write!(out, "{:<1$}", row[0], widths[0]);
        for (entry, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {entry:>width$}");
        }
        out.push('\n');
    }
    out.push('\n');
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    at_share(values, 0.5)
}

/// The value that `share` of the values do not exceed.
fn at_share(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values[rank.saturating_sub(1)]
}
