//! Many outstanding calls of Stoop: one thread begins them and takes their results as they come.

use super::{TestBegin, TestClient, in_words};
use crate::args::{DATA_LEN, Procedure};
use crate::callers::{Calls, InFlight, Measured, Window, keep_in_flight};
use std::collections::VecDeque;
use stoop::{CallError, InPlace, Pending};

/// Calls of one procedure, `in_flight` at a time.
pub(super) struct Begun {
    pub(super) client: TestClient,
    pub(super) procedure: Procedure,
    pub(super) data: Vec<u8>,
    pub(super) in_flight: u16,
}

impl Calls for Begun {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let Begun { client, procedure, data, in_flight } = self;
        let in_flight = usize::from(*in_flight);
        match procedure {
            Procedure::Null => keep(window, in_flight, client, |begin| begin.null()),
            Procedure::MaxArg => {
                let data: [u8; DATA_LEN] = *super::one_packet(data);
                keep(window, in_flight, client, |begin| begin.max_arg(&data))
            }
            Procedure::MaxResult => keep(window, in_flight, client, |begin| begin.max_result()),
            Procedure::BulkIn => keep(window, in_flight, client, |begin| begin.bulk_in(data)),
            Procedure::BulkOut => keep(window, in_flight, client, |begin| begin.bulk_out(data.len())),
            Procedure::BulkInOut => keep(window, in_flight, client, |begin| begin.bulk_in_out(data)),
            Procedure::BulkInPlace => {
                let buffer = InPlace::from(data.clone());
                keep(window, in_flight, client, |begin| begin.bulk_in_place(&buffer))
            }
            Procedure::BulkInPlaceRead => {
                let buffer = InPlace::from(data.clone());
                keep(window, in_flight, client, |begin| begin.bulk_in_place_read(&buffer))
            }
        }
    }
}

fn keep<R>(
    window: Window,
    in_flight: usize,
    client: &TestClient,
    begin: impl FnMut(&TestBegin<'_>) -> Pending<Result<R, CallError>>,
) -> Result<Measured, String> {
    let pending = VecDeque::with_capacity(in_flight);
    keep_in_flight(window, in_flight, &mut Handles { client, begin, pending })
}

/// Handles of the outstanding calls, oldest first.
struct Handles<'a, R, B> {
    client: &'a TestClient,
    begin: B,
    pending: VecDeque<Pending<Result<R, CallError>>>,
}

impl<R, B: FnMut(&TestBegin<'_>) -> Pending<Result<R, CallError>>> InFlight for Handles<'_, R, B> {
    #[inline(always)]
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        let together = self.client.begin();
        for _ in 0..calls {
            self.pending.push_back((self.begin)(&together));
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self) -> Result<usize, String> {
        let mut taken = 0;
        while self.pending.front().is_some_and(|first| taken == 0 || first.is_ready()) {
            let first = self.pending.pop_front().expect("it was there");
            first.wait().map_err(in_words)?;
            taken += 1;
        }
        Ok(taken)
    }
}
