//! A run of `tables`: its conditions, its tables, and whether it counts.

use super::calibration::Calibration;
use super::lab::Lab;
use super::model::Table;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// A run as the renderers need it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    /// Year, month and day (UTC).
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) network: String,
    pub(crate) processors: String,
    /// How often each table was measured.
    pub(crate) rounds: u32,
    pub(crate) before: Calibration,
    /// After each round; the last is that after all tables.
    pub(crate) after: Vec<Calibration>,
    /// The reason why the run is void, if it is.
    pub(crate) void: Option<String>,
    pub(crate) tables: Vec<Table>,
}

impl Report {
    pub(crate) fn new(lab: &Lab<'_>, before: Calibration) -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            date: date_of(seconds),
            machine: lab.machine.clone(),
            network: lab.network.describe(),
            processors: lab.placement.describe(),
            rounds: lab.args.rounds,
            before,
            after: Vec::new(),
            void: None,
            tables: Vec::new(),
        }
    }

    /// Ends a round, and decides whether the run is void.
    pub(crate) fn end_round(&mut self, after: Calibration) {
        self.after.push(after);
        let all: Vec<_> = std::iter::once(&self.before).chain(&self.after).cloned().collect();
        self.void = Calibration::why_void(&all);
    }

    /// Whether the run counts, in sentences.
    pub(crate) fn judged(&self) -> Vec<String> {
        let mut sentences = vec![match &self.void {
            Some(why) => format!("VOID: {why}. Measure again when the machine is quiet."),
            None => {
                "Before the tables and after each round the machine was as fast as in the median, within 5 %."
                    .into()
            }
        }];
        let void: Vec<&str> =
            self.tables.iter().filter(|table| table.void.is_some()).map(|table| table.name).collect();
        if !void.is_empty() {
            sentences.push(format!("Void, because the halves of the run differ: {}.", void.join(", ")));
        }
        let (repeated, unsteady) = self.steadiness();
        if repeated > 0 {
            sentences.push(format!(
                "~ marks a figure whose rounds lie more than 5 % apart: {unsteady} of {repeated}."
            ));
        }
        sentences
    }

    /// The number of figures that several rounds have measured, and of those whose rounds differ.
    fn steadiness(&self) -> (usize, usize) {
        let groups = self.tables.iter().flat_map(|table| &table.groups).filter(|group| !group.savings);
        let figures: Vec<_> =
            groups.flat_map(|group| &group.lines).filter_map(|line| line.today.as_ref()).collect();
        let repeated = figures.iter().filter(|figure| figure.rounds.len() > 1).count();
        (repeated, figures.iter().filter(|figure| figure.is_unsteady()).count())
    }

    /// Whether each table has at least one figure of today.
    pub(crate) fn is_complete(&self) -> bool {
        self.tables.iter().all(|table| table.why_not.is_none())
    }
}

/// The day of a time in seconds since 1970 (UTC).
fn date_of(seconds: u64) -> String {
    // Days are counted from the first of March of the year 0, so that leap days end a year.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(951_782_400), "2000-02-29");
        assert_eq!(date_of(1_798_761_599), "2026-12-31");
        assert_eq!(date_of(1_798_761_600), "2027-01-01");
    }
}
