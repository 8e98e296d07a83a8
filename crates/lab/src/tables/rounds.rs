//! The rounds of a run as one: each figure from all of its rounds, and whether the halves of the run agree.
//!
//! All tables are measured once in each round, so that the rounds of a figure lie minutes apart. The first half of the rounds and the
//! second are two runs, one after the other: a table whose halves differ would not come out again.

use super::calibration::AGREE_WITHIN;
use super::model::{Figure, Group, Line, Predicted, Table};
use super::savings;
use crate::samples::Quartiles;

/// One table from its rounds. A figure is taken from the rounds in which it was measured.
pub(super) fn joined(mut rounds: Vec<Table>) -> Table {
    let measured: Vec<Vec<Group>> =
        rounds.iter_mut().map(|table| std::mem::take(&mut table.groups)).collect();
    let most =
        measured.iter().max_by_key(|groups| groups.iter().map(|group| group.lines.len()).sum::<usize>());
    let groups: Vec<Group> = most.into_iter().flatten().map(|group| joined_group(group, &measured)).collect();
    let why_not = rounds.iter_mut().find_map(|table| table.why_not.take()).filter(|_| groups.is_empty());
    let first = rounds.swap_remove(0);
    Table { void: why_void(&groups), why_not, groups, ..first }
}

fn joined_group(group: &Group, rounds: &[Vec<Group>]) -> Group {
    let same = rounds.iter().flatten().filter(|other| other.title == group.title);
    let same: Vec<&Group> = same.collect();
    let lines = group.lines.iter().enumerate().map(|(at, line)| {
        // Two lines of a group may have one label, but then a line has the same place in each round.
        let others =
            same.iter().filter_map(|other| other.lines.get(at)).filter(|other| other.label == line.label);
        joined_line(line, &others.collect::<Vec<_>>())
    });
    savings::judged(Group { lines: lines.collect(), ..group.clone() })
}

fn joined_line(line: &Line, rounds: &[&Line]) -> Line {
    let figures: Vec<Figure> = rounds.iter().filter_map(|line| line.today.clone()).collect();
    let predictions = rounds.iter().filter_map(|line| line.predicted.clone()).collect();
    Line {
        today: (!figures.is_empty()).then(|| Figure::of_rounds(&figures)),
        predicted: Predicted::joined(predictions),
        remark: if figures.is_empty() {
            line.remark.clone()
        } else {
            rounds.iter().find_map(|line| line.remark.clone())
        },
        ..line.clone()
    }
}

/// The reason why a table is void, if the median of the ratios of its figures in both halves of the run is not within 5 %.
fn why_void(groups: &[Group]) -> Option<String> {
    // A saving near 0 may be any multiple of that of another round.
    let times = groups.iter().filter(|group| !group.savings);
    let figures = times.flat_map(|group| &group.lines).filter_map(|line| line.today.as_ref());
    let ratios: Vec<f64> = figures.filter_map(ratio_of_halves).collect();
    let off = if ratios.is_empty() { 0.0 } else { Quartiles::of(ratios).median - 1.0 };
    let words = || {
        format!(
            "its figures of the later rounds differ from the earlier ones by {:+.0} % in the median",
            100.0 * off
        )
    };
    (off.abs() > AGREE_WITHIN).then(words)
}

/// The median of the later rounds of a figure beside that of the earlier ones. The middle one of an odd number is in both halves.
fn ratio_of_halves(figure: &Figure) -> Option<f64> {
    let half = figure.rounds.len().div_ceil(2);
    let median = |rounds: &[f64]| Quartiles::of(rounds.to_vec()).median;
    let (earlier, later) = (figure.rounds.get(..half)?, figure.rounds.get(figure.rounds.len() - half..)?);
    let (before, after) = (median(earlier), median(later));
    (before > 0.0 && after > 0.0).then(|| after / before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[f64]) -> Table {
        let line =
            |(at, value): (usize, &f64)| Line::new(format!("line {at}")).today(Figure::of(vec![*value], 10));
        let groups = vec![Group::new("Calls", "µs", values.iter().enumerate().map(line).collect())];
        Table { name: "t", title: "T", how: "", groups, why_not: None, void: None }
    }

    fn failed() -> Table {
        Table { groups: Vec::new(), why_not: Some("no network".into()), ..table(&[]) }
    }

    #[test]
    fn a_table_counts_when_its_rounds_agree_in_the_median_though_a_figure_does_not() {
        let joined =
            joined(vec![table(&[10.0, 20.0, 1.0]), table(&[10.1, 20.2, 3.0]), table(&[9.9, 20.1, 2.0])]);
        assert_eq!(joined.void, None);
        let figures: Vec<&Figure> =
            joined.groups[0].lines.iter().filter_map(|line| line.today.as_ref()).collect();
        assert_eq!(figures.iter().map(|figure| figure.median).collect::<Vec<_>>(), [10.0, 20.1, 2.0]);
        assert_eq!(
            figures.iter().map(|figure| figure.is_unsteady()).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[test]
    fn a_table_is_void_when_the_later_half_of_the_run_was_slower_as_a_whole() {
        let (usual, slow) = ([10.0, 20.0, 1.0], [11.0, 22.0, 1.0]);
        let run = |rounds: &[[f64; 3]]| joined(rounds.iter().map(|round| table(round)).collect()).void;
        let why = run(&[usual, usual, slow, slow]).expect("the later half is 10 % slower");
        assert!(why.contains("later rounds") && why.contains("+10 %"), "{why}");
        assert_eq!(run(&[usual, slow, usual, slow]), None, "both halves are as fast");
        assert!(run(&[usual, slow]).is_some() && run(&[usual]).is_none());
    }

    #[test]
    fn a_round_that_failed_does_not_take_the_figures_of_the_others() {
        let some = joined(vec![failed(), table(&[10.0]), failed()]);
        assert!(some.why_not.is_none() && some.groups[0].lines[0].today.is_some());
        let none = joined(vec![failed(), failed()]);
        assert_eq!(none.why_not.as_deref(), Some("no network"));
    }
}
