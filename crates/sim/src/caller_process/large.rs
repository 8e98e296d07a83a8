//! Sends calls of many packets, and assembles results of many packets.

use crate::events::{Event, ThreadId};
use crate::world::{OwnLane, Thread};
use crate::{Sabotage, Sim, Told};
use stoop_exchange::bulk::Run;
use stoop_exchange::caller::{Framing, Heard, Part};
use stoop_wire::{HEADER_LEN, Header, Receipt};

/// Bytes that one system call sends.
const BLAST: usize = 64 * 1024;

impl Sim {
    /// Sends what the thread's lane may send of its call now.
    pub(super) fn pump(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        loop {
            let Thread { own, call, .. } = &mut self.callers[at.caller].threads[at.thread];
            let (Some(own), Some(call)) = (own, call) else { break };
            let Some(run) = own.lane.next_run(now, &mut own.path.borrow_mut(), BLAST) else { break };
            let (offset, len) = (run.offset as usize, run.len as usize);
            let message = &call.packet[HEADER_LEN..];
            let end = offset + len;
            // A question, whether there is room now, is one packet from the beginning.
            let is_question = offset == 0 && run.len <= run.fragment;
            if len == 0 || run.fragment == 0 || end > message.len() || end > call.limit && !is_question {
                self.ledger.complain(format!("{run:?} of {} bytes, limit {}", message.len(), call.limit));
                return;
            }
            let packets = packets_of(&run, own.lane.framing(now), message);
            self.report.fragments += packets.len() as u64;
            for packet in packets {
                self.send_from(at, &packet);
            }
        }
        self.plan_lane_timer(at);
    }

    /// The window is shared: what one call has no use for any more, others may have.
    pub(super) fn pump_others(&mut self, at: ThreadId) {
        if self.scenario.shares_window {
            let threads = self.callers[at.caller].threads.len();
            for thread in (0..threads).filter(|thread| *thread != at.thread) {
                self.pump(ThreadId { thread, ..at });
            }
        }
    }

    /// The thread's call goes on: parts of it may be sent now, and the server may wait for a receipt.
    pub(super) fn goes_on_after(&mut self, at: ThreadId, heard: Heard, packet: &[u8]) {
        if heard == Heard::Receipt
            && let Some(call) = self.call_of(at)
        {
            let told = Header::parse(packet).ok().and_then(|(_, payload)| Receipt::decode(payload));
            call.limit = call.limit.max(told.map_or(0, |receipt| receipt.limit as usize));
        }
        self.pump(at);
        self.pump_others(at);
        self.tell_server(at, false);
    }

    /// A part of a result has arrived.
    pub(super) fn takes_part(&mut self, at: ThreadId, part: Part, packet: &[u8]) {
        let most = self.scenario.longest_result;
        let call = self.callers[at.caller].threads[at.thread].call.as_mut();
        let call = call.expect("only a call has parts of a result");
        if part.message_len > most {
            let what = format!("a result of {} bytes where {most} are the most", part.message_len);
            if !self.ledger.damage {
                self.ledger.complain(what);
            }
            return self.plan_lane_timer(at);
        }
        call.result.resize(part.message_len, 0);
        let place = match self.sabotage {
            Sabotage::MisplacedParts if !part.complete && part.offset >= part.len => part.offset - part.len,
            _ => part.offset,
        };
        call.result[place..place + part.len].copy_from_slice(&packet[HEADER_LEN..HEADER_LEN + part.len]);
        self.report.parts += 1;
        if part.complete {
            let result = std::mem::take(&mut call.result);
            self.tell_server(at, true);
            self.takes_result(at, &result);
        } else {
            self.tell_server(at, false);
            self.plan_lane_timer(at);
        }
    }

    /// Sends the receipt that the thread's lane owes, if it should not wait; and sees to it that it does not wait for
    /// long.
    pub(crate) fn tell_server(&mut self, at: ThreadId, drained: bool) {
        let now = self.caller_now(at.caller);
        let process = &mut self.callers[at.caller];
        let thread = &mut process.threads[at.thread];
        let Some(OwnLane { lane, .. }) = &mut thread.own else { return };
        if lane.owes_receipt(drained) {
            self.report.receipts_sent += 1;
            self.does(at, |steps| steps.send_receipt(now));
        } else if lane.owes_receipt(true)
            && !thread.socket.has_more(self.now)
            && thread.drains_at != Some(now)
        {
            // After everything else that arrives at this moment.
            thread.drains_at = Some(now);
            let life = process.life;
            self.events.plan(self.now, Event::ThreadDrained(at, life));
        }
    }

    /// A result is here as a whole.
    pub(super) fn takes_result(&mut self, at: ThreadId, result: &[u8]) {
        let id = self.call_of(at).expect("a result ends a call").id;
        let (says, wrong) = crate::task::read_result(result);
        self.ledger.result(id, says);
        if let Some(position) = wrong {
            self.ledger.wrong_byte(position, result.len(), "a result");
        }
        self.end_call(at, Told::Result);
    }
}

/// The packets of a run.
pub(crate) fn packets_of(run: &Run, framing: Framing, message: &[u8]) -> Vec<Vec<u8>> {
    let bytes = &message[run.offset as usize..(run.offset + run.len) as usize];
    let fragments = bytes.chunks(run.fragment as usize).enumerate();
    let packet = |(i, fragment): (usize, &[u8])| {
        let mut packet = vec![0; HEADER_LEN + fragment.len()];
        let header = packet.first_chunk_mut().expect("it has a header");
        let place = (run.offset + i as u32 * run.fragment, fragment.len() as u32);
        framing.stamp(header, place, run.transmission + i as u32);
        packet[HEADER_LEN..].copy_from_slice(fragment);
        packet
    };
    fragments.map(packet).collect()
}
