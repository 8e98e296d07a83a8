//! Sends calls of many packets, and assembles results of many packets.

use crate::events::{Event, ThreadId};
use crate::network::packets_of;
use crate::world::{OwnLane, Thread};
use crate::{Sabotage, Sim, Told};
use stoop_exchange::caller::{Heard, Part};
use stoop_wire::{HEADER_LEN, Header, Receipt};

/// Bytes that one system call sends.
const BLAST: usize = 64 * 1024;

impl Sim {
    /// Sends what the thread's lane may send of its call now.
    pub(super) fn pump(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        while let Thread { own: Some(own), call: Some(_), .. } = self.thread(at) {
            let Some(run) = own.lane.next_run(now, &mut own.path.borrow_mut(), BLAST) else { break };
            let framing = own.lane.framing(now);
            if !self.check_run(at, &run) {
                return;
            }
            let call = self.call_of(at).expect("it is sent");
            let packets = packets_of(&run, framing, &call.packet[HEADER_LEN..]);
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
            self.threads_of(at.caller).filter(|other| *other != at).for_each(|other| self.pump(other));
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
        if !self.check_result_len(part.message_len) {
            return self.plan_lane_timer(at);
        }
        let place = match self.sabotage {
            Sabotage::MisplacedParts if !part.complete && part.offset >= part.len => part.offset - part.len,
            _ => part.offset,
        };
        let call = self.call_of(at).expect("only a call has parts of a result");
        call.result.resize(part.message_len, 0);
        call.result[place..place + part.len].copy_from_slice(&packet[HEADER_LEN..HEADER_LEN + part.len]);
        let result = part.complete.then(|| std::mem::take(&mut call.result));
        self.report.parts += 1;
        self.tell_server(at, part.complete);
        match result {
            Some(result) => self.takes_result(at, &result),
            None => self.plan_lane_timer(at),
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
