//! The events of a world, in the order of their times.

use super::caller::{Bound, Thread};
use super::ledger::{CallId, Checked, Ledger, PipeReport};
use super::plan::{Plan, Scenario};
use super::server::{Process, interface};
use super::{PipeSabotage, packets};
use crate::{Address, Faults, Random, Script};
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::server::{CallKey, Effect};
use stoop_wire::CallNumber;
use stoop_wire::bind::HostFacts;

/// Something that happens.
pub(super) enum Event {
    ToServer(Address, Vec<u8>),
    ToCaller(Address, Vec<u8>),
    Begins(usize),
    CallerSteps(usize, CallId),
    Cancels(usize, CallId),
    LaneTimer(usize),
    ProcedureSteps(CallKey),
    ProcedureRetries(CallKey),
    ServerTimer,
    ServerEnds,
    ServerStarts,
    CallerMoves,
    Heals,
}

pub(super) struct World {
    pub(super) now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    planned: u64,
    pub(super) random: Random,
    pub(super) scenario: Scenario,
    pub(super) sabotage: PipeSabotage,
    pub(super) ledger: Ledger,
    pub(super) plans: Vec<Plan>,
    pub(super) threads: Vec<Thread>,
    pub(super) bound: Option<Rc<Bound>>,
    all_bound: Vec<Rc<Bound>>,
    /// The newest call of each lane.
    pub(super) newest: BTreeMap<(u64, u16), CallNumber>,
    pub(super) server: Option<Process>,
    starts: u64,
    host: u16,
    /// Receipts of each side that have said *stop*.
    stops: [u64; 2],
    is_healed: bool,
}

/// Time in which every call ends, after the network has healed.
const ENDS_WITHIN: Duration = Duration::from_secs(3600);

/// Events after which a world that is not at rest runs in circles.
const STEPS_MAX: u64 = 2_000_000;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first promise that is broken, and how to see it again.
pub fn run_pipe_seed(seed: u64, sabotage: PipeSabotage) -> Result<PipeReport, String> {
    let mut random = Random::new(seed);
    let scenario = Scenario::draw(&mut random);
    let mut world = World::new(random, scenario, sabotage);
    let again =
        format!("seed {seed}; to repeat: STOOP_PIPE_SEED={seed} cargo test -p stoop-sim --test sim pipes::");
    world.run().map_err(|what| format!("{again}: {what}"))?;
    Ok(world.ledger.report)
}

/// Goes through every way in which up to `faults` things go wrong during one call with two items of `item` bytes each way, and windows of
/// one item; with `restarts`, the end of the server's process is one of them. Returns the number of worlds, too.
///
/// # Errors
/// The first promise that is broken, and the decisions that led to it.
pub fn search_pipes(
    item: u32,
    faults: u32,
    restarts: bool,
    sabotage: PipeSabotage,
) -> Result<(u64, PipeReport), String> {
    let mut scenario = Scenario::small(item);
    if restarts {
        scenario.crashes = Some((Duration::from_millis(3), Duration::from_secs(3600)));
    }
    let (mut report, mut worlds) = (PipeReport::default(), 0);
    let mut script = Some(Script::new(faults));
    while let Some(this) = script {
        let decisions = this.decisions().to_vec();
        let mut world = World::new(Random::scripted(this), scenario.clone(), sabotage);
        world.run().map_err(|what| format!("after the decisions {decisions:?}: {what}"))?;
        report.add(&world.ledger.report);
        worlds += 1;
        script = world.random.into_script().and_then(|followed| followed.next(faults));
    }
    Ok((worlds, report))
}

impl World {
    fn new(random: Random, scenario: Scenario, sabotage: PipeSabotage) -> Self {
        let threads = (0..scenario.threads).map(|_| Thread::new(scenario.calls)).collect();
        let mut world = Self {
            now: Instant::from_nanos(1_000_000_000),
            events: BTreeMap::new(),
            planned: 0,
            random,
            sabotage,
            ledger: Ledger::default(),
            plans: Vec::new(),
            threads,
            bound: None,
            all_bound: Vec::new(),
            newest: BTreeMap::new(),
            server: None,
            starts: 0,
            host: 1,
            stops: [0; 2],
            is_healed: false,
            scenario,
        };
        world.start_server();
        (0..world.threads.len()).for_each(|thread| world.plan(world.now, Event::Begins(thread)));
        if let Some(moves) = world.scenario.moves {
            let at = world.now + world.random.between(moves);
            world.plan(at, Event::CallerMoves);
        }
        world.plan_after(world.scenario.heals, Event::Heals);
        world
    }

    fn run(&mut self) -> Checked {
        let mut steps = 0;
        let late = self.now + self.scenario.heals + ENDS_WITHIN;
        while let Some(((at, _), event)) = self.events.pop_first() {
            steps += 1;
            self.now = at;
            self.step(event).map_err(|what| format!("event {steps}: {what}"))?;
            if steps > STEPS_MAX {
                return Err("the world does not come to rest".into());
            }
            if self.now > late {
                self.ledger.check_end()?;
            }
        }
        self.ledger.check_end()?;
        if let Some(bound) = self.all_bound.iter().find(|bound| bound.path.borrow().in_flight() > 0) {
            return Err(format!("{} bytes stay in flight", bound.path.borrow().in_flight()));
        }
        match self.server.as_ref().is_none_or(Process::is_idle) {
            true => Ok(()),
            false => Err("the server holds something of a pipe".into()),
        }
    }

    pub(super) fn plan(&mut self, at: Instant, event: Event) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    pub(super) fn plan_after(&mut self, after: Duration, event: Event) {
        self.plan(self.now + after, event);
    }

    fn step(&mut self, event: Event) -> Checked {
        match event {
            Event::ToServer(from, packet) => self.arrive_at_server(from, &packet),
            Event::ToCaller(to, packet) if to.host == self.host => {
                self.arrive_at_caller(to.port.into(), &packet)
            }
            Event::ToCaller(..) => Ok(()),
            Event::Begins(thread) => self.begin(thread),
            Event::CallerSteps(thread, id) => self.step_caller(thread, id),
            Event::Cancels(thread, id) => self.cancel(thread, id),
            Event::LaneTimer(thread) => self.lane_timer(thread),
            Event::ProcedureSteps(key) => self.step_procedure(key),
            Event::ProcedureRetries(key) => self.retry_procedure(key),
            Event::ServerTimer => self.server_timer(),
            Event::ServerEnds => {
                self.end_server();
                Ok(())
            }
            Event::ServerStarts => {
                self.start_server();
                Ok(())
            }
            Event::CallerMoves => {
                self.move_caller();
                Ok(())
            }
            Event::Heals => {
                self.is_healed = true;
                self.scenario.faults = Faults { delay: self.scenario.faults.delay, ..Faults::none() };
                Ok(())
            }
        }
    }

    fn end_server(&mut self) {
        if self.is_healed {
            return;
        }
        self.server = None;
        let at = self.now + self.random.between(self.scenario.down);
        self.plan(at, Event::ServerStarts);
    }

    fn start_server(&mut self) {
        self.starts += 1;
        let Scenario { window, memory, .. } = self.scenario;
        self.server = Some(Process::new(self.now, window, memory, self.starts));
        if let Some(between) = self.scenario.crashes {
            let at = self.now + self.random.between(between);
            self.plan(at, Event::ServerEnds);
        }
    }

    fn move_caller(&mut self) {
        let Some(moves) = self.scenario.moves.filter(|_| !self.is_healed) else { return };
        self.host += 1;
        let at = self.now + self.random.between(moves);
        self.plan(at, Event::CallerMoves);
    }

    /// The binding that calls use, or a new one; none while the server is down.
    pub(super) fn bind(&mut self) -> Option<Rc<Bound>> {
        if let Some(bound) = &self.bound {
            return Some(bound.clone());
        }
        let (now, host) = (self.now, self.host);
        let server = &mut self.server.as_mut()?.server;
        let nonce = self.all_bound.len() as u64 + 1;
        let deadline = now + Duration::from_secs(1);
        let mut binder = Binder::new(now, deadline, interface(), HostFacts::default(), nonce);
        let mut reply = Vec::new();
        loop {
            let packet = binder.transmit(now)?;
            let from = Address { host, port: 0 };
            let Effect::Reply = server.handle_packet(now, &from, &packet, &mut reply) else { return None };
            match binder.handle_packet(now, &reply) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => {
                    let bound = Bound::new(bound.binding, nonce);
                    self.all_bound.push(bound.clone());
                    self.bound = Some(bound.clone());
                    return Some(bound);
                }
                _ => return None,
            }
        }
    }

    fn arrivals(&mut self) -> Vec<Instant> {
        if self.scenario.faults.is_partitioned(self.now) {
            return Vec::new();
        }
        self.scenario.faults.arrivals(self.now, None, &mut self.random).into_iter().flatten().collect()
    }

    pub(super) fn send_to_server(&mut self, thread: usize, packet: Vec<u8>) -> Checked {
        let reserved = self.scenario.caller_window.1.into();
        let Some(packet) = packets::sent(self.sabotage, packet, &mut self.stops[0]) else { return Ok(()) };
        self.ledger.report.count_if(self.stops[0] > 1, "stop said again");
        packets::check(&mut self.ledger, &packet, true, reserved)?;
        let from = Address { host: self.host, port: thread as u16 };
        for at in self.arrivals() {
            self.plan(at, Event::ToServer(from, packet.clone()));
        }
        Ok(())
    }

    pub(super) fn send_to_caller(&mut self, to: Address, packet: Vec<u8>) -> Checked {
        let reserved = self.server.as_ref().map_or(0, |process| process.server.pipe_bytes() as u64);
        let Some(packet) = packets::sent(self.sabotage, packet, &mut self.stops[1]) else { return Ok(()) };
        packets::check(&mut self.ledger, &packet, false, reserved)?;
        for at in self.arrivals() {
            self.plan(at, Event::ToCaller(to, packet.clone()));
        }
        Ok(())
    }
}
