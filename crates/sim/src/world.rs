//! The state of a simulated world.

mod caller;
mod sealing;
mod server;

pub(crate) use caller::{Call, CallerProcess, Generation, Granted, Outbox, OwnLane, Stage, Thread};
pub(crate) use sealing::{Bundled, CallerEnd, End, Sealing, Seen, Waiting};
pub(crate) use server::{Job, ServerProcess};

use crate::clock::Clock;
use crate::events::{Event, Events, Life};
use crate::ledger::Ledger;
use crate::network::Network;
use crate::{Family, Random, Report, Sabotage, Scenario, Span};
use std::collections::BTreeMap;
use stoop_exchange::Instant;

/// When a world begins, in nanoseconds.
pub(crate) const BEGINNING: u64 = 1_000_000_000;

/// A world of callers and a server.
#[derive(Debug)]
pub struct Sim {
    pub(crate) scenario: Scenario,
    pub(crate) sabotage: Sabotage,
    pub(crate) seed: u64,
    pub(crate) family: Family,
    pub(crate) random: Random,
    pub(crate) now: Instant,
    pub(crate) events: Events,
    pub(crate) network: Network,
    pub(crate) ledger: Ledger,
    pub(crate) callers: Vec<CallerProcess>,
    /// The server to which the server's address leads.
    pub(crate) server: ServerProcess,
    /// Another one, to which the address led before, or will lead again.
    pub(crate) other_server: ServerProcess,
    /// When calls arrived that ask for credit, by binding, lane and number.
    pub(crate) asked_for_credit: BTreeMap<(u64, u16, u32), Instant>,
    /// Starts of a server.
    pub(crate) server_lives: Life,
    /// The clock of the server's machine, then those of the callers'.
    pub(crate) clocks: Vec<Clock>,
    /// Host numbers given out.
    pub(crate) hosts: u16,
    pub(crate) reply: Vec<u8>,
    pub(crate) report: Report,
    pub(crate) sealing: Sealing,
    pub(crate) traced: bool,
}

impl Sim {
    /// A world in which callers and server have started.
    pub fn new(seed: u64, scenario: Scenario, sabotage: Sabotage) -> Self {
        Self::with_chance(seed, Random::new(seed), scenario, sabotage)
    }

    pub(crate) fn with_chance(seed: u64, random: Random, scenario: Scenario, sabotage: Sabotage) -> Self {
        let mut sim = Self {
            sabotage,
            seed,
            family: Family::Small,
            random,
            now: Instant::from_nanos(BEGINNING),
            events: Events::default(),
            network: Network::new(scenario.faults.clone(), scenario.packet_life),
            ledger: Ledger::new(
                scenario.faults.corruption > 0 && !scenario.faults.checksums,
                scenario.late_max,
            ),
            callers: Vec::new(),
            server: ServerProcess::default(),
            other_server: ServerProcess::default(),
            asked_for_credit: BTreeMap::new(),
            server_lives: 0,
            clocks: Vec::new(),
            hosts: scenario.callers as u16,
            reply: Vec::new(),
            report: Report::default(),
            sealing: Sealing::default(),
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

    /// Plans `event` for a moment that the span from now on has in it.
    pub(crate) fn plan_within(&mut self, span: Span, event: Event) {
        let at = self.now + self.random.between(span);
        self.events.plan(at, event);
    }

    /// Whether a caller's process is up, and in that life.
    pub(crate) fn lives(&self, caller: usize, life: Life) -> bool {
        self.callers[caller].up && self.callers[caller].life == life
    }

    /// Whether programs still have calls to make or to finish: crashes and moves go on only so long.
    pub(crate) fn has_traffic(&self) -> bool {
        let to_come = |caller: &CallerProcess| caller.threads.iter().any(|thread| thread.calls_left > 0);
        self.callers.iter().any(to_come) || self.ledger.unfinished() > 0
    }
}
