//! A table of a paper beside today's figures, as data for the renderers.

use super::calibration::AGREE_WITHIN;
use crate::callers::Measured;
use crate::row::Row;
use crate::samples::{Quartiles, Samples};
use serde::Serialize;

/// One table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// How today's figures were measured, and how that differs from the paper.
    pub(crate) how: &'static str,
    pub(crate) groups: Vec<Group>,
    /// The reason why the table could not be reproduced, if it could not.
    pub(crate) why_not: Option<String>,
    /// The reason why its figures do not count, if they do not: its rounds differ.
    pub(crate) void: Option<String>,
}

/// Lines of one quantity.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// The unit of all values of the group, the paper's and today's.
    pub(crate) unit: &'static str,
    pub(crate) more_is_better: bool,
    /// Whether each value is the time that an improvement saves: negative where the call takes longer with it.
    pub(crate) savings: bool,
    pub(crate) lines: Vec<Line>,
    /// Sentences below the lines.
    pub(crate) notes: Vec<String>,
}

/// One figure of the paper, today's, or both.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) paper: Option<f64>,
    /// The prediction of today's figure, if there is one.
    pub(crate) predicted: Option<Predicted>,
    pub(crate) today: Option<Figure>,
    pub(crate) remark: Option<String>,
}

/// A value that was predicted before it was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Predicted {
    /// The median over rounds.
    pub(crate) value: f64,
    pub(crate) rounds: Vec<InRound>,
    /// The difference of the prediction from the measured value, as a share of the latter; none where the measured value does not
    /// differ from 0 beyond its spread.
    pub(crate) off: Option<f64>,
    /// The step of the account, or the floor, that explains a difference.
    pub(crate) reason: &'static str,
}

/// The prediction of one round, in seconds since the run began.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InRound {
    pub(crate) value: f64,
    /// When it was fixed.
    pub(crate) fixed_s: f64,
    /// When the predicted quantity began to be measured, if it was.
    pub(crate) measured_s: Option<f64>,
}

impl Predicted {
    /// The prediction of one round.
    pub(crate) fn once(round: InRound, reason: &'static str) -> Self {
        Self { value: round.value, rounds: vec![round], off: None, reason }
    }

    /// The predictions of several rounds as one; `None` if there are none.
    pub(crate) fn joined(mut rounds: Vec<Self>) -> Option<Self> {
        let all: Vec<InRound> = rounds.iter_mut().flat_map(|each| std::mem::take(&mut each.rounds)).collect();
        let value = Quartiles::of(all.iter().map(|round| round.value).collect()).median;
        Some(Self { value, rounds: all, ..rounds.pop()? })
    }
}

/// A measured quantity: the median over slices of time, and the quartiles.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Calls or repetitions in all slices together.
    pub(crate) calls: u64,
    /// One value for each slice, in the order of measurement.
    pub(crate) samples: Vec<f64>,
    /// The figure of each round, once rounds are joined.
    pub(crate) rounds: Vec<f64>,
    /// Only the functions of this module make a figure: they see to it that its median lies between its quartiles.
    #[serde(skip)]
    _ordered: (),
}

impl Group {
    /// A group of a quantity of which less is better.
    pub(crate) fn new(title: impl Into<String>, unit: &'static str, lines: Vec<Line>) -> Self {
        let (title, notes) = (title.into(), Vec::new());
        Self { title, unit, more_is_better: false, savings: false, lines, notes }
    }

    /// A group of times that improvements save.
    pub(crate) fn savings(title: impl Into<String>, unit: &'static str, lines: Vec<Line>) -> Self {
        Self { savings: true, ..Self::new(title, unit, lines) }
    }

    /// Whether two runs may differ by more in this figure. The spread of a saving is in its quartiles: its share of a saving near 0
    /// means nothing.
    pub(crate) fn is_unsteady(&self, figure: &Figure) -> bool {
        !self.savings && figure.is_unsteady()
    }

    /// How many times better than the paper's the figure of today is; a share is neither better nor worse.
    pub(crate) fn times_better(&self, line: &Line) -> Option<f64> {
        let (paper, today) = (line.paper?, line.today.as_ref()?.median);
        let times = if self.more_is_better { today / paper } else { paper / today };
        (times.is_finite() && times > 0.0 && self.unit != "%" && !self.savings).then_some(times)
    }

    /// The same group of a quantity of which more is better.
    pub(crate) fn more_is_better(self) -> Self {
        Self { more_is_better: true, ..self }
    }
}

impl Line {
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), paper: None, predicted: None, today: None, remark: None }
    }

    pub(crate) fn paper(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    pub(crate) fn predicted(self, predicted: Predicted) -> Self {
        Self { predicted: Some(predicted), ..self }
    }

    pub(crate) fn today(self, today: Figure) -> Self {
        Self { today: Some(today), ..self }
    }

    pub(crate) fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: Some(remark.into()), ..self }
    }

    /// Today's figure, or the reason why there is none as the remark.
    pub(crate) fn today_or_why(self, today: Result<Figure, String>) -> Self {
        match today {
            Ok(figure) => self.today(figure),
            Err(why) => self.remark(why),
        }
    }
}

impl Figure {
    /// The figure of one value for each slice, from `calls` calls in all.
    pub(crate) fn of(samples: Vec<f64>, calls: u64) -> Self {
        let Quartiles { low, median, high } = Quartiles::of(samples.clone());
        Self { median, low, high, calls, samples, rounds: Vec::new(), _ordered: () }
    }

    /// The figure of a median that is known with its quartiles, from `calls` calls, without their samples.
    pub(crate) fn of_quartiles(of: Quartiles, calls: u64) -> Self {
        let Quartiles { low, median, high } = of;
        Self { low: low.min(median), high: high.max(median), ..Self::of(vec![median], calls) }
    }

    /// One quantity in several rounds: the medians of the rounds' medians and quartiles.
    pub(crate) fn of_rounds(figures: &[Figure]) -> Self {
        let values = |of: fn(&Figure) -> f64| figures.iter().map(of).collect::<Vec<_>>();
        let [median, low, high]: [fn(&Figure) -> f64; 3] = [|it| it.median, |it| it.low, |it| it.high];
        let [middle, low, high] = [median, low, high].map(|of| Quartiles::of(values(of)).median);
        Self {
            median: middle,
            low,
            high,
            calls: figures.iter().map(|figure| figure.calls).sum(),
            samples: figures.iter().flat_map(|figure| figure.samples.clone()).collect(),
            rounds: values(median),
            _ordered: (),
        }
    }

    /// Whether its rounds lie further apart than two runs may.
    pub(crate) fn is_unsteady(&self) -> bool {
        let low = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        high - low > AGREE_WITHIN * self.median.abs()
    }

    /// The samples of several measurements of one quantity as one.
    pub(crate) fn joined(figures: Vec<Figure>) -> Self {
        let calls = figures.iter().map(|figure| figure.calls).sum();
        Self::of(figures.into_iter().flat_map(|figure| figure.samples).collect(), calls)
    }

    /// The time of our calls in nanoseconds, times `scale`.
    pub(crate) fn time_of(row: &Row, scale: f64) -> Self {
        Self::of(row.slices.iter().map(|slices| slices.ours.p50_ns * scale).collect(), row.calls)
    }

    /// The time of the bare exchange in nanoseconds, times `scale`.
    pub(crate) fn floor_of(row: &Row, scale: f64) -> Self {
        Self::of(row.slices.iter().map(|slices| slices.floor.p50_ns * scale).collect(), row.calls)
    }

    /// The figure that `of_rate` computes from the calls per second of each slice.
    pub(crate) fn rate_of(row: &Row, of_rate: impl Fn(f64) -> f64) -> Self {
        Self::of(row.slices.iter().map(|slices| of_rate(slices.ours.calls_per_second)).collect(), row.calls)
    }

    /// The figure that `of_rate` computes from the bare exchanges per second of each slice.
    pub(crate) fn floor_rate_of(row: &Row, of_rate: impl Fn(f64) -> f64) -> Self {
        Self::of(row.slices.iter().map(|slices| of_rate(slices.floor.calls_per_second)).collect(), row.calls)
    }

    /// The medians of slices in nanoseconds, times `scale`.
    pub(crate) fn of_slices(slices: Vec<Samples>, scale: f64) -> Self {
        let calls = slices.iter().map(Samples::len).sum::<usize>() as u64;
        Self::of(slices.into_iter().map(|mut slice| slice.percentile_ns(0.5) * scale).collect(), calls)
    }

    /// The medians of the samples of slices in nanoseconds, times `scale`, and the calls that they count.
    pub(crate) fn of_measured(slices: Vec<Measured>, scale: f64) -> Self {
        let calls = slices.iter().map(|slice| slice.calls).sum();
        Self::of(slices.into_iter().map(|mut it| it.samples.percentile_ns(0.5) * scale).collect(), calls)
    }

    /// The figure that `of` computes from this one, slice by slice.
    pub(crate) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self::of(self.samples.iter().map(|&sample| of(sample)).collect(), self.calls)
    }

    /// This figure less `other`, slice by slice.
    pub(crate) fn minus(&self, other: &Figure) -> Self {
        let pairs = self.samples.iter().zip(&other.samples);
        Self::of(pairs.map(|(ours, theirs)| ours - theirs).collect(), self.calls)
    }
}

/// Microseconds in a nanosecond.
pub(crate) const US: f64 = 1e-3;

/// Megabits of so many bytes.
pub(crate) fn mbits(bytes: u32) -> f64 {
    f64::from(bytes) * 8.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_less_time_or_a_higher_rate() {
        let line = Line::new("").paper(100.0).today(Figure::of(vec![4.0, 5.0, 6.0], 3));
        let group = |unit| Group::new("", unit, Vec::new());
        assert_eq!(group("µs").times_better(&line), Some(20.0));
        assert_eq!(group("1/s").more_is_better().times_better(&line), Some(0.05));
        assert_eq!(group("%").times_better(&line), None);
        assert_eq!(group("µs").times_better(&Line::new("").paper(1.0)), None);
    }

    #[test]
    fn a_figure_is_the_median_of_its_rounds_and_says_when_they_differ() {
        let round = |median: f64| Figure::of(vec![median - 1.0, median, median + 2.0], 3);
        let figure = Figure::of_rounds(&[round(100.0), round(102.0), round(103.0)]);
        assert_eq!((figure.median, figure.calls, figure.samples.len()), (102.0, 9, 9));
        assert!(!figure.is_unsteady());
        assert!(Figure::of_rounds(&[round(100.0), round(102.0), round(120.0)]).is_unsteady());
        assert!(!round(100.0).is_unsteady(), "there is nothing to compare");
    }

    #[test]
    fn the_median_of_a_figure_lies_between_its_quartiles() {
        let one = Figure::of(vec![7.0], 1);
        let even = Figure::of(vec![4.0, -1.0], 2);
        let known = Figure::of_quartiles(Quartiles { low: 3.0, median: 2.0, high: 1.0 }, 3);
        let rounds = Figure::of_rounds(&[one.clone(), even.clone(), known.clone(), one.minus(&even)]);
        for figure in [one, even, known, rounds] {
            assert!(figure.low <= figure.median && figure.median <= figure.high, "{figure:?}");
        }
    }

    #[test]
    fn predictions_of_rounds_are_kept_with_their_moments() {
        let round = |value, fixed_s| {
            Predicted::once(InRound { value, fixed_s, measured_s: Some(fixed_s + 1.0) }, "why")
        };
        let joined = Predicted::joined(vec![round(3.0, 1.0), round(5.0, 4.0), round(4.0, 8.0)]);
        let joined = joined.expect("there are three");
        assert_eq!((joined.value, joined.rounds.len(), joined.rounds[1].fixed_s), (4.0, 3, 4.0));
        assert!(Predicted::joined(Vec::new()).is_none());
    }
}
