//! Improvements that cannot be made on this machine, or not without another program: predicted only.

use super::paper::Call;
use crate::args::{Transport, Waiting};
use crate::tables::lab::{Lab, spinning};
use crate::tables::model::{Figure, Line, US};
use crate::tables::parts::Parts;

/// The call as it is, and the lines of these improvements.
pub(super) fn lines(lab: &mut Lab<'_>, call: &Call) -> Result<Vec<Line>, String> {
    let row = lab.row(&spinning(Transport::Udp, call.procedure))?;
    let (paper, today) = (&call.paper, Figure::time_of(&row, US));
    let now = today.median;
    let recoded = Line::new("run time recoded, three times as fast").paper(paper.call - paper.recoding);
    Ok(vec![
        Line::new("UDP as it is").paper(paper.call).today(today),
        Line::new("processors three times as fast")
            .paper(paper.call - paper.processors)
            .predicted(now / 3.0)
            .remark("predicted only: on a veth pair all of a call is software"),
        match Parts::of(lab, Transport::Udp, call.procedure, Waiting::Spin) {
            Ok(parts) => {
                let run_time = parts.named(&["Starter", "Transporter", "Receiver", "Ender"]);
                let saved = run_time.median * 2.0 / 3.0;
                recoded.predicted(now - saved).remark("predicted only, from the steps of the account")
            }
            Err(why) => recoded.remark(why),
        },
    ])
}
