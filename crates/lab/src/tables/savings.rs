//! Judges predictions of what improvements save by what was then measured.

use super::model::{Figure, Group, Line, Predicted};
use crate::samples::Quartiles;

/// A prediction that differs from the measured saving by more, as a share of the saving, is named below the table.
const WITHIN: f64 = 0.2;

/// The group with each prediction beside its saving, and those that were off named with the reason.
pub(super) fn judged(mut group: Group) -> Group {
    if !group.savings {
        return group;
    }
    for line in &mut group.lines {
        let (Some(predicted), Some(saved)) = (&mut line.predicted, &line.today) else { continue };
        match is_beyond_spread(saved) {
            true => predicted.off = Some(off(predicted, saved)),
            false => line.remark = Some("no saving beyond the spread".into()),
        }
    }
    let named: Vec<String> = group.lines.iter().filter_map(named).collect();
    if !named.is_empty() {
        group.notes = vec!["Predictions that differ from the saving by more than 20 %:".into()];
        group.notes.extend(named);
    }
    group
}

/// The difference of a prediction from the saving, as a share of the saving: in each round, and the median of the rounds. The machine may
/// have another speed in each.
fn off(predicted: &Predicted, saved: &Figure) -> f64 {
    let differences = predicted.rounds.iter().zip(&saved.rounds);
    let mut off: Vec<f64> =
        differences.map(|(predicted, saved)| (predicted.value - saved) / saved.abs()).collect();
    if off.is_empty() || predicted.rounds.len() != saved.rounds.len() {
        off = vec![(predicted.value - saved.median) / saved.median.abs()];
    }
    Quartiles::of(off).median
}

/// Whether the quartiles of a saving and the savings of all rounds lie on one side of 0. Each round has processes of its own: two of one
/// program differ by some hundredths of a microsecond a call, which the quartiles of a round do not contain.
fn is_beyond_spread(saved: &Figure) -> bool {
    let values = || [saved.low, saved.high].into_iter().chain(saved.rounds.iter().copied());
    values().all(|value| value > 0.0) || values().all(|value| value < 0.0)
}

/// The sentence that names a line whose prediction is off.
fn named(line: &Line) -> Option<String> {
    let (predicted, saved) = (line.predicted.as_ref()?, line.today.as_ref()?);
    let is_off = match predicted.off {
        Some(off) => off.abs() > WITHIN,
        // Less is saved than can be seen.
        None => !(saved.low..=saved.high).contains(&predicted.value),
    };
    is_off.then(|| format!("{}: {}", line.label, predicted.reason))
}

impl Line {
    /// By how much the prediction was off, as text.
    pub(super) fn off(&self) -> Option<String> {
        self.predicted.as_ref()?.off.map(|off| format!("{:+.0} %", 100.0 * off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::model::{InRound, Predicted};

    fn judged_line(predicted: f64, saved: &[f64]) -> (Line, Vec<String>) {
        let round = InRound { value: predicted, fixed_s: 1.0, measured_s: Some(2.0) };
        let line = Line::new("faster").predicted(Predicted::once(round, "the wire waits"));
        let line = line.today(Figure::of(saved.to_vec(), 10));
        let group = judged(Group::savings("Null()", "µs", vec![line]));
        (group.lines[0].clone(), group.notes)
    }

    #[test]
    fn prediction_is_judged_by_the_saving_and_not_by_the_call() {
        let (line, notes) = judged_line(1.1, &[0.9, 1.0, 1.1]);
        assert_eq!((line.off().as_deref(), notes.len()), (Some("+10 %"), 0));
        let (line, notes) = judged_line(0.5, &[0.9, 1.0, 1.1]);
        assert_eq!((line.off().as_deref(), notes.len()), (Some("-50 %"), 2));
        assert_eq!(notes[1], "faster: the wire waits");
    }

    #[test]
    fn saving_of_the_wrong_sign_is_off_by_more_than_all_of_it() {
        let (line, notes) = judged_line(-1.0, &[0.9, 1.0, 1.1]);
        assert_eq!((line.off().as_deref(), notes.len()), (Some("-200 %"), 2));
        let (line, notes) = judged_line(1.0, &[-1.1, -1.0, -0.9]);
        assert_eq!((line.off().as_deref(), notes.len()), (Some("+200 %"), 2));
        let (line, notes) = judged_line(-0.9, &[-1.1, -1.0, -0.9]);
        assert_eq!((line.off().as_deref(), notes.len()), (Some("+10 %"), 0));
    }

    #[test]
    fn prediction_is_judged_by_the_saving_of_its_own_round() {
        let round =
            |value| Predicted::once(InRound { value, fixed_s: 1.0, measured_s: Some(2.0) }, "the wire waits");
        let predicted = Predicted::joined([1.0, 2.0, 4.0].map(round).into()).expect("there are three");
        let rounds = [1.0, 2.1, 4.0].map(|saved| Figure::of(vec![saved], 1));
        let line = Line::new("faster").predicted(predicted).today(Figure::of_rounds(&rounds));
        let group = judged(Group::savings("Null()", "µs", vec![line]));
        assert_eq!((group.lines[0].off().as_deref(), group.notes.len()), (Some("+0 %"), 0));
    }

    #[test]
    fn saving_within_its_spread_has_no_percentage_and_is_named_if_more_was_predicted() {
        let (line, notes) = judged_line(0.05, &[-0.1, 0.01, 0.1]);
        assert!(line.off().is_none() && notes.is_empty());
        assert_eq!(line.remark.as_deref(), Some("no saving beyond the spread"));
        let (line, notes) = judged_line(0.5, &[-0.1, 0.01, 0.1]);
        assert!(line.off().is_none() && notes.len() == 2);
    }

    #[test]
    fn saving_whose_rounds_have_both_signs_is_not_beyond_the_spread() {
        let round = |saved| Figure::of(vec![saved, saved], 1);
        let line = |rounds: [f64; 3]| {
            let predicted = InRound { value: 0.01, fixed_s: 1.0, measured_s: Some(2.0) };
            let line = Line::new("faster").predicted(Predicted::once(predicted, "the wire waits"));
            let line = line.today(Figure::of_rounds(&rounds.map(round)));
            judged(Group::savings("Null()", "µs", vec![line])).lines[0].off()
        };
        assert!(line([-0.02, 0.001, -0.03]).is_none() && line([-0.02, -0.01, -0.03]).is_some());
    }
}
