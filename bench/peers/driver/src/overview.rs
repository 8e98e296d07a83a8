//! The short table: Stoop beside the systems that a reader would use today.

use crate::cells::{BULK, CALLERS, Cell, LATENCY, Placement};
use crate::columns;
use crate::figures::{Figure, Report};
use crate::lines;
use crate::peers::Peer;
use std::fmt::Write;

/// The program of a row and its argument.
const ROWS: [(&str, &str); 12] = [
    ("stoop", "shm:peer-stoop"),
    ("stoop", "udp://127.0.0.1:0"),
    ("stoop", "tcp://127.0.0.1:0"),
    ("stoop", "udp://127.0.0.1:0 block"),
    ("stoop", "tcp://127.0.0.1:0 block"),
    ("iceoryx2", "spin"),
    ("tarpc", "tcp"),
    ("volo", "tcp"),
    ("capnp", "tcp"),
    ("tonic", "tcp"),
    ("grpc", "tcp"),
    ("libtirpc", "udp"),
];

const COLUMNS: [(&str, Placement, Cell, Figure); 6] = [
    ("Null(), µs", Placement::Two, LATENCY[0], Figure::Time),
    ("processors in use", Placement::Two, LATENCY[0], Figure::Processors),
    ("sharing a processor", Placement::One, LATENCY[0], Figure::Time),
    ("result of 1440 bytes, µs", Placement::Two, LATENCY[2], Figure::Time),
    ("Null() by 8 threads, calls/s", Placement::Two, CALLERS[3], Figure::Rate),
    ("results of 1 MiB, Mbit/s", Placement::Two, BULK[3], Figure::Bandwidth),
];

/// Appends the table.
pub(crate) fn write(out: &mut String, report: &Report<'_>) {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(COLUMNS.iter().map(|column| column.0.to_owned()));
    rows[0].push("lines".into());
    for (number, peer) in ROWS.iter().filter_map(|row| find(report, row)) {
        let figures = COLUMNS.iter().map(|(_, placement, cell, figure)| {
            let measured = report.find(number, *placement, cell);
            let quartiles = measured.and_then(|measured| report.quartiles(measured, *figure));
            quartiles.map_or("–".into(), |quartiles| figure.shown(quartiles.median))
        });
        rows.push([vec![peer.title()], figures.collect(), vec![lines::of(peer).to_string()]].concat());
    }
    let _ = writeln!(out, "### In short\n");
    columns::write(out, &rows);
}

fn find<'a>(report: &'a Report<'_>, row: &(&str, &str)) -> Option<(usize, &'a Peer)> {
    report.peers.iter().enumerate().find(|(_, peer)| (peer.program, peer.argument) == *row)
}
