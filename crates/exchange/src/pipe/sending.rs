//! The sending end of a pipe.

use super::chunks::{Added, Chunks};
use super::receiving::Receiving;
use super::{FIRST_WINDOW, Framing, REBASE, WINDOW_MAX, nearest};
use crate::Instant;
use crate::bulk::is_newer;
use crate::bulk::{Outgoing, Path, Run};
use crate::room::{PacketRoom, Part};
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{Data, HEADER_LEN, PipeEnd, PipeReceipt, Receipt, ReceiptBehind};

/// Bytes beyond the receiver's limit that a sender stores, so that they can leave as soon as the limit has moved.
const BEYOND: u64 = FIRST_WINDOW as u64;

/// The sending end of a pipe. The owner calls [`forget`](Self::forget) before it drops it.
#[derive(Debug)]
pub struct Sending {
    outgoing: Outgoing,
    /// The offset from which those of `outgoing` count, and the same of transmission numbers.
    base: u64,
    base_number: u32,
    /// What has not arrived yet, as far as it is known; also what has arrived, while the call may have to be sent again.
    bytes: Chunks,
    limit: u64,
    /// The limit with which the pipe began, while all its bytes are kept: the program at the other end has taken nothing yet.
    keeps_within: Option<u64>,
    /// Number of the newest receipt that has been handled.
    newest: u32,
    end: Option<PipeEnd>,
    /// No more bytes will be added.
    is_closed: bool,
    /// The receiver takes no more.
    is_stopped: bool,
    /// The program has more than the receiver takes, and waits for a higher limit. Not for long, and so in a box.
    wants: Option<Box<Asking>>,
    /// The offset of the byte for which a higher limit was waited for last.
    waited_at: Option<u64>,
}

/// The receiver is asked for more room when nothing else is under way.
#[derive(Clone, Copy, Debug)]
struct Asking {
    next: Instant,
    times: u32,
    /// Questions since a receipt has come.
    unanswered: u32,
}

impl Sending {
    /// A pipe from `offset` on (0, but for tests), of which the receiver takes the bytes before `limit` until it says more. `keeps`:
    /// whether its bytes are kept until the program at the other end has taken some, because the call may have to be made again.
    pub fn new(offset: u64, limit: u64, keeps: bool) -> Self {
        Self {
            outgoing: Outgoing::open(),
            base: offset,
            base_number: 0,
            bytes: Chunks::new(offset),
            limit,
            keeps_within: keeps.then_some(limit),
            newest: 0,
            end: None,
            is_closed: false,
            is_stopped: false,
            wants: None,
            waited_at: None,
        }
    }

    /// Whether more bytes can be added, now or later.
    pub fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Whether the receiver takes no more.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether the pipe has ended, and everything of it has arrived.
    pub fn is_done(&self) -> bool {
        self.is_closed && self.outgoing.is_acknowledged()
    }

    /// Whether bytes have not arrived, as far as is known.
    pub fn is_under_way(&self) -> bool {
        !self.outgoing.is_acknowledged()
    }

    /// Offset behind the last byte that was added.
    pub fn len(&self) -> u64 {
        self.base + u64::from(self.outgoing.message_len()) - u64::from(self.end.is_some())
    }

    /// Whether no byte was ever added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The receiver takes the bytes before this one.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many more bytes the receiver takes now.
    pub fn room(&self) -> u64 {
        if self.is_closed { 0 } else { self.limit.saturating_sub(self.len()) }
    }

    /// Bytes that were added and are still kept.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory in use.
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes that [`send`](Self::send) would take of `most`.
    pub fn would_take(&self, most: usize) -> usize {
        let room = (self.limit + BEYOND).saturating_sub(self.len()).min(u64::from(WINDOW_MAX));
        if self.is_closed { 0 } else { most.min(room as usize) }
    }

    /// Adds bytes, as many as the receiver takes now and a few more. Returns how many.
    pub fn send<'a>(&mut self, now: Instant, bytes: impl Into<Added<'a>>) -> usize {
        let bytes = bytes.into();
        self.append_first(now, bytes, self.would_take(bytes.len()))
    }

    /// Adds bytes, whether the receiver takes them now or later. Returns how many: none if there is no memory.
    pub fn append<'a>(&mut self, now: Instant, bytes: impl Into<Added<'a>>) -> usize {
        let bytes = bytes.into();
        self.append_first(now, bytes, bytes.len())
    }

    /// Adds the first `len` bytes.
    pub(crate) fn append_first(&mut self, now: Instant, bytes: Added<'_>, len: usize) -> usize {
        if self.is_closed || len == 0 || !self.bytes.append(bytes, len) {
            return 0;
        }
        self.outgoing.extend(now, len as u32, relative(self.limit, self.base));
        len
    }

    /// The program has more than the receiver takes now: until the limit moves, the receiver is asked, after ever longer waits.
    pub fn want(&mut self, now: Instant, path: &Path) {
        if self.wants.is_none() && !self.is_closed {
            let next = now.after_nanos(path.wait_after(0));
            self.wants = Some(Box::new(Asking { next, times: 0, unanswered: 0 }));
        }
    }

    /// When a question is due: the receipt that has told a higher limit may be lost.
    fn next_question(&self) -> Instant {
        let asking = self.wants.as_deref().filter(|_| !self.is_closed && self.outgoing.is_acknowledged());
        asking.map_or(Instant::NEVER, |asking| asking.next)
    }

    /// Ends the pipe behind its last byte: all bytes will have been sent.
    pub fn finish(&mut self, now: Instant) {
        if !self.is_closed {
            self.outgoing.extend(now, 1, 0);
            self.outgoing.flush();
            (self.is_closed, self.end) = (true, Some(PipeEnd::Finished));
            self.outgoing.allow(self.reach());
        }
    }

    /// No more bytes are added. That the pipe has ended, its receiver learns otherwise.
    pub fn close(&mut self) {
        self.outgoing.flush();
        self.is_closed = true;
    }

    /// Sends all bytes so far without waiting for more. Otherwise the last few may wait until what is in flight is acknowledged.
    pub fn flush(&mut self) {
        self.outgoing.flush();
    }

    /// Aborts the pipe, unless it has ended and all of it has arrived.
    pub fn abort(&mut self, now: Instant, path: &mut Path) {
        if self.is_done() || self.end == Some(PipeEnd::Aborted) {
            return;
        }
        // The offset of the end, if that was sent, stays.
        let len = relative(self.len(), self.base);
        self.outgoing.skip_to(self.outgoing.never_sent().min(len), path);
        self.outgoing.extend(now, 1, u32::MAX);
        self.outgoing.flush();
        (self.is_closed, self.end, self.keeps_within) = (true, Some(PipeEnd::Aborted), None);
        self.bytes = Chunks::new(self.len());
    }

    /// The receiver takes the bytes before `limit`.
    pub fn allow(&mut self, limit: u64) {
        self.limit = self.limit.max(limit.min(Data::OFFSETS - 1));
        self.outgoing.allow(self.reach());
    }

    /// How far may be sent: an end needs no limit of its own.
    fn reach(&self) -> u32 {
        let of_end = u64::from(self.end.is_some() && self.limit >= self.len());
        relative(self.limit + of_end, self.base)
    }

    /// Handles a receipt. Returns whether more may be sent now, or the receiver takes no more. A receipt that contradicts what was
    /// sent is ignored.
    pub fn on_receipt(
        &mut self,
        now: Instant,
        number: u32,
        (of_pipe, receipt): (PipeReceipt, &Receipt),
        path: &mut Path,
    ) -> bool {
        let up_to = u64::from(of_pipe.high) << 32 | u64::from(receipt.up_to);
        let sent = self.base + u64::from(self.outgoing.never_sent());
        if !is_newer(number, self.newest) || up_to > sent {
            return false;
        }
        let Some(limit) = nearest(receipt.limit, up_to) else { return false };
        self.newest = number;
        let before = (self.limit, self.is_stopped);
        self.limit = self.limit.max(limit.min(up_to + u64::from(WINDOW_MAX)).min(Data::OFFSETS - 1));
        if self.limit > before.0 {
            let has_more = self.wants.is_some() || self.len() > before.0;
            if has_more && sent >= before.0.min(self.len()) {
                self.waited_at = Some(sent);
            }
            self.wants = None;
        } else if let Some(asking) = &mut self.wants {
            asking.unanswered = 0;
        }
        if of_pipe.stop && !self.is_stopped {
            self.is_stopped = true;
            self.abort(now, path);
        }
        let latest = receipt.latest.wrapping_sub(self.base_number);
        let latest = if latest > self.outgoing.transmission() { 0 } else { latest };
        let near = |word| nearest(word, up_to).map_or(0, |offset| relative(offset, self.base));
        let mut told = Receipt::new(latest, receipt.delay_ns, self.reach(), relative(up_to, self.base));
        // What a stop has skipped is no news.
        if !of_pipe.stop {
            receipt.ranges().iter().for_each(|&(start, end)| _ = told.push(near(start), near(end)));
        }
        self.outgoing.on_receipt(now, &told, path);
        self.release();
        (self.limit, self.is_stopped) != before
    }

    /// Frees what has arrived.
    fn release(&mut self) {
        self.keeps_within = self.keeps_within.filter(|first| self.limit == *first);
        if self.keeps_within.is_none() {
            let arrived = self.base + u64::from(self.outgoing.up_to());
            self.bytes.release(arrived.min(self.len()));
        }
        if self.outgoing.up_to() >= REBASE || self.outgoing.transmission() >= 2 * REBASE {
            let (offsets, numbers) = self.outgoing.rebase();
            self.base += u64::from(offsets);
            self.base_number = self.base_number.wrapping_add(numbers);
        }
    }

    /// All bytes of the pipe so far, if none was given away: the call was refused, and is made again.
    pub fn all_bytes(&self) -> Option<Vec<u8>> {
        self.keeps_within.is_some().then(|| self.bytes.to_vec())
    }

    /// The run to send now, in at most `most_bytes` of datagrams. Its offset counts from a place that only
    /// [`frame`](Self::frame) knows.
    pub fn next_run(&mut self, now: Instant, path: &mut Path, most_bytes: usize) -> Option<Run> {
        self.outgoing.next_run(now, path, most_bytes)
    }

    /// Whether a receipt fits behind the bytes of a run, in its only packet.
    fn has_room_behind(run: &Run) -> bool {
        run.len > 0 && run.len as usize + ReceiptBehind::LEN <= run.fragment as usize
    }

    /// Writes the packets of a run, each of `segment` bytes with the space for its trailer. The receipt that `other` owes, the other pipe
    /// of the call, goes along if it has room.
    pub fn frame(
        &self,
        now: Instant,
        framing: Framing,
        (run, segment): (&Run, usize),
        other: Option<&mut Receiving>,
        room: &mut impl PacketRoom,
    ) {
        let behind = other.and_then(|other| other.receipt_behind(now, Self::has_room_behind(run)));
        let packets = run.len.div_ceil(run.fragment).max(1);
        let end_at = self.outgoing.message_len() - u32::from(self.end.is_some());
        let with_trailer = segment - run.fragment as usize;
        let end = run.offset + run.len;
        let is_last = run.len > 0 && end > end_at;
        let bytes = (run.len - u32::from(is_last)) as usize;
        let len =
            bytes + packets as usize * with_trailer + if behind.is_some() { ReceiptBehind::LEN } else { 0 };
        let mut packets = (0..packets).map(|packet| {
            let offset = run.offset + packet * run.fragment;
            let part = run.fragment.min(end - offset);
            let has_end = part > 0 && offset + part > end_at;
            let len = part - u32::from(has_end);
            let at = self.base + u64::from(offset);
            let has_waited = self.waited_at.is_some_and(|offset| (at..at + u64::from(len)).contains(&offset));
            let end = self.end.filter(|_| has_end);
            let transmission = self.base_number.wrapping_add(run.transmission).wrapping_add(packet);
            let data = Data { at, len: len as u16, end, has_waited, transmission };
            (data.header(framing.binding, framing.lane, framing.number), at, len as usize)
        });
        if behind.is_none()
            && with_trailer == HEADER_LEN
            && self.bytes.is_shared(self.base + u64::from(run.offset), bytes)
            && let Some(gathered) = room.gather(len, segment)
        {
            for (header, at, len) in packets {
                gathered.push(Part::Header(header.to_bytes()));
                gathered.extend(self.bytes.shared(at, len).map(Part::Bytes));
            }
            return;
        }
        room.put(len, segment, |packet| {
            let (written, at, len) = packets.next().expect("as many as were counted");
            let (header, payload) =
                packet.split_first_chunk_mut::<HEADER_LEN>().expect("a packet has a header");
            *header = if behind.is_some() { ReceiptBehind::announced(written) } else { written }.to_bytes();
            let (bytes, rest) = payload.split_at_mut(len);
            self.bytes.copy_to(at, bytes);
            if let Some(behind) = &behind {
                rest[..ReceiptBehind::LEN].copy_from_slice(&behind.to_bytes());
            }
        });
    }

    /// Whether more could be sent, if the window had space.
    pub fn has_more(&self) -> bool {
        self.outgoing.has_more()
    }

    /// Consecutive waits without a useful receipt.
    pub fn waits(&self) -> u32 {
        self.outgoing.waits().max(self.wants.as_deref().map_or(0, |asking| asking.unanswered))
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn next_timeout(&self, path: &Path) -> Instant {
        self.outgoing.next_timeout(path).min(self.next_question())
    }

    /// Does what is due. Afterwards [`next_run`](Self::next_run) may return a run.
    pub fn on_timeout(&mut self, now: Instant, path: &mut Path) {
        if now >= self.next_question()
            && let Some(asking) = &mut self.wants
        {
            (asking.times, asking.unanswered) = (asking.times + 1, asking.unanswered + 1);
            asking.next = now.after_nanos(path.wait_after(asking.times));
            self.outgoing.question();
        }
        self.outgoing.on_timeout(now, path);
    }

    /// Stops sending until [`ask_again`](Self::ask_again), because nothing is heard.
    pub fn pause(&mut self, path: &mut Path) {
        self.outgoing.pause(path);
        if let Some(asking) = &mut self.wants {
            asking.unanswered = 0;
        }
    }

    /// Sends one or two packets again at once.
    pub fn ask_again(&mut self, path: &mut Path) {
        self.outgoing.ask_again(path);
        if self.wants.is_some() && self.outgoing.is_acknowledged() && !self.is_closed {
            self.outgoing.question();
        }
    }

    /// The pipe is sent no further: its bytes in flight no longer count towards the path's window.
    pub fn forget(&mut self, path: &mut Path) {
        self.is_closed = true;
        self.outgoing.end(path);
    }
}

/// `offset` as counted from `base`, saturating at both ends.
fn relative(offset: u64, base: u64) -> u32 {
    u32::try_from(offset.saturating_sub(base)).unwrap_or(u32::MAX)
}
