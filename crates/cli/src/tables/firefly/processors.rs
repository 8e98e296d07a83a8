//! Firefly Tables IX to XII: the stages of the main path, fewer processors, other systems.

use crate::args::{Procedure, Processors, Transport, Waiting};
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

/// Processors of caller and server, seconds for 1000 calls.
const TABLE_10: [(u32, u32, f64); 9] = [
    (5, 5, 2.69),
    (4, 5, 2.73),
    (3, 5, 2.85),
    (2, 5, 2.98),
    (1, 5, 3.96),
    (1, 4, 3.98),
    (1, 3, 4.13),
    (1, 2, 4.21),
    (1, 1, 4.81),
];

pub(super) fn table_10(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut lines = Vec::new();
    for (caller, server, seconds) in TABLE_10 {
        let line = Line::new(format!("caller {caller}, server {server}")).paper(seconds * 1e3);
        lines.push(match (caller, server) {
            // Each end of this machine has one processor.
            (1, 1) => line
                .today_or_why(null(lab, Waiting::Block, Processors::Two))
                .remark("today: one each, threads sleep"),
            (5, 5) => line.remark("this machine has two processors"),
            _ => line,
        });
    }
    let more = [
        ("one each, waiting adaptively", Waiting::Adaptive, Processors::Two),
        ("sharing one, threads sleep", Waiting::Block, Processors::One),
        ("sharing one, waiting adaptively", Waiting::Adaptive, Processors::One),
    ];
    for (name, waiting, processors) in more {
        lines.push(Line::new(name).today_or_why(null(lab, waiting, processors)));
    }
    Ok(vec![Group::new("1,000 calls to Null()", "ms", lines)])
}

/// Milliseconds for a thousand calls over UDP.
fn null(lab: &mut Lab<'_>, waiting: Waiting, processors: Processors) -> Result<Figure, String> {
    let cell = Cell { waiting, processors, ..Cell::NULL };
    Ok(Figure::rate_of(&lab.row(&cell)?, |rate| 1e6 / rate))
}

/// Mbit/s with five processors at both ends, one at the caller, and one at both, by 1 to 5 threads.
const TABLE_11: [(f64, f64, f64); 5] =
    [(2.0, 1.5, 1.3), (3.4, 2.3, 2.0), (4.6, 2.7, 2.4), (4.7, 2.7, 2.5), (4.7, 2.7, 2.5)];

pub(super) fn table_11(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let [mut many, mut mixed, mut one] = [const { Vec::new() }; 3];
    for (callers, paper) in (1_u16..).zip(TABLE_11) {
        let label = format!("{callers} caller thread{}", if callers == 1 { "" } else { "s" });
        let mut rate = |processors| {
            let cell = Cell { procedure: Procedure::MaxResult, callers, processors, ..Cell::NULL };
            lab.row(&cell).map(|row| Figure::rate_of(&row, |rate| rate * mbits(1440)))
        };
        many.push(Line::new(&label).paper(paper.0).today_or_why(rate(Processors::Two)));
        one.push(Line::new(&label).paper(paper.2).today_or_why(rate(Processors::One)));
        let line = Line::new(label).paper(paper.1);
        mixed.push(if callers == 3 {
            line.remark("printed as 2.1, which the lines around it contradict")
        } else {
            line
        });
    }
    Ok(vec![
        Group::new("Five processors each; today one each", "Mbit/s", many).more_is_better(),
        Group::new("Caller one, server five; not possible with two processors", "Mbit/s", mixed)
            .more_is_better(),
        Group::new("One each; today sharing one", "Mbit/s", one).more_is_better(),
    ])
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
