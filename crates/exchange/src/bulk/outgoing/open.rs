//! Messages whose length is not known yet: bytes are added while others travel.
//!
//! Offsets count from a place that [`rebase`](Outgoing::rebase) moves forward, so that they stay small however much is sent.

use super::{MOST_RANGES, Outgoing};
use crate::Instant;
use crate::bulk::path::Path;
use crate::bulk::ranges::Ranges;

/// Bytes that wait for others at most, and those in flight for which a receiver sends a receipt at once.
const FEW: u32 = 8 * 1024;
pub(super) const MANY: u32 = 32 * 1024;

impl Outgoing {
    /// A message without bytes as yet.
    pub(crate) fn open() -> Self {
        Self { is_open: true, ..Self::new(0, 0) }
    }

    /// Adds `bytes` to the end of the message, whose receiver accepts the bytes before `limit`.
    pub(crate) fn extend(&mut self, now: Instant, bytes: u32, limit: u32) {
        if self.is_acknowledged() && self.since != Instant::NEVER {
            (self.since, self.waits) = (now, 0);
        }
        self.is_followed = !self.sent.is_empty();
        self.message_len += bytes;
        self.allow(limit);
    }

    /// The bytes so far leave without waiting for more.
    pub(crate) fn flush(&mut self) {
        self.flushed = self.message_len;
    }

    /// Whether these bytes wait for others, so that one system call sends both: they are few, others come soon, and so does a receipt for
    /// the many that are in flight, after which they leave in any case.
    pub(super) fn waits_for_more(&self, (start, end): (u32, u32), path: &Path) -> bool {
        self.is_followed
            && end - start < FEW
            && end > self.flushed
            && start == self.next
            && self.extra == 0
            && !self.sent.is_empty()
            && self.next - self.acknowledged.up_to() >= MANY
            && path.is_short()
    }

    /// The receiver accepts the bytes before `limit`.
    pub(crate) fn allow(&mut self, limit: u32) {
        self.limit = self.limit.max(limit.min(self.message_len));
    }

    /// Has the receiver asked how much it takes.
    pub(crate) fn question(&mut self) {
        self.ask = true;
    }

    /// Offset behind the last byte.
    pub(crate) fn message_len(&self) -> u32 {
        self.message_len
    }

    /// Transmission number of the last packet.
    pub(crate) fn transmission(&self) -> u32 {
        self.transmission
    }

    /// The bytes before this one have arrived.
    pub(crate) fn up_to(&self) -> u32 {
        self.acknowledged.up_to()
    }

    /// Nothing before `offset` has to arrive any more, nor is anything there behind it.
    pub(crate) fn skip_to(&mut self, offset: u32, path: &mut Path) {
        self.sent.forget(path);
        (self.acknowledged, self.lost) = (Ranges::new(), Ranges::new());
        if offset > 0 {
            self.acknowledged.insert(0, offset, MOST_RANGES);
        }
        (self.message_len, self.next, self.limit, self.ask) = (offset, offset, offset, false);
        (self.waits, self.silence, self.certain) = (0, None, (0, u32::MAX));
        (self.loss_time, self.paced_until) = (Instant::NEVER, Instant::NEVER);
    }

    /// Lets offsets and transmission numbers count from a later place, as far as they refer to nothing before it. Returns by how
    /// much both become smaller.
    pub(crate) fn rebase(&mut self) -> (u32, u32) {
        let (base, number) = self.sent.least();
        let offsets = self.up_to().min(base);
        // Number 0 means none.
        let numbers = self.latest.min(number).saturating_sub(1);
        self.acknowledged.rebase(offsets);
        self.lost.rebase(offsets);
        self.sent.rebase(offsets, numbers);
        self.message_len -= offsets;
        self.limit -= offsets;
        self.next -= offsets;
        self.flushed = self.flushed.saturating_sub(offsets);
        self.transmission -= numbers;
        self.latest -= numbers;
        let (from, to) = self.certain;
        self.certain =
            (from.saturating_sub(offsets), if to == u32::MAX { to } else { to.saturating_sub(offsets) });
        (offsets, numbers)
    }
}
