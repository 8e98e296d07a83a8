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
    pub(crate) before: Calibration,
    pub(crate) after: Option<Calibration>,
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
            before,
            after: None,
            void: None,
            tables: Vec::new(),
        }
    }

    /// Ends the run, and decides whether it is void.
    pub(crate) fn finish(&mut self, after: Calibration) {
        self.void = self.before.why_void(&after);
        self.after = Some(after);
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
