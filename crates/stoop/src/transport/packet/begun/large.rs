//! Calls in flight that have many packets, or whose results have.
//!
//! Their packets are framed under the lock, a system call's worth at a time, and sent without it.

use crate::error::{CallError, Failure, FailureCode};
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::receiver::Wakeups;
use crate::transport::packet::begun::slot::{Slot, Stage};
use crate::transport::packet::begun::{PacketCalls, now};
use crate::transport::packet::checksum;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::bulk::{Path, Run};
use stoop_exchange::caller::Part;
use stoop_net::udp::{CallerSocket, MAX_SEGMENTS, MAX_SEGMENTS_LEN, SegmentsSending};
use stoop_wire::{HEADER_LEN, Receipt};

/// What is known of the calls that have many packets.
#[derive(Default)]
pub(crate) struct Large {
    /// Calls of which more may be to be sent.
    sending: Vec<u32>,
    /// Calls of which no more could be sent when that was tried last.
    waiting: Vec<u32>,
    /// Calls of whose results parts have come that the server may not know of.
    owing: Vec<u32>,
    /// Calls that have received parts of their results and not all.
    receiving: u32,
    /// Bytes that may be on their way to the socket.
    pub(crate) room: u32,
    datagrams: Vec<u8>,
}

/// How long a call with more to send waits at most until that is tried again.
const LOOK_AT_WINDOW: Duration = Duration::from_millis(1);

/// Bytes of a result that may be on their way in any case. Every system has room for more.
const FIRST_WINDOW: u32 = 64 * 1024;

/// Packets of one call, framed behind each other.
struct Framed {
    call: u32,
    packet: usize,
    is_probe: bool,
}

impl Large {
    /// Whether there may be something to send.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether a server waits to be told what has arrived.
    pub(crate) fn is_owing(&self) -> bool {
        !self.owing.is_empty()
    }

    /// A receipt for parts of the result of a call is owed.
    pub(crate) fn owes(&mut self, call: u32) {
        if !self.owing.contains(&call) {
            self.owing.push(call);
        }
    }

    /// More of a call may be to be sent.
    pub(crate) fn sends(&mut self, call: u32) {
        if !self.sending.contains(&call) {
            self.sending.push(call);
        }
    }

    /// Of calls of which no more could be sent that may be possible now: what they have on their way is bounded together.
    pub(crate) fn retry(&mut self) {
        while let Some(call) = self.waiting.pop() {
            self.sends(call);
        }
    }

    /// What may be on its way of one result.
    fn window(&self) -> u32 {
        (self.room / self.receiving.max(1)).max(FIRST_WINDOW)
    }
}

impl Slot {
    /// Registers a call of many packets with its lane.
    #[cold]
    pub(crate) fn start_large(&mut self, clock: Instant, number: u16) {
        let len = u32::try_from(self.call.len() - HEADER_LEN).expect("a message is shorter than 4 GiB");
        self.is_large = true;
        self.lane.start_large(clock, self.deadline, number, len, self.session.bound.window);
        self.lane.update_compact(&mut self.brief);
    }

    /// Its lane has done with it: gives back what it had on its way.
    #[cold]
    pub(crate) fn settle(&mut self) {
        if let Some(path) = self.session.known_path() {
            self.lane.settle(&mut locked(path));
        }
    }
}

impl Calls {
    /// Puts a part of a result where it belongs.
    #[cold]
    pub(crate) fn take_part(
        &mut self,
        call: u32,
        part: Part,
        clock: Instant,
        packet: &[u8],
        socket: &CallerSocket,
        news: &mut Wakeups,
    ) {
        let slot = &mut self.slots[call as usize];
        if !slot.is_receiving {
            if part.message_len > self.max_message {
                let detail = format!(
                    "it has {} bytes, and `BindOptions::max_message` allows {}",
                    part.message_len, self.max_message
                );
                slot.lane.abandon(clock);
                let failure = Failure { code: FailureCode::ResultTooLarge, detail };
                return self.fail(call, CallError::Failed(failure), clock, news);
            }
            // From the system as zeros that take no memory until something arrives there.
            let Some(memory) = stoop_exchange::zeroed(part.message_len) else {
                slot.lane.abandon(clock);
                let detail = crate::message_buffer::no_memory_for_result(part.message_len);
                let failure = Failure { code: FailureCode::ResultTooLarge, detail };
                return self.fail(call, CallError::Failed(failure), clock, news);
            };
            slot.is_receiving = true;
            self.large.receiving += 1;
            slot.result = memory;
        }
        let payload = &packet[HEADER_LEN..HEADER_LEN + part.len];
        slot.result[part.offset..part.offset + part.len].copy_from_slice(payload);
        if part.complete {
            self.send_receipt(call, clock, socket);
            self.end(call, None, news);
        } else {
            self.large.owes(call);
        }
    }

    /// Parts of a call have arrived; more of it may be to be sent now.
    #[cold]
    pub(crate) fn take_receipt(&mut self, call: u32, clock: Instant, packet: &[u8], socket: &CallerSocket) {
        let slot = &mut self.slots[call as usize];
        let path = slot.session.path_there(socket, slot.lane.path());
        slot.lane.take_receipt(clock, packet, &mut locked(path));
        self.large.retry();
        self.large.sends(call);
        self.arm(call);
    }

    /// Tells servers what has arrived: what is urgent, or, when nothing more is there, everything.
    #[cold]
    pub(crate) fn tell_servers(&mut self, clock: Instant, drained: bool, socket: &CallerSocket) {
        let mut owing = std::mem::take(&mut self.large.owing);
        owing.retain(|call| {
            let slot = &self.slots[*call as usize];
            if slot.is_receiving && slot.lane.owes_receipt(drained) {
                self.send_receipt(*call, clock, socket);
            }
            !drained && self.slots[*call as usize].is_receiving
        });
        self.large.owing = owing;
    }

    /// Parts of a call are to be sent again.
    #[cold]
    pub(crate) fn resume(&mut self, call: u32, clock: Instant, socket: &CallerSocket) {
        let slot = &mut self.slots[call as usize];
        let path = slot.session.path_there(socket, slot.lane.path());
        slot.lane.resume(clock, &mut locked(path));
        self.large.sends(call);
    }

    pub(crate) fn send_receipt(&mut self, call: u32, clock: Instant, socket: &CallerSocket) {
        let mut packet = [0; Receipt::MAX_PACKET];
        let window = self.large.window();
        let len = self.slots[call as usize].lane.receipt(clock, window, &mut packet);
        if len > 0 {
            // If it is lost, the lane tells again.
            let _ = checksum::send(socket, &packet[..len]);
        }
    }

    /// A call that was receiving parts of its result has ended.
    pub(crate) fn stop_receiving(&mut self, call: u32) {
        self.slots[call as usize].is_receiving = false;
        self.large.receiving -= 1;
    }

    /// Frames the next packets that are to be sent.
    fn frame(&mut self, clock: Instant, socket: &CallerSocket, datagrams: &mut Vec<u8>) -> Option<Framed> {
        while let Some(call) = self.large.sending.last().copied() {
            let slot = &mut self.slots[call as usize];
            if slot.stage == Stage::Sent && slot.is_large {
                let path = slot.session.path_there(socket, slot.lane.path());
                let mut path = locked(path);
                let most = (MAX_SEGMENTS * path.packet_len(path.fragment())).min(MAX_SEGMENTS_LEN);
                if let Some(run) = slot.lane.next_run(clock, &mut path, most) {
                    let is_probe = run.fragment > path.fragment();
                    let packet = path.packet_len(run.fragment);
                    drop(path);
                    write_packets(slot, &run, clock, datagrams);
                    self.arm(call);
                    return Some(Framed { call, packet, is_probe });
                }
                drop(path);
                self.arm(call);
                self.large.waiting.push(call);
                // A thread that waits for a call of its own may leave some of the window that they share.
                self.look_by(clock + LOOK_AT_WINDOW);
            }
            self.large.sending.pop();
        }
        None
    }
}

fn locked(path: &Mutex<Path>) -> MutexGuard<'_, Path> {
    path.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the packets of a run behind each other.
fn write_packets(slot: &Slot, run: &Run, clock: Instant, datagrams: &mut Vec<u8>) {
    let framing = slot.lane.framing(clock);
    let (arguments, end) = (&slot.call[HEADER_LEN..], run.offset + run.len);
    datagrams.clear();
    for (offset, transmission) in (run.offset..end).step_by(run.fragment as usize).zip(run.transmission..) {
        let mut header = [0; HEADER_LEN];
        framing.stamp(&mut header, (offset, run.fragment.min(end - offset)), transmission);
        let start = datagrams.len();
        datagrams.extend_from_slice(&header);
        datagrams.extend_from_slice(&arguments[offset as usize..end.min(offset + run.fragment) as usize]);
        checksum::append(datagrams, start);
    }
}

impl PacketCalls {
    /// Sends what is to be sent again, and what is to be sent of calls of many packets.
    #[cold]
    pub(crate) fn pump(&self) {
        loop {
            let again = self.calls().take_again();
            let Some(batch) = again else { break };
            // What is not sent is like what is lost.
            let _ = self.transmit(&batch);
            self.calls().reuse(batch);
        }
        let mut datagrams = std::mem::take(&mut self.calls().large.datagrams);
        loop {
            let framed = self.calls().frame(now(), &self.socket, &mut datagrams);
            let Some(framed) = framed else { break };
            // What is not sent is like what is lost.
            let _ = self.hand_over(&framed, &datagrams);
        }
        self.calls().large.datagrams = datagrams;
    }

    fn hand_over(&self, framed: &Framed, datagrams: &[u8]) -> std::io::Result<()> {
        if self.sends_segments() {
            if framed.is_probe {
                // What the network cuts apart and puts together again proves nothing.
                self.socket.set_dont_fragment(true)?;
            }
            let mut sending = self.socket.send_segments(datagrams, framed.packet);
            if let Ok(SegmentsSending::Refused) = sending {
                // Stale news, perhaps: asked again, the system says whether the port still is closed.
                sending = self.socket.send_segments(datagrams, framed.packet);
            }
            if framed.is_probe {
                self.socket.set_dont_fragment(false)?;
            }
            match sending? {
                SegmentsSending::Sent | SegmentsSending::Refused => return Ok(()),
                SegmentsSending::TooLong => {
                    let session = Arc::clone(&self.calls().slots[framed.call as usize].session);
                    let largest = session.bound.binding.data_in(self.socket.largest_datagram()?);
                    let path = session.path_there(&self.socket, stoop_exchange::RoundTrip::default());
                    locked(path).set_largest(u32::try_from(largest).unwrap_or(u32::MAX));
                    if framed.is_probe {
                        return Ok(());
                    }
                }
                SegmentsSending::Unsupported => self.send_singly_from_now_on(),
            }
        }
        for packet in datagrams.chunks(framed.packet) {
            self.socket.send(packet)?;
        }
        Ok(())
    }
}
