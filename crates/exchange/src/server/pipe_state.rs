//! State of the pipes of a lane's newest call.

use super::shares::{Share, Shares};
use crate::Instant;
use crate::bulk::Path;
use crate::pipe::{Framing, Receiving, Sending};
use alloc::boxed::Box;
use core::cell::Cell;
use core::time::Duration;
use stoop_wire::{BindingId, CallNumber, LaneId};

/// Names a call that was given out, as [`Assignment::identity`](super::Assignment::identity) does.
pub type CallKey = (BindingId, LaneId, CallNumber);

/// Consecutive waits, each twice as long as the one before, after which the server sends nothing more of an answer or a pipe
/// until its caller is heard.
pub(super) const WAITS: u32 = 8;

/// The pipes of a lane's newest call.
#[derive(Debug)]
pub(super) struct Pipes<P> {
    /// Where the caller was heard last.
    pub(super) peer: P,
    pub(super) number: CallNumber,
    /// Most calls have one of them.
    pub(super) from: Option<Box<Receiving>>,
    pub(super) to: Option<Box<Sending>>,
    /// Bytes that they count for in the pool.
    pub(super) counted: usize,
    /// The caller was silent for so long that nothing more is sent until it is heard.
    pub(super) paused: bool,
    /// When the caller was heard last about this call: by data, a receipt or a question.
    pub(super) heard: Cell<Instant>,
    /// When to look whether that was long ago.
    pub(super) check: Instant,
    /// When to look for memory again.
    pub(super) retry: Instant,
}

/// What has become due for the pipes of a call that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeDue {
    /// Look again for memory: there was too little.
    Retry,
    /// Its caller was silent for so long that it is gone or has given up this call.
    Silent,
}

/// A caller that waits for a call asks about it several times in a second. After a silence of this length it has gone, or has given up the
/// call without a word, as one does that was cut off.
const SILENCE: Duration = Duration::from_secs(25);

/// A look that comes so much too late proves nothing: the server has not received either.
const LATE: Duration = Duration::from_secs(1);

impl<P> Pipes<P> {
    pub(super) fn new(
        peer: P,
        number: CallNumber,
        (from, to): (Option<Box<Receiving>>, Option<Box<Sending>>),
        counted: usize,
        now: Instant,
    ) -> Self {
        let (heard, check, retry) = (Cell::new(now), now + SILENCE, Instant::NEVER);
        Self { peer, number, from, to, counted, paused: false, heard, check, retry }
    }

    /// Bytes of memory in use, but for those of the pipes' data.
    pub(super) fn own_bytes(&self) -> usize {
        let of_ends = self.from.as_deref().map_or(0, size_of_val) + self.to.as_deref().map_or(0, size_of_val);
        size_of::<Self>() + of_ends
    }

    /// Looks at what is due by the clock for the call.
    pub(super) fn look(&mut self, now: Instant) -> Option<PipeDue> {
        if now >= self.check {
            if now.since(self.check) >= LATE {
                self.heard.set(now);
            }
            if now.since(self.heard.get()) >= SILENCE {
                self.check = Instant::NEVER;
                return Some(PipeDue::Silent);
            }
            self.check = self.heard.get() + SILENCE;
        }
        (now >= self.retry).then(|| {
            self.retry = Instant::NEVER;
            PipeDue::Retry
        })
    }

    pub(super) fn framing(&self, (binding, lane): (BindingId, LaneId)) -> Framing {
        Framing { binding, lane, number: self.number }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether there may be something to send.
    pub(super) fn is_sending(&self) -> bool {
        !self.paused && self.to.as_deref().is_some_and(|to| !to.is_done())
    }

    pub(super) fn owes_receipt(&self, drained: bool) -> bool {
        self.from.as_deref().is_some_and(|from| from.owes_receipt(drained))
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(super) fn next_timeout(&self, path: &Path) -> Instant {
        let of_to = self.to.as_deref().filter(|_| !self.paused).map(|to| to.next_timeout(path));
        let of_from = self.from.as_deref().map(Receiving::next_timeout);
        of_to.into_iter().chain(of_from).fold(self.check.min(self.retry), Instant::min)
    }

    /// Does what is due.
    pub(super) fn on_timeout(&mut self, now: Instant, path: &mut Path) {
        if let Some(from) = &mut self.from {
            from.on_timeout(now);
        }
        let Some(to) = self.to.as_deref_mut().filter(|to| !self.paused && now >= to.next_timeout(path))
        else {
            return;
        };
        to.on_timeout(now, path);
        if to.waits() >= WAITS {
            // The caller is gone, or cut off. Any packet about this call resumes it.
            to.pause(path);
            self.paused = true;
        }
    }

    /// Counts in the pool what is held now; not more than before, or what was taken for it.
    pub(super) fn recount(&mut self, shares: &mut Shares, share: &mut Share) {
        let held =
            self.from.as_deref().map_or(0, Receiving::reserved) + self.to.as_deref().map_or(0, Sending::held);
        shares.give_pipe_back(share, self.counted.saturating_sub(held));
        self.counted = self.counted.min(held);
    }
}

impl<P> Pipes<P> {
    /// The caller is heard again.
    pub(super) fn resume(&mut self, path: &mut Path) {
        if core::mem::take(&mut self.paused)
            && let Some(to) = &mut self.to
        {
            to.ask_again(path);
        }
    }
}
