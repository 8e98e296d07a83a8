//! The events of a world, in the order of their times.

use super::SunSabotage;
use super::caller::{Caller, Due, Ended};
use super::ledger::{CallId, Checked, Ledger, SunReport};
use super::scenario::Scenario;
use super::server::{REPORT, Server, Step};
use crate::Random;
use crate::network::Address;
use std::collections::BTreeMap;
use stoop_onc::Instant;

/// Something that happens.
enum Event {
    ToServer(Address, Vec<u8>),
    ToCaller(Address, Vec<u8>),
    PortClosed(Address),
    Returns(u64),
    Timer(usize),
    Begins(usize),
    ServerEnds,
    ServerStarts,
}

struct World {
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    planned: u64,
    random: Random,
    scenario: Scenario,
    callers: Vec<Caller>,
    server: Option<Server>,
    /// Ends and starts of the server.
    epoch: u64,
    ledger: Ledger,
    ports: u16,
    ids: CallId,
    sabotage: SunSabotage,
}

/// Events after which a world that is not at rest runs in circles.
const STEPS_MAX: u64 = 1_000_000;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first promise that is broken, and how to see it again.
pub fn run_seed(seed: u64, sabotage: SunSabotage) -> Result<SunReport, String> {
    let mut world = World::new(seed, sabotage);
    let mut steps = 0;
    let broken = |steps: u64, what: String| {
        format!(
            "seed {seed}, event {steps}: {what}\nto repeat: STOOP_SUN_SEED={seed} cargo test -p stoop-sim --test sim sun::"
        )
    };
    while let Some(((at, _), event)) = world.events.pop_first() {
        steps += 1;
        world.now = at;
        world.step(event).map_err(|what| broken(steps, what))?;
        if steps > STEPS_MAX {
            return Err(broken(steps, "the world does not come to rest".into()));
        }
    }
    world.ledger.check_end().map_err(|what| broken(steps, what))?;
    Ok(world.ledger.report)
}

impl World {
    fn new(seed: u64, sabotage: SunSabotage) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let hosts = 1 + random.below(3) as u16;
        let callers = (0..scenario.callers as u16).map(|number| {
            let address = Address { host: number % hosts, port: number };
            Caller::new(address, scenario.retransmission, scenario.calls, sabotage, &mut random)
        });
        let callers: Vec<_> = callers.collect();
        let server = Server::start(scenario.limits, true, 0, sabotage);
        let mut world = Self {
            now: Instant::from_nanos(1),
            events: BTreeMap::new(),
            planned: 0,
            random,
            ports: scenario.callers as u16,
            scenario,
            callers,
            server: Some(server),
            epoch: 0,
            ledger: Ledger::default(),
            ids: 0,
            sabotage,
        };
        (0..world.callers.len()).for_each(|caller| world.plan(world.now, Event::Begins(caller)));
        world.plan_end();
        world
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    /// While calls are left, the server ends now and then.
    fn plan_end(&mut self) {
        if let Some(between) = self.scenario.crashes
            && self.callers.iter().any(|caller| caller.left > 0)
        {
            let at = self.now + self.random.between(between);
            self.plan(at, Event::ServerEnds);
        }
    }

    fn step(&mut self, event: Event) -> Checked {
        match event {
            Event::ToServer(from, datagram) => self.arrive_at_server(from, &datagram),
            Event::ToCaller(to, datagram) => self.arrive_at_caller(to, &datagram),
            Event::PortClosed(at) => self.port_closed(at),
            Event::Returns(run) => self.procedure_returns(run),
            Event::Timer(caller) => self.timer(caller),
            Event::Begins(caller) => self.begin(caller),
            Event::ServerEnds => {
                self.end_server();
                Ok(())
            }
            Event::ServerStarts => {
                self.start_server();
                Ok(())
            }
        }
    }

    /// When a datagram that is sent now arrives.
    fn arrivals(&mut self) -> Vec<Instant> {
        if self.scenario.faults.is_partitioned(self.now) {
            return Vec::new();
        }
        self.scenario.faults.arrivals(self.now, None, &mut self.random).into_iter().flatten().collect()
    }

    fn send_call(&mut self, caller: usize, id: CallId, datagram: &[u8]) {
        let from = self.callers[caller].address;
        let arrivals = self.arrivals();
        self.callers[caller].is_repeated |= arrivals.len() > 1;
        self.ledger.sent(id, arrivals.len() > 1);
        arrivals.into_iter().for_each(|at| self.plan(at, Event::ToServer(from, datagram.to_vec())));
    }

    fn send_reply(&mut self, to: Address, datagram: &[u8]) {
        self.arrivals().into_iter().for_each(|at| self.plan(at, Event::ToCaller(to, datagram.to_vec())));
    }

    fn arrive_at_server(&mut self, from: Address, datagram: &[u8]) -> Checked {
        let Some(server) = &mut self.server else {
            // The report may be lost, as any packet; it is not repeated.
            if !self.random.chance(self.scenario.faults.loss) {
                self.plan(self.now + REPORT, Event::PortClosed(from));
            }
            return Ok(());
        };
        let step = server.handle(self.now, from, datagram);
        let (memory, is_bounded) = (server.memory(self.now), server.is_bounded());
        match step {
            Step::Nothing(case) => case.into_iter().for_each(|case| self.ledger.report.count(case)),
            Step::Reply(reply, case) => {
                case.into_iter().for_each(|case| self.ledger.report.count(case));
                self.send_reply(from, &reply);
            }
            Step::Runs(id, run) => {
                self.ledger.ran(id, self.now, memory)?;
                let returns = self.now + self.random.between(self.scenario.work);
                self.plan(returns, Event::Returns(run));
            }
        }
        if is_bounded { Ok(()) } else { Err("the reply cache is larger than its bounds".into()) }
    }

    fn procedure_returns(&mut self, run: u64) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(returned) = server.returns(self.now, run) else { return Ok(()) };
        let memory = server.memory(self.now);
        self.ledger.returned(returned.id, memory);
        self.send_reply(returned.to, &returned.reply);
        Ok(())
    }

    fn end_server(&mut self) {
        if self.server.take().is_some_and(|server| server.is_busy()) {
            self.ledger.report.count("server ended while calls ran");
        }
        self.epoch += 1;
        let at = self.now + self.random.between(self.scenario.down);
        self.plan(at, Event::ServerStarts);
    }

    fn start_server(&mut self) {
        self.epoch += 1;
        let has_program = !self.random.chance(self.scenario.without_program);
        self.server = Some(Server::start(self.scenario.limits, has_program, self.epoch, self.sabotage));
        self.plan_end();
    }

    /// The caller whose socket has that address now.
    fn caller_at(&self, address: Address) -> Option<usize> {
        self.callers.iter().position(|caller| caller.address == address)
    }

    fn arrive_at_caller(&mut self, to: Address, datagram: &[u8]) -> Checked {
        let Some(caller) = self.caller_at(to) else { return Ok(()) };
        let ended = self.callers[caller].receive(self.now, datagram);
        ended.map_or(Ok(()), |ended| self.end(caller, ended))
    }

    fn port_closed(&mut self, at: Address) -> Checked {
        let Some(caller) = self.caller_at(at) else { return Ok(()) };
        if self.callers[caller].in_flight() == 0 {
            return Ok(());
        }
        self.ports += 1;
        let ended = self.callers[caller].refused(self.ports, &mut self.random);
        ended.into_iter().try_for_each(|ended| self.end(caller, ended))
    }

    fn end(&mut self, caller: usize, ended: Ended) -> Checked {
        self.ledger.report.count(ended.case);
        self.ledger.told(ended.id, self.now, ended.told, self.epoch, ended.is_repeated)?;
        if self.random.chance(self.scenario.caller_restarts) {
            self.ledger.report.count("caller restarted");
            let forgotten = self.callers[caller].restart(&mut self.random);
            forgotten.into_iter().for_each(|id| self.ledger.orphan(id));
        }
        let soon = self.now + self.random.between((REPORT, 100 * REPORT));
        self.plan(soon, Event::Begins(caller));
        Ok(())
    }

    fn timer(&mut self, caller: usize) -> Checked {
        while let Some(due) = self.callers[caller].due(self.now) {
            match due {
                Due::Sends(id, datagram) => self.send_call(caller, id, &datagram),
                Due::Ends(ended) => self.end(caller, ended)?,
            }
        }
        self.plan_timer(caller);
        Ok(())
    }

    fn plan_timer(&mut self, caller: usize) {
        if let Some(at) = self.callers[caller].next_timeout() {
            self.plan(at, Event::Timer(caller));
        }
    }

    fn begin(&mut self, caller: usize) -> Checked {
        while self.callers[caller].left > 0 && self.callers[caller].in_flight() < self.scenario.in_flight {
            self.ids += 1;
            let (id, deadline) = (self.ids, self.scenario.deadline);
            self.callers[caller].left -= 1;
            let (datagram, is_idempotent) =
                self.callers[caller].begin(self.now, deadline, id, &mut self.random);
            self.ledger.begin(id, self.now + deadline, self.epoch, is_idempotent);
            self.send_call(caller, id, &datagram);
        }
        self.plan_timer(caller);
        Ok(())
    }
}
