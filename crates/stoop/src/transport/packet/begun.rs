//! Calls in flight over UDP: thousands of lanes behind one socket, many packets to a system call.

pub(crate) mod arrivals;
pub(crate) mod background;
pub(crate) mod batch;
pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod closing;
pub(crate) mod large;
pub(crate) mod receiver;
pub(crate) mod sessions;
pub(crate) mod slot;
pub(crate) mod submissions;
pub(crate) mod timeouts;

use crate::calling::begun::Outcome;
use crate::calling::begun::{BegunCalls, CallBatch, OutstandingCalls};
pub(crate) use crate::calling::completion_table::CompletionTable;
use crate::calling::counters::CallCounters;
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::error::{CallError, SendError};
use crate::transport::packet::begun::background::Background;
use crate::transport::packet::begun::batch::Batch;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::checksum;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::udp::{CallerSocket, MAX_SEGMENTS_LEN, SegmentsSending, Sending};
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// What carries the begun calls of one binding.
///
/// Everything but the socket is behind one lock, which is held for moments and never while anybody waits. Whoever waits
/// for a call takes the [`Receiver`](reception::Receiver) out from behind it, receives for all, and puts it back: that
/// is the receive role.
pub(crate) struct PacketCalls {
    binding: Arc<PacketBinding>,
    socket: CallerSocket,
    /// Whether packets can be sent together here.
    segments: AtomicBool,
    calls: Mutex<Calls>,
    /// What of the calls can be seen without the lock.
    completions: &'static CompletionTable,
    background: Background,
}

/// Room asked for what arrives: thousands of results.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Results of at most so many bytes are taken under the lock, and read when it has been given back.
const SMALL: usize = 64;

fn now() -> Instant {
    Instant::from_nanos(stoop_net::clock::now_ns())
}

impl PacketCalls {
    /// The calls of `binding`, with a socket and a background of its own.
    pub(crate) fn new(binding: Arc<PacketBinding>) -> io::Result<Arc<Self>> {
        let socket = CallerSocket::connect(binding.server)?;
        binding.present().prepare(&socket);
        // Both make it faster where they are granted, and nothing depends on them.
        let _ = socket.set_gro(true);
        let granted = socket.set_receive_buffer(RECEIVE_BUFFER).unwrap_or(0);
        let mut calls = Calls::new(&binding);
        // What the kernel charges for a packet that comes by itself is less than twice its bytes.
        calls.large.room = u32::try_from(granted / 2).unwrap_or(u32::MAX);
        let completions = calls.completions;
        let (calls, background) = (Mutex::new(calls), Background::default());
        let flight = Arc::new(Self {
            binding,
            socket,
            segments: AtomicBool::new(true),
            calls,
            completions,
            background,
        });
        completions.belong_to(Arc::<Self>::downgrade(&flight));
        background::start(&flight)?;
        Ok(flight)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether packets can be sent together here, as far as is known.
    fn sends_segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    fn send_singly_from_now_on(&self) {
        self.segments.store(false, Ordering::Relaxed);
    }

    /// Sends what a batch held.
    fn send_batch(&self, batch: Box<Batch>) {
        if let Err(failed) = self.transmit(&batch) {
            self.not_sent(&batch, failed);
        }
        self.calls().reuse(batch);
    }

    fn transmit(&self, batch: &Batch) -> Result<(), Vec<(usize, io::Error)>> {
        if self.binding.own.checksum {
            return self.transmit_sealed(batch);
        }
        self.transmit_packets(batch.packets(), batch.segment())
    }

    #[cold]
    fn transmit_sealed(&self, batch: &Batch) -> Result<(), Vec<(usize, io::Error)>> {
        let (packets, segment) = checksum::sealed_together(batch.packets(), batch.segment());
        let at_once = MAX_SEGMENTS_LEN / segment;
        let mut failed = Vec::new();
        for (first, packets) in (0..).step_by(at_once).zip(packets.chunks(at_once * segment)) {
            let others = self.transmit_packets(packets, segment).err().into_iter().flatten();
            failed.extend(others.map(|(place, why)| (first + place, why)));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Sends packets, `segment` bytes apart; or tells which of them the system would not send, by their places.
    fn transmit_packets(&self, packets: &[u8], segment: usize) -> Result<(), Vec<(usize, io::Error)>> {
        if packets.len() > segment && self.sends_segments() {
            for _ in 0..2 {
                match self.socket.send_segments(packets, segment) {
                    Ok(SegmentsSending::Sent) => return Ok(()),
                    // Stale news of a closed port: asked again, the system says whether it still is.
                    Ok(SegmentsSending::Refused) => {}
                    Ok(SegmentsSending::Unsupported) => {
                        self.send_singly_from_now_on();
                        break;
                    }
                    Ok(SegmentsSending::TooLong) | Err(_) => break,
                }
            }
        }
        self.transmit_one_by_one(packets, segment)
    }

    fn transmit_one_by_one(&self, packets: &[u8], segment: usize) -> Result<(), Vec<(usize, io::Error)>> {
        let mut failed = Vec::new();
        for (place, packet) in packets.chunks(segment).enumerate() {
            let sent = match self.socket.send(packet) {
                Ok(Sending::Refused) => self.socket.send(packet),
                sent => sent,
            };
            if let Err(why) = sent {
                failed.push((place, why));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// The system would not send these of a batch.
    #[cold]
    fn not_sent(&self, batch: &Batch, failed: Vec<(usize, io::Error)>) {
        let (mut news, now) = (receiver::Wakeups::default(), now());
        let mut calls = self.calls();
        for (place, why) in failed {
            let why = CallError::NotSent(SendError::Io(why));
            calls.not_sent(batch.calls()[place].0, batch.packet(place), why, now, &mut news);
        }
        drop(calls);
        news.tell();
    }

    /// Begins a call that is not just put on the departure's list.
    #[inline(never)]
    fn begin_under_lock(
        &self,
        departure: &mut CallBatch,
        procedure: u16,
        len: usize,
    ) -> Result<u32, CallError> {
        let mut calls = self.calls();
        let begun = calls.begin(&self.binding, departure, procedure, HEADER_LEN + len)?;
        if begun.full.is_none() && !begun.is_large {
            return Ok(begun.call);
        }
        self.set_out(calls, begun.full);
        if begun.is_large {
            self.pump();
        }
        Ok(begun.call)
    }

    /// The departure's list is full.
    #[inline(never)]
    fn end_boarding(&self, departure: &mut CallBatch) {
        let mut calls = self.calls();
        let full = calls.end_boarding(departure);
        if full.is_some() {
            self.set_out(calls, full);
        }
    }

    /// Sends a batch, if there is one, and has the background look after what is out.
    fn set_out(&self, mut calls: MutexGuard<'_, Calls>, batch: Option<Box<Batch>>) {
        let wakes_background = calls.background.is_wanted();
        drop(calls);
        if wakes_background {
            self.background.wake();
        }
        if let Some(batch) = batch {
            self.send_batch(batch);
        }
    }

    /// Sends what is held back of the batch of a call.
    fn release(&self, calls: MutexGuard<'_, Calls>, call: u32) {
        let batch = calls.slots[call as usize].batch();
        self.release_batch(calls, batch);
    }

    fn release_batch(&self, mut calls: MutexGuard<'_, Calls>, batch: u32) {
        let taken = calls.take_batch(batch);
        if taken.is_some() {
            self.set_out(calls, taken);
        }
    }
}

impl Drop for PacketCalls {
    fn drop(&mut self) {
        if self.completions.is_a_parents() {
            return;
        }
        // It finds that there is nothing left to keep.
        self.background.wake();
        self.completions.give_back();
    }
}

/// A result that is read outside the lock. Its slot is given back when it has been, even if its reader panics.
struct Taken<'a> {
    flight: &'a PacketCalls,
    call: u32,
    result: Vec<u8>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut calls = self.flight.calls();
        calls.give_back(self.call, std::mem::take(&mut self.result));
        let last = calls.hand_back();
        drop(calls);
        drop(last);
    }
}

impl OutstandingCalls for PacketCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let mut calls = self.calls();
        let (packet, limit) = (calls.spare_packet(), calls.longest_call);
        drop(calls);
        let packet = packet.unwrap_or_else(|| vec![0; MAX_DATAGRAM]);
        CallBatch::new(packet, HEADER_LEN, limit, timeout_ns)
    }

    #[inline]
    fn begin(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        if let Some(submitter) = &mut departure.submitter
            && let Some(call) = submitter.put(procedure, &departure.packet[HEADER_LEN..HEADER_LEN + len])
        {
            if submitter.is_full() {
                self.end_boarding(departure);
            }
            return Ok(call);
        }
        self.begin_under_lock(departure, procedure, len)
    }

    fn submit(&self, mut departure: CallBatch) {
        let mut calls = self.calls();
        calls.disembark(&mut departure);
        calls.spare(departure.packet);
        let batch = departure.batch;
        if batch != Batch::NONE {
            calls.close_batch(batch);
            self.release_batch(calls, batch);
        }
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.completions.has_ended(call) || self.wait(&[call], Instant::default()).is_some()
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        // Cloned and dropped outside the lock, for it is code of the user.
        let waker = waker.clone();
        let mut calls = self.calls();
        let (ready, old) = calls.poll(call, waker);
        let wakes_background = !ready && calls.reception.is_some() && calls.background.is_missed(&calls);
        if ready || calls.slots[call as usize].batch() == Batch::NONE {
            drop(calls);
        } else {
            self.release(calls, call);
        }
        drop(old);
        if wakes_background {
            self.background.wake();
        }
        ready
    }

    fn wait_any(&self, wanted: &[u32], until: Instant) -> Option<usize> {
        self.wait(wanted, until)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let mut calls = self.calls();
        let slot = &mut calls.slots[call as usize];
        if !slot.has_ended() {
            return false;
        }
        // What is neither an error nor short, nor read from here, is read where it is.
        let (mut small, mut len) = ([0; SMALL], slot.result.len());
        let error = slot.error.take();
        if error.is_some() {
        } else if let Some(short) = self.completions.result(call) {
            len = short.bytes().len();
            small[..len].copy_from_slice(short.bytes());
        } else if len <= SMALL {
            small[..len].copy_from_slice(&slot.result);
        } else {
            let result = std::mem::take(&mut slot.result);
            drop(calls);
            let taken = Taken { flight: self, call, result };
            with(Ok(Reader::new(&taken.result)));
            return true;
        }
        calls.free(call);
        let last = calls.hand_back();
        drop(calls);
        drop(last);
        with(match error {
            Some(error) => Err(*error),
            None => Ok(Reader::new(&small[..len])),
        });
        true
    }

    fn cancel(&self, call: u32) {
        let now = now();
        let mut calls = self.calls();
        let leftovers = calls.cancel(call, now);
        let last = calls.hand_back();
        drop(calls);
        if let Some(packet) = leftovers.packet {
            // If it is lost, the lane tells again.
            let _ = checksum::send(&self.socket, &packet);
        }
        drop(last);
    }

    fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        let mut calls = self.calls();
        let (had_ended, leftovers) = calls.detach(call, calling_thread);
        // Otherwise the call itself keeps the binding until it ends.
        let last = if had_ended { calls.hand_back() } else { None };
        drop(calls);
        drop((leftovers, last));
    }

    fn has_left(&self, call: u32) -> bool {
        self.calls().slots[call as usize].batch() == Batch::NONE
    }

    fn reclaim(&self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        self.calls().reclaim(which)
    }

    fn detached(&self) -> usize {
        self.calls().detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.calls().failures);
    }
}

/// The begun calls of a binding.
pub(crate) struct PacketBegun(Arc<PacketCalls>);

impl PacketBegun {
    /// # Errors
    /// The system gives no socket or no thread.
    pub(crate) fn new(binding: &Arc<PacketBinding>) -> io::Result<Self> {
        Ok(Self(PacketCalls::new(Arc::clone(binding))?))
    }
}

impl BegunCalls for PacketBegun {
    type Table = PacketCalls;
    type Ref = &'static CompletionTable;

    #[inline]
    fn present(&self) -> Result<Arc<PacketCalls>, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Arc<PacketCalls> {
        Arc::clone(&self.0)
    }

    #[inline]
    fn reference(table: &Arc<PacketCalls>) -> &'static CompletionTable {
        table.completions
    }

    fn counters(&self) -> CallCounters {
        self.0.calls().counters()
    }
}

impl Drop for PacketBegun {
    /// The client is gone. The calls that go on keep the table.
    fn drop(&mut self) {
        if self.0.completions.is_a_parents() {
            return;
        }
        let mut calls = self.0.calls();
        let unneeded = calls.close(Arc::<PacketCalls>::clone(&self.0));
        drop(calls);
        drop(unneeded);
    }
}
