//! A table before it is measured: its name, its title, how it is measured, and the function that measures it.

use super::lab::Lab;
use super::model::Group;
use crate::args::TablesArgs;

/// A table that can be measured.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) how: &'static str,
    /// How many figures it has that are measured for as long as the options say.
    pub(crate) figures: u32,
    /// Measures the table, or returns the reason why it cannot be reproduced here.
    pub(crate) measure: fn(&mut Lab<'_>) -> Result<Vec<Group>, String>,
}

/// Milliseconds that a figure takes besides its slices: processes start, sockets bind.
const AROUND_A_FIGURE_MS: u64 = 250;

impl Entry {
    /// About how many seconds the table takes in one round.
    pub(crate) fn seconds(&self, args: &TablesArgs) -> u64 {
        (u64::from(self.figures) * (u64::from(args.ms) + AROUND_A_FIGURE_MS)).div_ceil(1000)
    }

    /// The table's line in the list of all tables.
    pub(crate) fn describe(&self, args: &TablesArgs) -> String {
        let seconds = u64::from(args.rounds) * self.seconds(args);
        format!("{:<16} {:>4} s  {}", self.name, seconds, self.title)
    }

    /// The paper of the table, by its name on the command line.
    pub(crate) fn paper(&self) -> &'static str {
        self.name.rsplit_once('-').map_or(self.name, |(paper, _)| paper)
    }
}
