//! Options of an endpoint.

use crate::frame::EtherType;

/// Options of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The EtherType of the frames. Both ends need the same.
    pub ether_type: EtherType,
    /// Frames that may be waiting to be received. More are dropped, and counted. AF_XDP takes fewer where the
    /// process may not lock the memory (RLIMIT_MEMLOCK).
    pub frames: usize,
}

impl Options {
    /// For an endpoint of one lane, which has at most one call outstanding.
    pub fn of_one_lane() -> Self {
        Self { ether_type: EtherType::default(), frames: 256 }
    }

    /// For a server's endpoint, or one that many callers share. With 1,024 frames, which fit into the
    /// caches, a call over AF_XDP takes 4 % less; but beside callers that do not read their results other calls then take up to 0.5 s.
    pub fn of_many_lanes() -> Self {
        Self { ether_type: EtherType::default(), frames: 4096 }
    }
}
