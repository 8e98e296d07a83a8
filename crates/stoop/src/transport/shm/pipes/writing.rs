//! The end of a pipe over shared memory at which items are sent.

mod state;

use crate::locked::locked;
use crate::pipes::contract::{Close, SendingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::record::Record;
use crate::transport::shm::pipes::side::{Side, Waits, disorder};
use state::{Kept, State};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use stoop_net::clock;
use stoop_shm::Disorder;
use stoop_shm::layout::PIPE;
use stoop_shm::pipe::{Closed, Stopped, Writing};

/// The end at which items are written into the ring.
pub(crate) struct WritingEnd<S: Side> {
    side: Arc<S>,
    terms: Terms,
    state: Mutex<State>,
    /// For looks without the lock.
    is_over: AtomicBool,
    is_attended: AtomicBool,
    waits: Waits,
}

/// What an end is told when it is made.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// How long the caller's program may wait for room, in nanoseconds. `None`: the program is a procedure. Its server knows how long, and
    /// the answer of its call closes the pipe.
    pub(crate) callers_step_ns: Option<u64>,
    /// Bytes of the longest item.
    pub(crate) item_max: usize,
    /// An item may begin below this offset at first.
    pub(crate) limit: u64,
}

/// With less free space no item is begun. A reader that has taken all has told of all but as many bytes.
const ROOM: usize = PIPE / 4;
/// Bytes after which the reader may take those before, while the next are written.
const PIECE: usize = PIPE / 4;
/// How long a thread waits for the reader to take more of a long item before the rest is copied aside, and the thread goes on.
const PATIENCE_NS: u64 = 1_000_000;

impl<S: Side> WritingEnd<S> {
    pub(crate) fn new(side: &Arc<S>, ring: Writing, terms: Terms) -> Arc<Self> {
        let state = State {
            ring,
            appended: 0,
            limit: terms.limit,
            rest: Vec::new(),
            at: 0,
            kept: VecDeque::new(),
            closed: None,
            has_closed: false,
            over: None,
            waker: None,
            is_writing: false,
        };
        Arc::new(Self {
            side: Arc::clone(side),
            terms,
            state: Mutex::new(state),
            is_over: AtomicBool::new(false),
            is_attended: AtomicBool::new(false),
            waits: Waits::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Why nothing more can be sent.
    #[inline]
    fn check(&self, state: &mut State) -> Result<(), PipeError> {
        if let Some(stopped) = state.ring.stopped(self.side.segment())
            && (state.over.is_none() || state.has_items())
        {
            let why = match stopped {
                Stopped::Unwanted => PipeError::Stopped,
                Stopped::Answered => PipeError::Ended,
            };
            let before = state.over.take();
            state.end(before.unwrap_or(why));
            self.is_over.store(true, Ordering::Release);
        }
        match (&state.over, state.closed) {
            (None, None) => Ok(()),
            (Some(why), _) => Err(why.clone()),
            (None, Some(_)) => Err(PipeError::Ended),
        }
    }

    /// Whether an item can be appended.
    #[inline]
    fn has_room_now(&self, state: &mut State, enough: usize) -> Result<bool, PipeError> {
        if !state.rest.is_empty() || !state.kept.is_empty() {
            self.push(state)?;
        }
        let is_free = state.rest.is_empty() && state.kept.is_empty() && !state.is_writing;
        Ok(is_free && state.may_begin(self.side.segment()) && self.room(state, enough)? >= ROOM)
    }

    #[inline]
    fn room(&self, state: &mut State, enough: usize) -> Result<usize, PipeError> {
        state.ring.room(self.side.segment(), enough).map_err(|Disorder| self.end_disorderly(state))
    }

    #[cold]
    fn end_disorderly(&self, state: &mut State) -> PipeError {
        let why = disorder(&*self.side);
        state.end(why.clone());
        self.is_over.store(true, Ordering::Release);
        why
    }

    /// Whether an item can be appended, or the pipe is over.
    fn is_ready(&self, state: &mut State) -> bool {
        self.check(state).is_err() || self.has_room_now(state, PIPE).unwrap_or(true)
    }

    fn put(&self, state: &mut State, record: &Record<'_>, skipped: u32) -> Result<(), PipeError> {
        let (head, item, padding) = record.parts(skipped);
        let mut parts = [&head[..], item, padding];
        state.appended += record.len() as u64;
        self.put_parts(state, &mut parts)?;
        parts.iter().for_each(|part| state.rest.extend_from_slice(part));
        Ok(())
    }

    /// Writes as much as there is room for, and leaves the rest in `parts`.
    #[inline]
    fn put_parts(&self, state: &mut State, parts: &mut [&[u8]; 3]) -> Result<(), PipeError> {
        'parts: for part in parts {
            while !part.is_empty() {
                let room = self.room(state, part.len().min(PIECE))?;
                if room == 0 {
                    break 'parts;
                }
                let now;
                (now, *part) = part.split_at(part.len().min(room).min(PIECE));
                state.ring.put(self.side.segment(), now);
                if !part.is_empty() {
                    self.publish(state);
                }
            }
        }
        self.publish(state);
        Ok(())
    }

    /// Writes an item that has been begun while the reader makes room; otherwise the rest waits for room without this thread, as it does when
    /// the call is answered meanwhile.
    #[cold]
    fn put_rest(&self, mut parts: [&[u8]; 3]) -> Result<(), PipeError> {
        let mut until_ns = clock::now_ns() + PATIENCE_NS;
        loop {
            let ring = self.state().ring;
            self.wait(ring, until_ns, u64::MAX);
            let mut guard = self.state();
            let state = &mut *guard;
            let outcome = self.check(state);
            let goes_on = outcome.is_ok() || state.closed == Some(Close::Whole);
            let before = parts.map(<[u8]>::len);
            if goes_on {
                self.put_parts(state, &mut parts)?;
            }
            let (is_whole, now_ns) = (parts.iter().all(|part| part.is_empty()), clock::now_ns());
            if parts.map(<[u8]>::len) != before {
                until_ns = now_ns + PATIENCE_NS;
            }
            if !is_whole && outcome.is_ok() && now_ns < until_ns {
                continue;
            }
            state.is_writing = false;
            if !goes_on {
                return outcome;
            }
            parts.iter().for_each(|part| state.rest.extend_from_slice(part));
            // A task may wait because this item was being written. Nobody else wakes it if the reader has taken everything: the reader
            // tells of room only when it takes more.
            let waker = if self.is_ready(state) { state.waker.take() } else { None };
            if self.is_attended.load(Ordering::SeqCst) || state.is_owing() {
                self.settle(state);
            }
            drop(guard);
            waker.into_iter().for_each(Waker::wake);
            return Ok(());
        }
    }

    /// Waits until the reader has taken something, or has raised its limit above this one.
    fn wait(&self, ring: Writing, until_ns: u64, limit: u64) {
        let is_over = || {
            let segment = self.side.segment();
            self.is_over.load(Ordering::Acquire)
                || ring.stopped(segment).is_some()
                || ring.limit(segment) > limit
        };
        self.waits.wait(&*self.side, ring.sleep(), until_ns, is_over, || {});
    }

    #[inline]
    fn publish(&self, state: &mut State) {
        if state.ring.publish(self.side.segment()) {
            self.side.notify();
        }
    }

    /// Writes what waits for room, as far as there is some, and tells the reader of the end once all is there.
    fn push(&self, state: &mut State) -> Result<(), PipeError> {
        while state.at < state.rest.len() {
            let len = (state.rest.len() - state.at).min(PIECE);
            let now = len.min(self.room(state, len)?);
            if now == 0 {
                return Ok(());
            }
            let State { ring, rest, at, .. } = state;
            ring.put(self.side.segment(), &rest[*at..*at + now]);
            *at += now;
            self.publish(state);
            self.side.moved();
        }
        (state.rest, state.at) = (Vec::new(), 0);
        if state.is_writing {
            return Ok(());
        }
        while self.may_put_kept(state)?
            && let Some(Kept { item, skipped, .. }) = state.kept.pop_front()
        {
            self.put(state, &Record::of(&item), skipped)?;
        }
        if let Some(how) = state.closed
            && !state.has_items()
            && !mem::replace(&mut state.has_closed, true)
        {
            let how = match how {
                Close::Whole => Closed::Whole,
                Close::Aborted => Closed::Aborted,
            };
            if state.ring.close(self.side.segment(), how) {
                self.side.notify();
            }
        }
        Ok(())
    }

    /// Whether an item that waits for room may be written. Once the pipe is closed, the limit does not hold the last ones up.
    fn may_put_kept(&self, state: &mut State) -> Result<bool, PipeError> {
        let is_next = !state.kept.is_empty() && state.rest.is_empty() && !state.is_writing;
        let may_begin = is_next && (state.closed.is_some() || state.may_begin(self.side.segment()));
        Ok(may_begin && self.room(state, PIPE)? >= ROOM)
    }

    /// Asks for attention while something waits for room, and for none otherwise. What waits is written if there is room.
    fn settle(&self, state: &mut State) {
        loop {
            // A reader that has stopped wants nothing of what waits, but is told of the end.
            let _ = self.check(state);
            let needs = self.push(state).is_ok() && (state.is_owing() || state.waker.is_some());
            if self.is_attended.swap(needs, Ordering::SeqCst) != needs {
                self.side.attend(needs);
            }
            if !needs {
                return;
            }
            state.ring.ask(self.side.segment());
            // Room that came before this was not told.
            let room = self.room(state, PIPE).unwrap_or(0);
            let can_push = !state.rest.is_empty() && room > 0;
            if !can_push && !self.may_put_kept(state).unwrap_or(false) {
                return;
            }
        }
    }

    /// The thread that receives for the binding goes on with it. Returns a task that is to be woken.
    pub(crate) fn advance(&self) -> Option<Waker> {
        if !self.is_attended.load(Ordering::SeqCst) {
            return None;
        }
        let mut state = self.state();
        let waker = if self.is_ready(&mut state) { state.waker.take() } else { None };
        self.settle(&mut state);
        waker
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(crate) fn can_advance(&self) -> bool {
        if !self.is_attended.load(Ordering::SeqCst) {
            return false;
        }
        let state = &mut *self.state();
        let segment = self.side.segment();
        let is_stopped = (state.over.is_none() || state.has_items()) && state.ring.stopped(segment).is_some();
        let Ok(room) = state.ring.room(segment, PIPE) else { return true };
        let is_roomy = room >= ROOM && (state.closed.is_some() || state.may_begin(segment));
        is_stopped || !state.rest.is_empty() && room > 0 || state.rest.is_empty() && is_roomy
    }

    /// Whether bytes that were appended, or the end, have not been written yet.
    pub(crate) fn is_owing(&self) -> bool {
        self.state().is_owing()
    }

    /// Whether the reader has been told of the end, behind all that was written.
    pub(crate) fn has_closed(&self) -> bool {
        self.state().has_closed
    }

    /// Nothing more can be sent, for this reason. Returns a task that is to be woken.
    pub(crate) fn fail(&self, why: &PipeError) -> Option<Waker> {
        let mut state = self.state();
        if state.over.is_none() {
            state.end(why.clone());
        }
        self.settle(&mut state);
        self.finish(state)
    }

    /// The call has been answered: what was appended goes on, unless the pipe is aborted, and nothing more can be, for this reason. Returns a
    /// task that is to be woken.
    pub(crate) fn answer(&self, how: Close, why: PipeError) -> Option<Waker> {
        let mut state = self.state();
        if how == Close::Aborted || self.check(&mut state).is_err() {
            (state.rest, state.at) = (Vec::new(), 0);
        }
        self.close_with(&mut state, how);
        state.over.get_or_insert(why);
        self.finish(state)
    }

    fn close_with(&self, state: &mut State, how: Close) {
        if state.closed.is_none() {
            state.closed = Some(how);
            if how == Close::Aborted || state.over.is_some() {
                state.kept.clear();
            }
        }
        self.settle(state);
    }

    fn finish(&self, mut state: MutexGuard<'_, State>) -> Option<Waker> {
        self.is_over.store(true, Ordering::Release);
        let waker = state.waker.take();
        if !state.is_owing() && self.is_attended.swap(false, Ordering::SeqCst) {
            self.side.attend(false);
        }
        let sleep = state.ring.sleep();
        drop(state);
        sleep.wake(self.side.segment());
        waker
    }
}

impl<S: Side> SendingEnd for WritingEnd<S> {
    fn append(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        let state = &mut *self.state();
        self.check(state)?;
        if !self.has_room_now(state, ROOM)? {
            return Ok(false);
        }
        self.put(state, record, 0)?;
        if !state.rest.is_empty() {
            self.settle(state);
        }
        Ok(true)
    }

    fn append_patiently(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        let mut state = self.state();
        state.ring.expect(self.side.segment());
        self.check(&mut state)?;
        if !self.has_room_now(&mut state, ROOM)? {
            return Ok(false);
        }
        let (head, item, padding) = record.parts(0);
        let mut parts = [&head[..], item, padding];
        state.appended += record.len() as u64;
        self.put_parts(&mut state, &mut parts)?;
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(true);
        }
        state.is_writing = true;
        drop(state);
        self.put_rest(parts).map(|()| true)
    }

    fn append_latest(&self, key: u64, record: &Record<'_>) -> Result<(), PipeError> {
        let state = &mut *self.state();
        self.check(state)?;
        if self.has_room_now(state, ROOM)? {
            self.put(state, record, 0)?;
        } else if let Some(kept) = state.kept.iter_mut().find(|kept| kept.key == key) {
            kept.item.clear();
            kept.item.extend_from_slice(record.item());
            kept.skipped = kept.skipped.saturating_add(1);
        } else {
            state.kept.push_back(Kept { key, item: record.item().to_vec(), skipped: 0 });
        }
        if state.is_owing() {
            self.settle(state);
        }
        Ok(())
    }

    fn over(&self) -> Option<PipeError> {
        self.check(&mut self.state()).err()
    }

    fn has_room(&self) -> bool {
        self.is_ready(&mut self.state())
    }

    fn wait_for_room(&self, until_ns: u64) {
        let mut state = self.state();
        if self.is_ready(&mut state) {
            return;
        }
        // What the reader has taken is known from now on, also if the limit is what is missing.
        if self.room(&mut state, PIPE).is_err() {
            return;
        }
        let limit = if state.appended < state.limit { u64::MAX } else { state.limit };
        let ring = state.ring;
        drop(state);
        self.wait(ring, until_ns, limit);
    }

    fn poll_room(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if self.is_ready(&mut state) {
            return true;
        }
        if state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return false;
        }
        // No lock is held while a waker is cloned or dropped.
        drop(state);
        let fresh = waker.clone();
        let mut state = self.state();
        let before = state.waker.replace(fresh);
        self.settle(&mut state);
        let is_ready = self.is_ready(&mut state);
        drop(state);
        drop(before);
        is_ready
    }

    fn flush(&self) {}

    fn grant(&self, limit: u64) {
        let mut state = self.state();
        state.limit = state.limit.max(limit);
    }

    fn close(&self, how: Close) {
        if self.terms.callers_step_ns.is_none() {
            return;
        }
        let mut state = self.state();
        let is_first = state.closed.is_none();
        if is_first {
            self.close_with(&mut state, how);
        }
        drop(state);
        if is_first {
            self.side.ended();
        }
    }

    fn step_ns(&self) -> u64 {
        self.terms.callers_step_ns.unwrap_or(u64::MAX)
    }

    fn item_max(&self) -> usize {
        self.terms.item_max
    }
}

#[cfg(test)]
mod tests;
