//! The improvements in the order of the paper: how the saving of each is predicted, and how it is made.

use super::paper::{Call, Savings};
use super::phases::Present;
use super::setting::{Feature, Of, Setting, in_turn};
use super::sums::crc_us;
use super::{exerciser, headers};
use crate::args::{Procedure, Transport, Waiting};
use crate::plan::Cell;
use crate::tables::lab::{Lab, at_rate, spinning};
use crate::tables::model::Figure;

/// Bytes of a packet without data in an Ethernet frame, and within the frame of `ether:`.
const FRAME: usize = 74;
const PACKET: usize = 32;

/// An improvement of a call.
pub(super) struct Improvement {
    pub(super) name: &'static str,
    /// The call before it, in words.
    pub(super) from: &'static str,
    /// The time that the paper estimates it to save; `None` where it has no estimate.
    pub(super) paper_saves: fn(&Savings) -> Option<f64>,
    /// The call with it, in words: the same words for the same call.
    pub(super) improved: fn(&Call) -> String,
    /// Predicts the microseconds that it will save.
    pub(super) predict: fn(&mut Present<'_, '_>, &Call) -> Result<f64, String>,
    /// Measures the call before it and with it.
    pub(super) make: fn(&mut Lab<'_>, &Call) -> Result<[Figure; 2], String>,
    /// The step of the account, or the floor, that explains why a prediction is off.
    pub(super) reason: &'static str,
}

pub(super) const IMPROVEMENTS: [Improvement; 9] = [
    Improvement {
        name: "different controller: AF_XDP behind the driver",
        from: "a packet ring",
        paper_saves: |paper| Some(paper.controller),
        improved: |call| over(call, Transport::EtherXdpGeneric).describe(),
        predict: |present, call| replaced(present, call, Transport::EtherXdpGeneric),
        make: |lab, call| turn(lab, over(call, Transport::Ether), over(call, Transport::EtherXdpGeneric)),
        reason: XDP,
    },
    Improvement {
        name: "different controller: AF_XDP in the driver",
        from: "a packet ring",
        paper_saves: |paper| Some(paper.controller),
        improved: |call| over(call, Transport::EtherXdp).describe(),
        predict: |present, call| replaced(present, call, Transport::EtherXdp),
        make: |lab, call| turn(lab, over(call, Transport::Ether), over(call, Transport::EtherXdp)),
        reason: XDP,
    },
    Improvement {
        name: "faster network: 100 Mbit/s",
        from: "a link of 10 Mbit/s",
        paper_saves: |paper| Some(paper.network),
        improved: |call| limited(call, 100).describe(),
        predict: |present, call| faster(present, call, [10, 100]),
        make: |lab, call| in_turn(lab, [&limited(call, 10), &limited(call, 100)], Of::Means, Setting::call),
        reason: LINK,
    },
    Improvement {
        name: "faster network: 1000 Mbit/s",
        from: "a link of 100 Mbit/s",
        paper_saves: |_| None,
        improved: |call| limited(call, 1000).describe(),
        predict: |present, call| faster(present, call, [100, 1000]),
        make: |lab, call| in_turn(lab, [&limited(call, 100), &limited(call, 1000)], Of::Means, Setting::call),
        reason: LINK,
    },
    Improvement {
        name: "omit UDP checksums",
        from: "UDP, checksums computed by the kernel",
        paper_saves: |paper| Some(paper.checksums),
        improved: |call| over(call, Transport::Udp).describe(),
        predict: |present, call| present.floor_differs(&over(call, Transport::Udp).cell, Feature::Checksums),
        make: |lab, call| turn(lab, summed(call), over(call, Transport::Udp)),
        reason: "the kernel sums while it copies, so that the four sums take next to nothing: the bare exchanges differ by a few hundredths of a \
                 microsecond, as two measurements of one exchange do",
    },
    Improvement {
        name: "another header: Stoop's instead of Sun RPC's",
        from: "the header of Sun RPC, by hand over UDP",
        paper_saves: |paper| Some(paper.header),
        improved: |_| "the header of Stoop, by hand over UDP".into(),
        predict: |_, _| Ok(headers::saved_us()),
        make: headers::exchanged,
        reason: "two sockets that carry the same header differ by as much as the loops over the headers do, some 30 ns",
    },
    Improvement {
        name: "omit IP and UDP: frames on a packet ring",
        from: "UDP",
        paper_saves: |paper| Some(paper.layering),
        improved: |call| over(call, Transport::Ether).describe(),
        predict: frames,
        make: |lab, call| turn(lab, over(call, Transport::Udp), over(call, Transport::Ether)),
        reason: "the bare exchange over UDP, and the call over UDP, take up to a microsecond longer at some times than at others, while \
                 frames take as long as before; the two phases of a round are not at the same time",
    },
    Improvement {
        name: "busy wait",
        from: "UDP, threads sleep",
        paper_saves: |paper| Some(paper.busy_wait),
        improved: |call| over(call, Transport::Udp).describe(),
        predict: busy_wait,
        make: |lab, call| turn(lab, sleeping(call), over(call, Transport::Udp)),
        reason: "a processor takes now 50 and now 70 µs to wake up, and the sleeping call consists of that",
    },
    Improvement {
        name: "RPC Exerciser: stubs that marshal nothing",
        from: "UDP, emitted stubs",
        paper_saves: |paper| Some(paper.stubs),
        improved: |_| "UDP, stubs made by hand".into(),
        predict: |present, call| {
            Ok(marshaling(present, call.procedure)? - marshaling(present, Procedure::Null)?)
        },
        make: exerciser::tried,
        reason: "the steps in the stubs take some 20 ns together, and two bindings that do the same differ by as much",
    },
];

const XDP: &str = "in the account of the call with it, `Receiver: find binding and lane` takes 60 instead of 31 ns, and the steps between the \
    processes take longer than the bare exchange: the threads of a process share the one endpoint, and each packet passes from it to \
    the thread that waits";
const LINK: &str = "the kernel's timer lets the packets pass that the bucket has held back; when another program or the host has the processor, \
    it is late by milliseconds, which a mean contains";

/// The call over a transport, both ends spinning.
pub(super) fn over(call: &Call, transport: Transport) -> Setting {
    Setting::of(spinning(transport, call.procedure))
}

fn sleeping(call: &Call) -> Setting {
    Setting::of(Cell { waiting: Waiting::Block, ..over(call, Transport::Udp).cell })
}

fn summed(call: &Call) -> Setting {
    Setting::without(over(call, Transport::Udp).cell, Feature::Checksums)
}

fn limited(call: &Call, mbits: u32) -> Setting {
    Setting::of(at_rate(over(call, Transport::Udp).cell, mbits))
}

fn turn(lab: &mut Lab<'_>, before: Setting, after: Setting) -> Result<[Figure; 2], String> {
    in_turn(lab, [&before, &after], Of::Medians, Setting::call)
}

/// The bare exchange over a packet ring is replaced by that of AF_XDP; the rest of the call stays. An interface has one endpoint of
/// AF_XDP, which the threads of a process share: the call takes as much longer as one over a ring does when its threads share that.
fn replaced(present: &mut Present<'_, '_>, call: &Call, transport: Transport) -> Result<f64, String> {
    let ring = over(call, Transport::Ether);
    let shared = Setting::of(Cell { share_endpoints: true, ..ring.cell });
    let sharing = present.calls_differ([&ring, &shared], Of::Medians)?;
    Ok(present.floors_differ([&ring, &over(call, transport)], Of::Medians)? + sharing)
}

/// The bare exchange over UDP is replaced by that of frames, of which each is summed by its sender and by its receiver.
fn frames(present: &mut Present<'_, '_>, call: &Call) -> Result<f64, String> {
    let udp = over(call, Transport::Udp);
    let saved = present.floors_differ([&udp, &over(call, Transport::Ether)], Of::Medians)?;
    let sums: f64 = [PACKET, PACKET + call.result].iter().map(|&len| 2.0 * crc_us(len)).sum();
    Ok(saved - sums)
}

/// A token bucket at this rate, in Mbit/s, lets each packet of a call pass at once.
const UNLIMITED: u32 = 10_000;

/// A link of a token bucket carries one packet each way in the time of its bits, both ways at once: a call takes as long as the longer
/// packet, or as the call without a link and the kernel's work for the bucket, if that is longer.
fn faster(present: &mut Present<'_, '_>, call: &Call, rates: [u32; 2]) -> Result<f64, String> {
    let now = over(call, Transport::Udp);
    let bucket = present.floors_differ([&limited(call, UNLIMITED), &now], Of::Means)?;
    let unlimited = present.call(&now, Of::Means)?.median + bucket;
    let bits = 8.0 * (FRAME + call.result) as f64;
    let [before, after] = rates.map(|mbits| unlimited.max(bits / f64::from(mbits)));
    Ok(before - after)
}

/// The steps of the sleeping call in user space stay; between them is the bare exchange of ends that spin. (The bare exchange of
/// ends that sleep says nothing: how long a processor takes to wake depends on how long it has slept.)
fn busy_wait(present: &mut Present<'_, '_>, call: &Call) -> Result<f64, String> {
    let asleep = present.call(&sleeping(call), Of::Medians)?;
    let user = present.account(call.procedure, Waiting::Block)?.user();
    let between = present.floor(&over(call, Transport::Udp), Of::Medians)?;
    Ok(asleep.median - user.median - between.median)
}

/// The steps in the stubs of both ends.
fn marshaling(present: &mut Present<'_, '_>, procedure: Procedure) -> Result<f64, String> {
    let parts = present.account(procedure, Waiting::Spin)?;
    Ok(parts.named(&["calling stub", "server stub", "the procedure"]).median)
}
