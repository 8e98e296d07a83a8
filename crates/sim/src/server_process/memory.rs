//! Bounds on the memory of the server's process.

use crate::Sim;
use stoop_wire::HEADER_LEN;

impl Sim {
    /// The server's memory is bounded by its limits.
    pub(crate) fn check_memory(&mut self) {
        let Some(server) = &self.server.server else { return };
        let lanes = usize::from(self.scenario.limits.lanes).min(self.report.lanes_opened).next_multiple_of(8);
        // An answer with what is known of its call, and a call that waits.
        let (answer, waiting) = (1472 + 160, 1472 + 64);
        let a_lane = 8 + 64 + answer + waiting;
        let places = (4 * self.server.peak_bindings.next_power_of_two()).max(16);
        let limits = &self.scenario.limits;
        // Memory of ended messages that is recycled for the next ones.
        let spare = (8 * 2 * (limits.max_message as usize + HEADER_LEN)).min(64 << 20);
        let long = limits.incomplete + limits.retained + spare;
        let bound = 64 * answer + places * 16 + server.bindings() * (160 + lanes * a_lane) + long;
        let (incomplete, retained) = (server.incomplete_bytes(), server.retained_bytes());
        if incomplete > limits.incomplete || retained > limits.retained {
            self.ledger.complain(format!(
                "{incomplete} bytes of calls where {} are the most, or {retained} of results where {} are",
                limits.incomplete, limits.retained
            ));
        }
        if server.packets() > limits.packets {
            let (packets, most) = (server.packets(), limits.packets);
            self.ledger.complain(format!("{packets} answers and calls are held, above the limit of {most}"));
        }
        self.report.most_incomplete = self.report.most_incomplete.max(incomplete);
        let held = server.bytes_held();
        if held > bound || server.bindings() > self.scenario.limits.bindings {
            let bindings = server.bindings();
            self.ledger
                .complain(format!("the server holds {held} bytes for {bindings} bindings; bound {bound}"));
        }
        self.report.most_held = self.report.most_held.max(held);
    }
}
