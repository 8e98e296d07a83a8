//! The bytes of one pipe in memory, between a thread that appends and one that takes.
//!
//! At a `local:` address the two are the two programs. Otherwise one is a program and the other a thread of the transport: a queue whose
//! bytes leave, or one whose bytes have arrived.

mod rare;
#[cfg(test)]
mod tests;

use crate::locked::locked;
use crate::pipes::contract::{Arrival, Close};
use crate::pipes::error::PipeError;
use crate::pipes::queue::rare::{Kept, Rare};
use crate::pipes::record::Record;
use crate::pipes::waiters::{Waiters, Wakeup};
use crate::pipes::window::{Size, Window};
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::thread;
use std::time::Duration;
use stoop_exchange::pipe::{Drawn, Rest};
use stoop_net::clock;
use stoop_wire::Data;

/// While so many bytes wait, no other item is appended: a peer may grant any number.
const QUEUED_MAX: usize = 1 << 20;

/// The bytes of a pipe that have been appended and not taken.
pub(crate) struct PipeQueue(Mutex<State>);

struct State {
    bytes: Vec<u8>,
    /// The offset behind the last byte that was appended.
    written: u64,
    /// A record may begin below this offset.
    limit: u64,
    /// The program has taken the bytes before this one.
    taken: u64,
    /// The limit is that of an item which has begun to arrive.
    is_needed: bool,
    /// A record has found no room since the limit was raised.
    is_refused: bool,
    /// The limit was raised after a record had found no room below it.
    has_waited: bool,
    window: Size,
    /// The reader has found nothing since the last bytes arrived; since when, if the window asks for that.
    reader_waits: Option<u64>,
    /// The writer wants the bytes so far to leave now.
    is_flushed: bool,
    /// How the writer has closed it.
    closed: Option<Close>,
    arrivals: Waiters,
    rare: Rare,
}

/// What happened to a record that was to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// There is no room; whether no other has found that before it.
    Full { is_first: bool },
    /// It is in the queue, which now has so many bytes.
    Queued(usize),
}

/// The bytes that arrived are not those that may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disorder;

/// What a thread or task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Room,
    Bytes,
}

/// Bytes that are to leave were taken from a queue.
pub(crate) struct Pulled {
    /// The offset behind them.
    pub(crate) written: u64,
    /// The writer wants the bytes before that to leave now.
    pub(crate) is_flushed: bool,
    /// How the queue is closed.
    pub(crate) closed: Option<Close>,
    /// As [`Data::has_waited`], of the first of them.
    pub(crate) has_waited: bool,
    /// Of a thread or task that has waited for room.
    pub(crate) wakeup: Wakeup,
}

/// What follows from the word that a program has taken items.
pub(crate) struct Noted {
    /// More may be sent than before, and the sender is to be told.
    pub(crate) is_granted: bool,
    /// The offset from which on the program is to say so again.
    pub(crate) next: u64,
    pub(crate) wakeup: Wakeup,
}

impl PipeQueue {
    /// A queue whose reader has this window, and whose writer may send the bytes below that limit at first.
    pub(crate) fn new(limit: u64, window: Window) -> Self {
        Self::sized(limit, window.size())
    }

    /// As [`new`](Self::new).
    pub(crate) fn sized(limit: u64, window: Size) -> Self {
        Self(Mutex::new(State {
            bytes: Vec::new(),
            written: 0,
            limit,
            taken: 0,
            is_needed: false,
            is_refused: false,
            has_waited: false,
            window,
            reader_waits: None,
            is_flushed: false,
            closed: None,
            arrivals: Waiters::default(),
            rare: Rare::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    /// As [`SendingEnd::append`](super::contract::SendingEnd::append).
    pub(crate) fn append(&self, record: &Record<'_>) -> Result<Appended, PipeError> {
        let mut state = self.state();
        state.check_open()?;
        match state.has_room() {
            true => Ok(Self::queued(state, record)),
            false => Ok(state.refuse()),
        }
    }

    /// Appends a record for which there is room.
    fn queued(mut state: MutexGuard<'_, State>, record: &Record<'_>) -> Appended {
        state.put(record, 0);
        let (len, wakeup) = (state.bytes.len(), state.arrivals.wake());
        drop(state);
        wakeup.give();
        Appended::Queued(len)
    }

    /// As [`SendingEnd::append_latest`](super::contract::SendingEnd::append_latest).
    pub(crate) fn append_latest(&self, key: u64, record: &Record<'_>) -> Result<Appended, PipeError> {
        let mut state = self.state();
        state.check_open()?;
        if state.has_room() {
            return Ok(Self::queued(state, record));
        }
        let all = &mut state.rare.get().kept;
        match all.iter_mut().find(|kept| kept.key == key) {
            Some(kept) => {
                kept.item.clear();
                kept.item.extend_from_slice(record.item());
                kept.skipped = kept.skipped.saturating_add(1);
            }
            None => all.push_back(Kept { key, item: record.item().to_vec(), skipped: 0 }),
        }
        Ok(state.refuse())
    }

    /// As [`SendingEnd::over`](super::contract::SendingEnd::over).
    pub(crate) fn over(&self) -> Option<PipeError> {
        self.state().check_open().err()
    }

    /// The bytes so far are to leave now.
    pub(crate) fn flush(&self) {
        self.state().is_flushed = true;
    }

    /// The bytes below `limit` may be sent.
    pub(crate) fn grant(&self, limit: u64) -> Wakeup {
        let mut state = self.state();
        match limit > state.limit {
            true => state.raise(limit),
            false => Wakeup::default(),
        }
    }

    /// The writer appends no more: nor does a thread or task that waits for room. `None`: it has said so before.
    pub(crate) fn close(&self, how: Close) -> Option<[Wakeup; 2]> {
        let mut state = self.state();
        if state.closed.is_some() {
            return None;
        }
        state.closed = Some(how);
        if how == Close::Whole {
            while let Some(kept) = state.rare.next_kept() {
                state.put(&Record::of(&kept.item), kept.skipped);
            }
        }
        state.rare.forget_kept();
        Some([state.wake_for_room(), state.arrivals.wake()])
    }

    /// How the writer has closed it, if it has.
    pub(crate) fn closed(&self) -> Option<Close> {
        self.state().closed
    }

    /// Bytes of that packet have arrived for the reader, from that offset on.
    ///
    /// # Errors
    /// They are not the next ones, or may not be sent.
    pub(crate) fn arrive(&self, packet: &Data, offset: u64, bytes: &[u8]) -> Result<Wakeup, Disorder> {
        let mut state = self.state();
        if offset != state.written || state.closed.is_some() || !bytes.is_empty() && packet.at >= state.limit
        {
            return Err(Disorder);
        }
        state.note_waits(packet.has_waited);
        state.written += bytes.len() as u64;
        if state.rare.over().is_some() || state.rare.failed().is_some() {
            return Ok(Wakeup::default());
        }
        state.bytes.extend_from_slice(bytes);
        Ok(state.arrivals.wake())
    }

    /// Bytes may have arrived for the reader, in order and within the limit: `draw` puts them behind the others.
    pub(crate) fn arrive_by(&self, draw: impl FnOnce(&mut Vec<u8>) -> Option<Drawn>) -> Wakeup {
        let mut state = self.state();
        let is_wanted =
            state.rare.over().is_none() && state.rare.failed().is_none() && state.closed.is_none();
        let drawn = if is_wanted { draw(&mut state.bytes) } else { draw(&mut Vec::new()) };
        let Some(Drawn { len, rest, has_waited }) = drawn else { return Wakeup::default() };
        if len > 0 {
            state.note_waits(has_waited);
        }
        state.written += len as u64;
        let closed = match rest {
            Rest::Open => None,
            Rest::Finished => Some(Close::Whole),
            Rest::Aborted => Some(Close::Aborted),
        };
        let is_closed = state.closed.is_none() && closed.is_some();
        state.closed = state.closed.or(closed);
        match len > 0 || is_closed {
            true => state.arrivals.wake(),
            false => Wakeup::default(),
        }
    }

    /// As [`ReceivingEnd::take`](super::contract::ReceivingEnd::take).
    pub(crate) fn take(&self, into: &mut Vec<u8>) -> Result<Arrival, PipeError> {
        let mut state = self.state();
        if let Some(why) = state.rare.failed() {
            return Err(why.clone());
        }
        if !state.bytes.is_empty() {
            let wakeup =
                if state.bytes.len() >= QUEUED_MAX { state.wake_for_room() } else { Wakeup::default() };
            state.pull(into);
            drop(state);
            wakeup.give();
            return Ok(Arrival::Bytes);
        }
        match state.closed {
            Some(Close::Whole) => Ok(Arrival::End),
            Some(Close::Aborted) => Err(PipeError::Aborted),
            None => {
                state.note_empty();
                Ok(Arrival::Nothing)
            }
        }
    }

    /// Moves the bytes that are to leave to the end of `into`.
    pub(crate) fn pull(&self, into: &mut Vec<u8>) -> Pulled {
        let mut state = self.state();
        let was_full = state.bytes.len() >= QUEUED_MAX;
        state.pull(into);
        let wakeup = if was_full { state.wake_for_room() } else { Wakeup::default() };
        let (has_waited, is_flushed) = (mem::take(&mut state.has_waited), mem::take(&mut state.is_flushed));
        Pulled { written: state.written, is_flushed, closed: state.closed, has_waited, wakeup }
    }

    /// As [`ReceivingEnd::taken`](super::contract::ReceivingEnd::taken).
    pub(crate) fn note_taken(&self, up_to: u64, wanted: Option<u64>) -> Noted {
        let mut state = self.state();
        state.taken = state.taken.max(up_to);
        let known = (state.written, state.limit);
        let credit = state.window.take(up_to, wanted, known);
        state.is_needed = credit.is_needed;
        let wakeup = credit.limit.map_or_else(Wakeup::default, |limit| state.raise(limit));
        Noted { is_granted: credit.limit.is_some(), next: credit.next, wakeup }
    }

    /// As [`ReceivingEnd::rest`](super::contract::ReceivingEnd::rest).
    pub(crate) fn rest(&self) {
        let mut state = self.state();
        if state.bytes.is_empty() {
            state.bytes = Vec::new();
        }
    }

    /// The limit that the sender may know of.
    pub(crate) fn limit(&self) -> u64 {
        self.state().limit
    }

    /// How much the program has taken, the limit that the sender may know of, and whether an item that has begun to arrive needs it.
    pub(crate) fn taken_and_limit(&self) -> (u64, u64, bool) {
        let state = self.state();
        (state.taken, state.limit, state.is_needed)
    }

    /// Whether a record has found no room below the limit, so that a higher one is waited for.
    pub(crate) fn wants_room(&self) -> bool {
        let state = self.state();
        state.is_refused && state.written >= state.limit
    }

    /// Nothing more can be appended, for this reason, and what is there is forgotten; the reader has stopped.
    pub(crate) fn stop(&self, why: PipeError) -> Wakeup {
        let mut state = self.state();
        state.bytes = Vec::new();
        state.rare.forget_kept();
        state.rare.get().over.get_or_insert(why);
        state.wake_for_room()
    }

    /// The pipe has ended at both sides, for this reason, unless all of it has arrived.
    pub(crate) fn fail(&self, why: &PipeError) -> [Wakeup; 2] {
        let mut state = self.state();
        state.rare.forget_kept();
        state.rare.get().over.get_or_insert_with(|| why.clone());
        if state.closed.is_none() {
            state.bytes = Vec::new();
            state.rare.get().failed.get_or_insert_with(|| why.clone());
        }
        [state.wake_for_room(), state.arrivals.wake()]
    }

    /// Whether there is what is awaited, or the queue has ended.
    pub(crate) fn has(&self, awaited: Awaited) -> bool {
        self.state().has(awaited)
    }

    /// Waits for that in a thread, at most until that time; or less, without reason.
    pub(crate) fn wait(&self, awaited: Awaited, until_ns: u64) {
        if self.attend(awaited) {
            let left_ns = until_ns.saturating_sub(clock::now_ns());
            thread::park_timeout(Duration::from_nanos(left_ns));
            self.leave(awaited);
        }
    }

    /// The calling thread is unparked when there is what it waits for. `false`: it is there.
    pub(crate) fn attend(&self, awaited: Awaited) -> bool {
        let mut state = self.state();
        let waits = !state.has(awaited);
        if waits {
            state.waiters(awaited).join();
        }
        waits
    }

    /// The calling thread waits no longer.
    pub(crate) fn leave(&self, awaited: Awaited) {
        self.state().waiters(awaited).leave();
    }

    /// Whether there is what is awaited; if not, `waker` is woken when there is. `is_own`: it is the library's own.
    pub(crate) fn poll(&self, awaited: Awaited, waker: &Waker, is_own: bool) -> bool {
        let mut state = self.state();
        if state.has(awaited) || state.waiters(awaited).has(waker) {
            return state.has(awaited);
        }
        // No lock is held while a waker is cloned or dropped.
        drop(state);
        let fresh = waker.clone();
        let mut state = self.state();
        let before = match state.has(awaited) {
            true => Some(fresh),
            false => state.waiters(awaited).register(fresh, is_own),
        };
        let has = state.has(awaited);
        drop(state);
        drop(before);
        has
    }

    /// The offset behind the last byte that was appended or has arrived.
    pub(crate) fn written(&self) -> u64 {
        self.state().written
    }

    /// Whether the reader has stopped, or the pipe has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.state().rare.over().is_some()
    }

    /// Whether bytes wait, or it is closed.
    pub(crate) fn has_bytes(&self) -> bool {
        let state = self.state();
        !state.bytes.is_empty() || state.closed.is_some()
    }

    /// Whether a task waits for something.
    pub(crate) fn is_polled(&self) -> bool {
        let state = self.state();
        state.arrivals.is_polled() || state.rare.is_polled()
    }
}

impl State {
    fn check_open(&self) -> Result<(), PipeError> {
        match (self.rare.over(), self.closed) {
            (None, None) => Ok(()),
            (Some(why), _) => Err(why.clone()),
            (None, Some(_)) => Err(PipeError::Ended),
        }
    }

    fn refuse(&mut self) -> Appended {
        Appended::Full { is_first: !mem::replace(&mut self.is_refused, true) }
    }

    fn has_room(&self) -> bool {
        self.written < self.limit && !self.rare.keeps() && self.bytes.len() < QUEUED_MAX
    }

    #[inline]
    fn put(&mut self, record: &Record<'_>, skipped: u32) {
        record.put(skipped, &mut self.bytes);
        self.written += record.len() as u64;
    }

    /// The reader has found nothing.
    fn note_empty(&mut self) {
        if self.reader_waits.is_none() {
            let now_ns = if self.window.asks_how_long() { clock::now_ns() } else { 0 };
            self.reader_waits = Some(now_ns);
        }
    }

    /// Bytes arrive behind those that are written, whose sender may have waited for a higher limit.
    fn note_waits(&mut self, sender_has_waited: bool) {
        if let Some(since_ns) = self.reader_waits.take().filter(|_| sender_has_waited) {
            let waited_ns =
                if self.window.asks_how_long() { clock::now_ns().saturating_sub(since_ns) } else { 0 };
            self.window.widen(self.written, self.taken, waited_ns);
        }
    }

    /// Moves the bytes to the end of `into`: by an exchange, if that is empty.
    fn pull(&mut self, into: &mut Vec<u8>) {
        match into.is_empty() {
            true => mem::swap(&mut self.bytes, into),
            false => into.append(&mut self.bytes),
        }
    }

    /// Raises the limit: items that have waited for room go first.
    fn raise(&mut self, limit: u64) -> Wakeup {
        self.has_waited |= self.is_refused && self.written >= self.limit;
        (self.limit, self.is_refused) = (limit, false);
        while self.written < self.limit
            && let Some(kept) = self.rare.next_kept()
        {
            self.put(&Record::of(&kept.item), kept.skipped);
        }
        self.wake_for_room()
    }

    fn wake_for_room(&mut self) -> Wakeup {
        self.rare.wake_for_room()
    }

    fn has(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Room => self.rare.over().is_some() || self.closed.is_some() || self.has_room(),
            Awaited::Bytes => self.rare.failed().is_some() || self.closed.is_some() || !self.bytes.is_empty(),
        }
    }

    fn waiters(&mut self, awaited: Awaited) -> &mut Waiters {
        match awaited {
            Awaited::Room => &mut self.rare.get().room,
            Awaited::Bytes => &mut self.arrivals,
        }
    }
}
