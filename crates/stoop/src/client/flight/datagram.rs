//! Calls in flight over UDP: thousands of lanes behind one socket, many packets to a system call.

mod batch;
mod board;
mod calls;
mod keeper;
mod large;
mod reception;
mod slot;

use super::{Carrier, Departure, Short};
use crate::client::counters::CallCounters;
use crate::client::datagram::DatagramBinding;
use crate::error::{CallError, SendError};
use crate::pending::Outcome;
use batch::Batch;
use board::Board;
use calls::Calls;
use keeper::Keeper;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::udp::{CallerSocket, SegmentsSending, Sending};
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// What carries the begun calls of one binding.
///
/// Everything but the socket is behind one lock, which is held for moments and never while anybody waits. Whoever waits
/// for a call takes the [`Reception`](reception::Reception) out from behind it, receives for all, and puts it back: that
/// is the receive role.
pub(super) struct Flight {
    binding: Arc<DatagramBinding>,
    socket: CallerSocket,
    /// Whether packets can be sent together here.
    segments: AtomicBool,
    calls: Mutex<Calls>,
    /// What of the calls can be seen without the lock.
    board: Arc<Board>,
    keeper: Keeper,
}

/// Room asked for what arrives: thousands of results.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Results of at most so many bytes are taken under the lock, and read when it has been given back.
const SMALL: usize = 64;

fn now() -> Instant {
    Instant::from_nanos(stoop_net::clock::now_ns())
}

impl Flight {
    /// The carrier of `binding`, with a socket and a housekeeper of its own.
    pub(super) fn new(binding: Arc<DatagramBinding>) -> io::Result<Arc<Self>> {
        let socket = CallerSocket::connect(binding.server)?;
        // Both make it faster where they are granted, and nothing depends on them.
        let _ = socket.set_gro(true);
        let granted = socket.set_receive_buffer(RECEIVE_BUFFER).unwrap_or(0);
        let mut calls = Calls::new(&binding);
        // What the kernel charges for a packet that comes by itself is less than twice its bytes.
        calls.large.room = u32::try_from(granted / 2).unwrap_or(u32::MAX);
        let board = Arc::clone(&calls.board);
        let (calls, keeper) = (Mutex::new(calls), Keeper::default());
        let flight =
            Arc::new(Self { binding, socket, segments: AtomicBool::new(true), calls, board, keeper });
        keeper::start(&flight)?;
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
        if batch.count() > 1 && self.sends_segments() {
            for _ in 0..2 {
                match self.socket.send_segments(batch.packets(), batch.segment()) {
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
        self.transmit_one_by_one(batch)
    }

    fn transmit_one_by_one(&self, batch: &Batch) -> Result<(), Vec<(usize, io::Error)>> {
        let mut failed = Vec::new();
        for (place, packet) in batch.packets().chunks(batch.segment()).enumerate() {
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
        let (mut news, now) = (reception::News::default(), now());
        let mut calls = self.calls();
        for (place, why) in failed {
            calls.not_sent(batch.calls()[place], CallError::NotSent(SendError::Io(why)), now, &mut news);
        }
        drop(calls);
        news.tell();
    }

    /// Sends what is held back of the batch of a call.
    fn release(&self, calls: MutexGuard<'_, Calls>, call: u32) {
        let batch = calls.slots[call as usize].batch();
        self.release_batch(calls, batch);
    }

    fn release_batch(&self, mut calls: MutexGuard<'_, Calls>, batch: u32) {
        let taken = calls.take_batch(batch);
        let wakes_keeper = taken.is_some() && calls.keeper.is_wanted();
        drop(calls);
        if wakes_keeper {
            self.keeper.wake();
        }
        if let Some(taken) = taken {
            self.send_batch(taken);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // It finds that there is nothing left to keep.
        self.keeper.wake();
    }
}

/// A result that is read outside the lock. Its slot is given back when it has been, even if its reader panics.
struct Taken<'a> {
    flight: &'a Flight,
    call: u32,
    result: Vec<u8>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.flight.calls().give_back(self.call, std::mem::take(&mut self.result));
    }
}

impl Carrier for Flight {
    fn depart(&self, timeout_ns: u64) -> Departure {
        let mut calls = self.calls();
        let (packet, limit) = (calls.spare_packet(), calls.longest_call);
        drop(calls);
        let packet = packet.unwrap_or_else(|| vec![0; MAX_DATAGRAM]);
        Departure::new(packet, HEADER_LEN, limit, timeout_ns)
    }

    fn begin(&self, departure: &mut Departure, procedure: u16, len: usize) -> Result<u32, CallError> {
        let mut calls = self.calls();
        let begun = calls.begin(&self.binding, departure, procedure, HEADER_LEN + len)?;
        if begun.full.is_none() && !begun.is_large {
            return Ok(begun.call);
        }
        let wakes_keeper = calls.keeper.is_wanted();
        drop(calls);
        if wakes_keeper {
            self.keeper.wake();
        }
        match begun.full {
            Some(full) => self.send_batch(full),
            None => self.pump(),
        }
        Ok(begun.call)
    }

    fn send(&self, departure: Departure) {
        let mut calls = self.calls();
        calls.spare(departure.packet);
        let batch = departure.batch;
        if batch != Batch::NONE {
            calls.close_batch(batch);
            self.release_batch(calls, batch);
        }
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.board.has_ended(call) || self.wait(&[call], Instant::default()).is_some()
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        // Cloned and dropped outside the lock, for it is code of the user.
        let waker = waker.clone();
        let mut calls = self.calls();
        let (ready, old) = calls.poll(call, waker);
        let wakes_keeper = !ready && calls.reception.is_some() && calls.keeper.is_missed(&calls);
        if ready || calls.slots[call as usize].batch() == Batch::NONE {
            drop(calls);
        } else {
            self.release(calls, call);
        }
        drop(old);
        if wakes_keeper {
            self.keeper.wake();
        }
        ready
    }

    fn wait_any(&self, wanted: &[u32], until: Instant) -> Option<usize> {
        self.wait(wanted, until)
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        self.board.take(call)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let mut calls = self.calls();
        if !calls.slots[call as usize].has_ended() {
            return false;
        }
        // Under the lock: it may have ended just now.
        if let Some(short) = self.take_short(call) {
            drop(calls);
            with(Ok(Reader::new(short.bytes())));
            return true;
        }
        let slot = &mut calls.slots[call as usize];
        if let Some(error) = slot.error.take() {
            calls.free(call);
            drop(calls);
            with(Err(*error));
        } else if slot.result.len() <= SMALL {
            let (mut small, len) = ([0; SMALL], slot.result.len());
            small[..len].copy_from_slice(&slot.result);
            calls.free(call);
            drop(calls);
            with(Ok(Reader::new(&small[..len])));
        } else {
            let result = std::mem::take(&mut slot.result);
            drop(calls);
            let taken = Taken { flight: self, call, result };
            with(Ok(Reader::new(&taken.result)));
        }
        true
    }

    fn cancel(&self, call: u32) {
        let now = now();
        let leftovers = self.calls().cancel(call, now);
        if let Some(packet) = leftovers.packet {
            // If it is lost, the lane tells again.
            let _ = self.socket.send(&packet);
        }
    }

    fn detach(&self, call: u32) {
        let leftovers = self.calls().detach(call);
        drop(leftovers);
    }

    fn counters(&self) -> CallCounters {
        self.calls().counters()
    }
}
