//! Releases, as time passes, the state of silent peers and results whose callers have stopped waiting. Tells callers without room that
//! their calls have come.

use super::lane::LaneState;
use super::memory::Spare;
use super::pipe_state::CallKey;
use super::{Peer, Server};
use crate::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// Time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Shortest time between two sweeps, however short the silence limit: the driver has other work.
pub(super) const SHORTEST_SWEEP_INTERVAL: Duration = Duration::from_millis(1);

impl<P: Peer> Server<P> {
    /// When [`handle_timeout`](Self::handle_timeout) has something to do; [`Instant::NEVER`] without bindings.
    pub fn next_timeout(&self) -> Instant {
        self.next_sweep.min(self.watch.next()).min(self.agenda.next_timer()).min(self.unasked.next_look())
    }

    pub(super) fn sweep_interval(&self) -> Duration {
        (self.limits.silence / 4).clamp(SHORTEST_SWEEP_INTERVAL, SWEEP_INTERVAL)
    }

    /// Frees the memory that is kept for the next messages of many packets. For times without work.
    pub fn release_spare_memory(&mut self) {
        self.spare = Spare::default();
    }

    /// Releases the state of silent peers, and handles timers of messages of many packets. Afterwards
    /// [`next_transmission`](Self::next_transmission) may have something to send.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timers(now);
        while let Some((call, peer)) = self.unasked.take(now) {
            self.acknowledge_unasked(now, call, peer);
        }
        self.look_for_quiet(now);
        if now < self.next_sweep {
            return;
        }
        let (silence, recycled, shares) = (self.limits.silence, &mut self.recycled, &mut self.shares);
        let released = self.bindings.retain(|binding| {
            let path = &mut binding.path;
            for lane in binding.lanes.iter_mut() {
                lane.drop_unused_large();
                let Some(freed) = lane.release(now) else {
                    lane.spare_packet(now).into_iter().for_each(|packet| recycled.keep(packet));
                    continue;
                };
                if let Some(large) = &mut lane.large {
                    large.end_sending(path);
                    large.end_pipes(path, shares, &mut binding.share);
                }
                recycled.free(freed, shares, &mut binding.share);
            }
            let stays = binding.is_running() || now.since(binding.heard) < silence;
            if !stays {
                shares.unbind(&binding.share);
            }
            stays
        });
        self.spare.age();
        self.counters.silent += released as u64;
        self.watch.forget_resting();
        self.watch(now);
        self.next_sweep = if self.bindings.len() == 0 { Instant::NEVER } else { now + self.sweep_interval() };
    }

    /// Acknowledges the calls of a binding that run and have not been acknowledged, if this one is among them.
    fn acknowledge_unasked(&mut self, now: Instant, (id, lane, number): CallKey, peer: P) {
        let Some(binding) = self.bindings.get_mut(id) else { return };
        let own = binding.lanes.awake(lane).filter(|lane| lane.number == number);
        if !own.is_some_and(LaneState::is_unacknowledged) {
            return;
        }
        let (mut lanes, mut calls) = (0, Vec::new());
        for (id, lane) in binding.lanes.numbered() {
            lanes += 1;
            if lane.is_unacknowledged() {
                lane.acknowledged.note(lane.number);
                calls.push((id, lane.number));
            }
        }
        self.unasked.acknowledge(now, (peer, id), lanes, calls);
    }
}

impl<P> LaneState<P> {
    /// Whether its call runs, and its caller has not been told so.
    fn is_unacknowledged(&self) -> bool {
        self.is_running() && !self.is_cancelled() && !self.acknowledged.is(self.number)
    }
}
