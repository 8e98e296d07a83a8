//! Firefly Tables IX and XII: the stages of the main path, and other systems.

use super::slower_path;
use crate::args::{Procedure, Transport, Waiting};
use crate::plan::Cell;
use crate::tables::lab::{Lab, spinning};
use crate::tables::model::{Figure, Group, Line, US, mbits};

pub(super) fn table_9(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let paper = [("original Modula-2+", 758.0), ("best Modula-2+", 541.0), ("assembly language", 177.0)];
    let paper = paper.map(|(name, us)| Line::new(name).paper(us)).to_vec();
    let mut lines = Vec::new();
    for (name, cell) in stages() {
        // A session does not know whether its frames have a checksum: each stage gets a new one.
        lab.clear()?;
        lines.push(Line::new(name).today_or_why(lab.row(&cell).map(|row| Figure::time_of(&row, US))));
    }
    Ok(vec![
        Group::new("The paper: main path of the Ethernet interrupt routine", "µs", paper),
        Group::new("Null() at the stages of the main path", "µs", lines),
        slower_path::compared(lab)?,
    ])
}

fn stages() -> [(&'static str, Cell); 8] {
    let udp = spinning(Transport::Udp, Procedure::Null);
    let ether = spinning(Transport::Ether, Procedure::Null);
    [
        ("TCP, threads sleep", Cell { transport: Transport::Tcp, waiting: Waiting::Block, ..udp }),
        (
            "UDP, one socket for all threads, which sleep",
            Cell { waiting: Waiting::Block, share_endpoints: true, ..udp },
        ),
        ("UDP, a socket for each thread, threads sleep", Cell { waiting: Waiting::Block, ..udp }),
        ("the same, waiting adaptively", Cell { waiting: Waiting::Adaptive, ..udp }),
        ("the same, spinning", udp),
        ("frames on a packet ring, spinning", ether),
        ("the same without a CRC-32C in each frame", Cell { no_checksum: true, ..ether }),
        ("shared memory, spinning", spinning(Transport::Shm, Procedure::Null)),
    ]
}

/// System, milliseconds for a call, Mbit/s.
const TABLE_12: [(&str, f64, f64); 7] = [
    ("Cedar, Dorado, 3 Mbit/s", 1.1, 2.0),
    ("Amoeba, Tadpole", 1.4, 5.3),
    ("V, Sun 3/75", 2.5, 4.4),
    ("Sprite, Sun 3/75", 2.8, 5.6),
    ("Amoeba/UNIX, Sun 3/50", 7.0, 1.8),
    ("Firefly, 1 processor", 4.8, 2.5),
    ("Firefly, 5 processors", 2.7, 4.6),
];

pub(super) fn table_12(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut latencies: Vec<Line> =
        TABLE_12.iter().map(|&(name, ms, _)| Line::new(name).paper(ms * 1e3)).collect();
    let mut rates: Vec<Line> = TABLE_12.iter().map(|&(name, _, rate)| Line::new(name).paper(rate)).collect();
    for transport in [Transport::Udp, Transport::Tcp, Transport::Ether] {
        let name = crate::args::name_of(transport);
        let null = lab.row(&spinning(transport, Procedure::Null));
        latencies.push(
            Line::new(format!("Stoop over {name}")).today_or_why(null.map(|row| Figure::time_of(&row, US))),
        );
        let packets = Cell { transport, procedure: Procedure::MaxResult, callers: 8, ..Cell::NULL };
        let packets = lab.row(&packets).map(|row| Figure::rate_of(&row, |rate| rate * mbits(1440)));
        rates.push(
            Line::new(format!("Stoop over {name}, eight callers of MaxResult(b)")).today_or_why(packets),
        );
        let long = Cell { bytes: 1 << 20, ..spinning(transport, Procedure::BulkOut) };
        let long = lab.row(&long).map(|row| Figure::rate_of(&row, |rate| rate * mbits(1 << 20)));
        rates.push(Line::new(format!("Stoop over {name}, results of 1 MiB")).today_or_why(long));
    }
    Ok(vec![
        Group::new("Null() between two machines", "µs", latencies),
        Group::new("Throughput", "Mbit/s", rates).more_is_better(),
    ])
}
