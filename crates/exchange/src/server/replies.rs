//! Answers to packets that begin no call.

use super::lane::{Age, Answer};
use super::{Effect, Peer, Server};
use crate::Instant;
use alloc::vec::Vec;
use stoop_wire::{CallList, FailureCode, Header, Kind, RefusalCode};

impl<P: Peer> Server<P> {
    pub(super) fn on_probe(&mut self, peer: P, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        let Some(lane) = binding.lanes.get_mut(header.lane) else {
            self.counters.stale += 1;
            return Effect::Nothing;
        };
        if let Some(parked) = lane.parked.as_ref().filter(|parked| parked.number == header.number) {
            return waiting(parked.refused, header, reply);
        }
        match lane.on_probe(Age::of(header.number, lane.number)) {
            Answer::Drop => {
                self.counters.stale += 1;
                Effect::Nothing
            }
            answer => self.repeat(peer, answer, header, reply),
        }
    }

    /// Answers a list of calls by the same list, those first that run or wait. Probes for the others follow one by one, so that no answer
    /// is longer than the packet that asks for it. Lanes that rest have no call that runs, and do not wake.
    #[cold]
    pub(super) fn on_probes(
        &mut self,
        now: Instant,
        header: &Header,
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let Some(list) = CallList::decode(header, payload) else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        let has = |lane, number| {
            let lane = binding.lanes.awake(lane).filter(|lane| lane.has_unanswered(number));
            lane.iter().for_each(|lane| lane.note_asked(now, number));
            lane.is_some()
        };
        list.answer(header, has, reply);
        Effect::Reply
    }

    /// Notes that the binding is in use, or answers a packet on a binding that is unknown or at another host. The path
    /// of a one-packet call does the same itself, with a single look-up of the binding.
    pub(super) fn check_binding(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Option<Effect<P>> {
        let Some(binding) = self.bindings.get_mut(header.binding) else {
            return Some(self.unknown_binding(now, header, reply));
        };
        if !binding.is_from(&peer) {
            return Some(self.challenge_caller(now, peer, header, reply));
        }
        binding.heard = now;
        None
    }

    #[cold]
    pub(super) fn unknown_binding(
        &mut self,
        now: Instant,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        self.counters.unknown_bindings += 1;
        put(reply, &header.unknown_binding(self.admission.incarnation(), self.clock.up_s(now)), &[]);
        Effect::Reply
    }

    /// Answers a packet for a lane that does not exist: the number is too high, for ever; or there is no memory for the
    /// lane now. The latter is not said to the caller: another copy of the packet could find memory later, and run.
    #[cold]
    pub(super) fn no_such_lane(&mut self, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
        if header.lane.0 < self.limits.lanes {
            self.counters.dropped += 1;
            return Effect::Nothing;
        }
        self.counters.refused_lanes += 1;
        refusal(header, RefusalCode::TooManyLanes, reply)
    }

    /// Acknowledges a call that runs. Data for its caller goes on to where the packet came from.
    fn acknowledge(&mut self, peer: P, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
        self.bindings.lane_mut(header).acknowledged.note(header.number);
        self.hear_of_pipes(peer, header);
        acknowledgement(header, reply)
    }

    /// Answers a packet about a call that is not new.
    pub(super) fn repeat(
        &mut self,
        peer: P,
        answer: Answer,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let lane = self.bindings.lane_mut(header);
        match answer {
            Answer::Acknowledge => self.acknowledge(peer, header, reply),
            Answer::Resend => match lane.retained() {
                Some(retained) if retained.len() <= stoop_wire::HEADER_LEN + header.binding.packet_data() => {
                    reply.clear();
                    reply.extend_from_slice(retained);
                    Effect::Reply
                }
                _ => self.resend_large(peer, header, reply),
            },
            Answer::SayGone => {
                let mut gone = Header::bare(Kind::Failure, header.binding, header.lane, header.number);
                gone.time = FailureCode::ResultGone.code();
                put(reply, &gone, &[]);
                Effect::Reply
            }
            Answer::SayRefused(code) => refusal(header, code, reply),
            Answer::Forbid | Answer::ForbidNext => refusal(header, RefusalCode::Cancelled, reply),
            Answer::Drop
            | Answer::Start
            | Answer::Park
            | Answer::TellProcedure
            | Answer::Release
            | Answer::TakeData => Effect::Nothing,
        }
    }
}

pub(super) fn acknowledgement<P>(header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
    put(reply, &Header::bare(Kind::Acknowledgement, header.binding, header.lane, header.number), &[]);
    Effect::Reply
}

pub(super) fn refusal<P>(header: &Header, code: RefusalCode, reply: &mut Vec<u8>) -> Effect<P> {
    put(reply, &header.refuse(code), &[]);
    Effect::Reply
}

/// Answers a packet about a call that waits for the one before it, or that will not run for the reason `refused`.
pub(super) fn waiting<P>(refused: Option<RefusalCode>, header: &Header, reply: &mut Vec<u8>) -> Effect<P> {
    match refused {
        Some(code) => refusal(header, code, reply),
        None => acknowledgement(header, reply),
    }
}

pub(super) fn put(reply: &mut Vec<u8>, header: &Header, payload: &[u8]) {
    reply.clear();
    reply.extend_from_slice(&header.to_bytes());
    reply.extend_from_slice(payload);
}
