//! What arrives, and what it means for the call that it is for.

use crate::error::{CallError, Failure, Refusal};
use crate::transport::packet::begun::calls::{Calls, NO_CALL};
use crate::transport::packet::begun::receiver::Wakeups;
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::caller::detail;
use crate::transport::packet::checksum;
use stoop_exchange::Instant;
use stoop_exchange::caller::Heard;
use stoop_net::udp::CallerSocket;
use stoop_wire::{HEADER_LEN, Header, LaneId};

/// Bytes of the longest result that counts as short.
const SHORT_RESULT: usize = 256;

impl Calls {
    /// Takes packets that have come together.
    #[inline]
    pub(crate) fn deliver_all<'a>(
        &mut self,
        clock: Instant,
        packets: impl Iterator<Item = &'a [u8]>,
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        let (mut ended, mut last) = (0, None);
        for packet in packets {
            let Some(call) = self.call_of(packet) else {
                self.past.ignored += 1;
                continue;
            };
            let slot = &mut self.slots[call as usize];
            // One that has not left has no result, whatever comes: `deliver` sees to it.
            let heard = if slot.stage == Stage::Sent { slot.brief.take_result(packet) } else { None };
            match heard {
                Some((len, at_server_ns)) => {
                    self.end_compact(call, &packet[HEADER_LEN..HEADER_LEN + len]);
                    ended += 1;
                    last = Some((call, at_server_ns, len));
                }
                None => self.deliver(call, clock, packet, socket, news),
            }
        }
        if let Some((call, at_server_ns, len)) = last {
            self.results_are_long = len > SHORT_RESULT;
            self.slots[call as usize].brief.sample(clock, at_server_ns, &mut self.path);
            self.out -= ended;
            self.outstanding -= ended;
            self.past.calls += ended as u64;
            self.past.fast += ended as u64;
        }
    }

    /// Takes a packet for a call that has to be known to its lane.
    #[cold]
    #[inline(never)]
    fn deliver(
        &mut self,
        call: u32,
        clock: Instant,
        packet: &[u8],
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        let Slot { lane, stage, .. } = self.expand(call);
        if let Stage::HeldBack(_) = stage {
            // It has not left, so that nobody can know of it; and it leaves, whatever is believed of it here.
            return self.past.ignored += 1;
        }
        let heard = lane.handle_packet(clock, packet);
        if matches!(heard, Heard::Result { .. }) {
            self.path = lane.path();
        }
        match heard {
            Heard::Result { len, .. } => self.end_with(call, &packet[HEADER_LEN..HEADER_LEN + len], news),
            other => self.heard(call, other, clock, packet, socket, news),
        }
    }

    #[inline]
    pub(crate) fn call_of(&self, packet: &[u8]) -> Option<u32> {
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
        news: &mut Wakeups,
    ) {
        let slot = &mut self.slots[call as usize];
        match heard {
            Heard::Unbound(refusal) => {
                slot.refusal = Some(refusal);
                self.await_rebind(call);
            }
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
                let proven = checksum::send(socket, &proof);
                if !slot.is_large {
                    slot.lane.stamp_again(clock, &mut slot.call);
                    let _ = proven.and_then(|_| checksum::send(socket, &slot.call));
                }
            }
            Heard::Progress => self.goes_on(call, clock, socket),
            Heard::Part(part) => {
                self.arm(call);
                self.take_part(call, part, clock, packet, socket, news);
                for further in Header::parts_in(packet).skip(1) {
                    if !self.slots[call as usize].is_receiving {
                        break;
                    }
                    let heard = self.slots[call as usize].lane.handle_packet(clock, further);
                    self.heard(call, heard, clock, further, socket, news);
                }
            }
            Heard::Receipt => self.take_receipt(call, clock, packet, socket),
            Heard::Result { .. } | Heard::Ignored => {}
        }
    }

    /// Something that was known already has arrived again, or the server has acknowledged a call.
    fn goes_on(&mut self, call: u32, clock: Instant, socket: &CallerSocket) {
        self.arm(call);
        let slot = &mut self.slots[call as usize];
        if slot.is_large && slot.lane.last_was_acknowledged() {
            // All of the call is there: what was on its way no longer is.
            slot.settle();
            self.large.retry();
        }
        let slot = &self.slots[call as usize];
        if slot.lane.owes_receipt(true) {
            // A part that was here: its sender has missed a receipt.
            if slot.is_receiving {
                self.large.owes(call);
            } else {
                self.send_receipt(call, clock, socket);
            }
        }
    }
}
