//! Messages longer than a slot: a ring of chunks, which one side fills while the other empties it.
//!
//! The chunks of a channel are counted, and the counts go on from one message to the next; a message begins at the count that its
//! sender tells (the *base*), which is as many as it has ever filled there. What the other side has emptied of earlier messages,
//! which one of the two may have given up, does not matter then.
//!
//! | word | bits |
//! |------|------|
//! | filled, emptied | the count, doubled; plus one while the other side sleeps until it changes |
//!
//! Only callers ever sleep there: the server is told by its bell.

use crate::layout::{self, CHANNELS, CHUNK, CHUNKS};
use crate::{Segment, futex};
use std::sync::atomic::{AtomicU32, Ordering};

const COUNT_MASK: u32 = u32::MAX >> 1;
const SLEEPS: u32 = 1;

/// Which way a channel leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the caller to the server.
    Call,
    /// From the server to the caller.
    Result,
}

/// The peer says that it has filled more than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder;

/// The number of a channel among all those of a segment; `None` if there is none of that number.
fn number_of(way: Way, channel: u8) -> Option<usize> {
    let channel = usize::from(channel);
    let first = match way {
        Way::Call => 0,
        Way::Result => CHANNELS,
    };
    (channel < CHANNELS).then_some(first + channel)
}

/// Moves a count on. Wakes whoever sleeps on it. Ends with the fence that [`attention`](crate::attention) needs.
#[inline]
fn advance(word: &AtomicU32, count: u32) {
    if word.swap(count << 1, Ordering::SeqCst) & SLEEPS != 0 {
        futex::wake(word);
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Sleeps until the count is no longer `count`, at most `limit_ns`.
fn sleep(word: &AtomicU32, count: u32, limit_ns: u64) {
    let before = count << 1;
    let marked = word.compare_exchange(before, before | SLEEPS, Ordering::AcqRel, Ordering::Acquire);
    if marked.is_ok() || marked == Err(before | SLEEPS) {
        futex::wait(word, before | SLEEPS, limit_ns);
    }
}

fn count_of(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire) >> 1
}

/// A message being sent through a channel.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    number: usize,
    base: u32,
    /// Chunks filled.
    chunks: u32,
    /// Bytes of the message, and of these how many have been put into chunks.
    len: usize,
    sent: usize,
}

impl Filling {
    /// A message of `len` bytes through that channel, which nobody else uses meanwhile. Its base is `base`, which is what the sender
    /// of the channel's last message [ended at](Self::end), and at first 0.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn new(way: Way, channel: u8, base: u32, len: usize) -> Self {
        let number = number_of(way, channel).expect("a sender chooses a channel that exists");
        Self { number, base: base & COUNT_MASK, chunks: 0, len, sent: 0 }
    }

    /// The count at which it begins.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The count at which the next message of the channel begins.
    pub fn end(&self) -> u32 {
        self.base.wrapping_add(self.chunks) & COUNT_MASK
    }

    /// Bytes that have been sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Whether all of it has been sent.
    pub fn is_done(&self) -> bool {
        self.sent == self.len
    }

    /// Bytes that the next [`fill`](Self::fill) takes.
    pub fn next_len(&self) -> usize {
        CHUNK.min(self.len - self.sent)
    }

    /// Whether there is room for a chunk.
    #[inline]
    pub fn has_room(&self, segment: &Segment) -> bool {
        let emptied =
            count_of(segment.half(layout::emptied(self.number))).wrapping_sub(self.base) & COUNT_MASK;
        // A count from before this message says that nothing of it has been emptied.
        let emptied = if emptied > self.chunks { 0 } else { emptied };
        (self.chunks - emptied) < CHUNKS as u32
    }

    /// Sends the next chunk, for which there is [room](Self::has_room), of exactly [`next_len`](Self::next_len) bytes, given in pieces.
    ///
    /// # Panics
    /// When they are more or fewer.
    #[inline]
    pub fn fill<'a>(&mut self, segment: &Segment, pieces: impl IntoIterator<Item = &'a [u8]>) {
        let (start, len) = (layout::chunk(self.number, self.end()), self.next_len());
        let mut at = 0;
        for piece in pieces {
            assert!(piece.len() <= len - at, "a chunk holds no more");
            segment.put(start + at, piece);
            at += piece.len();
        }
        assert_eq!(at, len, "a chunk is full before it goes");
        self.chunks += 1;
        self.sent += len;
        advance(segment.half(layout::filled(self.number)), self.end());
    }

    /// Sleeps until the other side has emptied something more, at most `limit_ns`, and perhaps less for no reason.
    pub fn sleep(&self, segment: &Segment, limit_ns: u64) {
        let word = segment.half(layout::emptied(self.number));
        let seen = count_of(word);
        if !self.has_room(segment) {
            sleep(word, seen, limit_ns);
        }
    }

    /// Wakes whoever sleeps for room, when the other side is gone.
    pub fn give_up(segment: &Segment, way: Way) {
        for channel in 0..CHANNELS as u8 {
            let number = number_of(way, channel).expect("there are so many");
            for word in [layout::emptied(number), layout::filled(number)] {
                segment.half(word).fetch_xor(1 << 31, Ordering::AcqRel);
                futex::wake(segment.half(word));
            }
        }
    }
}

/// A message being received through a channel.
#[derive(Clone, Copy, Debug)]
pub struct Emptying {
    number: usize,
    base: u32,
    chunks: u32,
    len: usize,
    received: usize,
}

impl Emptying {
    /// A message of `len` bytes, of which the sender has told the channel and the base. `None` if there is no such channel.
    pub fn new(way: Way, channel: u8, base: u32, len: usize) -> Option<Self> {
        let number = number_of(way, channel)?;
        Some(Self { number, base: base & COUNT_MASK, chunks: 0, len, received: 0 })
    }

    /// Whether all of it has been received.
    pub fn is_done(&self) -> bool {
        self.received == self.len
    }

    /// Bytes that have been received.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Bytes of the next chunk.
    pub fn next_len(&self) -> usize {
        CHUNK.min(self.len - self.received)
    }

    /// Whether the next chunk is there.
    ///
    /// # Errors
    /// The sender says that it has filled more chunks than there are.
    #[inline]
    pub fn has_more(&self, segment: &Segment) -> Result<bool, Disorder> {
        let filled = count_of(segment.half(layout::filled(self.number))).wrapping_sub(self.base) & COUNT_MASK;
        match filled.wrapping_sub(self.chunks) {
            0 => Ok(false),
            ahead if ahead <= CHUNKS as u32 => Ok(!self.is_done()),
            _ => Err(Disorder),
        }
    }

    /// Takes the next chunk, which [is there](Self::has_more), to the end of `message`.
    #[inline]
    pub fn take(&mut self, segment: &Segment, message: &mut Vec<u8>) {
        let len = self.next_len();
        segment.append(self.next_chunk(), len, message);
        self.took(segment, len);
    }

    /// Takes the next chunk, which [is there](Self::has_more), into pieces of altogether [`next_len`](Self::next_len) bytes.
    ///
    /// # Panics
    /// When they are more or fewer.
    pub fn take_into<'a>(&mut self, segment: &Segment, pieces: impl IntoIterator<Item = &'a mut [u8]>) {
        let (start, len) = (self.next_chunk(), self.next_len());
        let mut at = 0;
        for piece in pieces {
            assert!(piece.len() <= len - at, "a chunk holds no more");
            segment.get(start + at, piece);
            at += piece.len();
        }
        assert_eq!(at, len, "a chunk is taken whole");
        self.took(segment, len);
    }

    fn next_chunk(&self) -> usize {
        layout::chunk(self.number, self.base.wrapping_add(self.chunks) & COUNT_MASK)
    }

    fn took(&mut self, segment: &Segment, len: usize) {
        self.chunks += 1;
        self.received += len;
        let count = self.base.wrapping_add(self.chunks) & COUNT_MASK;
        advance(segment.half(layout::emptied(self.number)), count);
    }

    /// Sleeps until the sender has filled something more, at most `limit_ns`, and perhaps less for no reason.
    pub fn sleep(&self, segment: &Segment, limit_ns: u64) {
        let count = self.base.wrapping_add(self.chunks) & COUNT_MASK;
        sleep(segment.half(layout::filled(self.number)), count, limit_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    fn sent(segment: &Segment, filling: &mut Filling, message: &[u8]) {
        while !filling.is_done() {
            while !filling.has_room(segment) {
                filling.sleep(segment, u64::MAX);
            }
            let next = &message[filling.sent()..][..filling.next_len()];
            let (first, second) = next.split_at(next.len() / 3);
            filling.fill(segment, [first, second]);
        }
    }

    fn received(segment: &Segment, emptying: &mut Emptying) -> Vec<u8> {
        let mut message = Vec::new();
        while !emptying.is_done() {
            while !emptying.has_more(segment).unwrap() {
                emptying.sleep(segment, u64::MAX);
            }
            emptying.take(segment, &mut message);
        }
        message
    }

    #[test]
    fn messages_of_many_chunks_arrive_one_after_the_other() {
        let (segment, _file) = Segment::create().unwrap();
        let segment = Arc::new(segment);
        let mut base = COUNT_MASK - 20;
        segment.half(layout::filled(CHANNELS + 1)).store(base << 1, Ordering::Relaxed);
        for len in [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNKS * CHUNK + 5, CHUNKS * CHUNK] {
            let message: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
            let mut filling = Filling::new(Way::Result, 1, base, len);
            let mut emptying = Emptying::new(Way::Result, 1, filling.base(), len).unwrap();
            let other = Arc::clone(&segment);
            let receiver = thread::spawn(move || received(&other, &mut emptying));
            sent(&segment, &mut filling, &message);
            assert!(receiver.join().unwrap() == message, "{len}");
            base = filling.end();
        }
    }

    #[test]
    fn what_was_given_up_does_not_disturb_the_next() {
        let (segment, _file) = Segment::create().unwrap();
        let mut first = Filling::new(Way::Call, 0, 0, 10 * CHUNK);
        for _ in 0..3 {
            first.fill(&segment, [&[1; CHUNK][..]]);
        }
        let mut emptying = Emptying::new(Way::Call, 0, first.base(), 10 * CHUNK).unwrap();
        emptying.take(&segment, &mut Vec::new());
        let mut second = Filling::new(Way::Call, 0, first.end(), 7);
        assert!(second.has_room(&segment));
        let mut emptying = Emptying::new(Way::Call, 0, second.base(), 7).unwrap();
        assert_eq!(emptying.has_more(&segment), Ok(false));
        second.fill(&segment, [&b"another"[..]]);
        assert_eq!(received(&segment, &mut emptying), b"another");
    }

    #[test]
    fn a_sender_that_claims_more_than_there_is_room_for_is_found_out() {
        let (segment, _file) = Segment::create().unwrap();
        let emptying = Emptying::new(Way::Call, 3, 5, 1 << 20).unwrap();
        segment.half(layout::filled(3)).store((5 + CHUNKS as u32) << 1, Ordering::Relaxed);
        assert_eq!(emptying.has_more(&segment), Ok(true));
        segment.half(layout::filled(3)).store((6 + CHUNKS as u32) << 1, Ordering::Relaxed);
        assert_eq!(emptying.has_more(&segment), Err(Disorder));
        assert!(Emptying::new(Way::Call, CHANNELS as u8, 0, 1).is_none());
    }
}
