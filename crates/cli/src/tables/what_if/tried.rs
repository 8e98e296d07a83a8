//! An improvement that was predicted and measured, and the lines of the table that show it.

use crate::plan::Cell;
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, Line, US};

/// A call in microseconds before an improvement, and with it.
pub(super) struct Tried {
    /// The call before the improvement, in words.
    pub(super) from: &'static str,
    pub(super) before: Figure,
    pub(super) predicted: f64,
    pub(super) after: Figure,
}

impl Tried {
    /// The lines of the improvement called `name`; one with the reason, if it could not be tried.
    pub(super) fn lines(tried: Result<Self, String>, name: &str, paper: Option<f64>) -> Vec<Line> {
        let mut line = Line::new(name);
        line.paper = paper;
        match tried {
            Ok(Self { from, before, predicted, after }) => {
                vec![
                    Line::new(format!("before: {from}")).today(before),
                    line.predicted(predicted).today(after),
                ]
            }
            Err(why) => vec![line.remark(why)],
        }
    }
}

/// A call and its floor, in microseconds.
pub(super) struct Measured {
    pub(super) ours: Figure,
    pub(super) floor: Figure,
}

/// How often the calls before and after an improvement take turns: the machine's speed changes within seconds.
pub(super) const TURNS: u32 = 4;

/// Measures a call before and after an improvement in turn. `switch` makes the improvement, or takes it back; the last turn is
/// with it.
pub(super) fn in_turn(
    lab: &mut Lab<'_>,
    cells: [&Cell; 2],
    mut switch: impl FnMut(&mut Lab<'_>, bool) -> Result<(), String>,
) -> Result<[Measured; 2], String> {
    let time = lab.args.time() / TURNS;
    let mut turn = |lab: &mut Lab<'_>, improved: bool| -> Result<Measured, String> {
        switch(lab, improved)?;
        let row = lab.row_in(cells[usize::from(improved)], time)?;
        Ok(Measured { ours: Figure::time_of(&row, US), floor: Figure::floor_of(&row, US) })
    };
    let [mut before, mut after] = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        before.push(turn(lab, false)?);
        after.push(turn(lab, true)?);
    }
    Ok([joined(before), joined(after)])
}

fn joined(calls: Vec<Measured>) -> Measured {
    let (ours, floors) = calls.into_iter().map(|call| (call.ours, call.floor)).unzip();
    Measured { ours: Figure::joined(ours), floor: Figure::joined(floors) }
}

/// The calls of two cells in turn, where nothing but the cell differs.
pub(super) fn cells_in_turn(lab: &mut Lab<'_>, before: &Cell, after: &Cell) -> Result<[Measured; 2], String> {
    in_turn(lab, [before, after], |_, _| Ok(()))
}

/// Predicts that a new mechanism replaces the bare exchange of the old one, and that the rest of the call stays.
pub(super) fn by_floors(from: &'static str, [before, after]: [Measured; 2]) -> Tried {
    let predicted = before.ours.median - before.floor.median + after.floor.median;
    Tried { from, before: before.ours, predicted, after: after.ours }
}
