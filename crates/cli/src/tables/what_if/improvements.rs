//! The improvements, in the order of the paper.

use super::headers::xdr_costs_more_us;
use super::sums::checksum_us;
use super::{Tried, both, by_floors, group};
use crate::args::{Procedure, Processors, Program, Transport, Waiting};
use crate::placement::pin;
use crate::plan::Cell;
use crate::tables::elliott_nutt::programs;
use crate::tables::lab::{At, Lab, Way, at_rate, spinning};
use crate::tables::model::{Figure, Group, Line, US};
use crate::tables::parts::Parts;

/// One of the two calls, and what the paper says of it.
struct Call {
    title: &'static str,
    procedure: Procedure,
    /// Bytes of a UDP packet with its pseudo header: of the call and of the result.
    summed: [usize; 2],
    /// Bytes of the longer frame.
    frame: f64,
    paper: Savings,
}

/// The paper's call in µs, and what it would save.
struct Savings {
    call: f64,
    controller: f64,
    network: f64,
    processors: f64,
    checksums: f64,
    header: f64,
    layering: f64,
    busy_wait: f64,
    recoding: f64,
    stubs: f64,
}

const NULL: Call = Call {
    title: "Null()",
    procedure: Procedure::Null,
    summed: [52, 52],
    frame: 74.0,
    paper: Savings {
        call: 2660.0,
        controller: 300.0,
        network: 110.0,
        processors: 1380.0,
        checksums: 180.0,
        header: 200.0,
        layering: 100.0,
        busy_wait: 440.0,
        recoding: 280.0,
        stubs: 140.0,
    },
};

const MAX_RESULT: Call = Call {
    title: "MaxResult(b)",
    procedure: Procedure::MaxResult,
    summed: [52, 1492],
    frame: 1514.0,
    paper: Savings {
        call: 6350.0,
        controller: 1800.0,
        network: 1160.0,
        processors: 2280.0,
        checksums: 1000.0,
        header: 200.0,
        layering: 100.0,
        busy_wait: 440.0,
        recoding: 280.0,
        stubs: 600.0,
    },
};

pub(super) fn measure(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    [NULL, MAX_RESULT].iter().map(|call| of_call(lab, call)).collect()
}

fn of_call(lab: &mut Lab<'_>, call: &Call) -> Result<Group, String> {
    let mut tried = vec![
        ("different controller: AF_XDP behind the driver", controller(lab, call, Transport::EtherXdpGeneric)),
        ("different controller: AF_XDP in the driver", controller(lab, call, Transport::EtherXdp)),
        ("faster network: 100 Mbit/s", network(lab, call, 10, 100)),
        ("faster network: 1000 Mbit/s", network(lab, call, 100, 1000)),
        ("omit UDP checksums", checksums(lab, call)),
        ("omit IP and UDP: frames on a packet ring", layering(lab, call)),
        ("busy wait", busy_wait(lab, call)),
    ];
    if call.procedure == Procedure::Null {
        tried.push(("another header: Stoop's instead of Sun RPC's", header(lab, call)));
    }
    let mut group = group(call.title, tried);
    group.lines.extend(predicted_only(lab, call)?);
    Ok(group)
}

fn controller(lab: &mut Lab<'_>, call: &Call, transport: Transport) -> Result<Tried, String> {
    let name = match transport {
        Transport::EtherXdp => "different controller: AF_XDP in the driver",
        _ => "different controller: AF_XDP behind the driver",
    };
    let before = ("a packet ring", spinning(Transport::Ether, call.procedure));
    let paper = Some(call.paper.call - call.paper.controller);
    by_floors(lab, name, paper, before, spinning(transport, call.procedure))
}

fn layering(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let before = ("UDP", spinning(Transport::Udp, call.procedure));
    let paper = Some(call.paper.call - call.paper.layering);
    let after = spinning(Transport::Ether, call.procedure);
    by_floors(lab, "omit IP and UDP: frames on a packet ring", paper, before, after)
}

/// The steps of the sleeping call in user space stay; between them is the bare exchange of ends that spin. (The bare exchange of
/// ends that sleep says nothing: how long a processor takes to wake depends on how long it has slept.)
fn busy_wait(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let spins = spinning(Transport::Udp, call.procedure);
    let (before, _) = both(lab, &Cell { waiting: Waiting::Block, ..spins })?;
    let parts = Parts::of(lab, Transport::Udp, call.procedure, Waiting::Block)?;
    let (after, floor) = both(lab, &spins)?;
    Ok(Tried {
        name: "busy wait",
        paper: Some(call.paper.call - call.paper.busy_wait),
        before: ("UDP, threads sleep", before),
        predicted: parts.user().median + floor.median,
        after: Ok(after),
        why_off: None,
    })
}

/// A link of a token bucket carries one packet each way in the time of its bits, both ways at once: a call takes as long as the
/// longer packet, or as without a limit if that is longer. Times are means: the kernel's timer is late at times, and then the
/// bucket lets several packets pass at once.
fn network(lab: &mut Lab<'_>, call: &Call, slow: u32, fast: u32) -> Result<Tried, String> {
    let cell = spinning(Transport::Udp, call.procedure);
    let mut mean = |cell: &Cell| lab.row(cell).map(|row| Figure::rate_of(&row, |rate| 1e6 / rate));
    let unlimited = mean(&cell)?;
    let before = mean(&at_rate(cell, slow))?;
    let predicted = unlimited.median.max(call.frame * 8.0 / f64::from(fast));
    let after = mean(&at_rate(cell, fast));
    let (name, label) = match fast {
        100 => ("faster network: 100 Mbit/s", "a link of 10 Mbit/s"),
        _ => ("faster network: 1000 Mbit/s", "a link of 100 Mbit/s"),
    };
    let paper = (fast == 100).then_some(call.paper.call - call.paper.network);
    Ok(Tried { name, paper, before: (label, before), predicted, after, why_off: None })
}

/// A veth pair computes checksums only while it does not claim to offload them.
fn checksums(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let cell = spinning(Transport::Udp, call.procedure);
    lab.clear()?;
    lab.network.offload_checksums(false)?;
    let before = both(lab, &cell);
    lab.network.offload_checksums(true)?;
    let (before, _) = before?;
    let (after, _) = both(lab, &cell)?;
    // Each packet is summed by its sender and by its receiver.
    let sums: f64 = call.summed.iter().map(|&len| 2.0 * checksum_us(len)).sum();
    Ok(Tried {
        name: "omit UDP checksums",
        paper: Some(call.paper.call - call.paper.checksums),
        predicted: before.median - sums,
        before: ("UDP, checksums computed by the kernel", before),
        after: Ok(after),
        why_off: None,
    })
}

/// The same interface by both protocols.
fn header(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    lab.clear()?;
    lab.now("another header");
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let at =
        |scheme: &str| At { address: format!("{scheme}://{}:0", lab.network.server), beside_caller: false };
    let measure = |scheme: &str| -> Result<Figure, String> {
        let (_server, uri) = lab.serve(Program::SunRpc, sides.server, at(scheme), &["--spin"])?;
        let client = programs::bind(&uri, stoop::Waiting::Spin)?;
        let way = Way::boxed(move || client.nothing().map_err(|error| error.to_string()));
        Ok(lab.in_turn(vec![way], US)?.remove(0))
    };
    let before = measure("onc+udp")?;
    let predicted = before.median - xdr_costs_more_us();
    Ok(Tried {
        name: "another header: Stoop's instead of Sun RPC's",
        paper: Some(call.paper.call - call.paper.header),
        before: ("Sun RPC over UDP", before),
        predicted,
        after: measure("udp"),
        why_off: Some(
            "Sun RPC differs in more than its header: other sockets and system calls, and replies kept by number",
        ),
    })
}

/// What cannot be tried on this machine, or in this program.
fn predicted_only(lab: &mut Lab<'_>, call: &Call) -> Result<Vec<Line>, String> {
    let (ours, _) = both(lab, &spinning(Transport::Udp, call.procedure))?;
    let now = ours.median;
    let mut lines = vec![
        Line::new("UDP as it is").paper(call.paper.call).today(ours),
        Line::new("processors three times as fast")
            .paper(call.paper.call - call.paper.processors)
            .predicted(now / 3.0)
            .remark("predicted only: on a veth pair all of a call is software"),
    ];
    let recoded =
        Line::new("run time recoded, three times as fast").paper(call.paper.call - call.paper.recoding);
    let no_stubs =
        Line::new("stubs without marshaling (RPC Exerciser)").paper(call.paper.call - call.paper.stubs);
    match Parts::of(lab, Transport::Udp, call.procedure, Waiting::Spin) {
        Ok(parts) => {
            let run_time = parts.named(&["Starter", "Transporter", "Receiver", "Ender"]);
            let stubs = parts.named(&["calling stub", "server stub"]);
            let said = "predicted only, from the steps of the account";
            lines.push(recoded.predicted(now - run_time.median * 2.0 / 3.0).remark(said));
            lines.push(no_stubs.predicted(now - stubs.median).remark(said));
        }
        Err(why) => lines.extend([recoded.remark(why.clone()), no_stubs.remark(why)]),
    }
    Ok(lines)
}
