//! The pipes of the calls on one connection, at either end: what is due to be sent of them, and what arrives for them.
//!
//! Data is not queued behind messages: a thread that may send takes it from the [queues](crate::pipes::queue) of the calls, one run for each
//! call in turn. A receipt tells only the newest limit. Calls are known by their lane and number: the pipe of a call that has been answered
//! may go on while its lane has the next call.

use crate::locked::locked;
use crate::pipes::contract::Close;
use crate::pipes::error::PipeError;
use crate::pipes::helper::{self, Gathering, SendsPipes};
use crate::pipes::queue::{Disorder, PipeQueue};
use crate::pipes::waiters::Wakeup;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use stoop_exchange::stream::PipeBytes;
use stoop_wire::{
    BindingId, CallNumber, Data, HEADER_LEN, Header, Kind, LaneId, PipeEnd, PipeReceipt, Receipt,
};

/// A call as its pipes know it.
pub(crate) type Key = (LaneId, CallNumber);

/// The pipes of a call, at one end of the connection.
pub(crate) struct CallPipes {
    /// Known once the call has a lane.
    key: OnceLock<Key>,
    /// At the server: its data has come before its procedure has the ends.
    is_early: bool,
    /// The bytes that leave here, and those that have arrived here.
    pub(crate) out: Option<Arc<PipeQueue>>,
    pub(crate) into: Option<Arc<PipeQueue>>,
    /// It is in the list of those that have something to send.
    is_ready: AtomicBool,
    /// The program wants nothing more of what arrives.
    stops: AtomicBool,
    is_answered: AtomicBool,
    is_heard: AtomicBool,
    sending: Mutex<Sending>,
    /// Sends what is due.
    sends: OnceLock<Weak<dyn SendsPipes>>,
}

/// What has been sent.
#[derive(Default)]
struct Sending {
    /// Bytes of the pipe that were taken from the queue; those from `at` on have not left.
    run: Vec<u8>,
    at: usize,
    /// The offset in the pipe of the byte at `at`.
    next: u64,
    closed: Option<Close>,
    /// A higher limit was waited for, which the next bytes are to tell.
    has_waited: bool,
    /// The end has left, or is not wanted.
    has_ended: bool,
    transmissions: u32,
    /// The limit that the other end has been told, and the receipts that have told something.
    told: u64,
    receipts: u32,
    stop_is_told: bool,
    /// A receipt is due though it says nothing new: the server has the call.
    says_taken: bool,
}

/// The pipes of the calls on a connection.
#[derive(Default)]
pub(crate) struct PipeTable {
    calls: Mutex<HashMap<(u16, u32), Arc<CallPipes>>>,
    ready: Mutex<VecDeque<Arc<CallPipes>>>,
    ready_len: AtomicUsize,
    pub(crate) gathering: Gathering,
}

/// Packets of data of one call that are sent at once: one is too small for an item of 64 KiB.
const AT_ONCE: usize = 2;

/// Less memory than that is not kept for the next bytes: it is had as quickly when it is needed, and many pipes are quiet.
const KEPT_LEAST: usize = 256;

/// How far the packets of a call have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketsSent {
    /// There was nothing to send.
    Nothing,
    Whole,
    /// The connection took a part; the rest is to be sent before anything else.
    Part,
}

fn key_of(header: &Header) -> (u16, u32) {
    (header.lane.0, header.number.0)
}

impl CallPipes {
    /// Those of a call whose bytes leave and arrive by these queues.
    pub(crate) fn new(out: Option<PipeQueue>, into: Option<PipeQueue>) -> Arc<Self> {
        Self::of(out.map(Arc::new), into.map(Arc::new))
    }

    /// At the server: those of a call whose data arrives by this queue before its procedure has the ends.
    pub(crate) fn early(into: PipeQueue) -> Arc<Self> {
        Arc::new(Self { is_early: true, ..Self::with(None, Some(Arc::new(into))) })
    }

    /// The same as [`new`](Self::new), of queues that may have been used before.
    pub(crate) fn of(out: Option<Arc<PipeQueue>>, into: Option<Arc<PipeQueue>>) -> Arc<Self> {
        Arc::new(Self::with(out, into))
    }

    fn with(out: Option<Arc<PipeQueue>>, into: Option<Arc<PipeQueue>>) -> Self {
        let told = into.as_ref().map_or(0, |into| into.limit());
        Self {
            key: OnceLock::new(),
            is_early: false,
            out,
            into,
            is_ready: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
            is_heard: AtomicBool::new(false),
            sending: Mutex::new(Sending { told, ..Sending::default() }),
            sends: OnceLock::new(),
        }
    }

    /// What is due is sent so.
    pub(crate) fn sent_by(&self, sends: Weak<dyn SendsPipes>) {
        let _ = self.sends.set(sends);
    }

    /// The helper sends what is due.
    pub(crate) fn send_soon(&self) {
        self.sends.get().cloned().into_iter().for_each(helper::send);
    }

    /// The program wants nothing more of what arrives.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
    }

    /// The server has the call, and is to say so.
    pub(crate) fn say_taken(&self) {
        locked(&self.sending).says_taken = true;
    }

    /// Ends both pipes at this end, for this reason. Returns the tasks that wait for them.
    pub(crate) fn fail(&self, why: &PipeError) -> Vec<Wakeup> {
        self.is_answered.store(true, Ordering::SeqCst);
        [&self.out, &self.into].into_iter().flatten().flat_map(|queue| queue.fail(why)).collect()
    }

    /// Whether something has arrived for it: the server has the call.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }

    /// At the caller: the call has been answered, with a result or a failure. What arrives goes on to its end.
    pub(crate) fn note_answer(&self) -> [Wakeup; 2] {
        self.is_answered.store(true, Ordering::SeqCst);
        self.out.as_ref().map_or_else(Default::default, |out| out.fail(&PipeError::Ended))
    }

    /// At the server: the call has been answered. What was sent goes on to its end.
    pub(crate) fn answer(&self, how: Close) {
        self.is_answered.store(true, Ordering::SeqCst);
        if let Some(out) = &self.out {
            out.close(how).into_iter().flatten().for_each(Wakeup::give);
        }
        if let Some(into) = &self.into {
            into.fail(&PipeError::Ended).into_iter().for_each(Wakeup::give);
        }
    }

    /// Whether nothing more leaves or arrives.
    fn is_done(&self) -> bool {
        let has_left = self.out.as_ref().is_none_or(|out| out.is_over() || locked(&self.sending).has_ended);
        let has_come = self.into.as_ref().is_none_or(|into| into.is_over() || into.closed().is_some());
        self.is_answered.load(Ordering::SeqCst) && has_left && has_come
    }

    /// Bytes that have not left; `None`: nor is an end to leave.
    fn unsent(&self) -> Option<u64> {
        let out = self.out.as_ref().filter(|out| !out.is_over())?;
        let sending = locked(&self.sending);
        (!sending.has_ended).then(|| out.written().saturating_sub(sending.next))
    }

    fn has_more(&self, sending: &Sending) -> bool {
        let Some(out) = self.out.as_ref().filter(|_| !sending.has_ended) else { return false };
        match sending.at < sending.run.len() {
            true => sending.next < out.limit(),
            false => out.has_bytes(),
        }
    }
}

impl Sending {
    /// Writes the receipt that is due.
    fn put_receipt(&mut self, call: &CallPipes, header: Header, packet: &mut Vec<u8>) {
        let limit = call.into.as_ref().map_or(0, |into| into.limit());
        let stops = call.stops.load(Ordering::SeqCst) && !self.stop_is_told;
        if !mem::take(&mut self.says_taken) && limit <= self.told && !stops {
            return;
        }
        (self.told, self.stop_is_told) = (limit, self.stop_is_told | stops);
        self.receipts = self.receipts.wrapping_add(1);
        let up_to = call.into.as_ref().map_or(0, |into| into.written());
        let receipt = Receipt::new(0, 0, limit as u32, up_to as u32);
        let fields = PipeReceipt { stop: stops, high: (up_to >> 32) as u32 };
        let len = receipt.encoded_len();
        let header = Header { message_len: len as u32, time: self.receipts, ..header };
        packet.extend_from_slice(&fields.put(header).to_bytes());
        let at = packet.len();
        packet.resize(at + len, 0);
        receipt.put(&mut packet[at..]);
    }

    /// Takes what is to leave from the queue, if all that was taken before has left.
    fn pull(&mut self, out: &PipeQueue) -> Wakeup {
        let mut wakeup = Wakeup::default();
        if out.is_over() {
            (self.run, self.at, self.has_ended) = (Vec::new(), 0, true);
        } else if self.at == self.run.len() && !self.has_ended {
            self.run.clear();
            self.at = 0;
            let pulled = out.pull(&mut self.run);
            (self.closed, wakeup) = (pulled.closed, pulled.wakeup);
            self.next = pulled.written - self.run.len() as u64;
            self.has_waited |= pulled.has_waited;
        }
        wakeup
    }

    /// Gives back little memory, if nothing is left in it.
    fn rest(&mut self) {
        if self.at == self.run.len() && self.run.capacity() < KEPT_LEAST {
            (self.run, self.at) = (Vec::new(), 0);
        }
    }

    /// The next bytes that may leave: the header of their packet, and how many they are.
    fn next_data(&mut self, out: &PipeQueue) -> Option<(Data, usize)> {
        if self.has_ended {
            return None;
        }
        let unsent = self.run.len() - self.at;
        let has_room = self.next < out.limit();
        self.has_waited |= unsent > 0 && !has_room;
        let len = if has_room { unsent.min(Data::LEN_MAX.into()) } else { 0 };
        let end = match self.closed {
            Some(Close::Whole) if len == unsent => Some(PipeEnd::Finished),
            Some(Close::Aborted) if unsent == 0 => Some(PipeEnd::Aborted),
            _ => None,
        };
        if len == 0 && end.is_none() {
            // Bytes wait for a receipt, or there are none.
            return None;
        }
        self.transmissions = self.transmissions.wrapping_add(1);
        let has_waited = len > 0 && mem::take(&mut self.has_waited);
        let data = Data { at: self.next, len: len as u16, end, has_waited, transmission: self.transmissions };
        (self.next, self.has_ended) = (self.next + len as u64, end.is_some());
        Some((data, len))
    }
}

impl PipeTable {
    /// Knows a call from now on: what arrives for it may arrive.
    pub(crate) fn add(&self, lane: LaneId, number: CallNumber, call: &Arc<CallPipes>) {
        let _ = call.key.set((lane, number));
        locked(&self.calls).insert((lane.0, number.0), Arc::clone(call));
    }

    /// The pipes of the call with this header.
    pub(crate) fn find(&self, header: &Header) -> Option<Arc<CallPipes>> {
        locked(&self.calls).get(&key_of(header)).cloned()
    }

    /// Whether no call is known.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.calls).is_empty()
    }

    /// The calls that are known.
    pub(crate) fn keys(&self) -> Vec<Key> {
        locked(&self.calls).keys().map(|(lane, number)| (LaneId(*lane), CallNumber(*number))).collect()
    }

    /// Bytes that calls which have been answered have sent and that have not left; `None`: all have, and their ends.
    pub(crate) fn unsent(&self) -> Option<u64> {
        let calls: Vec<_> = locked(&self.calls).values().cloned().collect();
        let answered = calls.iter().filter(|call| call.is_answered.load(Ordering::SeqCst));
        answered.filter_map(|call| call.unsent()).reduce(u64::wrapping_add)
    }

    /// Forgets the early calls that have been answered, and so never had pipes.
    pub(crate) fn forget_early(&self, is_answered: impl Fn(Key) -> bool) {
        locked(&self.calls).retain(|(lane, number), call| {
            !call.is_early || !is_answered((LaneId(*lane), CallNumber(*number)))
        });
    }

    /// Forgets a call, if nothing more leaves or arrives of it.
    pub(crate) fn forget_if_done(&self, call: &CallPipes) {
        if let Some((lane, number)) = call.key.get().filter(|_| call.is_done()) {
            locked(&self.calls).remove(&(lane.0, number.0));
        }
    }

    /// Forgets a call.
    pub(crate) fn forget(&self, call: &CallPipes) {
        if let Some((lane, number)) = call.key.get() {
            locked(&self.calls).remove(&(lane.0, number.0));
        }
    }

    /// The connection is lost: ends the pipes of all calls, for this reason.
    #[cold]
    pub(crate) fn lose(&self, why: &PipeError) {
        let lost: Vec<_> = locked(&self.calls).drain().map(|(_, call)| call).collect();
        locked(&self.ready).clear();
        lost.iter().flat_map(|call| call.fail(why)).for_each(helper::wake);
    }

    /// A call that has a lane has something to send.
    pub(crate) fn make_ready(&self, call: &Arc<CallPipes>) {
        if call.key.get().is_some() && !call.is_ready.swap(true, Ordering::SeqCst) {
            let mut ready = locked(&self.ready);
            ready.push_back(Arc::clone(call));
            self.ready_len.store(ready.len(), Ordering::SeqCst);
        }
    }

    /// Whether a call has something to send.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready_len.load(Ordering::SeqCst) > 0
    }

    fn next_ready(&self) -> Option<Arc<CallPipes>> {
        let mut ready = locked(&self.ready);
        let call = ready.pop_front();
        self.ready_len.store(ready.len(), Ordering::SeqCst);
        if let Some(call) = &call {
            call.is_ready.store(false, Ordering::SeqCst);
        }
        call
    }

    /// Sends the packets that are due of the first call in the list: a receipt, and a few of data. The calling thread has the right to
    /// send, and nothing of another packet is left. Bytes that `send` does not take go to the end of `rest`.
    pub(crate) fn send_next(
        &self,
        binding: BindingId,
        send: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
        rest: &mut Vec<u8>,
    ) -> io::Result<PacketsSent> {
        let Some(call) = self.next_ready() else { return Ok(PacketsSent::Nothing) };
        let Some(&(lane, number)) = call.key.get() else { return Ok(PacketsSent::Whole) };
        let mut sending = locked(&call.sending);
        let mut heads = Vec::with_capacity((1 + AT_ONCE) * HEADER_LEN + 16);
        sending.put_receipt(&call, Header::bare(Kind::Receipt, binding, lane, number), &mut heads);
        let wakeup = call.out.as_ref().map_or_else(Wakeup::default, |out| sending.pull(out));
        let mut pieces = Vec::with_capacity(AT_ONCE);
        while let Some((data, len)) = call.out.as_ref().and_then(|out| sending.next_data(out)) {
            heads.extend_from_slice(&data.header(binding, lane, number).to_bytes());
            pieces.push((heads.len(), sending.at..sending.at + len));
            sending.at += len;
            if pieces.len() == AT_ONCE || sending.at == sending.run.len() {
                break;
            }
        }
        let mut slices = Vec::with_capacity(2 * AT_ONCE);
        let mut begin = 0;
        for (end, run) in pieces {
            slices.extend([&heads[begin..end], &sending.run[run]].map(IoSlice::new));
            begin = end;
        }
        if begin < heads.len() {
            slices.push(IoSlice::new(&heads[begin..]));
        }
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let sent = if all > 0 { send(&slices)? } else { 0 };
        let mut left = sent;
        for slice in slices {
            let unsent = slice.get(left..).unwrap_or_default();
            rest.extend_from_slice(unsent);
            left = left.saturating_sub(slice.len());
        }
        let has_more = call.has_more(&sending);
        sending.rest();
        drop(sending);
        if has_more {
            self.make_ready(&call);
        }
        self.forget_if_done(&call);
        wakeup.give();
        Ok(if sent < all { PacketsSent::Part } else { PacketsSent::Whole })
    }

    /// Bytes of a pipe have arrived. Those of calls that are not known go nowhere.
    ///
    /// # Errors
    /// They may not come.
    pub(crate) fn take_data(&self, call: &CallPipes, data: &PipeBytes<'_>) -> Result<Wakeup, Disorder> {
        call.is_heard.store(true, Ordering::Relaxed);
        let into = call.into.as_ref().ok_or(Disorder)?;
        let packet = Data::of(&data.header).ok_or(Disorder)?;
        let mut wakeup = into.arrive(&packet, data.at, data.bytes)?;
        if let Some(end) = data.end {
            let how = match end {
                PipeEnd::Finished => Close::Whole,
                PipeEnd::Aborted => Close::Aborted,
            };
            let [_, closed] = into.close(how).unwrap_or_default();
            wakeup = wakeup.or(closed);
            self.forget_if_done(call);
        }
        Ok(wakeup)
    }

    /// A receipt for a pipe has arrived.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn take_receipt(
        &self,
        call: &Arc<CallPipes>,
        header: &Header,
        payload: &[u8],
    ) -> Result<Wakeup, Disorder> {
        call.is_heard.store(true, Ordering::Relaxed);
        let fields = PipeReceipt::of(header).ok_or(Disorder)?;
        let receipt = Receipt::decode(payload).ok_or(Disorder)?;
        let Some(out) = &call.out else { return Ok(Wakeup::default()) };
        if fields.stop {
            let wakeup = out.stop(PipeError::Stopped);
            self.forget_if_done(call);
            return Ok(wakeup);
        }
        let wakeup = out.grant(nearest(receipt.limit, out.written()));
        let has_more = call.has_more(&locked(&call.sending));
        if has_more {
            self.make_ready(call);
        }
        Ok(wakeup)
    }
}

/// The offset nearest to `near` that has these low bits.
fn nearest(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(ahead.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_the_nearest_with_its_low_bits() {
        for near in [0, 5, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 40) + 7] {
            for ahead in [0_i64, 1, 1 << 20, -3] {
                let offset = near + ahead;
                if offset >= 0 {
                    assert_eq!(nearest(offset as u32, near as u64), offset as u64);
                }
            }
        }
    }
}
