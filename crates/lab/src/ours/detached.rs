//! Calls of Stoop whose results the caller does not take: detached ones, and those of a one-way procedure.

use super::{Handle, TIMEOUT, TestBegin, TestClient, in_words};
use crate::callers::InFlight;

/// Calls that are begun together and detached.
pub(super) struct Detached<'a, B> {
    client: &'a TestClient,
    begin: B,
    outstanding: usize,
}

impl<'a, B> Detached<'a, B> {
    pub(super) fn new(client: &'a TestClient, begin: B) -> Self {
        Detached { client, begin, outstanding: 0 }
    }
}

impl<R, B: FnMut(&TestBegin<'_>) -> Handle<R>> InFlight for Detached<'_, B> {
    #[inline(always)]
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        let together = self.client.begin();
        for _ in 0..calls {
            (self.begin)(&together).detach();
        }
        self.outstanding += calls;
        Ok(())
    }

    fn take(&mut self) -> Result<usize, String> {
        flush(self.client, &mut self.outstanding)
    }
}

/// Calls of a one-way procedure, each of which returns when it has been sent.
pub(super) struct OneWay<'a> {
    client: &'a TestClient,
    outstanding: usize,
}

impl<'a> OneWay<'a> {
    pub(super) fn new(client: &'a TestClient) -> Self {
        OneWay { client, outstanding: 0 }
    }
}

impl InFlight for OneWay<'_> {
    #[inline(always)]
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        for _ in 0..calls {
            self.client.null_one_way().map_err(in_words)?;
        }
        self.outstanding += calls;
        Ok(())
    }

    fn take(&mut self) -> Result<usize, String> {
        flush(self.client, &mut self.outstanding)
    }
}

/// Waits until the calls have ended without results for this thread, and returns how many they were.
fn flush(client: &TestClient, outstanding: &mut usize) -> Result<usize, String> {
    client.binding().flush(TIMEOUT).map_err(|error| error.to_string())?;
    Ok(std::mem::take(outstanding))
}
