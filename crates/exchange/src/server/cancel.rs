//! Cancelled calls.

use super::lane::{Age, Answer};
use super::parked::Parked;
use super::replies::{acknowledgement, refusal};
use super::{Effect, Peer, Server};
use crate::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{Header, RefusalCode};

impl<P: Peer> Server<P> {
    /// Cancels a call in any state: it does not begin any more, and if it has ended, its answer is released.
    #[cold]
    pub(super) fn on_cancel(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        let Some(lane) = binding.lanes.get_or_make(header.lane, self.limits.lanes, |lanes| {
            self.shares.take_lanes(&mut binding.share, lanes)
        }) else {
            return self.no_such_lane(header, reply);
        };
        let answer = lane.on_cancel(Age::of(header.number, lane.number));
        match answer {
            Answer::Drop => {
                self.counters.stale += 1;
                return Effect::Nothing;
            }
            Answer::TellProcedure => {
                if !lane.is_cancelled() {
                    self.counters.cancelled += 1;
                    lane.cancel();
                }
                if let Some(large) = &mut lane.large {
                    large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
                }
                let _: Effect<P> = acknowledgement(header, reply);
                return Effect::Cancelled(header.binding, header.lane, header.number);
            }
            Answer::Release => {
                if let Some(large) = &mut lane.large {
                    large.end_sending(&mut binding.path);
                    large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
                }
                if let Some(freed) = lane.deliver() {
                    self.recycled.free(freed, &mut self.shares, &mut binding.share);
                }
                let answer = lane.on_probe(Age::Same);
                return self.repeat(peer, answer, header, reply);
            }
            Answer::Forbid => {
                self.counters.cancelled += 1;
                self.forbid(header, RefusalCode::Cancelled);
            }
            Answer::ForbidNext => {
                self.counters.cancelled += 1;
                return self.forbid_next(now, peer, header, RefusalCode::Cancelled, reply);
            }
            _ => {}
        }
        self.repeat(peer, answer, header, reply)
    }

    /// Remembers permanently that the call, the newest of its lane, does not run.
    pub(super) fn forbid(&mut self, header: &Header, code: RefusalCode) {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let mut older = None;
        if let Some(large) = &mut lane.large {
            large.end_sending(&mut binding.path);
            large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
            // A call that is newer goes on arriving.
            older = large.drop_incomplete(header.number);
        }
        if let Some(freed) = lane.forbid(header.number, code) {
            self.recycled.free(freed, &mut self.shares, &mut binding.share);
        }
        lane.drop_idle_large(&mut self.agenda, (header.binding, header.lane));
        self.give_message_back(header, older);
    }

    /// As [`forbid`](Self::forbid), while an earlier call runs: the record of the waiting call says that it must not
    /// run.
    pub(super) fn forbid_next(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        code: RefusalCode,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let lane = self.bindings.lane_mut(header);
        let older = lane.large.as_mut().and_then(|large| large.drop_incomplete(header.number));
        let waits = lane.parked.as_mut().filter(|parked| parked.number == header.number);
        let waited = waits.map(|waits| {
            waits.refused = Some(code);
            waits.message.take()
        });
        self.give_message_back(header, older);
        if let Some(message) = waited {
            self.give_message_back(header, message);
            return refusal(header, code, reply);
        }
        let packet: Box<[u8]> = Header { message_len: 0, offset: 0, ..*header }.to_bytes().into();
        let number = header.number;
        let refused = Some(code);
        let parked = Parked { number, peer, arrived: now, packet, message: None, message_len: 0, refused };
        self.park(header, parked, reply)
    }
}
