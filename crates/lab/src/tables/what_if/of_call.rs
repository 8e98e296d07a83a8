//! The tables of Null() and of MaxResult(b): all savings are predicted, then all improvements are made.

use super::improvements::{IMPROVEMENTS, Improvement, over};
use super::paper::Call;
use super::phases::{Prediction, Present};
use super::setting::Of;
use super::tried::{Attempt, lines};
use crate::args::{Transport, Waiting};
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, Group, Line};

/// The groups of one call: its times, and the savings.
pub(super) fn groups(lab: &mut Lab<'_>, call: &Call) -> Result<Vec<Group>, String> {
    let mut present = Present::new(lab);
    let predictions = predict_all(&mut present, call);
    let now = present.call(&over(call, Transport::Udp), Of::Medians)?;
    let unmade = [
        ("processors three times as fast", call.paper.processors, faster_processors(&mut present, &now)),
        ("run time recoded, three times as fast", call.paper.recoding, recoded(&mut present, call)),
    ];
    let mut improving = present.end();
    let (mut times, mut saved) = (Vec::new(), Vec::new());
    for (Improvement { name, from, paper_saves, make, reason, .. }, prediction) in
        IMPROVEMENTS.iter().zip(predictions)
    {
        let tried = prediction.and_then(|prediction| improving.measure(prediction, |lab| make(lab, call)));
        let attempt = tried.map_or_else(Attempt::Failed, Attempt::Tried);
        let saves = paper_saves(&call.paper);
        let of_improvement =
            lines(attempt, name, from, (saves.map(|saves| call.paper.call - saves), saves), reason);
        times.extend(of_improvement.times);
        saved.push(of_improvement.saved);
    }
    improving.end();
    times.push(Line::new("UDP as it is").paper(call.paper.call).today(now));
    for (name, saves, attempt) in unmade {
        saved.push(lines(attempt, name, "UDP", (None, Some(saves)), "").saved);
    }
    Ok(vec![
        Group::new(call.title, "µs", times),
        Group::savings(format!("{}: saved", call.title), "µs", saved),
    ])
}

/// The predictions in the order of the improvements. Those that lead to the present calls of others are made before these are measured.
fn predict_all(present: &mut Present<'_, '_>, call: &Call) -> Vec<Result<Prediction, String>> {
    let present_calls = [Transport::Udp, Transport::Ether].map(|transport| over(call, transport).describe());
    let mut order: Vec<usize> = (0..IMPROVEMENTS.len()).collect();
    order.sort_by_key(|&at| !present_calls.contains(&(IMPROVEMENTS[at].improved)(call)));
    let mut predictions: Vec<(usize, Result<Prediction, String>)> = order
        .into_iter()
        .map(|at| {
            let Improvement { predict, improved, .. } = &IMPROVEMENTS[at];
            (at, predict(present, call).map(|saving| present.fix(improved(call), saving)))
        })
        .collect();
    predictions.sort_by_key(|(at, _)| *at);
    predictions.into_iter().map(|(_, prediction)| prediction).collect()
}

/// On a veth pair all of a call is software.
fn faster_processors(present: &mut Present<'_, '_>, now: &Figure) -> Attempt {
    let saving = now.median * 2.0 / 3.0;
    let prediction = present.fix("processors three times as fast".into(), saving).unconfirmed();
    let why = "predicted only: a guest cannot change the clock of its processors, and a processor that is taken away for a part of the \
               time stands still for milliseconds and is then as fast as before";
    Attempt::PredictedOnly(prediction, why.into())
}

/// Two thirds of the run time's steps fall away.
fn recoded(present: &mut Present<'_, '_>, call: &Call) -> Attempt {
    match present.account(call.procedure, Waiting::Spin) {
        Ok(parts) => {
            let run_time = parts.named(&["Starter", "Transporter", "Receiver", "Ender"]).median;
            let prediction = present.fix("run time recoded".into(), run_time * 2.0 / 3.0).unconfirmed();
            let why = format!(
                "predicted only: the compiler's output is optimised machine code already, and there is no other to measure; the \
                 most that any code could save is all of its steps, {run_time:.3} µs"
            );
            Attempt::PredictedOnly(prediction, why)
        }
        Err(why) => Attempt::Failed(why),
    }
}
