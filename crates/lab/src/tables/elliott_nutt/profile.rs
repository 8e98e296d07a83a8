//! Elliott & Nutt Tables 4 and 5: the shares of system calls in the time of a client.

use super::by_hand::{Procedure, SystemCall, Watch};
use super::libtirpc::{self, Task};
use super::parts;
use super::tables::Place;
use crate::args::Program;
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, Group, Line};
use std::time::Instant;

/// The system calls' shares of a profile in percent, and their milliseconds a call.
struct Paper {
    title: &'static str,
    select: bool,
    send: (f64, f64),
    wait: Option<(f64, f64)>,
    receive: (f64, f64),
}

const TABLE_4A: Paper =
    Paper { title: "4a: blocking", select: false, send: (69.4, 1.72), wait: None, receive: (28.0, 0.69) };
const TABLE_4B: Paper = Paper {
    title: "4b: using select",
    select: true,
    send: (58.9, 1.63),
    wait: Some((24.3, 0.67)),
    receive: (14.4, 0.40),
};
const TABLE_5: Paper = Paper {
    title: "5: Sun RPC",
    select: true,
    send: (40.5, 1.78),
    wait: Some((15.8, 0.69)),
    receive: (16.5, 0.73),
};

/// Slices of a profile, and calls of each procedure in one.
const SLICES: usize = 21;
const CALLS: u64 = 1000;

/// The time of one slice of 3000 calls, by kind of system call.
#[derive(Clone, Copy, Default)]
struct Profile {
    all_ns: f64,
    /// Number and total nanoseconds of the system calls that send, that receive, and that wait.
    kinds: [(f64, f64); 3],
}

impl Watch for Profile {
    #[inline(always)]
    fn around<T>(&mut self, call: SystemCall, make: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let made = make();
        let kind = &mut self.kinds[match call {
            SystemCall::Send => 0,
            SystemCall::Receive => 1,
            SystemCall::Select => 2,
        }];
        *kind = (kind.0 + 1.0, kind.1 + began.elapsed().as_nanos() as f64);
        made
    }
}

pub(super) fn table_4(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for paper in [&TABLE_4A, &TABLE_4B] {
        lab.now(paper.title);
        let place = Place::local(lab)?;
        let (_server, mut clients) = place.by_hand(lab, Program::Udp, paper.select, 1)?;
        let client = &mut clients[0];
        let slice = |_| {
            let mut profile = Profile::default();
            let began = Instant::now();
            for procedure in Procedure::ALL {
                for _ in 0..CALLS {
                    client.call(procedure, &mut profile).map_err(|error| error.to_string())?;
                }
            }
            profile.all_ns = began.elapsed().as_nanos() as f64;
            Ok(profile)
        };
        let slices = (0..SLICES).map(slice).collect::<Result<Vec<_>, String>>()?;
        groups.extend(drawn(paper, &slices, "everything else"));
    }
    Ok(groups)
}

pub(super) fn table_5(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    lab.now(TABLE_5.title);
    let place = Place::local(lab)?;
    let (_server, mut client) = place.libtirpc(lab, &libtirpc::Program::compile()?)?;
    let slice = |_| {
        let mut profile = Profile::default();
        for procedure in Procedure::ALL {
            let took = client.repeat(procedure, CALLS, Task::Watch).map_err(|error| error.to_string())?;
            profile.all_ns += took.all_ns;
            for (sum, more) in profile.kinds.iter_mut().zip(took.kinds) {
                *sum = (sum.0 + more.0, sum.1 + more.1);
            }
        }
        Ok(profile)
    };
    let slices = (0..SLICES).map(slice).collect::<Result<Vec<_>, String>>()?;
    let mut groups = drawn(&TABLE_5, &slices, "XDR and the rest of the library");
    groups.push(parts::of_libtirpc(&mut client)?);
    groups.push(parts::of_stoop(lab)?);
    Ok(groups)
}

/// Two groups: the share of each kind of system call, and the time of one.
fn drawn(paper: &Paper, slices: &[Profile], rest: &str) -> Vec<Group> {
    let kinds = [
        ("send", Some(paper.send), 0),
        ("select or poll", paper.wait, 2),
        ("receive", Some(paper.receive), 1),
    ];
    let calls = CALLS * 3 * SLICES as u64;
    let figure = |of: &dyn Fn(&Profile) -> f64| Figure::of(slices.iter().map(of).collect(), calls);
    let (mut shares, mut times) = (Vec::new(), Vec::new());
    for (name, papers, kind) in kinds {
        let is_used = slices.iter().any(|slice| slice.kinds[kind].0 > 0.0);
        if !is_used && papers.is_none() {
            continue;
        }
        let share = Line::new(name).today(figure(&|slice| 100.0 * slice.kinds[kind].1 / slice.all_ns));
        let time =
            Line::new(name).today(figure(&|slice| slice.kinds[kind].1 / slice.kinds[kind].0.max(1.0) / 1e3));
        shares.push(Line { paper: papers.map(|papers| papers.0), ..share });
        times.push(Line { paper: papers.map(|papers| papers.1 * 1e3), ..time });
    }
    let system = |slice: &Profile| slice.kinds.iter().map(|kind| kind.1).sum::<f64>();
    let papers = [Some(paper.send), paper.wait, Some(paper.receive)];
    let papers_rest = 100.0 - papers.iter().flatten().map(|papers| papers.0).sum::<f64>();
    shares.push(
        Line::new(rest)
            .paper(papers_rest)
            .today(figure(&|slice| 100.0 * (1.0 - system(slice) / slice.all_ns))),
    );
    vec![
        Group::new(format!("{}: share of the time", paper.title), "%", shares),
        Group::new(format!("{}: a system call", paper.title), "µs", times),
    ]
}
