//! Begun calls that have many packets, or whose results have.
//!
//! A thread writes their packets under the lock, as many as one system call takes, and sends them without it.

use crate::error::CallError;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, PacketLink};
use crate::transport::packet::packet_run::{Arguments, Framed, PacketRun};
use crate::transport::packet::steps::{check_result_len, result_memory};
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::caller::Part;
use stoop_marshal::GatherList;
use stoop_wire::HEADER_LEN;

/// The calls with many packets in one direction.
pub(crate) struct Large<E: CallerEndpoint> {
    /// Calls with parts that can perhaps be sent now.
    sending: Vec<u32>,
    /// Calls for which the window was full at the last attempt.
    waiting: Vec<u32>,
    /// Calls whose servers may wait for a receipt.
    owing: Vec<u32>,
    /// The number of calls of whose results some parts have arrived.
    receiving: u32,
    /// Memory for packets, while no thread sends.
    pub(crate) room: Option<Box<E::Room>>,
}

/// Time until the next attempt of a call for which the window was full: large calls share a window, and another call may have freed
/// some of it.
const LOOK_AT_WINDOW: Duration = Duration::from_millis(1);

/// Bytes of a result that may be on their way in any case. Every system has room for more.
const FIRST_WINDOW: u32 = 64 * 1024;

impl<E: CallerEndpoint> Default for Large<E> {
    fn default() -> Self {
        let (sending, waiting, owing) = Default::default();
        Self { sending, waiting, owing, receiving: 0, room: None }
    }
}

impl<E: CallerEndpoint> Large<E> {
    /// Whether there may be something to send.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether a server may wait for a receipt.
    pub(crate) fn is_owing(&self) -> bool {
        !self.owing.is_empty()
    }

    /// The server of a call waits for a receipt.
    pub(crate) fn owes(&mut self, call: u32) {
        if !self.owing.contains(&call) {
            self.owing.push(call);
        }
    }

    /// The server of a call waits for none any more.
    pub(crate) fn settles(&mut self, call: u32) {
        self.owing.retain(|owing| *owing != call);
    }

    /// Parts of the call can perhaps be sent now.
    pub(crate) fn sends(&mut self, call: u32) {
        if !self.sending.contains(&call) {
            self.sending.push(call);
        }
    }

    /// The window may have room for the calls that had to wait.
    pub(crate) fn retry(&mut self) {
        while let Some(call) = self.waiting.pop() {
            self.sends(call);
        }
    }

    /// Bytes of one result that may be on their way.
    pub(crate) fn window(&self, endpoint: &E) -> u32 {
        (endpoint.window() / self.receiving.max(1)).max(FIRST_WINDOW)
    }
}

impl<L: PacketLink> Calls<L> {
    /// Copies a part of a result to its offset, and ends the call with the last part.
    #[cold]
    pub(crate) fn take_part(&mut self, call: u32, part: &Part, clock: Instant, packet: &[u8]) {
        if !self.slots[call as usize].is_receiving
            && let Err(error) = self.start_receiving(call, part.message_len)
        {
            self.slots[call as usize].lane.abandon(clock);
            return self.fail(call, error, clock);
        }
        let payload = &packet[HEADER_LEN..HEADER_LEN + part.len];
        let slot = &mut self.slots[call as usize];
        slot.result[part.offset..part.offset + part.len].copy_from_slice(payload);
        if part.complete {
            if slot.pipes.as_ref().is_some_and(|pipes| pipes.has_into()) {
                // The length of the pipe.
                slot.result.drain(..size_of::<u64>());
            }
            self.send_receipt(call, clock);
            self.record(call, clock, None);
            self.end(call, None);
        } else {
            self.large.owes(call);
        }
    }

    fn start_receiving(&mut self, call: u32, len: usize) -> Result<(), CallError> {
        check_result_len(len, self.link.binding.options.max_message)?;
        let slot = &mut self.slots[call as usize];
        slot.result = result_memory(len, len)?;
        slot.is_receiving = true;
        self.large.receiving += 1;
        Ok(())
    }

    /// Sends the receipts that are urgent; all of them when no more packets are there.
    #[cold]
    pub(crate) fn send_receipts(&mut self, clock: Instant, drained: bool) {
        let mut owing = std::mem::take(&mut self.large.owing);
        owing.retain(|call| {
            let slot = &self.slots[*call as usize];
            let expects = |slot: &Slot| slot.is_receiving || slot.pipes.is_some();
            if expects(slot) && slot.lane.owes_receipt(drained) {
                self.send_receipt(*call, clock);
            }
            !drained && expects(&self.slots[*call as usize])
        });
        self.large.owing = owing;
    }

    pub(crate) fn send_receipt(&mut self, call: u32, clock: Instant) {
        let window = self.large.window(&self.link.endpoint);
        self.slots[call as usize].steps(&self.link.endpoint, window).send_receipt(clock);
    }

    /// Stops the transfers of a call, in both directions.
    pub(crate) fn stop_transfers(&mut self, call: u32) {
        let slot = &mut self.slots[call as usize];
        if slot.is_large {
            slot.steps(&self.link.endpoint, 0).settle();
        }
        self.large.receiving -= u32::from(std::mem::take(&mut slot.is_receiving));
    }

    /// Ends the transfers of a call, and frees its memory.
    #[cold]
    pub(crate) fn end_large(&mut self, call: u32) {
        self.stop_transfers(call);
        let slot = &mut self.slots[call as usize];
        if std::mem::take(&mut slot.is_large) {
            slot.call = Vec::new();
            self.large.retry();
        }
    }

    /// Writes the next packets that are to be sent to `room`.
    pub(crate) fn frame_next(
        &mut self,
        clock: Instant,
        room: &mut <Endpoint<L> as CallerEndpoint>::Room,
    ) -> Option<Framed> {
        while let Some(call) = self.large.sending.last().copied() {
            if self.slots[call as usize].pipes.is_some()
                && let Some(framed) = self.frame_pipe(call, clock, room)
            {
                self.arm(call);
                // The others have their turn before its next.
                self.large.sending.rotate_right(1);
                return Some(framed);
            }
            let slot = &mut self.slots[call as usize];
            if slot.pipes.is_some() {
                let waits = slot.lane.pipe_has_more();
                self.arm(call);
                if waits {
                    if !self.large.waiting.contains(&call) {
                        self.large.waiting.push(call);
                    }
                    self.look_by(clock + LOOK_AT_WINDOW);
                }
            }
            let slot = &mut self.slots[call as usize];
            let has_left = slot.pipes.is_some() && slot.lane.last_was_acknowledged();
            if slot.stage == Stage::Sent && slot.is_large && !has_left {
                let session = Arc::clone(&slot.session);
                let packets = PacketRun::next(&mut slot.lane, &session, &self.link.endpoint, clock);
                if let Some(packets) = packets {
                    let inline = &slot.call[HEADER_LEN..];
                    self.link.endpoint.lend(room);
                    let arguments = Arguments { inline, gather: &GatherList::none() };
                    packets.frame(&arguments, &session.protection, room);
                    self.arm(call);
                    return Some(Framed { is_probe: packets.is_probe(), session });
                }
                self.arm(call);
                self.large.waiting.push(call);
                self.look_by(clock + LOOK_AT_WINDOW);
            }
            self.large.sending.pop();
        }
        None
    }
}
