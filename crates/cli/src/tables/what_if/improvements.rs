//! The improvements in the order of the paper, each tried for Null() and for MaxResult(b).

use super::paper::{Call, Savings};
use super::sums::checksum_us;
use super::tried::{TURNS, Tried, by_floors, cells_in_turn, in_turn};
use super::{busy_wait, controllers, exerciser, headers};
use crate::args::Transport;
use crate::tables::lab::{Lab, at_rate, spinning};
use crate::tables::model::{Figure, Group};

/// Bytes of a UDP packet without data, with its pseudo header (RFC 768) and Stoop's header.
const SUMMED: usize = 12 + 8 + 32;
/// Bytes of such a packet in an Ethernet frame.
const FRAME: usize = 74;

struct Improvement {
    name: &'static str,
    /// The time that the paper estimates it to save; `None` where it has no estimate.
    saves: fn(&Savings) -> Option<f64>,
    try_it: fn(&mut Lab<'_>, &Call) -> Result<Tried, String>,
}

const IMPROVEMENTS: [Improvement; 9] = [
    Improvement {
        name: "different controller: AF_XDP behind the driver",
        saves: |paper| Some(paper.controller),
        try_it: |lab, call| controllers::replaced(lab, call, Transport::EtherXdpGeneric),
    },
    Improvement {
        name: "different controller: AF_XDP in the driver",
        saves: |paper| Some(paper.controller),
        try_it: |lab, call| controllers::replaced(lab, call, Transport::EtherXdp),
    },
    Improvement {
        name: "faster network: 100 Mbit/s",
        saves: |paper| Some(paper.network),
        try_it: |lab, call| network(lab, call, "a link of 10 Mbit/s", [10, 100]),
    },
    Improvement {
        name: "faster network: 1000 Mbit/s",
        saves: |_| None,
        try_it: |lab, call| network(lab, call, "a link of 100 Mbit/s", [100, 1000]),
    },
    Improvement { name: "omit UDP checksums", saves: |paper| Some(paper.checksums), try_it: checksums },
    Improvement {
        name: "another header: Stoop's instead of Sun RPC's",
        saves: |paper| Some(paper.header),
        try_it: headers::exchanged,
    },
    Improvement {
        name: "omit IP and UDP: frames on a packet ring",
        saves: |paper| Some(paper.layering),
        try_it: layering,
    },
    Improvement { name: "busy wait", saves: |paper| Some(paper.busy_wait), try_it: busy_wait::tried },
    Improvement {
        name: "RPC Exerciser: stubs that marshal nothing",
        saves: |paper| Some(paper.stubs),
        try_it: exerciser::tried,
    },
];

/// The lines of all improvements for one call.
pub(super) fn of_call(lab: &mut Lab<'_>, call: &Call) -> Group {
    let mut lines = Vec::new();
    for Improvement { name, saves, try_it } in IMPROVEMENTS {
        let paper = saves(&call.paper).map(|saved| call.paper.call - saved);
        let tried = lab.clear().and_then(|()| try_it(lab, call));
        lines.extend(Tried::lines(tried, name, paper));
    }
    Group::new(call.title, "µs", lines)
}

fn layering(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let [before, after] =
        [Transport::Udp, Transport::Ether].map(|transport| spinning(transport, call.procedure));
    Ok(by_floors("UDP", cells_in_turn(lab, &before, &after)?))
}

/// A token bucket at this rate, in Mbit/s, lets each packet of a call pass at once.
const UNLIMITED: u32 = 10_000;

/// A link of a token bucket carries one packet each way in the time of its bits, both ways at once: a call takes as long as the
/// longer packet, or as over a bucket that lets each packet pass at once, if that is longer: the kernel's work for the bucket is part of
/// either. Times are means: the kernel's timer is late at times, and then the bucket lets several packets pass at once.
fn network(lab: &mut Lab<'_>, call: &Call, from: &'static str, rates: [u32; 2]) -> Result<Tried, String> {
    let cell = spinning(Transport::Udp, call.procedure);
    let cells = [UNLIMITED, rates[0], rates[1]].map(|rate| at_rate(cell, rate));
    let mut means = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        for (cell, means) in cells.iter().zip(&mut means) {
            let row = lab.row_in(cell, lab.args.time() / TURNS)?;
            means.push(Figure::rate_of(&row, |rate| 1e6 / rate));
        }
    }
    let [unlimited, before, after] = means.map(Figure::joined);
    let bits = 8.0 * (FRAME + call.result) as f64;
    let predicted = unlimited.median.max(bits / f64::from(rates[1]));
    Ok(Tried { from, before, predicted, after })
}

/// A veth pair computes checksums only while it does not claim to offload them. Each packet is summed by its sender and by its
/// receiver.
fn checksums(lab: &mut Lab<'_>, call: &Call) -> Result<Tried, String> {
    let cell = spinning(Transport::Udp, call.procedure);
    let measured = in_turn(lab, [&cell, &cell], |lab, omit| lab.network.offload_checksums(omit));
    // As a veth pair does unless it is told otherwise.
    lab.network.offload_checksums(true)?;
    let [before, after] = measured?;
    let sums: f64 = [SUMMED, SUMMED + call.result].iter().map(|&len| 2.0 * checksum_us(len)).sum();
    Ok(Tried {
        from: "UDP, checksums computed by the kernel",
        predicted: before.ours.median - sums,
        before: before.ours,
        after: after.ours,
    })
}
