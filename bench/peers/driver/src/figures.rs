//! The figures of the tables, found among the samples: medians with their quartiles, and ratios to Stoop's.

use crate::cells::{Cell, Placement};
use crate::measure::Measured;
use crate::peers::Peer;
use crate::program::Sample;
use crate::quartiles::Quartiles;

/// The peers that were measured, and their samples.
pub(crate) struct Report<'a> {
    pub(crate) peers: &'a [Peer],
    pub(crate) samples: &'a [Measured],
}

/// Which figure of a cell a table shows.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    /// The median time of a call in nanoseconds.
    Time,
    /// Calls per second.
    Rate,
    /// Data in Mbit/s.
    Bandwidth,
    /// Processors in use by both processes.
    Processors,
}

impl Figure {
    fn of(self, cell: &Cell, sample: &Sample) -> f64 {
        match self {
            Figure::Time => sample.times[0],
            Figure::Rate => sample.rate,
            Figure::Bandwidth => sample.rate * cell.bytes as f64 * 8.0 / 1e6,
            Figure::Processors => sample.processors,
        }
    }

    /// A value as a table shows it: times in microseconds.
    pub(crate) fn shown(self, value: f64) -> String {
        match self {
            Figure::Time => format!("{:.2}", value / 1e3),
            Figure::Rate | Figure::Bandwidth => grouped(value),
            Figure::Processors => format!("{value:.2}"),
        }
    }
}

impl Report<'_> {
    pub(crate) fn find(&self, peer: usize, placement: Placement, cell: &Cell) -> Option<&Measured> {
        self.samples.iter().find(|one| one.peer == peer && one.placement == placement && one.cell == *cell)
    }

    /// `None` if the peer has failed in each round.
    pub(crate) fn quartiles(&self, measured: &Measured, figure: Figure) -> Option<Quartiles> {
        Quartiles::of(measured.rounds.iter().flatten().map(|sample| figure.of(&measured.cell, sample)))
    }

    /// A peer's figure by that of Stoop over the same carrier, round by round; `None` for Stoop itself.
    pub(crate) fn ratios(&self, measured: &Measured, figure: Figure) -> Option<Quartiles> {
        let carrier = self.peers[measured.peer].carrier;
        let stoop = self.peers.iter().position(|peer| peer.is_stoop() && peer.carrier == carrier)?;
        if stoop == measured.peer {
            return None;
        }
        let beside = self.find(stoop, measured.placement, &measured.cell)?;
        let of = |sample| figure.of(&measured.cell, sample);
        let pairs = measured.rounds.iter().zip(&beside.rounds);
        Quartiles::of(pairs.filter_map(|(own, stoop)| Some(of(own.as_ref()?) / of(stoop.as_ref()?))))
    }
}

/// A median and its quartiles.
pub(crate) fn spread(quartiles: Quartiles, figure: Figure) -> String {
    let [low, median, high] =
        [quartiles.low, quartiles.median, quartiles.high].map(|value| figure.shown(value));
    format!("{median} ({low}–{high})")
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7.0, 999.6, 1_234_567.0].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
