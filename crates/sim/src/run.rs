//! Runs a world, event by event, until no event is left.

use crate::clock::{Clock, EXACT, SERVERS, Stop};
use crate::events::Event;
use crate::world::CallerProcess;
use crate::{Family, Random, Report, Sabotage, Scenario, Script, Sim, Violation};
use core::time::Duration;

/// A run that takes more events than this does not come to rest.
const MOST_STEPS: u64 = 2_000_000;

impl Sim {
    /// Starts callers and server, and plans what happens to them later.
    pub(crate) fn populate(&mut self) {
        for machine in 0..=self.scenario.callers {
            let rate = self.scenario.rates.get(machine).copied().unwrap_or(EXACT);
            self.clocks.push(Clock::new(self.now, rate));
        }
        for caller in 0..self.scenario.callers {
            let (threads, calls) = (self.scenario.threads, self.scenario.calls);
            self.callers.push(CallerProcess::new(caller as u16 + 1, threads, calls));
        }
        self.server_starts();
        if self.scenario.places > 1 {
            self.other_server.place = 1;
            self.exchange_servers();
            self.server_starts();
            self.exchange_servers();
        }
        for caller in 0..self.scenario.callers {
            self.caller_starts(caller);
            if let Some(moves) = self.scenario.moves {
                self.plan_within(moves, Event::CallerMoves { caller });
            }
        }
        for machine in 0..=self.scenario.callers {
            self.plan_stop(machine);
        }
        self.plan_wandering();
    }

    fn plan_stop(&mut self, machine: usize) {
        if let Some(between) = self.scenario.stops {
            self.plan_within(between, Event::MachineStops { machine });
        }
    }

    fn plan_wandering(&mut self) {
        if let Some(between) = self.scenario.wanders {
            self.plan_within(between, Event::AddressWanders);
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
            Family::Load => Scenario::load_from_seed(seed),
            Family::Sealed => Scenario::sealed_from_seed(seed),
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
        self.check_callers();
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
    pub(crate) fn step(&mut self) -> Result<bool, Violation> {
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
        let of_other = event.server_life().is_some_and(|life| life == self.other_server.life)
            || event.place() == Some(1);
        if of_other {
            self.exchange_servers();
        }
        self.happen(event);
        if of_other {
            self.exchange_servers();
        }
        self.held_calls_leave();
        if self.report.steps.is_multiple_of(16) {
            self.check_memory();
            self.check_callers();
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
            Event::ToServer { from, packet, .. } => self.reaches_server(from, packet),
            Event::ToCaller { to, packet } => self.reaches_caller(to, packet),
            Event::ServerTakes { life, came, from, packet } if life == self.server.life => {
                self.server_receives(from, &packet, came);
            }
            Event::ThreadTakes { at, life, mut packet } if self.lives(at.caller, life) => {
                self.thread_receives(at, &mut packet);
            }
            Event::PortClosed { to, from } => self.port_is_closed(to, from),
            Event::ThreadWakes(at, life) if self.lives(at.caller, life) => self.thread_wakes(at),
            Event::WaitEnds(at, life) if self.lives(at.caller, life) => self.wait_ends(at),
            Event::ComesAgain(at, life, id) if self.lives(at.caller, life) => self.comes_again(at, id),
            Event::LaneTimer(at, life) if self.lives(at.caller, life) => self.lane_timer(at),
            Event::ThreadDrained(at, life) if self.lives(at.caller, life) => self.tell_server(at, true),
            Event::CallCancelled(at, life, id) if self.lives(at.caller, life) => self.cancel_call(at, id),
            Event::BinderTimer { caller, life } if self.lives(caller, life) => self.binder_timer(caller),
            Event::ServerTimer(life) if life == self.server.life => self.server_timer(),
            Event::ServerDrained(life) if life == self.server.life => self.server_is_drained(),
            Event::JobReturns { life, job } if life == self.server.life => self.worker_returns(job),
            Event::ReplyGiven { life, job, is_lost } if life == self.server.life => {
                self.reply_given(job, is_lost);
            }
            Event::OpenExpires { life, job } if life == self.server.life => self.open_expires(job),
            Event::ServerCrashes(life) | Event::ServerLingered(life) if life == self.server.life => {
                self.server_ends();
            }
            Event::ServerShutsDown(life) if life == self.server.life => self.server_shuts_down(),
            Event::ServerStarts(_) => self.server_starts(),
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

    /// Events so far.
    pub fn report(&self) -> Report {
        Report { runs: 1, calls: self.ledger.calls(), ..self.report.clone() }
    }
}
