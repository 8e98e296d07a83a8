//! A seeded simulator for the packet exchange: callers, a server and a bad network in one thread, on a virtual clock.
//!
//! What runs is the protocol that ships ([`stoop_exchange`]); simulated are the network, the processes around it and
//! the time. The ledger knows what both sides did and complains as soon as a promise is broken: no call is executed
//! twice or after its caller was told that it did not run, no result reaches another call, every byte of a message is
//! the one that was sent, of one lane no two calls run at once, every call ends by its deadline, no sender goes beyond
//! what its receiver asked for, nothing stays in flight, the server's memory is bounded, timers advance, and in the end
//! everything comes to rest.
//!
//! There are two [families](Family) of worlds: in one, messages are a packet; in the other they are up to hundreds of
//! kilobytes, lines have rates and queues, sockets fill, bits flip, and calls are cancelled.
//!
//! Small worlds are searched instead: [`Sim::search`] goes through every way in which a few things can go wrong.
//! `tests/throughput.table` says how fast messages travel.
//!
//! The same seed gives the same run. `cargo test -p stoop-sim` runs 10,000 of the one family and 1,000 of the other; a
//! longer run is `cargo run --release -p stoop-sim -- [--large] --seeds 1000000`. `STOOP_TRACE=1` prints every event.
#![forbid(unsafe_code)]

mod by_hand;
mod caller_process;
mod clock;
mod errand;
mod events;
mod ledger;
mod network;
mod random;
mod report;
mod sabotage;
mod scenario;
mod server_process;
mod violation;

use caller_process::CallerProcess;
pub use clock::Stop;
use clock::{Clock, EXACT, SERVERS};
use core::time::Duration;
use events::{Event, Events, Life};
pub use ledger::CallId;
use ledger::Ledger;
use network::Network;
pub use network::{Address, FRAME_OVERHEAD, Faults, Line, Losses};
pub use random::{Random, Script};
pub use report::Report;
pub use sabotage::Sabotage;
pub use scenario::{Scenario, Span};
use server_process::ServerProcess;
use stoop_exchange::Instant;
pub use violation::{Family, Violation};

/// Who sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A caller.
    Caller,
    /// The server.
    Server,
}

/// What a caller is told when its call ends: did the procedure run?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It ran, and this is its result.
    Result,
    /// It did not run and will not run for this call.
    DidNotRun,
    /// It ran, but there is no result.
    Failed,
    /// Nobody knows.
    Unknown,
    /// Nothing: its program did not want to wait any longer.
    Cancelled,
    /// Nothing: the caller's process crashed.
    Crashed,
}

/// A run that takes more events than this does not come to rest.
const MOST_STEPS: u64 = 2_000_000;

/// When a world begins, in nanoseconds.
const BEGINNING: u64 = 1_000_000_000;

/// A world of callers and a server.
#[derive(Debug)]
pub struct Sim {
    scenario: Scenario,
    sabotage: Sabotage,
    seed: u64,
    family: Family,
    random: Random,
    now: Instant,
    events: Events,
    network: Network,
    ledger: Ledger,
    callers: Vec<CallerProcess>,
    /// The server to which the server's address leads.
    server: ServerProcess,
    /// Another one, to which the address led before, or will lead again.
    other_server: ServerProcess,
    /// Starts of a server.
    server_lives: Life,
    /// Of the server's machine, then of those of the callers.
    clocks: Vec<Clock>,
    /// Host numbers given out.
    hosts: u16,
    reply: Vec<u8>,
    report: Report,
    traced: bool,
}

impl Sim {
    /// A world in which callers and server have started.
    pub fn new(seed: u64, scenario: Scenario, sabotage: Sabotage) -> Self {
        Self::with_chance(seed, Random::new(seed), scenario, sabotage)
    }

    fn with_chance(seed: u64, random: Random, scenario: Scenario, sabotage: Sabotage) -> Self {
        let mut sim = Self {
            sabotage,
            seed,
            family: Family::Small,
            random,
            now: Instant::from_nanos(BEGINNING),
            events: Events::default(),
            network: Network::new(scenario.faults.clone(), scenario.packet_life),
            ledger: Ledger::new(scenario.faults.corruption > 0 && !scenario.faults.checksums),
            callers: Vec::new(),
            server: ServerProcess::default(),
            other_server: ServerProcess::default(),
            server_lives: 0,
            clocks: Vec::new(),
            hosts: scenario.callers as u16,
            reply: Vec::new(),
            report: Report::default(),
            traced: std::env::var_os("STOOP_TRACE").is_some(),
            scenario,
        };
        sim.populate();
        sim
    }

    /// A calm world, in which a test decides what happens.
    pub fn with_seed(seed: u64) -> Self {
        Self::new(seed, Scenario::calm(), Sabotage::None)
    }

    fn populate(&mut self) {
        for machine in 0..=self.scenario.callers {
            let rate = self.scenario.rates.get(machine).copied().unwrap_or(EXACT);
            self.clocks.push(Clock::new(self.now, rate));
        }
        for caller in 0..self.scenario.callers {
            let mut process = CallerProcess::default();
            process.host = caller as u16 + 1;
            process.threads.resize_with(self.scenario.threads, Default::default);
            process.threads.iter_mut().for_each(|thread| thread.calls_left = self.scenario.calls);
            self.callers.push(process);
        }
        self.server_starts();
        for caller in 0..self.scenario.callers {
            self.caller_starts(caller);
            if let Some(moves) = self.scenario.moves {
                let at = self.now + self.random.between(moves);
                self.events.plan(at, Event::CallerMoves { caller });
            }
        }
        for machine in 0..=self.scenario.callers {
            self.plan_stop(machine);
        }
        self.plan_wandering();
    }

    fn plan_stop(&mut self, machine: usize) {
        if let Some(between) = self.scenario.stops {
            let at = self.now + self.random.between(between);
            self.events.plan(at, Event::MachineStops { machine });
        }
    }

    fn plan_wandering(&mut self) {
        if let Some(between) = self.scenario.wanders {
            let at = self.now + self.random.between(between);
            self.events.plan(at, Event::AddressWanders);
        }
    }

    fn machine_stops(&mut self, machine: usize) {
        if self.has_traffic() {
            let stop = if self.random.chance(500) { Stop::Saved } else { Stop::Asleep };
            let lasts = self.random.between(self.scenario.stop_lasts);
            self.stops(machine, stop, lasts);
            self.plan_stop(machine);
        }
    }

    /// The world of a seed, run until it has come to rest.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run_seed(family: Family, seed: u64, sabotage: Sabotage) -> Result<Report, Violation> {
        let scenario = match family {
            Family::Small => Scenario::from_seed(seed),
            Family::Large => Scenario::large_from_seed(seed),
        };
        let mut sim = Self::new(seed, scenario, sabotage);
        sim.family = family;
        let report = sim.run();
        report.map(|()| sim.report())
    }

    /// Goes through every way in which up to `faults` things can go wrong in a small world.
    ///
    /// # Errors
    /// The first promise that was broken, and the decisions that led there.
    pub fn search(scenario: &Scenario, faults: u32, sabotage: Sabotage) -> Result<Report, Violation> {
        let mut report = Report::default();
        let mut script = Some(Script::new(faults));
        while let Some(this) = script {
            let decisions = this.decisions().to_vec();
            let mut sim = Self::with_chance(0, Random::scripted(this), scenario.clone(), sabotage);
            if let Err(mut violation) = sim.run() {
                violation.what = format!("after the decisions {decisions:?}: {}", violation.what);
                return Err(violation);
            }
            report.add(&sim.report());
            script = sim.random.into_script().and_then(|followed| followed.next(faults));
        }
        Ok(report)
    }

    /// Runs until nothing is left to happen.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(&mut self) -> Result<(), Violation> {
        while self.step()? {}
        self.check_rest();
        self.checked()
    }

    /// Runs for `time`.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Violation> {
        let until = self.now + time;
        while self.events.next_at().is_some_and(|at| at <= until) {
            self.step()?;
        }
        self.now = until;
        Ok(())
    }

    /// Lets the next thing happen; false if nothing is left.
    fn step(&mut self) -> Result<bool, Violation> {
        let Some((at, event)) = self.events.next() else { return Ok(false) };
        self.now = at;
        self.report.steps += 1;
        if self.traced {
            println!("{:>16} ns  {event}", at.as_nanos());
        }
        if self.scenario.restarts > 0
            && !event.is_drained()
            && self.has_traffic()
            && self.random.chance(self.scenario.restarts)
        {
            self.server_ends();
            self.server_starts();
        }
        let of_other = event.server_life().is_some_and(|life| life == self.other_server.life);
        if of_other {
            self.exchange_servers();
        }
        self.happen(event);
        if of_other {
            self.exchange_servers();
        }
        if self.report.steps.is_multiple_of(16) {
            self.check_memory();
        }
        if self.report.steps > MOST_STEPS {
            self.ledger.complain(format!("no rest after {MOST_STEPS} events"));
        }
        self.checked().map(|()| true)
    }

    fn checked(&self) -> Result<(), Violation> {
        match self.ledger.violation() {
            None => Ok(()),
            Some(what) => Err(Violation {
                seed: self.seed,
                family: self.family,
                steps: self.report.steps,
                what: what.into(),
            }),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToServer { .. } if self.is_stopped(SERVERS) => {}
            Event::ToServer { from, packet } => self.reaches_server(from, packet),
            Event::ToCaller { to, packet } => self.reaches_caller(to, packet),
            Event::ServerTakes { life, from, packet } if life == self.server.life => {
                self.server_receives(from, &packet);
            }
            Event::ThreadTakes { at, life, mut packet } if self.lives(at.caller, life) => {
                self.thread_receives(at, &mut packet);
            }
            Event::PortClosed { to } => self.port_is_closed(to),
            Event::ThreadWakes(at, life) if self.lives(at.caller, life) => self.thread_wakes(at),
            Event::WaitEnds(at, life) if self.lives(at.caller, life) => self.wait_ends(at),
            Event::LaneTimer(at, life) if self.lives(at.caller, life) => self.lane_timer(at),
            Event::ThreadDrained(at, life) if self.lives(at.caller, life) => self.tell_server(at, true),
            Event::CallCancelled(at, life, id) if self.lives(at.caller, life) => self.cancel_call(at, id),
            Event::BinderTimer { caller, life } if self.lives(caller, life) => self.binder_timer(caller),
            Event::ServerTimer(life) if life == self.server.life => self.server_timer(),
            Event::ServerDrained(life) if life == self.server.life => self.server_is_drained(),
            Event::JobReturns { life, job } if life == self.server.life => self.worker_returns(job),
            Event::ServerCrashes(life) | Event::ServerLingered(life) if life == self.server.life => {
                self.server_ends();
            }
            Event::ServerShutsDown(life) if life == self.server.life => self.server_shuts_down(),
            Event::ServerStarts => self.server_starts(),
            Event::CallerCrashes { caller, life } if self.lives(caller, life) => self.caller_crashes(caller),
            Event::CallerStarts { caller } => self.caller_starts(caller),
            Event::CallerMoves { caller } => self.caller_moves(caller),
            Event::MachineStops { machine } => self.machine_stops(machine),
            Event::AddressWanders if self.has_traffic() => {
                self.address_wanders();
                self.plan_wandering();
            }
            _of_an_earlier_life => {}
        }
    }

    fn lives(&self, caller: usize, life: Life) -> bool {
        self.callers[caller].up && self.callers[caller].life == life
    }

    /// Whether programs still have calls to make or to finish: crashes and moves go on only so long.
    fn has_traffic(&self) -> bool {
        let to_come = |caller: &CallerProcess| caller.threads.iter().any(|thread| thread.calls_left > 0);
        self.callers.iter().any(to_come) || self.ledger.unfinished() > 0
    }

    /// In the end every call has ended, and the server has let go of everything.
    fn check_rest(&mut self) {
        let unfinished = self.ledger.unfinished();
        if unfinished > 0 {
            self.ledger.complain(format!("{unfinished} calls never end"));
        }
        for server in [&self.server, &self.other_server].into_iter().filter_map(|it| it.server.as_ref()) {
            let (running, bindings) = (server.running(), server.bindings());
            self.report.waited += server.counters().waited;
            if running > 0 || bindings > 0 {
                self.ledger
                    .complain(format!("at rest the server has {running} calls and {bindings} bindings"));
            }
        }
        self.report.had_to_succeed = self.scenario.kind.into();
        let (calls, failures) = (self.ledger.calls(), self.ledger.failures());
        if self.scenario.kind && failures > 0 {
            self.ledger.complain(format!("{failures} of {calls} calls fail for no reason"));
        }
    }

    /// What has happened.
    pub fn report(&self) -> Report {
        Report { runs: 1, calls: self.ledger.calls(), ..self.report.clone() }
    }
}
