//! The machines of the world: which process runs on which, their clocks, and their stops.

use crate::clock::{SERVERS, Stop};
use crate::events::{Event, Life, ThreadId};
use crate::world::Sim;
use core::time::Duration;
use stoop_exchange::Instant;
use stoop_wire::bind::HostFacts;

impl Sim {
    /// The machine on which a caller runs.
    pub(crate) fn machine_of(&self, caller: usize) -> usize {
        if self.scenario.one_machine { SERVERS } else { 1 + caller }
    }

    /// A caller's reading of its clock now.
    pub(crate) fn caller_now(&self, caller: usize) -> Instant {
        self.clocks[self.machine_of(caller)].at(self.now)
    }

    /// The time by which the ledger judges a caller: see [`Clock::judged_at`](crate::clock::Clock::judged_at).
    pub(crate) fn caller_is_judged_at(&self, caller: usize) -> Instant {
        self.clocks[self.machine_of(caller)].judged_at(self.now)
    }

    /// The server's reading of its clock now.
    pub(crate) fn server_now(&self) -> Instant {
        self.clocks[SERVERS].at(self.now)
    }

    /// Facts that processes report about their machine.
    pub(crate) fn facts_of(&self, machine: usize) -> HostFacts {
        HostFacts { boot_id: [1 + machine as u8; 16], only_cpu: HostFacts::SEVERAL, cpus: 4 }
    }

    /// Plans what happens on a machine when its clock shows `local`.
    pub(crate) fn plan_on(&mut self, machine: usize, local: Instant, event: Event) {
        self.events.plan(self.clocks[machine].shows(local).max(self.now), event);
    }

    /// Plans what happens to a caller's thread when its machine's clock shows `local`, unless the process has ended by then.
    pub(crate) fn plan_for(
        &mut self,
        at: ThreadId,
        local: Instant,
        event: impl FnOnce(ThreadId, Life) -> Event,
    ) {
        self.plan_on(self.machine_of(at.caller), local, event(at, self.callers[at.caller].life));
    }

    /// Whether a machine stands still; packets that arrive there are lost.
    pub(crate) fn is_stopped(&self, machine: usize) -> bool {
        self.clocks[machine].is_stopped(self.now)
    }

    /// A machine stops for so long, with all its processes.
    pub(crate) fn stops(&mut self, machine: usize, stop: Stop, lasts: Duration) {
        let (now, until) = (self.now, self.now + lasts);
        if self.is_stopped(machine) {
            return;
        }
        self.clocks[machine].stop(now, stop, lasts);
        let one_machine = self.scenario.one_machine;
        self.events.postpone(|event, at| match event.machine(one_machine) {
            Some(at_machine) if at_machine == machine => match stop {
                Stop::Saved => at + lasts,
                Stop::Asleep => at.max(until),
            },
            _ => at,
        });
        self.report.stops += 1;
    }
}
