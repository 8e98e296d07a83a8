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

    /// For a server's endpoint, or one that many callers share. With 4,096 frames a packet of Null() took 70 ns longer over a packet ring, and
    /// a call over AF_XDP 4 % longer: so much memory is not in the caches of the processors.
    pub fn of_many_lanes() -> Self {
        Self { ether_type: EtherType::default(), frames: 1024 }
    }
}
