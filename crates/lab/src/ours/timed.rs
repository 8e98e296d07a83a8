//! Calls that are timed one by one with the cycle counter.

use super::{Binding, data_for, in_words, one_packet};
use crate::args::Procedure;
use crate::plan::Cell;
use stoop::CallError;
use stoop_probe::cycles;

impl Binding {
    /// Makes `calls` calls of the procedure of `cell`, one after the other. Returns the cycle counter before the first call and
    /// after each: one reading ends a call and begins the next.
    pub(crate) fn time_calls(&self, cell: &Cell, calls: usize) -> Result<Vec<u64>, String> {
        let (client, mut data) = (&self.client, data_for(cell));
        match cell.procedure {
            Procedure::Null => time(calls, || client.null()),
            Procedure::MaxArg => time(calls, || client.max_arg(one_packet(&mut data))),
            Procedure::MaxResult => time(calls, || client.max_result(one_packet(&mut data))),
            Procedure::BulkIn => time(calls, || client.bulk_in(&data)),
            Procedure::BulkOut => time(calls, || client.bulk_out(&mut data)),
            Procedure::BulkInOut => time(calls, || client.bulk_in_out(&mut data)),
            Procedure::BulkInPlace | Procedure::BulkInPlaceRead => {
                Err("calls with buffers in place are not timed one by one".into())
            }
        }
    }
}

#[inline(always)]
fn time(calls: usize, mut call: impl FnMut() -> Result<(), CallError>) -> Result<Vec<u64>, String> {
    let mut times = Vec::with_capacity(calls + 1);
    times.push(cycles());
    for _ in 0..calls {
        call().map_err(in_words)?;
        times.push(cycles());
    }
    Ok(times)
}
