//! Measures one cell: ours and the floor in turn, slice by slice, the one that waits its turn stopped.
//!
//! The reference machine has episodes, seconds long, in which everything takes half as long again. Slices of a fraction of a
//! second put ours and the floor into the same episode, and the ratio of neighbours hardly notices it.

use crate::args::{Procedure, Results, Transport};
use crate::callers::{Callers, Calls, Measured};
use crate::effort::Effort;
use crate::floor::{Floor, LOST};
use crate::network::Network;
use crate::others::Snapshot;
use crate::placement::Sides;
use crate::plan::Cell;
use crate::row::{Costs, Findings, Row, Slices};
use crate::session::{Session, socket_path};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Measures `cell` with the server and threads of `session`.
pub(crate) fn measure(
    cell: &Cell,
    effort: Effort,
    session: &mut Session,
    network: &Network,
) -> Result<Row, String> {
    if cell.procedure.is_bulk() && cell.begins_calls() {
        return Err(
            "no bare exchange is known for many bulk outstanding calls: measure them one at a time".into()
        );
    }
    if cell.results == Results::OneWay && cell.procedure != Procedure::Null {
        return Err("one-way calls are measured without arguments: choose the procedure null".into());
    }
    if cell.silence.is_some() && cell.begins_calls() {
        return Err("callers with many outstanding calls are never silent: measure one call at a time".into());
    }
    if cell.transport.backend().is_some() && cell.link_rate.is_some() {
        return Err("frames do not pass the queue that limits the rate of a link".into());
    }
    // The floor opens while our server is stopped: each must find the processor as if alone.
    session.stop_server().map_err(|error| error.to_string())?;
    let result = Measuring::begin(cell, effort, session, network)
        .and_then(|measuring| measuring.run())
        .map(|findings| findings.into_row(cell, network.name()));
    session.resume_server().map_err(|error| error.to_string())?;
    result
}

/// Measures the calls of one caller alone, slice by slice: nothing else runs in turn with them.
pub(crate) fn measure_alone(
    cell: &Cell,
    effort: Effort,
    session: &mut Session,
) -> Result<Vec<Measured>, String> {
    let mut ours = vec![session.bindings[0].calls(cell)];
    let calls_max = effort.calls.unwrap_or(u64::MAX);
    let first = Effort { warm_up: Duration::ZERO, silence: None, ..effort };
    session.callers.run(&mut ours, first, 1)?;
    let mut slice = |_| Ok(session.callers.run(&mut ours, effort, calls_max)?.remove(0));
    (0..effort.pairs).map(&mut slice).collect()
}

/// Measures the bare exchange of one caller alone, slice by slice: no server of ours runs, and nothing is bound. `before` prepares
/// each slice, by its number.
pub(crate) fn measure_floor(
    cell: &Cell,
    effort: Effort,
    sides: Sides,
    network: &Network,
    before: &mut dyn FnMut(u32) -> Result<(), String>,
) -> Result<Vec<Measured>, String> {
    let (mut floor, mut callers) = (BesideOurs::open(*cell, sides, network)?, Callers::new());
    let calls_max = effort.calls.unwrap_or(u64::MAX);
    let mut slice = |number| {
        before(number)?;
        Ok(floor.slice(&mut callers, effort, calls_max)?.remove(0))
    };
    (0..effort.pairs).map(&mut slice).collect()
}

/// Whether a bare exchange over TCP is measured beside it.
pub(crate) fn stands_beside_tcp(cell: &Cell) -> bool {
    cell.transport == Transport::Udp && cell.procedure.is_bulk()
}

/// Whether it is the call between two address spaces of one machine that the papers compare with a call within one.
pub(crate) fn stands_beside_a_local_call(cell: &Cell) -> bool {
    let alone = (cell.callers, cell.silence, cell.busy) == (1, None, false);
    cell.transport == Transport::Shm && cell.procedure == Procedure::Null && !cell.begins_calls() && alone
}

struct Measuring<'a> {
    effort: Effort,
    session: &'a mut Session,
    floor: BesideOurs<'a>,
    /// Beside bulk over UDP.
    tcp: Option<BesideOurs<'a>>,
    /// Beside Null() over shared memory.
    vtable: Option<BesideOurs<'a>>,
    ours: Vec<Box<dyn Calls>>,
    calls_max: u64,
    findings: Findings,
}

impl<'a> Measuring<'a> {
    fn begin(
        cell: &Cell,
        effort: Effort,
        session: &'a mut Session,
        network: &'a Network,
    ) -> Result<Self, String> {
        let sides = session.sides;
        let floor = BesideOurs::open(*cell, sides, network)?;
        let beside = |transport, where_: bool| {
            where_.then(|| BesideOurs::open(Cell { transport, ..*cell }, sides, network)).transpose()
        };
        let tcp = beside(Transport::Tcp, stands_beside_tcp(cell))?;
        let vtable = beside(Transport::Local, stands_beside_a_local_call(cell))?;
        let ours = (0..cell.callers).map(|_| session.bindings[0].calls(cell)).collect();
        let calls_max = effort.calls.map_or(u64::MAX, |calls| calls.div_ceil(cell.callers.into()));
        Ok(Measuring { effort, session, floor, tcp, vtable, ours, calls_max, findings: Findings::default() })
    }

    fn run(mut self) -> Result<Findings, String> {
        self.make_first_calls()?;
        let before = self.session.bindings[0].counts();
        let others_before = self.snapshot();
        for _ in 0..self.effort.pairs {
            let slices = self.slices()?;
            self.findings.add(&slices);
        }
        self.findings.floor_lost = self.floor.lost;
        self.findings.fast_path_share = self.session.bindings[0].counts().fast_path_share_since(before);
        self.findings.others_cpu = self.snapshot().others_since(others_before);
        Ok(self.findings)
    }

    /// A thread's first call opens its endpoint, which takes some milliseconds on an Ethernet. It is in no slice.
    fn make_first_calls(&mut self) -> Result<(), String> {
        self.session.resume_server().map_err(|error| error.to_string())?;
        let effort = Effort { warm_up: Duration::ZERO, silence: None, ..self.effort };
        self.session.callers.run(&mut self.ours, effort, 1)?;
        self.session.stop_server().map_err(|error| error.to_string())
    }

    fn snapshot(&mut self) -> Snapshot {
        let floors = [Some(&self.floor), self.tcp.as_ref()];
        let floors = floors.into_iter().flatten().filter_map(|floor| floor.floor.process_id());
        let ours: Vec<u32> = floors.chain(self.session.process_ids()).chain([std::process::id()]).collect();
        Snapshot::take(self.session.sides, &ours)
    }

    fn slices(&mut self) -> Result<Slices, String> {
        let (ours, costs) = self.slice_of_ours()?;
        let (effort, calls_max) = (self.effort, self.calls_max);
        let callers = &mut self.session.callers;
        let floor = self.floor.slice(callers, effort, calls_max)?;
        let tcp = self.tcp.as_mut().map(|tcp| tcp.slice(callers, effort, calls_max)).transpose()?;
        let vtable = self.vtable.as_mut().map(|local| local.slice(callers, effort, calls_max)).transpose()?;
        Ok(Slices { ours, costs, floor, tcp, vtable })
    }

    fn slice_of_ours(&mut self) -> Result<(Vec<Measured>, Costs), String> {
        self.session.resume_server().map_err(|error| error.to_string())?;
        let (caller_before, server_before, began) = (own_cpu(), self.server_cpu()?, Instant::now());
        let measured = self.session.callers.run(&mut self.ours, self.effort, self.calls_max);
        let (caller_cpu, wall) = (own_cpu() - caller_before, began.elapsed());
        let server_cpu = self.server_cpu()? - server_before;
        self.session.stop_server().map_err(|error| error.to_string())?;
        Ok((measured?, Costs { caller_cpu, server_cpu, wall }))
    }

    fn server_cpu(&mut self) -> Result<Duration, String> {
        self.session.server_cpu().map_err(|error| error.to_string())
    }
}

/// A bare exchange that waits its turn, and is opened anew when the network has lost a packet of it: nothing in it recovers.
struct BesideOurs<'a> {
    cell: Cell,
    sides: Sides,
    network: &'a Network,
    floor: Floor,
    lost: u32,
}

/// A floor that loses packets all the time is no floor.
const LOST_MAX: u32 = 20;

impl<'a> BesideOurs<'a> {
    fn open(cell: Cell, sides: Sides, network: &'a Network) -> Result<Self, String> {
        let floor = open_stopped(&cell, sides, network)?;
        Ok(BesideOurs { cell, sides, network, floor, lost: 0 })
    }

    /// A slice in which nothing was lost.
    fn slice(
        &mut self,
        callers: &mut Callers,
        effort: Effort,
        calls_max: u64,
    ) -> Result<Vec<Measured>, String> {
        loop {
            self.floor.resume().map_err(|error| error.to_string())?;
            let measured = callers.run(&mut self.floor.callers, effort, calls_max);
            match measured {
                Err(why) if why == LOST && self.lost < LOST_MAX => {
                    self.lost += 1;
                    // An interface has one program of XDP.
                    self.floor.close();
                    self.floor = open_stopped(&self.cell, self.sides, self.network)?;
                }
                measured => {
                    self.floor.stop().map_err(|error| error.to_string())?;
                    return measured;
                }
            }
        }
    }
}

fn open_stopped(cell: &Cell, sides: Sides, network: &Network) -> Result<Floor, String> {
    let open = || {
        let mut floor = Floor::open(cell, sides, network, &socket_path("echo"))?;
        floor.stop()?;
        Ok(floor)
    };
    open().map_err(|error: std::io::Error| format!("the floor: {error}"))
}

/// The processor time that this process has used, all threads together.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
