//! Firefly Table I: several caller threads.

use super::processors::{apart, rate_of, without_repeated_reasons};
use crate::args::{Procedure, Transport};
use crate::ours::Binding;
use crate::plan::Cell;
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, Group, Line, mbits};

/// Seconds for 10,000 calls of Null(), calls per second, seconds for 10,000 of MaxResult(b), and Mbit/s, by 1 to 8 threads.
const TABLE_1: [(f64, f64, f64, f64); 8] = [
    (26.61, 375.0, 63.47, 1.82),
    (16.80, 595.0, 35.28, 3.28),
    (16.26, 615.0, 27.28, 4.25),
    (15.45, 647.0, 24.93, 4.65),
    (15.11, 662.0, 24.69, 4.69),
    (14.69, 680.0, 24.65, 4.70),
    (13.49, 741.0, 24.72, 4.69),
    (13.67, 732.0, 24.68, 4.69),
];

/// The number of calls whose time the table shows.
const CALLS: f64 = 10_000.0;

pub(super) fn table_1(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    let mut columns = [const { Vec::new() }; 4];
    for (callers, paper) in (1_u16..).zip(TABLE_1) {
        let label = in_words(callers);
        let cell = Cell { transport: Transport::Udp, callers, ..Cell::NULL };
        let null = lab.row(&cell)?;
        let result = lab.row(&Cell { procedure: Procedure::MaxResult, ..cell })?;
        let figures = [
            (paper.0, Figure::rate_of(&null, |rate| CALLS / rate)),
            (paper.1, Figure::rate_of(&null, |rate| rate)),
            (paper.2, Figure::rate_of(&result, |rate| CALLS / rate)),
            (paper.3, Figure::rate_of(&result, |rate| rate * mbits(1440))),
        ];
        for (column, (paper, today)) in columns.iter_mut().zip(figures) {
            column.push(Line::new(&label).paper(paper).today(today));
        }
    }
    let [null, rates, result, throughput] = columns;
    let each = (lab.placement.all().len() / 2).max(2);
    let more = (1..=8).map(|callers| {
        let line = Line::new(in_words(callers)).paper(TABLE_1[usize::from(callers) - 1].1);
        line.today_or_why(on_several(lab, each, callers))
    });
    let more = without_repeated_reasons(more.collect());
    Ok(vec![
        Group::new("10,000 calls to Null()", "s", null),
        Group::new("Calls to Null()", "1/s", rates).more_is_better(),
        Group::new("10,000 calls to MaxResult(b)", "s", result),
        Group::new("Data of MaxResult(b)", "Mbit/s", throughput).more_is_better(),
        Group::new(format!("Calls to Null(), {each} processors for each end"), "1/s", more).more_is_better(),
    ])
}

fn in_words(callers: u16) -> String {
    format!("{callers} caller thread{}", if callers == 1 { "" } else { "s" })
}

/// Calls per second with so many processors for each end: one for each end bounds the rate of many callers.
fn on_several(lab: &Lab<'_>, processors: usize, callers: u16) -> Result<Figure, String> {
    let sides = apart(lab, processors, processors)?;
    let cell = Cell { transport: Transport::Udp, callers, ..Cell::NULL };
    rate_of(lab, &sides, cell.waiting, |uri| {
        let client = Binding::bind(uri, &cell)?;
        Ok((0..callers).map(|_| client.calls(&cell)).collect())
    })
}
