//! Many outstanding calls of Stoop: one thread begins them and takes their results as they come, in one of several ways.

use super::awaited::Awaited;
use super::detached::{Detached, OneWay};
use super::{Handle, TestBegin, TestClient, in_words};
use crate::args::{DATA_LEN, Procedure, Results};
use crate::callers::{Calls, InFlight, Measured, Window, keep_in_flight};
use std::collections::VecDeque;
use stoop::{InPlace, wait_any};

/// Calls of one procedure, `in_flight` at a time.
pub(super) struct Begun {
    pub(super) client: TestClient,
    pub(super) procedure: Procedure,
    pub(super) data: Vec<u8>,
    pub(super) in_flight: u16,
    pub(super) results: Results,
}

impl Calls for Begun {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let Begun { client, procedure, data, in_flight, results } = self;
        let in_flight = (usize::from(*in_flight), *results);
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
    (in_flight, results): (usize, Results),
    client: &TestClient,
    begin: impl FnMut(&TestBegin<'_>) -> Handle<R>,
) -> Result<Measured, String> {
    let pending = VecDeque::with_capacity(in_flight);
    match results {
        Results::Wait => keep_in_flight(window, in_flight, &mut InOrder { client, begin, pending }),
        Results::Await => keep_in_flight(window, in_flight, &mut Awaited::new(client, begin)),
        Results::WaitAny => {
            keep_in_flight(window, in_flight, &mut Any { client, begin, pending: pending.into() })
        }
        Results::Detach => keep_in_flight(window, in_flight, &mut Detached::new(client, begin)),
        Results::OneWay => keep_in_flight(window, in_flight, &mut OneWay::new(client)),
    }
}

/// Outstanding calls, oldest first, which are waited for in this order.
struct InOrder<'a, R, B> {
    client: &'a TestClient,
    begin: B,
    pending: VecDeque<Handle<R>>,
}

impl<R, B: FnMut(&TestBegin<'_>) -> Handle<R>> InFlight for InOrder<'_, R, B> {
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

/// Outstanding calls, oldest first, of which any is waited for, and taken alone.
struct Any<'a, R, B> {
    client: &'a TestClient,
    begin: B,
    pending: Vec<Handle<R>>,
}

impl<R, B: FnMut(&TestBegin<'_>) -> Handle<R>> InFlight for Any<'_, R, B> {
    #[inline(always)]
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        let together = self.client.begin();
        self.pending.extend((0..calls).map(|_| (self.begin)(&together)));
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self) -> Result<usize, String> {
        let place = wait_any(&mut self.pending).expect("calls are outstanding");
        // In order, so that the oldest of those that have ended is taken next.
        self.pending.remove(place).wait().map_err(in_words)?;
        Ok(1)
    }
}
