//! What arrives, and what it means for the call that it is for.

use super::{Calls, NO_CALL};
use crate::client::datagram::{DatagramBinding, Session, detail, forgotten};
use crate::client::flight::datagram::reception::News;
use crate::client::flight::datagram::slot::Stage;
use crate::error::{CallError, Failure, Refusal, RefusalCode};
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::caller::Heard;
use stoop_net::udp::CallerSocket;
use stoop_wire::{HEADER_LEN, LaneId};

impl Calls {
    /// Takes a packet.
    #[inline]
    pub(in super::super) fn deliver(
        &mut self,
        clock: Instant,
        packet: &[u8],
        socket: &CallerSocket,
        news: &mut News,
    ) {
        let Some(call) = self.call_of(packet) else { return self.past.ignored += 1 };
        let slot = &mut self.slots[call as usize];
        match slot.lane.handle_packet(clock, packet) {
            Heard::Result { len, .. } => {
                slot.result.clear();
                slot.result.extend_from_slice(&packet[HEADER_LEN..HEADER_LEN + len]);
                self.end(call, None, news);
            }
            other => self.heard(call, other, clock, packet, socket, news),
        }
    }

    #[inline]
    fn call_of(&self, packet: &[u8]) -> Option<u32> {
        let LaneId(lane) = LaneId::of_packet(packet)?;
        self.by_lane.get(usize::from(lane)).copied().filter(|call| *call != NO_CALL)
    }

    /// Anything but the result.
    #[cold]
    fn heard(
        &mut self,
        call: u32,
        heard: Heard,
        clock: Instant,
        packet: &[u8],
        socket: &CallerSocket,
        news: &mut News,
    ) {
        let slot = &mut self.slots[call as usize];
        match heard {
            Heard::Refused(RefusalCode::UnknownBinding) => self.strand(call),
            Heard::Refused(code) => {
                let refusal = Refusal { code, detail: detail(packet) };
                self.fail(call, CallError::Refused(refusal), clock, news);
            }
            Heard::Failed(code) => {
                let failure = Failure { code, detail: detail(packet) };
                self.fail(call, CallError::Failed(failure), clock, news);
            }
            Heard::Prove(proof) => {
                // Lost or not sent: the server asks again when the call is sent again.
                let proven = socket.send(&proof);
                if !slot.is_large {
                    let _ = proven.and_then(|_| socket.send(&slot.call));
                }
            }
            Heard::Progress => self.arm(call),
            Heard::Part(part) => {
                self.arm(call);
                self.take_part(call, part, clock, packet, socket, news);
            }
            Heard::Receipt => self.take_receipt(call, clock, packet, socket),
            Heard::Result { .. } | Heard::Ignored => {}
        }
    }

    /// The server has been bound to again, or could not be: the calls that were refused on `lost` are sent again, or end.
    pub(in super::super) fn rebound(
        &mut self,
        binding: &DatagramBinding,
        lost: &Arc<Session>,
        session: Option<&Arc<Session>>,
        socket: &CallerSocket,
        news: &mut News,
    ) {
        let clock = crate::client::flight::datagram::now();
        if session.is_some() {
            self.note_session(binding);
        }
        for call in 0..self.slots.len() as u32 {
            let slot = &self.slots[call as usize];
            if slot.stage != Stage::Unbound || slot.session.generation != lost.generation {
                continue;
            }
            let again = session.and_then(|session| {
                let not_run = binding.sends_again(slot.procedure, &slot.lane, slot.sent, lost, session)?;
                Some((Arc::clone(session), not_run))
            });
            match again {
                Some((session, not_run)) => self.send_again(call, binding, session, not_run, clock, socket),
                None => {
                    let error = forgotten(&slot.lane, clock.since(slot.begun));
                    self.end(call, Some(error), news);
                }
            }
        }
    }

    fn send_again(
        &mut self,
        call: u32,
        binding: &DatagramBinding,
        session: Arc<Session>,
        not_run: bool,
        clock: Instant,
        socket: &CallerSocket,
    ) {
        let slot = &mut self.slots[call as usize];
        self.past.add_lane(slot.lane.counters());
        slot.lane = session.lane(&binding.options);
        slot.session = session;
        slot.may_have_run |= !not_run;
        slot.sent = clock;
        slot.stage = Stage::Sent;
        self.out += 1;
        self.unbound -= 1;
        let number = slot.session.bound.procedures[usize::from(slot.procedure)];
        if slot.is_large {
            slot.start_large(clock, number);
            self.large.sends(call);
        } else {
            slot.lane.start(clock, slot.deadline, number, &mut slot.call);
            // A packet that is not sent is like one that is lost: the next timeout sees to it.
            let _ = socket.send(&slot.call);
        }
        self.map_lane(call);
        self.arm(call);
    }
}
