//! Firefly Tables X and XI: fewer processors, by the RPC Exerciser.

use crate::args::{Procedure, Program, Waiting, name_of};
use crate::callers::Calls;
use crate::ours::wait;
use crate::placement::pin_to;
use crate::tables::lab::{At, Lab};
use crate::tables::model::{Figure, Group, Line, mbits};
use crate::tables::what_if::exerciser::HandMade;

/// The processors of the caller and those of the server.
type Sides = (Vec<usize>, Vec<usize>);

/// Processors of caller and server, seconds for 1000 calls.
const TABLE_10: [(usize, usize, f64); 9] = [
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
    [Waiting::Block, Waiting::Adaptive].map(|waiting| calls_by_one_thread(lab, waiting)).into_iter().collect()
}

/// Milliseconds of a thousand calls, with each number of processors.
fn calls_by_one_thread(lab: &mut Lab<'_>, waiting: Waiting) -> Result<Group, String> {
    let mut lines = Vec::new();
    for (caller, server, seconds) in TABLE_10 {
        let line = Line::new(format!("caller {caller}, server {server}")).paper(seconds * 1e3);
        let today = apart(lab, caller, server).and_then(|sides| null(lab, &sides, waiting));
        lines.push(line.today_or_why(today));
    }
    for (name, sides) in together(lab) {
        lines.push(Line::new(name).today_or_why(null(lab, &sides, waiting)));
    }
    let how = match waiting {
        Waiting::Block => "threads sleep",
        _ => "waiting adaptively",
    };
    Ok(Group::new(format!("1,000 calls to Null(), {how}"), "ms", without_repeated_reasons(lines)))
}

fn null(lab: &mut Lab<'_>, sides: &Sides, waiting: Waiting) -> Result<Figure, String> {
    let words = format!("Null() by hand-made stubs, {}", name_of(waiting));
    Ok(rate(lab, &words, sides, waiting, Procedure::Null, 1)?.map(|rate| 1e6 / rate))
}

/// Mbit/s by 1 to 5 threads, with five processors at both ends, one at the caller, and one at both.
const TABLE_11: [[f64; 5]; 3] =
    [[2.0, 3.4, 4.6, 4.7, 4.7], [1.5, 2.3, 2.7, 2.7, 2.7], [1.3, 2.0, 2.4, 2.5, 2.5]];
/// Processors of caller and server of each of these columns.
const PROCESSORS: [(usize, usize); 3] = [(5, 5), (1, 5), (1, 1)];
/// The caller threads and the column of a figure that the scan has as 2.1.
const MISREAD: (usize, usize) = (3, 1);

pub(super) fn table_11(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for (column, ((caller, server), papers)) in PROCESSORS.into_iter().zip(TABLE_11).enumerate() {
        let mut lines = Vec::new();
        for (threads, paper) in (1..).zip(papers) {
            let today = apart(lab, caller, server).and_then(|sides| results(lab, &sides, threads));
            let line = Line::new(threads_in_words(threads)).paper(paper).today_or_why(today);
            let is_misread = (threads, column) == MISREAD;
            lines.push(if is_misread { line.remark(PRINTED_AS) } else { line });
        }
        let title = format!("Caller {caller}, server {server}");
        groups.push(throughput(title, without_repeated_reasons(lines)));
    }
    for (name, sides) in together(lab) {
        let lines = (1..=5)
            .map(|threads| Line::new(threads_in_words(threads)).today_or_why(results(lab, &sides, threads)));
        groups.push(throughput(name, lines.collect()));
    }
    Ok(groups)
}

const PRINTED_AS: &str = "printed as 2.1, which the lines around it contradict";

fn threads_in_words(threads: usize) -> String {
    format!("{threads} caller thread{}", if threads == 1 { "" } else { "s" })
}

fn throughput(title: String, lines: Vec<Line>) -> Group {
    Group::new(title, "Mbit/s", lines).more_is_better()
}

fn results(lab: &mut Lab<'_>, sides: &Sides, threads: usize) -> Result<Figure, String> {
    let words = format!("MaxResult(b) by hand-made stubs, {}", threads_in_words(threads));
    let rate = rate(lab, &words, sides, Waiting::Adaptive, Procedure::MaxResult, threads)?;
    Ok(rate.map(|rate| rate * mbits(1440)))
}

/// So many processors for each end, as the paper's two machines had them.
pub(super) fn apart(lab: &Lab<'_>, caller: usize, server: usize) -> Result<Sides, String> {
    lab.placement.apart(caller, server).ok_or_else(|| {
        let there = lab.placement.all().len();
        let processors = if there == 1 { "processor" } else { "processors" };
        format!("as many processors for each end are not there: this process may use {there} {processors}")
    })
}

/// Ways in which both ends share the processors of one machine.
fn together(lab: &Lab<'_>) -> Vec<(String, Sides)> {
    let all = lab.placement.all();
    let last = all[all.len() - 1..].to_vec();
    let mut ways = vec![("both ends on the same one".to_owned(), (last.clone(), last))];
    if all.len() > 1 {
        let name = format!("both ends on any of {} processors", all.len());
        ways.insert(0, (name, (all.clone(), all)));
    }
    ways
}

/// The rate of calls by so many threads over UDP, by stubs made by hand.
fn rate(
    lab: &mut Lab<'_>,
    words: &str,
    sides: &Sides,
    waiting: Waiting,
    procedure: Procedure,
    threads: usize,
) -> Result<Figure, String> {
    lab.now(words);
    rate_of(lab, sides, waiting, |uri| {
        let client = HandMade::bind(uri, wait(waiting))?;
        Ok((0..threads).map(|_| client.calls(procedure)).collect())
    })
}

/// The rate at which the threads call that `bind` gives for the address of a server of the Test interface.
pub(super) fn rate_of(
    lab: &Lab<'_>,
    (caller, server): &Sides,
    waiting: Waiting,
    bind: impl FnOnce(&str) -> Result<Vec<Box<dyn Calls>>, String>,
) -> Result<Figure, String> {
    // Before the server starts and the client binds: both ask then how many processors they may use.
    pin_to(caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let at = At { address: format!("udp://{}:0", lab.network.server), beside_caller: false };
    let waits = format!("--waiting={}", name_of(waiting));
    let (_server, uri) = lab.serve_on(Program::Exerciser, server, at, &[&waits])?;
    lab.rates(bind(&uri)?)
}

/// Leaves a reason that several lines in a row have below the last of them.
pub(super) fn without_repeated_reasons(mut lines: Vec<Line>) -> Vec<Line> {
    for at in 1..lines.len() {
        if lines[at].remark == lines[at - 1].remark {
            lines[at - 1].remark = None;
        }
    }
    lines
}
