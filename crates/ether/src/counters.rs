//! Counters of an endpoint.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an endpoint has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames that the kernel has dropped because the ring was full.
    pub overflowed: u64,
    /// Frames without a packet: truncated, or with a bad address.
    pub malformed: u64,
    /// Frames with a wrong checksum.
    pub corrupt: u64,
    /// Frames that the kernel has refused to send.
    pub not_sent: u64,
}

/// Counters of rare events; the path of a packet that arrives well counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) overflowed: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) corrupt: AtomicU64,
    pub(crate) not_sent: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counted {
        Counted {
            overflowed: self.overflowed.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
            corrupt: self.corrupt.load(Ordering::Relaxed),
            not_sent: self.not_sent.load(Ordering::Relaxed),
        }
    }

    #[cold]
    pub(crate) fn note_not_sent(&self, frames: usize) {
        self.not_sent.fetch_add(frames as u64, Ordering::Relaxed);
    }
}
