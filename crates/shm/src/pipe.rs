//! Pipes: for each lane and way a ring of bytes, which one end writes and the other reads, while the lane has a call with pipes.
//!
//! | bytes of the writer's line | |
//! |------|---------|
//! | 0–3  | how many bytes have been written: a count, on which a thread that reads may sleep |
//! | 4–7  | not 0: the writer is to be notified when there is room |
//! | 8–11 | the count of the byte at the beginning of the ring |
//! | 12–15 | how the pipe is [closed](Closed) |
//!
//! | bytes of the reader's line | |
//! |------|---------|
//! | 0–3  | how many bytes have been taken, on which a thread that writes may sleep; up to a quarter of the ring more may have been |
//! | 4–7  | not 0: the reader is to be notified when there are bytes |
//! | 8–15 | the limit: an item may begin below this offset in the pipe |
//! | 16–19 | how it is [stopped](Stopped) |
//!
//! The reader's line changes seldom, so that a writer of short items finds it in its cache. While less than a quarter of the ring is not
//! told as taken, a writer of an item never waits for it; a reader tells all before it sleeps.
//!
//! The caller sets both lines to 0 before it publishes a call with pipes. A writer that finds the ring empty goes on at its beginning, so
//! that a pipe of short items whose reader waits for each uses one page. Bytes come in multiples of eight.
//!
//! An end that is to be *notified* has no thread that sleeps on a count: a server's receiver finds its lane among those that are
//! [ready](take_ready), and is rung; a caller's background thread [listens](crate::listening).

use crate::Segment;
use crate::count::{self, Count};
use crate::layout::{self, LANES, LINE, PIPE, READY_WORDS};
use crate::sync::{Ordering, fence, fence_after_exchange};
use crate::{Disorder, Way};

/// How a pipe is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// All bytes have been written.
    Whole,
    /// Bytes are missing.
    Aborted,
}

/// Why the reader takes no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It wants no more.
    Unwanted,
    /// Its call has been answered.
    Answered,
}

const NOTIFY: usize = 4;
const ORIGIN: usize = 8;
const CLOSED: usize = 12;
const LIMIT: usize = 8;
const STOPPED: usize = 16;

/// The pipe of a lane.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    lane: u16,
    way: Way,
    writer: usize,
    reader: usize,
    number: usize,
}

impl Pipe {
    fn new(way: Way, lane: u16) -> Self {
        let number = 2 * (usize::from(lane) % LANES) + usize::from(way == Way::Result);
        Self { lane, way, writer: layout::pipe_writer(number), reader: layout::pipe_reader(number), number }
    }

    #[inline]
    fn written(self, segment: &Segment) -> Count<'_> {
        Count::new(segment, self.writer)
    }

    #[inline]
    fn taken(self, segment: &Segment) -> Count<'_> {
        Count::new(segment, self.reader)
    }

    /// Whether the end with that line, which is the other one, is to be notified of what this end has just done. It is, once.
    #[inline]
    fn notifies(self, segment: &Segment, line: usize) -> bool {
        let word = segment.half(line + NOTIFY);
        word.load(Ordering::Relaxed) != 0 && self.notifies_now(segment, line)
    }

    #[cold]
    fn notifies_now(self, segment: &Segment, line: usize) -> bool {
        segment.half(line + NOTIFY).store(0, Ordering::Relaxed);
        let is_of_server = (line == self.reader) == (self.way == Way::Call);
        if is_of_server {
            let (word, bit) = (layout::pipes_ready(usize::from(self.lane) / 64), 1 << (self.lane % 64));
            segment.word(word).fetch_or(bit, Ordering::SeqCst);
            fence_after_exchange();
        }
        true
    }

    /// Where the first lines of the bytes from that count on lie: those of a short item.
    #[inline]
    fn lines_from(self, count: u32, origin: u32) -> impl Iterator<Item = usize> {
        let offset = count.wrapping_sub(origin) & count::MASK;
        [offset, offset.wrapping_add(LINE as u32)]
            .into_iter()
            .map(move |at| layout::pipe_byte(self.number, at))
    }

    /// The end with that line is to be notified from now on. It looks once more after this.
    fn ask(segment: &Segment, line: usize) {
        segment.half(line + NOTIFY).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// Prepares the pipes of a lane for a call that is published after this. No thread uses those of its last call any more.
pub fn reset(segment: &Segment, lane: u16) {
    for way in [Way::Call, Way::Result] {
        let pipe = Pipe::new(way, lane);
        pipe.written(segment).reset();
        pipe.taken(segment).reset();
        for at in [pipe.writer + NOTIFY, pipe.writer + ORIGIN, pipe.writer + CLOSED, pipe.reader + NOTIFY] {
            segment.half(at).store(0, Ordering::Relaxed);
        }
        segment.word(pipe.reader + LIMIT).store(0, Ordering::Relaxed);
        segment.half(pipe.reader + STOPPED).store(0, Ordering::Relaxed);
    }
}

/// The server's receiver: passes the lanes to `look` whose callers have done something of which an end was to be notified.
pub fn take_ready(segment: &Segment, mut look: impl FnMut(u16)) {
    for index in 0..READY_WORDS {
        let word = segment.word(layout::pipes_ready(index));
        if word.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let mut bits = word.swap(0, Ordering::SeqCst);
        while bits != 0 {
            look((64 * index) as u16 + bits.trailing_zeros() as u16);
            bits &= bits - 1;
        }
    }
}

/// Whether [`take_ready`] would find a lane.
pub fn has_ready(segment: &Segment) -> bool {
    (0..READY_WORDS).any(|index| segment.word(layout::pipes_ready(index)).load(Ordering::Acquire) != 0)
}

/// The end of a pipe at which bytes are written. All that the peer cannot change is here.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    pipe: Pipe,
    written: u32,
    published: u32,
    /// As the peer has last said.
    taken: u32,
    origin: u32,
}

impl Writing {
    /// Of a call on that lane which has just begun.
    pub fn new(way: Way, lane: u16) -> Self {
        Self { pipe: Pipe::new(way, lane), written: 0, published: 0, taken: 0, origin: 0 }
    }

    /// Bytes for which there is room, at least `enough` if there are so many.
    ///
    /// # Errors
    /// The peer has taken more than was written, or takes back what it has said.
    #[inline]
    pub fn room(&mut self, segment: &Segment, enough: usize) -> Result<usize, Disorder> {
        if self.left() < enough {
            let taken = self.pipe.taken(segment).get();
            let (more, there) =
                (taken.wrapping_sub(self.taken) & count::MASK, self.published.wrapping_sub(self.taken));
            if more > there & count::MASK || !more.is_multiple_of(8) {
                return Err(Disorder);
            }
            self.taken = taken;
        }
        Ok(self.left())
    }

    #[inline]
    fn left(&self) -> usize {
        PIPE - (self.written.wrapping_sub(self.taken) & count::MASK) as usize
    }

    /// This thread is about to write and publish bytes: the processor may fetch the lines that it will change, all at once.
    #[inline]
    pub fn expect(&self, segment: &Segment) {
        segment.will_write(self.pipe.writer);
        let origin = if self.taken == self.written { self.written } else { self.origin };
        self.pipe.lines_from(self.written, origin).for_each(|line| segment.will_write(line));
    }

    /// Writes bytes for which there is [room](Self::room). They are published by [`publish`](Self::publish).
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn put(&mut self, segment: &Segment, bytes: &[u8]) {
        assert!(bytes.len() <= self.left());
        if self.taken == self.written && self.origin != self.written {
            self.origin = self.written;
            segment.half(self.pipe.writer + ORIGIN).store(self.origin, Ordering::Relaxed);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = self.written.wrapping_sub(self.origin) & count::MASK;
            let (now, later) = rest.split_at(rest.len().min(PIPE - offset as usize % PIPE));
            segment.put(layout::pipe_byte(self.pipe.number, offset), now);
            self.written = self.written.wrapping_add(now.len() as u32) & count::MASK;
            rest = later;
        }
    }

    /// Publishes all bytes that were written to the reader. Returns whether the reader has to be notified.
    #[inline]
    pub fn publish(&mut self, segment: &Segment) -> bool {
        self.published = self.written;
        self.pipe.written(segment).set(self.written);
        fence_after_exchange();
        self.pipe.notifies(segment, self.pipe.reader)
    }

    /// The limit, as the reader has last said.
    #[inline]
    pub fn limit(&self, segment: &Segment) -> u64 {
        segment.word(self.pipe.reader + LIMIT).load(Ordering::Acquire)
    }

    /// Why the reader takes no more; `None` while it does.
    #[inline]
    pub fn stopped(&self, segment: &Segment) -> Option<Stopped> {
        match segment.half(self.pipe.reader + STOPPED).load(Ordering::Acquire) {
            0 => None,
            1 => Some(Stopped::Unwanted),
            _ => Some(Stopped::Answered),
        }
    }

    /// Nothing more is written. Returns whether the reader has to be notified.
    pub fn close(&self, segment: &Segment, how: Closed) -> bool {
        let how = 1 + u32::from(how == Closed::Aborted);
        segment.half(self.pipe.writer + CLOSED).store(how, Ordering::Release);
        self.pipe.written(segment).poke();
        fence(Ordering::SeqCst);
        self.pipe.notifies(segment, self.pipe.reader)
    }

    /// This end is to be notified of room from now on. It looks once more after this.
    pub fn ask(&self, segment: &Segment) {
        Pipe::ask(segment, self.pipe.writer);
    }

    /// Where a thread may sleep until there is room.
    pub fn sleep(&self) -> Sleep {
        Sleep { at: self.pipe.reader, seen: self.taken }
    }
}

/// The end of a pipe at which bytes are taken. All that the peer cannot change is here.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pipe: Pipe,
    taken: u32,
    /// As the writer has been told.
    told: u32,
    /// As the writer has said when bytes were last taken.
    origin: u32,
}

/// The reader tells of so many bytes that it has taken, at the latest.
// Bytes come in multiples of eight, also in the small rings of models.
const TELL: u32 = if PIPE < 32 { 8 } else { PIPE as u32 / 4 };

impl Reading {
    /// Of a call on that lane which has just begun.
    pub fn new(way: Way, lane: u16) -> Self {
        Self { pipe: Pipe::new(way, lane), taken: 0, told: 0, origin: 0 }
    }

    /// Bytes that can be taken.
    ///
    /// # Errors
    /// The peer has written more than there is room for, or takes back what it has written.
    #[inline]
    pub fn arrived(&self, segment: &Segment) -> Result<usize, Disorder> {
        let written = self.pipe.written(segment).get();
        let there = (written.wrapping_sub(self.taken) & count::MASK) as usize;
        if there > PIPE || !there.is_multiple_of(8) { Err(Disorder) } else { Ok(there) }
    }

    /// This thread waits for bytes: the processor may fetch the lines of the next ones meanwhile, so that they come together with the line of
    /// their count.
    #[inline]
    pub fn expect(&self, segment: &Segment) {
        self.pipe.lines_from(self.taken, self.origin).for_each(|line| segment.will_read(line));
    }

    /// Takes so many of the bytes that have [arrived](Self::arrived) to the end of `into`. Returns whether the writer has to be notified.
    ///
    /// # Panics
    /// When a ring has fewer.
    #[inline]
    pub fn take(&mut self, segment: &Segment, len: usize, into: &mut Vec<u8>) -> bool {
        assert!(len <= PIPE);
        // The writer has moved it only if it saw the ring empty: it belongs to the bytes that have arrived.
        self.origin = segment.half(self.pipe.writer + ORIGIN).load(Ordering::Relaxed);
        let (mut left, mut notifies) = (len, false);
        while left > 0 {
            let offset = self.taken.wrapping_sub(self.origin) & count::MASK;
            let now = left.min(PIPE - offset as usize % PIPE).min(TELL as usize);
            segment.append(layout::pipe_byte(self.pipe.number, offset), now, into);
            self.taken = self.taken.wrapping_add(now as u32) & count::MASK;
            left -= now;
            if self.taken.wrapping_sub(self.told) & count::MASK >= TELL {
                notifies |= self.tell(segment);
            }
        }
        notifies
    }

    /// Tells the writer of all that was taken: before a thread sleeps here, or this end asks to be notified. Returns whether the writer has to
    /// be notified.
    #[inline]
    pub fn tell(&mut self, segment: &Segment) -> bool {
        if self.told == self.taken {
            return false;
        }
        self.told = self.taken;
        self.pipe.taken(segment).set(self.taken);
        fence_after_exchange();
        self.pipe.notifies(segment, self.pipe.writer)
    }

    /// How the writer has closed the pipe. [`arrived`](Self::arrived), called afterwards, counts all bytes written before the close.
    ///
    /// # Errors
    /// It makes no sense.
    #[inline]
    pub fn closed(&self, segment: &Segment) -> Result<Option<Closed>, Disorder> {
        match segment.half(self.pipe.writer + CLOSED).load(Ordering::Acquire) {
            0 => Ok(None),
            1 => Ok(Some(Closed::Whole)),
            2 => Ok(Some(Closed::Aborted)),
            _ => Err(Disorder),
        }
    }

    /// Items may begin below that offset. Returns whether the writer has to be notified.
    pub fn raise_limit(&self, segment: &Segment, limit: u64) -> bool {
        segment.word(self.pipe.reader + LIMIT).store(limit, Ordering::Release);
        self.poke_writer(segment)
    }

    /// Nothing more is taken. Returns whether the writer has to be notified.
    pub fn stop(&self, segment: &Segment, why: Stopped) -> bool {
        let why = 1 + u32::from(why == Stopped::Answered);
        segment.half(self.pipe.reader + STOPPED).store(why, Ordering::Release);
        self.poke_writer(segment)
    }

    fn poke_writer(&self, segment: &Segment) -> bool {
        self.pipe.taken(segment).poke();
        fence(Ordering::SeqCst);
        self.pipe.notifies(segment, self.pipe.writer)
    }

    /// This end is to be notified of bytes from now on. It looks once more after this.
    pub fn ask(&self, segment: &Segment) {
        Pipe::ask(segment, self.pipe.reader);
    }

    /// Where a thread may sleep until there are bytes.
    pub fn sleep(&self) -> Sleep {
        Sleep { at: self.pipe.writer, seen: self.taken }
    }
}

/// The caller: whether the pipe from the procedure of a lane's last call is closed.
pub fn is_closed(segment: &Segment, lane: u16) -> bool {
    let pipe = Pipe::new(Way::Result, lane);
    segment.half(pipe.writer + CLOSED).load(Ordering::Acquire) != 0
}

/// A count on which a thread may sleep, and the value that it has seen.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    at: usize,
    seen: u32,
}

impl Sleep {
    /// Whether the peer has moved the count on.
    #[inline]
    pub fn has_moved(self, segment: &Segment) -> bool {
        Count::new(segment, self.at).get() != self.seen
    }

    /// Sleeps until the peer moves the count on or wakes the sleeper, at most `limit_ns`; not if `is_over` once this thread counts as
    /// asleep.
    pub fn sleep(self, segment: &Segment, limit_ns: u64, is_over: impl FnOnce() -> bool) {
        Count::new(segment, self.at).sleep_unless(self.seen, limit_ns, is_over);
    }

    /// Wakes the threads of this process that sleep there, because of an event at this end. A peer that writes there can delay that to the
    /// end of their limit.
    #[cfg(not(all(test, loom)))]
    pub fn wake(self, segment: &Segment) {
        Count::new(segment, self.at).rouse();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
