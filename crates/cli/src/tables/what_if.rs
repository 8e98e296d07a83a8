//! What each improvement of Firefly §4.2 would bring: predicted before it is tried, and then measured by doing it.

mod headers;
mod improvements;
mod sums;

use super::entry::Entry;
use super::lab::Lab;
use super::model::{Figure, Group, Line, US};
use crate::plan::Cell;
use crate::row::Row;

pub(crate) const TABLES: &[Entry] = &[Entry {
    name: "what-if",
    title: "Firefly §4.2: what the improvements would bring",
    how: "Null() and MaxResult(b) by one caller, on a processor each, spinning unless said otherwise. Each improvement has a line \
          for the call before it and one for the call with it. The prediction is made from the call before: of its time, the part \
          that the improvement concerns (the bare exchange of as many bytes, the steps of `stoop account`, the bits on the wire) is \
          replaced by what that part takes alone with the improvement. The paper's values are its call of 2660 and 6350 µs less \
          what it estimated.",
    figures: 44,
    measure: improvements::measure,
}];

/// A call in microseconds before an improvement, and with it.
struct Tried {
    name: &'static str,
    paper: Option<f64>,
    before: (&'static str, Figure),
    predicted: f64,
    after: Result<Figure, String>,
    /// Why the prediction is off, where that is known.
    why_off: Option<&'static str>,
}

/// A prediction that is further off needs a reason.
const AGREE_WITHIN: f64 = 0.2;

impl Tried {
    fn lines(self) -> [Line; 2] {
        let (what, before) = self.before;
        let mut after = Line::new(self.name).predicted(self.predicted).today_or_why(self.after);
        after.paper = self.paper;
        if let Some(error) = after.prediction_error() {
            let why = self
                .why_off
                .filter(|_| error.abs() > AGREE_WITHIN)
                .map_or_else(String::new, |why| format!(": {why}"));
            after.remark = Some(format!("predicted {:+.0} %{why}", 100.0 * error));
        }
        [Line::new(format!("before: {what}")).today(before), after]
    }
}

/// A call and its floor, in microseconds.
fn both(lab: &mut Lab<'_>, cell: &Cell) -> Result<(Figure, Figure), String> {
    let row: Row = lab.row(cell)?;
    Ok((Figure::time_of(&row, US), Figure::floor_of(&row, US)))
}

/// Replaces one mechanism by another: what the call has on top of the bare exchange stays.
fn by_floors(
    lab: &mut Lab<'_>,
    name: &'static str,
    paper: Option<f64>,
    before: (&'static str, Cell),
    after: Cell,
) -> Result<Tried, String> {
    let (ours, floor) = both(lab, &before.1)?;
    let (after, new_floor) = both(lab, &after)?;
    let predicted = ours.median - floor.median + new_floor.median;
    Ok(Tried { name, paper, before: (before.0, ours), predicted, after: Ok(after), why_off: None })
}

/// The lines of improvements, or why one could not be tried.
fn group(title: &str, tried: Vec<(&'static str, Result<Tried, String>)>) -> Group {
    let lines = tried.into_iter().flat_map(|(name, tried)| match tried {
        Ok(tried) => tried.lines().to_vec(),
        Err(why) => vec![Line::new(name).remark(why)],
    });
    Group::new(title, "µs", lines.collect())
}
