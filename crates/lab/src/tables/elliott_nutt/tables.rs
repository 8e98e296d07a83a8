//! Elliott & Nutt Tables 1 to 3: the time of calls.

use super::by_hand::{self, Procedure};
use super::libtirpc;
use super::programs::{self, RemoteClient};
use crate::args::{Processors, Program};
use crate::callers::Calls;
use crate::child::Child;
use crate::placement::{Sides, pin};
use crate::samples::Quartiles;
use crate::tables::lab::{At, Lab, Way};
use crate::tables::model::{Figure, Group, Line, US};
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Times of 25 runs of a thousand calls, and how often each occurred.
const TABLE_1: [(u32, f64); 14] = [
    (1, 3967.0),
    (1, 4000.0),
    (1, 4050.0),
    (3, 4100.0),
    (2, 4133.0),
    (2, 4150.0),
    (3, 4167.0),
    (1, 4183.0),
    (1, 4200.0),
    (1, 4216.0),
    (1, 4233.0),
    (3, 4250.0),
    (3, 4283.0),
    (2, 4383.0),
];
const RUNS: usize = 25;
const CALLS_OF_A_RUN: u32 = 1000;

pub(super) fn table_1(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let place = Place::local(lab)?;
    let (_server, uri) = place.serve_sun_rpc(lab)?;
    let client = programs::bind(&uri, stoop::Waiting::Block)?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        for _ in 0..CALLS_OF_A_RUN {
            client.nothing().map_err(|error| error.to_string())?;
        }
        runs.push(began.elapsed().as_nanos() as f64 * US / f64::from(CALLS_OF_A_RUN));
    }
    let calls = runs.len() as u64 * u64::from(CALLS_OF_A_RUN);
    let papers: Vec<f64> = TABLE_1.iter().flat_map(|&(often, us)| (0..often).map(move |_| us)).collect();
    let line = |name: &str, of: fn(&[f64]) -> f64| {
        // One value in each round: the quartiles of the runs are not those of the fastest run.
        Line::new(name).paper(of(&papers)).today(Figure::of(vec![of(&runs)], calls))
    };
    let lines = vec![
        line("fastest run", |runs| runs.iter().copied().fold(f64::INFINITY, f64::min)),
        line("average of 25 runs", |runs| runs.iter().sum::<f64>() / runs.len() as f64),
        Line::new("median of 25 runs, and quartiles")
            .paper(Quartiles::of(papers.clone()).median)
            .today(Figure::of(runs.clone(), calls)),
        line("slowest run", |runs| runs.iter().copied().fold(0.0, f64::max)),
    ];
    Ok(vec![Group::new("A call without arguments", "µs", lines)])
}

/// Iterations; microseconds of an iteration that is empty, calls a function without arguments, of 2 bytes, of 4.
const TABLE_2: [(u32, [f64; 4]); 3] = [
    (100_000, [1.333_280, 4.166_500, 5.666_440, 4.999_800]),
    (1_000_000, [1.233_284, 4.133_168, 5.449_782, 4.866_472]),
    (10_000_000, [1.213_285, 4.061_504, 5.473_114, 4.893_138]),
];

pub(super) fn table_2(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    lab.now("function calls");
    let groups = TABLE_2.iter().map(|&(iterations, papers)| {
        let loops: [Loop; 4] = [
            ("empty loop", |times| repeat(times, || ())),
            ("no argument", |times| repeat(times, no_argument)),
            ("2 bytes", |times| repeat(times, || two_bytes(black_box(7)))),
            ("4 bytes", |times| repeat(times, || four_bytes(black_box(7)))),
        ];
        let lines = loops
            .iter()
            .zip(papers)
            .map(|(&(name, run), paper)| Line::new(name).paper(paper).today(each_of(iterations, run)));
        Group::new(format!("Program One, an iteration of {iterations}"), "µs", lines.collect())
    });
    Ok(groups.collect())
}

/// The name of a loop, and a function that makes so many iterations of it.
type Loop = (&'static str, fn(u32));

const REPETITIONS: u32 = 15;

fn each_of(iterations: u32, run: fn(u32)) -> Figure {
    let time = |_| {
        let began = Instant::now();
        run(iterations);
        began.elapsed().as_nanos() as f64 * US / f64::from(iterations)
    };
    Figure::of((0..REPETITIONS).map(time).collect(), u64::from(iterations) * u64::from(REPETITIONS))
}

#[inline(always)]
fn repeat(times: u32, call: impl Fn()) {
    for at in 0..times {
        black_box(at);
        call();
    }
}

#[inline(never)]
fn no_argument() {
    black_box(());
}

#[inline(never)]
fn two_bytes(value: i16) {
    black_box(value);
}

#[inline(never)]
fn four_bytes(value: i32) {
    black_box(value);
}

/// The processors of client and server of a program, and the server's address.
pub(super) struct Place {
    sides: Sides,
    address: String,
    beside_caller: bool,
}

impl Place {
    /// One machine of one processor: both share it, and speak over loopback.
    pub(super) fn local(lab: &Lab<'_>) -> Result<Self, String> {
        Self::new(lab, Processors::One, "127.0.0.1".into(), true)
    }

    /// Two machines: a processor and an end of the private Ethernet each.
    fn remote(lab: &Lab<'_>) -> Result<Self, String> {
        Self::new(lab, Processors::Two, lab.network.server.to_string(), false)
    }

    fn new(
        lab: &Lab<'_>,
        processors: Processors,
        address: String,
        beside_caller: bool,
    ) -> Result<Self, String> {
        let sides = lab.sides(processors)?;
        pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
        Ok(Self { sides, address, beside_caller })
    }

    fn serve(
        &self,
        lab: &Lab<'_>,
        program: Program,
        address: String,
        more: &[&str],
    ) -> Result<(Child, String), String> {
        lab.serve(program, self.sides.server, At { address, beside_caller: self.beside_caller }, more)
    }

    pub(super) fn serve_sun_rpc(&self, lab: &Lab<'_>) -> Result<(Child, String), String> {
        self.serve(lab, Program::SunRpc, format!("onc+udp://{}:0", self.address), &[])
    }

    /// Starts the server of Program Three or Four, and returns clients of it.
    pub(super) fn by_hand(
        &self,
        lab: &Lab<'_>,
        program: Program,
        select: bool,
        clients: usize,
    ) -> Result<(Child, Vec<by_hand::Client>), String> {
        let more: &[&str] = if select { &["--select"] } else { &[] };
        let (server, listening) = self.serve(lab, program, self.address.clone(), more)?;
        let address: SocketAddr = listening.parse().map_err(|_| format!("{listening:?} is no address"))?;
        let client = |_| match program {
            Program::Tcp => by_hand::Client::by_tcp(address, select),
            _ => by_hand::Client::by_udp(address, select),
        };
        let clients: std::io::Result<Vec<_>> = (0..clients).map(client).collect();
        Ok((server, clients.map_err(|error| error.to_string())?))
    }

    pub(super) fn libtirpc(
        &self,
        lab: &Lab<'_>,
        program: &libtirpc::Program,
    ) -> Result<(Child, libtirpc::Client), String> {
        let cpus = (self.sides.caller, self.sides.server);
        let network = (!self.beside_caller).then_some(&lab.network);
        program.pair(&self.address, cpus, network).map_err(|error| error.to_string())
    }
}

/// A row of Table 3: how the program is called, local and remote times in µs (none in the paper where it has no such row), for each
/// procedure.
struct Paper {
    name: &'static str,
    local: Option<[f64; 3]>,
    remote: Option<[f64; 3]>,
}

const fn paper(name: &'static str, local: [f64; 3], remote: [f64; 3]) -> Paper {
    Paper { name, local: Some(local), remote: Some(remote) }
}

const TABLE_3: [Paper; 6] = [
    paper("Program 3 (UDP), block", [2950.0, 2883.0, 2783.0], [3900.0, 3767.0, 3783.0]),
    paper("Program 3 (UDP), select", [3033.0, 3033.0, 3150.0], [4483.0, 4050.0, 4750.0]),
    paper("Program 2 (Sun RPC), by Stoop", [4216.0, 3950.0, 4183.0], [5150.0, 5283.0, 5266.0]),
    Paper {
        name: "Program 2 (Sun RPC), by libtirpc",
        local: Some([4216.0, 3950.0, 4183.0]),
        remote: Some([5150.0, 5283.0, 5266.0]),
    },
    paper("Program 4 (TCP), block", [3517.0, 3017.0, 3550.0], [3400.0, 3333.0, 3517.0]),
    paper("Program 4 (TCP), select", [4150.0, 4583.0, 4317.0], [5083.0, 4666.0, 5116.0]),
];

const NAMES: [&str; 3] = ["no argument", "2 bytes", "4 bytes"];

pub(super) fn table_3(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let local = Place::local(lab)?;
    let mut groups = table_3_at(lab, &local, "Local", |paper| paper.local)?;
    let remote =
        Place::remote(lab).and_then(|remote| table_3_at(lab, &remote, "Remote", |paper| paper.remote));
    groups.extend(remote?);
    Ok(groups)
}

fn table_3_at(
    lab: &Lab<'_>,
    place: &Place,
    title: &str,
    papers: fn(&Paper) -> Option<[f64; 3]>,
) -> Result<Vec<Group>, String> {
    let Programs { servers, ways } = Programs::start(lab, place)?;
    lab.now(&format!("Programs Two, Three and Four: {title}"));
    let there: Vec<bool> = ways.iter().map(Result::is_ok).collect();
    let (mut missing, mut flat) = (Vec::new(), Vec::new());
    for ways in ways {
        match ways {
            Ok(ways) => flat.extend(ways),
            Err(why) => missing.push(why),
        }
    }
    let mut figures = lab.in_turn(flat, US)?.into_iter();
    drop(servers);
    let mut groups: [Vec<Line>; 3] = [const { Vec::new() }; 3];
    for (row, is_there) in TABLE_3.iter().zip(there) {
        for (procedure, group) in groups.iter_mut().enumerate() {
            let line = Line { paper: papers(row).map(|row| row[procedure]), ..Line::new(row.name) };
            let figure = if is_there { figures.next() } else { None };
            group.push(line.today_or_why(figure.ok_or_else(|| missing.concat())));
        }
    }
    let titled = groups.into_iter().zip(NAMES);
    Ok(titled.map(|(lines, name)| Group::new(format!("{title}, {name}"), "µs", lines)).collect())
}

/// The programs of Table 3 in its order.
#[derive(Default)]
struct Programs {
    servers: Vec<Child>,
    ways: Vec<Ways>,
}

/// Calls of the three procedures of a program, or why it cannot be called here.
type Ways = Result<[Box<dyn Calls>; 3], String>;

impl Programs {
    fn start(lab: &Lab<'_>, place: &Place) -> Result<Self, String> {
        let mut programs = Self::default();
        programs.add_by_hand(lab, place, Program::Udp)?;
        let (server, uri) = place.serve_sun_rpc(lab)?;
        programs.servers.push(server);
        programs.ways.push(Ok(by_sun_rpc(&programs::bind(&uri, stoop::Waiting::Block)?)));
        programs.add_libtirpc(lab, place);
        programs.add_by_hand(lab, place, Program::Tcp)?;
        Ok(programs)
    }

    /// With a blocking receive, and with `select`.
    fn add_by_hand(&mut self, lab: &Lab<'_>, place: &Place, program: Program) -> Result<(), String> {
        for select in [false, true] {
            let (server, clients) = place.by_hand(lab, program, select, 3)?;
            self.servers.push(server);
            self.ways.push(each_procedure(clients));
        }
        Ok(())
    }

    fn add_libtirpc(&mut self, lab: &Lab<'_>, place: &Place) {
        let pair = libtirpc::Program::compile().and_then(|program| place.libtirpc(lab, &program));
        self.ways.push(pair.map(|(server, client)| {
            self.servers.push(server);
            let client = Arc::new(Mutex::new(client));
            Procedure::ALL.map(|procedure| libtirpc::Client::calls(Arc::clone(&client), procedure))
        }));
    }
}

fn each_procedure(clients: Vec<by_hand::Client>) -> Ways {
    let ways = clients.into_iter().zip(Procedure::ALL).map(|(mut client, procedure)| {
        Way::boxed(move || client.call(procedure, &mut ()).map_err(|error| format!("made by hand: {error}")))
    });
    ways.collect::<Vec<_>>().try_into().map_err(|_| "each procedure has a client".to_owned())
}

fn by_sun_rpc(client: &RemoteClient) -> [Box<dyn Calls>; 3] {
    let [nothing, two, four] = [(); 3].map(|()| client.clone());
    let in_words = |error: stoop::CallError| error.to_string();
    [
        Way::boxed(move || nothing.nothing().map_err(in_words)),
        Way::boxed(move || two.two_bytes(7).map_err(in_words)),
        Way::boxed(move || four.four_bytes(7).map_err(in_words)),
    ]
}
