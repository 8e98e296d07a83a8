//! Firefly Tables VI to VIII: the steps of a call and their sum.

use crate::args::{Procedure, Transport, Waiting};
use crate::tables::lab::Lab;
use crate::tables::model::{Group, Line};
use crate::tables::parts::{Parts, Way};

fn parts(lab: &mut Lab<'_>, procedure: Procedure) -> Result<Parts, String> {
    Parts::of(lab, Transport::Udp, procedure, Waiting::Spin)
}

/// Steps of the paper that are one here, their microseconds for 74 and for 1514 bytes, and the tracepoints that end it.
const TABLE_6: [(&str, f64, f64, &[&str]); 3] = [
    ("UDP header and checksum, trap, queue packet", 180.0, 575.0, &["net/net_dev_queue"]),
    ("interrupts, controllers, wire", 318.0, 2988.0, &["net/netif_rx"]),
    (
        "interrupt for received packet, checksum",
        236.0,
        631.0,
        &["net/netif_receive_skb", "sock/sk_data_ready"],
    ),
];
const WAKE_UP: f64 = 220.0;
const ALL_OF_THEM: [&str; 4] =
    ["net/net_dev_queue", "net/netif_rx", "net/netif_receive_skb", "sock/sk_data_ready"];
/// Send and receive a packet of 74 bytes, and one of 1514.
const SEND_RECEIVE: (f64, f64) = (954.0, 4414.0);

pub(super) fn table_6(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let null = parts(lab, Procedure::Null)?;
    let result = parts(lab, Procedure::MaxResult)?;
    Ok(vec![
        send_receive("Packet of 74 bytes", &null.call_packet(), |row| row.1, SEND_RECEIVE.0),
        send_receive("Packet of 1514 bytes", &result.result_packet(), |row| row.2, SEND_RECEIVE.1),
    ])
}

type Row = (&'static str, f64, f64, &'static [&'static str]);

fn send_receive(title: &str, way: &Way<'_>, paper: fn(&Row) -> f64, total: f64) -> Group {
    const ONE_STEP: &str =
        "the kernel is one step: its tracepoints cannot be read here (root, or CAP_PERFMON)";
    let mut lines: Vec<Line> = TABLE_6
        .iter()
        .map(|row| {
            Line::new(row.0).paper(paper(row)).today_or_why(way.until(row.3).ok_or_else(|| ONE_STEP.into()))
        })
        .collect();
    let found = Line::new("wake up the RPC thread; today it finds the packet").paper(WAKE_UP);
    lines.push(found.today_or_why(way.but(&ALL_OF_THEM).ok_or_else(|| ONE_STEP.into())));
    lines.push(Line::new("total for send+receive").paper(total).today(way.whole()));
    Group::new(title, "µs", lines)
}

/// Steps of the paper in user space, its microseconds, and the beginnings of the names of ours.
const TABLE_7: [(&str, f64, &[&str]); 10] = [
    ("caller: calling program", 16.0, &["calling program"]),
    ("caller: calling stub", 90.0, &["calling stub"]),
    ("caller: Starter", 128.0, &["Starter"]),
    ("caller: Transporter, send call packet", 27.0, &["Transporter: register", "system call: send the call"]),
    ("server: Receiver, receive call packet", 158.0, &["Receiver: find", "Receiver: prepare"]),
    ("server: server stub", 68.0, &["server stub"]),
    ("server: Null()", 10.0, &["the procedure"]),
    ("server: Receiver, send result packet", 27.0, &["Receiver: finish", "system call: send the result"]),
    ("caller: Transporter, receive result packet", 49.0, &["Transporter: match", "Transporter: return"]),
    ("caller: Ender", 33.0, &["Ender"]),
];
const USER: f64 = 606.0;

pub(super) fn table_7(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let null = parts(lab, Procedure::Null)?;
    let mut lines: Vec<Line> =
        TABLE_7.iter().map(|row| Line::new(row.0).paper(row.1).today(null.named(row.2))).collect();
    lines.push(Line::new("total").paper(USER).today(null.user()));
    Ok(vec![Group::new("Step", "µs", lines)])
}

pub(super) fn table_8(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let null = parts(lab, Procedure::Null)?;
    let result = parts(lab, Procedure::MaxResult)?;
    Ok(vec![
        calculation("Null()", &null, [USER, SEND_RECEIVE.0, SEND_RECEIVE.0, 2514.0, 2645.0]),
        // Marshaling the result is part of the stubs here: one copy at the caller.
        calculation("MaxResult(b)", &result, [USER + 550.0, SEND_RECEIVE.0, SEND_RECEIVE.1, 6524.0, 6347.0]),
    ])
}

fn calculation(title: &str, parts: &Parts, papers: [f64; 5]) -> Group {
    let today = [
        ("caller, server, stubs, marshaling, run time", parts.user()),
        ("send and receive call packet", parts.call_packet().whole()),
        ("send and receive result packet", parts.result_packet().whole()),
        ("accounted: the steps of each call added up", parts.accounted()),
        ("measured without instruments", parts.plain()),
    ];
    let lines =
        today.into_iter().zip(papers).map(|((name, today), paper)| Line::new(name).paper(paper).today(today));
    Group::new(title, "µs", lines.collect())
}
