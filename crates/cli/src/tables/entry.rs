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
    /// Returns why the table cannot be reproduced here if it cannot.
    pub(crate) measure: fn(&mut Lab<'_>) -> Result<Vec<Group>, String>,
}

/// What a figure takes besides its slices: processes start, sockets bind.
const AROUND_A_FIGURE_MS: u64 = 250;

impl Entry {
    /// About how many seconds it takes.
    pub(crate) fn seconds(&self, args: &TablesArgs) -> u64 {
        (u64::from(self.figures) * (u64::from(args.ms) + AROUND_A_FIGURE_MS)).div_ceil(1000)
    }

    /// A line of the list.
    pub(crate) fn describe(&self, args: &TablesArgs) -> String {
        format!("{:<16} {:>4} s  {}", self.name, self.seconds(args), self.title)
    }

    /// The paper that it is of, as it is called on the command line.
    pub(crate) fn paper(&self) -> &'static str {
        let end = self.name.rfind('-').filter(|_| self.name != "what-if");
        end.map_or(self.name, |end| &self.name[..end])
    }
}
