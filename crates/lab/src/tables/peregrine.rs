//! The tables of the Peregrine paper (1991).

mod breakdown;

use super::entry::Entry;
use super::lab::{Lab, spinning};
use super::model::{Figure, Group, Line, US, mbits};
use crate::args::{PenaltyArgs, Procedure, Processors, Transport, Waiting};
use crate::floor::penalty::Transfer;
use crate::penalty::{FULL, PaperCall, TABLE_1, TABLE_2, TABLE_3, TABLE_5, bare_slices};
use crate::plan::Cell;
use crate::row::Row;

pub(crate) const TABLES: &[Entry] = &[
    Entry {
        name: "peregrine-1",
        title: "Peregrine Table 1: the network penalty for various packet sizes",
        how: "Bare frames on a private Ethernet (a veth pair, memory-mapped packet rings), both ends looking for them without \
              sleeping; half of the round trip. The paper's network was an Ethernet of 10 Mbit/s, whose transmission alone \
              took 0.8 µs for each byte; a veth pair has no wire.",
        figures: 7,
        measure: penalty_of_sizes,
    },
    Entry {
        name: "peregrine-2",
        title: "Peregrine Table 2: the network penalty of several packets",
        how: "As Table 1, with frames of 1500 bytes sent one after the other as fast as possible, and as many back.",
        figures: 7,
        measure: penalty_of_several,
    },
    Entry {
        name: "peregrine-3",
        title: "Peregrine Table 3: calls of one packet",
        how: "Calls directly on the Ethernet, both ends spinning on a processor each. Beside each call, slice by slice, bare \
              frames of as many bytes (the penalty). The overhead is the difference.",
        figures: 4,
        measure: |lab| calls(lab, &TABLE_3),
    },
    Entry {
        name: "peregrine-4",
        title: "Peregrine Table 4: breakdown of costs for Null()",
        how: "By `stoop account` in frames on a packet ring, both ends spinning on a processor each. Nothing switches contexts, \
              interrupts or remaps pages in user space: those lines of the paper have no counterpart, and a part of the \
              penalty's kernel time takes their place. Neighbouring lines of the paper that are one step here are added up.",
        figures: 2,
        measure: breakdown::table_4,
    },
    Entry {
        name: "peregrine-5",
        title: "Peregrine Table 5: calls of several packets",
        how: "As Table 3. Each packet carries 1440 bytes of data.",
        figures: 4,
        measure: calls_of_several,
    },
    Entry {
        name: "peregrine-6",
        title: "Peregrine Table 6: calls within one machine",
        how: "Over shared memory, between two processes; threads that share a processor sleep, others spin. Beside each call, slice by slice, a bare exchange of as \
              many bytes through the same kind of memory (the floor); the overhead is the difference. Peregrine's machine had one \
              processor, so the first groups are those to compare; on a processor each both processes run at the same time. The \
              paper gives no floor but its theoretical minimum for Null().",
        figures: 9,
        measure: local_calls,
    },
    Entry {
        name: "peregrine-7",
        title: "Peregrine Table 7: systems compared",
        how: "The paper collected what others had published. Below its systems stand today's, all on this machine: latency \
              of Null(), and throughput of results of 1 MiB. Beside both, slice by slice, the bare exchange of as many bytes over the \
              same transport (the penalty); the overhead is the difference.",
        figures: 9,
        measure: systems,
    },
];

fn penalty_args(lab: &Lab<'_>, frames: usize) -> PenaltyArgs {
    // As many round trips as fit into the time of a figure at some 10 µs each.
    let fitting = lab.args.time().as_micros() as u64 / 10 / frames.isqrt() as u64;
    PenaltyArgs { transport: Transport::Ether, calls: lab.args.calls.unwrap_or(fitting) }
}

fn penalty(lab: &mut Lab<'_>, transfer: Transfer) -> Result<Figure, String> {
    if !lab.network.has_frames {
        return Err("bare frames need a private Ethernet, which could not be made".into());
    }
    lab.now(&format!("{} bare frames of {} bytes", transfer.frames, transfer.data));
    let sides = lab.sides(Processors::Two)?;
    crate::placement::pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let slices = bare_slices(&penalty_args(lab, transfer.frames), transfer, sides, &lab.network)?;
    Ok(Figure::of_slices(slices, US / 2.0))
}

fn penalty_of_sizes(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut lines = Vec::new();
    for (data, paper) in TABLE_1 {
        let today = penalty(lab, Transfer { data, frames: 1 })?;
        lines.push(Line::new(format!("{data} bytes")).paper(paper).today(today));
    }
    Ok(vec![Group::new("Penalty, one way", "µs", lines)])
}

fn penalty_of_several(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let (mut penalties, mut bandwidths) = (Vec::new(), Vec::new());
    for (frames, paper_ms) in TABLE_2 {
        let today = penalty(lab, Transfer { data: FULL, frames })?;
        let bits = (frames * FULL * 8) as f64;
        let mbits = today.samples.iter().map(|us| bits / us).collect();
        let label = format!("{frames} packets, {} bytes", frames * FULL);
        bandwidths
            .push(Line::new(&label).paper(bits / (paper_ms * 1e3)).today(Figure::of(mbits, today.calls)));
        penalties.push(Line::new(label).paper(paper_ms * 1e3).today(today));
    }
    Ok(vec![
        Group::new("Penalty, one way", "µs", penalties),
        Group::new("Bandwidth of data", "Mbit/s", bandwidths).more_is_better(),
    ])
}

/// A call of the paper, as a call in frames of today.
fn cell(call: &PaperCall) -> Cell {
    Cell { bytes: call.bytes, ..spinning(Transport::Ether, call.procedure) }
}

/// Groups of the measured time, the penalty and the overhead of each call.
fn calls(lab: &mut Lab<'_>, calls: &[PaperCall]) -> Result<Vec<Group>, String> {
    let [mut measured, mut penalties, mut overheads] = [const { Vec::new() }; 3];
    for call in calls {
        let row = lab.row(&cell(call))?;
        overheads.push(Line::new(call.name).paper(call.measured - call.penalty).today(overhead(&row)));
        measured.push(Line::new(call.name).paper(call.measured).today(ours(&row)));
        penalties.push(Line::new(call.name).paper(call.penalty).today(floor(&row)));
    }
    Ok(vec![
        Group::new("Call", "µs", measured),
        Group::new("Network penalty of call and result", "µs", penalties),
        Group::new("Overhead of the RPC system", "µs", overheads),
    ])
}

fn calls_of_several(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut groups = calls(lab, &TABLE_5)?;
    let rates = TABLE_5.iter().zip(&groups[0].lines).map(|(call, line)| {
        let bits =
            f64::from(call.bytes) * 8.0 * if call.procedure == Procedure::BulkInOut { 2.0 } else { 1.0 };
        let today = line
            .today
            .as_ref()
            .map(|figure| Figure::of(figure.samples.iter().map(|us| bits / us).collect(), figure.calls));
        Line { today, ..Line::new(call.name).paper(bits / call.measured) }
    });
    let rates = rates.collect();
    groups.push(Group::new("Throughput of data", "Mbit/s", rates).more_is_better());
    Ok(groups)
}

/// Calls within one machine, and the paper's times in microseconds.
const TABLE_6: [(&str, Procedure, u32, f64); 4] = [
    ("Null()", Procedure::Null, 0, 149.0),
    ("4 bytes IN", Procedure::BulkIn, 4, 150.0),
    ("1024 bytes IN", Procedure::BulkIn, 1024, 310.0),
    ("1024 bytes IN-OUT", Procedure::BulkInOut, 1024, 468.0),
];

/// The paper's theoretical minimum of a local Null() (§5.4), in microseconds.
const MINIMUM: f64 = 65.0;

fn local_calls(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let shm = Cell { transport: Transport::Shm, ..Cell::NULL };
    let one = Cell { waiting: Waiting::Block, processors: Processors::One, ..shm };
    let mut groups = local_calls_on(lab, one, "sharing a processor");
    // The library's usual wait, which the bare exchange lacks.
    let yields = lab.row(&Cell { waiting: Waiting::Adaptive, ..one }).map(|row| ours(&row));
    groups[0].lines.push(Line::new("Null(), waiting adaptively: threads yield").today_or_why(yields));
    groups.extend(local_calls_on(lab, Cell { waiting: Waiting::Spin, ..shm }, "on a processor each"));
    Ok(groups)
}

/// Groups of the calls, of their floors, and of the differences.
fn local_calls_on(lab: &mut Lab<'_>, null: Cell, title: &str) -> Vec<Group> {
    let [mut calls, mut floors, mut overheads] = [const { Vec::new() }; 3];
    for (name, procedure, bytes, paper) in TABLE_6 {
        let row = lab.row(&Cell { procedure, bytes, ..null });
        let figure = |of: fn(&Row) -> Figure| row.as_ref().map(of).map_err(Clone::clone);
        calls.push(Line::new(name).paper(paper).today_or_why(figure(ours)));
        let floor = Line::new(name).today_or_why(figure(floor));
        floors.push(if procedure == Procedure::Null { floor.paper(MINIMUM) } else { floor });
        overheads.push(Line::new(name).today_or_why(figure(overhead)));
    }
    vec![
        Group::new(format!("Call, {title}"), "µs", calls),
        Group::new(format!("Bare exchange by shared memory, {title}"), "µs", floors),
        Group::new(format!("Overhead of the RPC system, {title}"), "µs", overheads),
    ]
}

fn ours(row: &Row) -> Figure {
    Figure::time_of(row, US)
}

fn floor(row: &Row) -> Figure {
    Figure::floor_of(row, US)
}

fn overhead(row: &Row) -> Figure {
    ours(row).minus(&floor(row))
}

/// System, latency in microseconds, throughput in Mbit/s.
const TABLE_7: [(&str, f64, f64); 9] = [
    ("Cedar, Dorado, 3 Mbit/s", 1097.0, 2.0),
    ("Amoeba, SUN-3/60", 1100.0, 6.4),
    ("x-kernel, SUN-3/75", 1730.0, 7.1),
    ("V-System, SUN-3/75", 2540.0, 4.4),
    ("Firefly, 5 processors", 2660.0, 4.6),
    ("Sprite, SUN-3/75, kernel to kernel", 2800.0, 5.7),
    ("Firefly, 1 processor", 4800.0, 2.5),
    ("SunRPC, SUN-3/60", 6700.0, 2.7),
    ("Peregrine, SUN-3/60", 562.0, 8.9),
];

fn systems(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut latencies: Vec<Line> =
        TABLE_7.iter().map(|&(name, latency, _)| Line::new(name).paper(latency)).collect();
    let mut rates: Vec<Line> = TABLE_7.iter().map(|&(name, _, rate)| Line::new(name).paper(rate)).collect();
    let mut overheads = Vec::new();
    let bulk = |transport| Cell { bytes: LONG, ..spinning(transport, Procedure::BulkOut) };
    for transport in [Transport::Ether, Transport::Udp, Transport::Tcp] {
        let name = crate::args::name_of(transport);
        let null = lab.row(&spinning(transport, Procedure::Null));
        let figure = |of: fn(&Row) -> Figure| null.as_ref().map(of).map_err(Clone::clone);
        latencies.push(Line::new(format!("Stoop over {name}, spinning")).today_or_why(figure(ours)));
        latencies.push(Line::new(format!("bare exchange over {name}, spinning")).today_or_why(figure(floor)));
        overheads.push(Line::new(format!("Stoop over {name}, spinning")).today_or_why(figure(overhead)));
        let long = lab.row(&bulk(transport));
        let figure = |of: fn(&Row) -> Figure| long.as_ref().map(of).map_err(Clone::clone);
        rates.push(Line::new(format!("Stoop over {name}, results of 1 MiB")).today_or_why(figure(mbits_of)));
        let bare = Line::new(format!("bare transfer over {name}, 1 MiB"));
        rates.push(bare.today_or_why(figure(bare_mbits_of)));
    }
    Ok(vec![
        Group::new("Latency of Null()", "µs", latencies),
        Group::new("Overhead of Null() beyond the bare exchange", "µs", overheads),
        Group::new("Throughput", "Mbit/s", rates).more_is_better(),
    ])
}

/// Bytes of a long result.
const LONG: u32 = 1 << 20;

fn mbits_of(row: &Row) -> Figure {
    Figure::rate_of(row, |rate| rate * mbits(LONG))
}

fn bare_mbits_of(row: &Row) -> Figure {
    Figure::floor_rate_of(row, |rate| rate * mbits(LONG))
}
