//! Frees the answers, incomplete calls and lanes of quiet bindings whose hosts hold much memory.
//!
//! A caller that waits sends its call again, or a probe, or a receipt, at the latest after its longest wait. A binding on
//! which nothing was heard for several such waits is *quiet*: its caller has ended, has given up or is cut off. The server
//! then frees what the binding retains, if the host holds more than a small part of the pool. Each call keeps its outcome:
//! a later question is answered by "the result is gone" or by the refusal, and an incomplete call never runs. The lanes
//! themselves then [rest](super::lanes::Lanes::rest): otherwise their small blocks would keep the pages on which the freed
//! answers lay.

use super::agenda::LaneKey;
use super::lane::LaneState;
use super::shares::Much;
use super::table::Binding;
use super::{Peer, Server};
use crate::Instant;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::BindingId;

/// Shortest silence of a quiet binding: eight times the longest wait of a caller whose round trip is below 100 ms, and more
/// than twice its silence limit.
const QUIET: Duration = Duration::from_secs(5);

/// Longest waits of a caller in the silence of a quiet binding whose round trip is longer.
const WAITS: u32 = 3;

/// Most that those waits count. A hostile caller chooses the round trip that the server measures.
const WAITS_MOST: Duration = Duration::from_secs(15);

/// Time between two looks for quiet bindings.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// When the server looks for quiet bindings.
#[derive(Debug)]
pub(super) struct Watch {
    /// The next look; [`Instant::NEVER`] while no host can hold much.
    next: Instant,
    /// Since this moment every look came in time. If one came late, the driver has not received either, and silence
    /// before that proves nothing.
    since: Instant,
    /// Lanes that rested after the last look.
    resting: usize,
}

impl Default for Watch {
    fn default() -> Self {
        Self { next: Instant::NEVER, since: Instant::default(), resting: 0 }
    }
}

impl Watch {
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Lanes may have woken since the last look.
    pub(super) fn forget_resting(&mut self) {
        self.resting = 0;
    }
}

impl<P> Binding<P> {
    fn is_quiet(&self, now: Instant, watched_since: Instant) -> bool {
        let wait = self.path.as_ref().map_or(Duration::ZERO, |path| path.longest_wait());
        let silence = QUIET.max(wait.saturating_mul(WAITS).min(WAITS_MOST));
        now.since(self.heard.max(watched_since)) >= silence
    }
}

impl<P: Peer> Server<P> {
    /// Whether nothing has been heard on this binding for so long that its caller has ended, has given up or is cut off; also if the
    /// binding is gone. Silence before `since` proves nothing.
    pub fn is_quiet(&mut self, now: Instant, binding: BindingId, since: Instant) -> bool {
        self.bindings.get_mut(binding).is_none_or(|binding| binding.is_quiet(now, since))
    }

    /// Begins to look for quiet bindings, if some host may hold much. To be called now and then: calls of one packet do not look by
    /// themselves. Afterwards [`next_timeout`](Self::next_timeout) may be earlier.
    #[inline]
    pub fn watch(&mut self, now: Instant) {
        if self.watch.next == Instant::NEVER && self.shares.any_much(self.watch.resting) {
            self.watch = Watch { next: now + LOOK_INTERVAL, since: now, ..self.watch };
        }
    }

    /// Frees what quiet bindings retain, if a look is due.
    pub(super) fn look_for_quiet(&mut self, now: Instant) {
        self.watch(now);
        if now < self.watch.next {
            return;
        }
        if now.since(self.watch.next) >= LOOK_INTERVAL {
            self.watch.since = now;
        }
        self.refuse_quiet_calls(now);
        self.free_quiet_answers(now);
        self.rest_quiet_lanes(now);
        let is_any = self.shares.any_much(self.watch.resting);
        self.watch.next = if is_any { now + LOOK_INTERVAL } else { Instant::NEVER };
    }

    fn free_quiet_answers(&mut self, now: Instant) {
        let (since, shares, recycled) = (self.watch.since, &mut self.shares, &mut self.recycled);
        for binding in self.bindings.iter_mut() {
            let Much { packets, retained, .. } = shares.much_of(binding.share.owner);
            if binding.share.packets == 0 || !(packets || retained) || !binding.is_quiet(now, since) {
                continue;
            }
            let before = binding.share.packets;
            for lane in binding.lanes.iter_mut().filter(|lane| packets || lane.large_retained() > 0) {
                let Some(freed) = lane.let_answer_go() else { continue };
                if let Some(large) = &mut lane.large {
                    large.end_sending(&mut binding.path);
                    large.end_pipes(&mut binding.path, shares, &mut binding.share);
                }
                lane.drop_unused_large();
                recycled.free(freed, shares, &mut binding.share);
            }
            if binding.share.packets < before {
                binding.lanes.rest();
            }
        }
    }

    /// Puts lanes of quiet bindings to rest, if the host has many lanes.
    fn rest_quiet_lanes(&mut self, now: Instant) {
        let (since, shares) = (self.watch.since, &self.shares);
        let mut resting = 0;
        for binding in self.bindings.iter_mut().filter(|binding| binding.share.lanes > 0) {
            if shares.much_of(binding.share.owner).lanes && binding.is_quiet(now, since) {
                binding.lanes.iter_mut().for_each(LaneState::drop_unused_large);
                binding.lanes.rest();
            }
            resting += binding.lanes.resting();
        }
        self.watch.resting = resting;
    }

    fn refuse_quiet_calls(&mut self, now: Instant) {
        let (since, bindings, shares) = (self.watch.since, &mut self.bindings, &self.shares);
        let mut is_to_free = |id| {
            bindings.get_mut(id).is_some_and(|binding| {
                shares.much_of(binding.share.owner).incomplete && binding.is_quiet(now, since)
            })
        };
        // Every lane with an incomplete call has a timer.
        let lanes = self.agenda.timers.iter().map(|&(_, binding, lane)| (binding, lane));
        let lanes: Vec<LaneKey> = lanes.filter(|(binding, _)| is_to_free(*binding)).collect();
        if lanes.is_empty() {
            return;
        }
        for lane in lanes {
            self.refuse_incomplete(now, lane);
        }
        // The memory of the refused calls.
        self.release_spare_memory();
    }
}
