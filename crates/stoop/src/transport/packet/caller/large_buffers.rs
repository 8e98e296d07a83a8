//! The buffers of a lane for large calls and results.

use crate::transport::packet::link::{CallerArrival, CallerEndpoint};
use stoop_wire::MAX_DATAGRAM;

/// Bytes of packets that arrive together, at most.
pub(crate) const ARRIVALS_LEN: usize = 64 * 1024;

/// Bytes of a lane's result buffer: any datagram fits, because the packets of a long result may be longer than those of a call.
pub(crate) const RESULT_LEN: usize = 64 * 1024;

/// Short calls in a row after which the lane frees the buffers.
const REST_AFTER: u32 = 64;

/// Memory for packets, and the state of the endpoint. A lane frees them when it has made no large call for a while.
pub(crate) struct LargeBuffers<E: CallerEndpoint> {
    /// Packets that are sent.
    pub(crate) room: E::Room,
    /// Packets that have arrived together.
    pub(crate) arrivals: Box<[u8]>,
    /// The endpoint receives packets together.
    ready: bool,
    /// Short calls since the last long one.
    short_calls: u32,
}

impl<E: CallerEndpoint> Default for LargeBuffers<E> {
    fn default() -> Self {
        let arrivals = vec![0; ARRIVALS_LEN].into_boxed_slice();
        Self { room: E::Room::default(), arrivals, ready: false, short_calls: 0 }
    }
}

impl<E: CallerEndpoint> LargeBuffers<E> {
    /// Prepares the endpoint for a long result.
    pub(crate) fn expect_result(&mut self, endpoint: &E) {
        if !std::mem::replace(&mut self.ready, true) {
            endpoint.expect_many(true);
        }
    }

    /// Notes the end of a call.
    pub(crate) fn note(&mut self, was_large: bool) {
        self.short_calls = if was_large { 0 } else { self.short_calls + 1 };
    }

    /// Whether there has been no long call for a while.
    pub(crate) fn has_rested(&self) -> bool {
        self.short_calls >= REST_AFTER
    }

    /// Frees the memory of large calls and results; `call` keeps its first bytes.
    pub(crate) fn give_back(mut self, endpoint: &E, call: &mut Vec<u8>, result: &mut Vec<u8>) {
        if self.ready {
            // Packets that have arrived together cannot be told apart once the endpoint is reset. They are for calls that have ended.
            while let Ok(CallerArrival::Datagram(_)) = endpoint.receive_many(&mut self.arrivals) {}
            endpoint.expect_many(false);
        }
        call.truncate(MAX_DATAGRAM);
        call.shrink_to_fit();
        if result.len() > RESULT_LEN {
            *result = vec![0; RESULT_LEN];
        }
    }
}
