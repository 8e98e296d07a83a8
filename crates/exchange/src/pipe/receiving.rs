//! The receiving end of a pipe.

use super::bytes::Bytes;
use super::{Framing, REBASE, WINDOW_MAX};
use crate::Instant;
use crate::bulk::put_receipt;
use crate::bulk::{Incoming, RECEIPT_DELAY_NANOS, Span, Taken};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use stoop_wire::{Data, Header, Kind, PipeEnd, PipeReceipt, Receipt, ReceiptBehind};

/// How long a receiver that takes no more waits for the end before it says so again; doubled so many times at most.
const SAY_STOP_AGAIN: Duration = Duration::from_millis(20);
const DOUBLINGS_MAX: u32 = 5;

/// The receiving end of a pipe.
#[derive(Debug)]
pub struct Receiving {
    incoming: Incoming,
    /// The offset from which those of `incoming` count, and the same of transmission numbers.
    base: u64,
    base_number: u32,
    /// What the program has not taken yet, perhaps with gaps.
    bytes: Bytes,
    /// The program has taken the bytes before this one. Those between it and `bytes` it has, and has not taken yet.
    taken: u64,
    window: u32,
    /// Most that the window may grow to.
    window_max: u32,
    /// The sender has waited for a higher limit before bytes that were not drawn.
    has_waited: bool,
    /// The sender may send the bytes before this one. There is memory for them.
    granted: u64,
    /// How the pipe ends, and behind which byte.
    end: Option<(PipeEnd, u64)>,
    /// The program gets the bytes before this one at most.
    readable: u64,
    /// The program takes no more.
    is_stopped: bool,
    /// When to say that again, and how often the wait before it was doubled.
    say_again: Instant,
    doublings: u32,
    /// The limit has moved so far that the sender should be told.
    has_moved: bool,
    /// The program has sent something in the other pipe soon after bytes had come the last time: the next receipt may wait for that.
    is_answered: bool,
    /// A receipt that is due waits for data of the other pipe, until then; `NEVER`: none waits.
    waits_until: Instant,
    /// Number of the newest receipt.
    receipts: u32,
}

/// What comes behind the bytes that are here without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// More, or an end that is not here yet.
    Open,
    /// Nothing: the sender has sent all.
    Finished,
    /// Nothing, although the pipe is not whole: the sender has aborted it.
    Aborted,
}

/// Bytes that a driver has [drawn](Receiving::draw).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// How many they are.
    pub len: usize,
    /// Whether the pipe goes on behind them, or how it has ended.
    pub rest: Rest,
    /// One of the packets that brought them said so: [`Data::has_waited`].
    pub has_waited: bool,
}

impl Receiving {
    /// A pipe from `offset` on (0, but for tests), with memory for `window` bytes, which may become `window_max`.
    pub fn new(offset: u64, window: u32, window_max: u32) -> Self {
        let window = window.min(WINDOW_MAX);
        Self {
            incoming: Incoming::open(),
            base: offset,
            base_number: 0,
            bytes: Bytes::new(offset),
            taken: offset,
            window,
            window_max: window_max.clamp(window, WINDOW_MAX),
            has_waited: false,
            granted: offset + u64::from(window),
            end: None,
            readable: u64::MAX,
            is_stopped: false,
            say_again: Instant::NEVER,
            doublings: 0,
            has_moved: false,
            is_answered: false,
            waits_until: Instant::NEVER,
            receipts: 0,
        }
    }

    /// Bytes of memory in use.
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes that the sender may have under way.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Bytes for which memory is reserved: none any more when the program has taken everything up to the end.
    pub fn reserved(&self) -> usize {
        let has_all = self.is_settled() && self.bytes.len() == 0 && self.taken == self.bytes.at();
        if has_all { 0 } else { (self.limit() - self.taken) as usize }
    }

    /// The next window if a larger one [would help](Self::is_held_up).
    pub fn wider(&self) -> u32 {
        (2 * self.window).min(self.window_max)
    }

    /// The byte before which the sender may send.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Handles a packet of data with its payload. Returns whether the program can take more than before, or learns of the end;
    /// `Err` if the packet contradicts earlier ones or goes beyond the limit: it is dropped.
    ///
    /// # Errors
    /// `()` for such a packet.
    #[allow(clippy::result_unit_err)]
    pub fn on_data(&mut self, now: Instant, data: &Data, payload: &[u8]) -> Result<bool, ()> {
        let before = (self.up_to(), self.end);
        let end = data.at + payload.len() as u64;
        if end > self.granted && !payload.is_empty() {
            return Err(());
        }
        if let Some(how) = data.end {
            self.on_end(how, end)?;
        } else if self.end.is_some_and(|(_, at)| end > at) {
            return Err(());
        }
        let number = data.transmission.wrapping_sub(self.base_number);
        let number = (number < u32::MAX / 2).then_some(number);
        let with_end = payload.len() as u32 + u32::from(data.end.is_some());
        // A question, or a packet that came before an abort: it is answered by a receipt.
        if with_end == 0 || self.is_settled() || self.is_stopped {
            self.has_moved = true;
            return Ok((self.up_to(), self.end) != before);
        }
        let Some(offset) = data.at.checked_sub(self.base) else {
            self.has_moved = true;
            return Ok(false);
        };
        if !self.bytes.reserve(end) {
            return Err(());
        }
        // RFC 9000 §13.2.2: not that of a second packet.
        let may_wait = self.is_answered && !self.incoming.receipt_is_due();
        match self.incoming.take(now, offset as u32, with_end, number) {
            Taken::TooScattered => return Err(()),
            Taken::Duplicate => self.waits_until = Instant::NEVER,
            Taken::New => {
                self.waits_until =
                    if may_wait { now.after_nanos(RECEIPT_DELAY_NANOS) } else { Instant::NEVER };
                self.has_waited |= data.has_waited;
                // Bytes that the program has taken already may come again with new ones.
                let known = self.bytes.at().saturating_sub(data.at).min(payload.len() as u64);
                self.bytes.put(data.at + known, &payload[known as usize..]);
            }
        }
        if self.incoming.up_to() >= REBASE {
            self.rebase();
        }
        Ok((self.up_to(), self.end) != before)
    }

    /// Handles packets of data from the beginning of `datagrams`, each `segment` bytes long, as if they were one: as long as they continue
    /// one another, bring something new, and have no receipt behind them. Returns how many bytes of `datagrams` they are; 0: the first has to be handled
    /// [by itself](Self::on_data).
    pub fn take_parts(&mut self, now: Instant, datagrams: &[u8], segment: usize) -> usize {
        let first = datagrams.get(..segment).and_then(|first| Header::parse(first).ok());
        let alone = |(header, payload): (Header, &[u8])| {
            Data::of(&header).filter(|data| data.end.is_none() && usize::from(data.len) == payload.len())
        };
        let Some(data) = first.and_then(alone) else { return 0 };
        let known = self.bytes.at().max(self.base);
        if self.end.is_some() || self.is_stopped || data.at < known || data.at >= self.granted {
            return 0;
        }
        let offset = (data.at - self.base) as u32;
        let most = u32::try_from(self.granted - data.at).unwrap_or(u32::MAX);
        let Some(span) = Span::at_beginning(datagrams, segment, (data.at as u32).saturating_add(most)) else {
            return 0;
        };
        let number = span.transmission.wrapping_sub(self.base_number);
        let number = (number < u32::MAX / 2).then_some(number);
        let (len, end) = (span.len as u32, data.at + span.len as u64);
        if !self.bytes.reserve(end) || self.incoming.take(now, offset, len, number) != Taken::New {
            return 0;
        }
        self.waits_until = Instant::NEVER;
        self.has_waited |= data.has_waited;
        self.bytes.put_parts(data.at, span.parts(datagrams).map(|(_, part)| part));
        if self.incoming.up_to() >= REBASE {
            self.rebase();
        }
        span.datagrams_len()
    }

    /// The sender says how the pipe ends, and that it has `at` bytes.
    fn on_end(&mut self, how: PipeEnd, at: u64) -> Result<(), ()> {
        if let Some((_, known)) = self.end {
            // An abort after the end was sent has the same offset.
            return if known == at { Ok(()) } else { Err(()) };
        }
        let up_to = self.up_to();
        let len = at.checked_sub(self.base).and_then(|len| u32::try_from(len + 1).ok()).ok_or(())?;
        let is_behind = self.incoming.end() < len;
        let can_be = is_behind
            && match how {
                PipeEnd::Finished if !self.is_stopped => self.incoming.end_at(len),
                // Nothing before it has to arrive any more. What is here stays.
                _ => self.incoming.skip_to(len),
            };
        if !can_be {
            return Err(());
        }
        self.readable = if how == PipeEnd::Aborted || self.is_stopped { up_to } else { at };
        self.end = Some((how, at));
        self.say_again = Instant::NEVER;
        Ok(())
    }

    /// The pipe's sender has said elsewhere, as with the result, that it ends behind `at` bytes. Returns whether that can be.
    pub fn ends_at(&mut self, at: u64) -> bool {
        if self.is_stopped && self.end.is_some() {
            return true;
        }
        let len = at.checked_sub(self.base).and_then(|len| u32::try_from(len).ok());
        let up_to = self.up_to();
        let can_be = self.end.is_none()
            && len.is_some_and(|len| match self.is_stopped {
                true => self.incoming.skip_to(len),
                false => self.incoming.end_at(len),
            });
        if can_be {
            self.readable = if self.is_stopped { up_to } else { at };
            self.end = Some((PipeEnd::Finished, at));
            (self.say_again, self.waits_until) = (Instant::NEVER, Instant::NEVER);
        }
        can_be
    }

    /// Whether nothing more is to come: everything has arrived, or the end is known and the rest is not wanted.
    pub fn is_settled(&self) -> bool {
        self.end.is_some() && (self.is_stopped || self.incoming.is_complete())
    }

    /// The offset up to which bytes have arrived without a gap.
    fn up_to(&self) -> u64 {
        self.readable.min(self.base + u64::from(self.incoming.up_to()))
    }

    /// The bytes that are here without a gap and were not taken, and what comes behind them.
    pub fn received(&self) -> (&[u8], Rest) {
        let up_to = self.up_to();
        let bytes = match up_to.saturating_sub(self.bytes.at()) {
            0 => &[][..],
            len => self.bytes.slice(self.bytes.at(), len as usize),
        };
        let rest = match self.end {
            Some((PipeEnd::Aborted, _)) => Rest::Aborted,
            Some((PipeEnd::Finished, at)) if up_to == at => Rest::Finished,
            _ => Rest::Open,
        };
        (bytes, rest)
    }

    /// The program has taken `len` of the [received](Self::received) bytes.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn take(&mut self, len: usize) {
        let taken = self.bytes.at() + len as u64;
        assert!(taken <= self.up_to(), "only received bytes can be taken");
        self.bytes.release(taken);
        self.taken = self.bytes.at();
        self.note_limit(self.window / 4);
    }

    /// The driver keeps the [received](Self::received) bytes until the program [takes](Self::credit) them: moves them behind those in
    /// `into`.
    pub fn draw(&mut self, into: &mut Vec<u8>) -> Drawn {
        let (bytes, rest) = self.received();
        let len = bytes.len();
        if len > 0 {
            self.bytes.move_to(self.bytes.at() + len as u64, into);
        }
        Drawn { len, rest, has_waited: len > 0 && mem::take(&mut self.has_waited) }
    }

    /// The program has taken the bytes before `up_to`, which were [drawn](Self::draw).
    pub fn credit(&mut self, up_to: u64) {
        self.taken = self.taken.max(up_to.min(self.bytes.at()));
    }

    /// There is memory for `window` bytes beyond those that were taken. What was granted before stays so.
    pub fn set_window(&mut self, window: u32) {
        self.window = window.min(WINDOW_MAX);
        self.note_limit(1);
    }

    /// The limit that the next receipt tells.
    fn limit(&self) -> u64 {
        (self.taken + u64::from(self.window)).max(self.granted)
    }

    /// Has the sender told, if the limit has moved by so much. While it has moved by less than a quarter of the window, the program has
    /// bytes to take, or says that it [needs](Self::widen) more.
    fn note_limit(&mut self, least: u32) {
        let is_open = self.end.is_none() && !self.is_stopped;
        self.has_moved |= is_open && self.limit() - self.granted >= u64::from(least.max(1));
    }

    /// Whether a larger window would help: the sender has nearly used up the limit, and the program has taken all.
    pub fn is_held_up(&self) -> bool {
        let arrived = self.base + u64::from(self.incoming.received());
        let is_used = self.granted.saturating_sub(arrived) < u64::from(self.window / 4).max(1);
        is_used
            && self.bytes.len() == 0
            && self.taken == self.bytes.at()
            && self.window < self.window_max
            && self.end.is_none()
    }

    /// There is memory for `window` bytes now: the program needs so many before it can take any, or it [would help](Self::is_held_up).
    pub fn widen(&mut self, window: u32) {
        self.window = self.window.max(window.min(WINDOW_MAX));
        self.note_limit(1);
    }

    /// The program takes no more. What is here is dropped.
    pub fn stop(&mut self, now: Instant) {
        if self.is_stopped {
            return;
        }
        self.is_stopped = true;
        self.readable = self.up_to();
        self.bytes = Bytes::new(self.readable);
        self.taken = self.readable;
        if self.end.is_some() {
            self.incoming.skip_to(self.incoming.message_len());
        } else {
            self.has_moved = true;
            self.say_again = now + SAY_STOP_AGAIN;
        }
    }

    /// Whether a receipt should be sent now. `drained`: no further packet has arrived.
    pub fn owes_receipt(&self, drained: bool) -> bool {
        let is_due = drained && self.waits_until == Instant::NEVER && self.incoming.receipt_is_due();
        self.has_moved || self.incoming.receipt_is_urgent() || is_due
    }

    /// Writes a packet with a receipt, and returns its length.
    pub fn receipt(&mut self, now: Instant, framing: Framing, out: &mut [u8; Receipt::MAX_PACKET]) -> usize {
        let ReceiptBehind { number, of_pipe, receipt } = self.tell(now);
        let header = Header::bare(Kind::Receipt, framing.binding, framing.lane, framing.number);
        put_receipt(&receipt, of_pipe.put(header), number, out)
    }

    /// Data of the other pipe is about to leave. Returns the receipt that is owed, if there is room behind that data, and it has no gaps
    /// to tell of.
    pub(super) fn receipt_behind(&mut self, now: Instant, has_room: bool) -> Option<ReceiptBehind> {
        self.is_answered = has_room && now.nanos_since(self.incoming.arrived()) < RECEIPT_DELAY_NANOS;
        let has_gaps = self.incoming.end() > self.incoming.up_to();
        let is_owed = self.incoming.receipt_is_due() || self.owes_receipt(true);
        (has_room && is_owed && !has_gaps).then(|| self.tell(now))
    }

    fn tell(&mut self, now: Instant) -> ReceiptBehind {
        (self.has_moved, self.waits_until) = (false, Instant::NEVER);
        self.granted = self.limit();
        let base = self.base;
        let relative = u32::try_from(self.granted - base).unwrap_or(u32::MAX);
        let told = self.incoming.receipt_for(now, self.window, relative);
        let word = |offset: u32| (base + u64::from(offset)) as u32;
        let latest = self.base_number.wrapping_add(told.latest);
        let mut receipt = Receipt::new(latest, told.delay_ns, self.granted as u32, word(told.up_to));
        told.ranges().iter().for_each(|&(start, end)| _ = receipt.push(word(start), word(end)));
        self.receipts = self.receipts.wrapping_add(1);
        let high = ((base + u64::from(told.up_to)) >> 32) as u32;
        ReceiptBehind { number: self.receipts, of_pipe: PipeReceipt { stop: self.is_stopped, high }, receipt }
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn next_timeout(&self) -> Instant {
        self.say_again.min(self.waits_until)
    }

    /// Does what is due. Afterwards a receipt may be owed.
    pub fn on_timeout(&mut self, now: Instant) {
        if now >= self.say_again {
            self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
            (self.say_again, self.has_moved) = (now + SAY_STOP_AGAIN * (1 << self.doublings), true);
        }
        if now >= self.waits_until {
            (self.waits_until, self.is_answered, self.has_moved) = (Instant::NEVER, false, true);
        }
    }

    /// Has a receipt sent, which asks the sender for more, or whether it is alive.
    pub fn ask(&mut self) {
        self.has_moved = true;
    }

    fn rebase(&mut self) {
        let (offsets, numbers) = self.incoming.rebase();
        self.base += u64::from(offsets);
        self.base_number = self.base_number.wrapping_add(numbers);
    }
}
