//! What callers do where a mistake may be planted in them.

use crate::events::ThreadId;
use crate::world::Granted;
use crate::{Sabotage, Sim};
use stoop_exchange::outcome::{Evidence, Grant, Sent, Verdict};
use stoop_wire::RefusalCode;

impl Sim {
    /// The verdict on a call that was sent on a lost binding, or the one that a caller with a planted fault reaches.
    pub(crate) fn verdict(&self, caller: usize, lost: &Granted, sent: &Sent, idempotent: bool) -> Verdict {
        let granted = self.callers[caller].binding.as_ref().expect("there is another");
        let lost = Grant { bound: &lost.bound, read: lost.read, closed: lost.closed.get() };
        let granted = Grant { bound: &granted.bound, read: granted.read, closed: None };
        let own = self.facts_of(self.machine_of(caller));
        let evidence =
            Evidence { packet_life: self.scenario.packet_life, ..Evidence::new(sent, lost, granted, &own) };
        let evidence = match (self.scenario.sealed, self.sabotage) {
            (false, _) | (true, Sabotage::BelievesHints) => evidence,
            (true, Sabotage::ConcludesFromAge) => {
                let Evidence { refused_itself, packet_life, .. } = evidence;
                Evidence { refused_itself, packet_life, ..evidence.believing_no_hints() }
            }
            (true, _) => evidence.believing_no_hints(),
        };
        self.sabotage.verdict(sent, (lost, granted), &evidence, idempotent)
    }

    /// The calls that the server still runs are sent to the next one, too: a fault that no caller may have.
    pub(crate) fn running_calls_leave(&mut self, caller: usize) {
        for thread in 0..self.callers[caller].threads.len() {
            let at = ThreadId { caller, thread };
            if self.leaves_lost_binding(at, None).is_some() {
                self.call_of(at).expect("it waits").refused = Some(RefusalCode::ShuttingDown.into());
            }
        }
    }
}
