//! Messages longer than a slot: a ring of chunks, which one side fills while the other empties it.
//!
//! Both sides count the chunks of a channel, and the counts go on from one message to the next. The sender of a message says at
//! which count it begins (the *base*): the number of chunks that the sender has ever filled there. A message begins when the other
//! side has emptied all chunks of the messages before. It also begins when the other side has said that it will not empty them, as
//! a server does by answering a call whose arguments it has not taken: the sender then [forgets](Filling::forget) those chunks.
//!
//! | word | bits |
//! |------|------|
//! | filled, emptied | the count ([doubled](crate::count), plus one while the other side sleeps until it changes) |
//!
//! Only callers sleep there: the bell wakes the server.

use crate::Segment;
use crate::count::{self, Count};
use crate::layout::{self, CHANNELS, CHUNK, CHUNKS};
use crate::sync::fence_after_exchange;

/// Which way a channel leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the caller to the server.
    Call,
    /// From the server to the caller.
    Result,
}

/// The peer says that it has filled more than there is room for, or takes back what it has filled.
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

/// How many chunks of a channel have been filled.
#[inline]
fn filled(segment: &Segment, number: usize) -> Count<'_> {
    Count::new(segment, layout::filled(number))
}

/// How many of them have been emptied.
#[inline]
fn emptied(segment: &Segment, number: usize) -> Count<'_> {
    Count::new(segment, layout::emptied(number))
}

/// Moves a count on. Ends with the fence that [`attention`](crate::attention) needs.
#[inline]
fn advance(count: Count<'_>, to: u32) {
    count.set(to);
    fence_after_exchange();
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
    /// A message of `len` bytes through that channel, which no other message uses until all of it [has been emptied](Self::is_emptied) or
    /// [is forgotten](Self::forget). `base` is the count at which the channel's last message [ended](Self::end), and 0 for the
    /// first message.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn new(way: Way, channel: u8, base: u32, len: usize) -> Self {
        let number = number_of(way, channel).expect("a sender chooses a channel that exists");
        Self { number, base: base & count::MASK, chunks: 0, len, sent: 0 }
    }

    /// The count at which it begins.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The count at which the next message of the channel begins.
    pub fn end(&self) -> u32 {
        self.base.wrapping_add(self.chunks) & count::MASK
    }

    /// Bytes that have been sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Whether all of it has been sent.
    pub fn is_done(&self) -> bool {
        self.sent == self.len
    }

    /// Whether a chunk of it has been filled.
    pub fn has_begun(&self) -> bool {
        self.chunks > 0
    }

    /// Bytes that the next [`fill`](Self::fill) takes.
    pub fn next_len(&self) -> usize {
        CHUNK.min(self.len - self.sent)
    }

    /// Whether there is room for a chunk. For the first chunk of a message there is room when all earlier messages of the channel have
    /// been emptied.
    #[inline]
    pub fn has_room(&self, segment: &Segment) -> bool {
        self.has_room_after(emptied(segment, self.number).get())
    }

    /// Whether there is room when `emptied` chunks have been emptied.
    #[inline]
    fn has_room_after(&self, emptied: u32) -> bool {
        // The chunks of this message that have been emptied. An older count, or a forged one, gives a number above all valid ones.
        let emptied = emptied.wrapping_sub(self.base) & count::MASK;
        self.chunks.checked_sub(emptied).is_some_and(|ahead| ahead < CHUNKS as u32)
    }

    /// Whether the other side has emptied all that has been sent.
    pub fn is_emptied(&self, segment: &Segment) -> bool {
        emptied(segment, self.number).get() == self.end()
    }

    /// The other side has said that it takes no more of this message: marks the chunks that are left as emptied. (A server says
    /// so by its answer, a caller by its cancel.)
    pub fn forget(&self, segment: &Segment) {
        // If the message has no chunk yet, chunks of the message before it may be there, which the other side still takes.
        if self.has_begun() && !self.is_emptied(segment) {
            emptied(segment, self.number).set(self.end());
        }
    }

    /// The next chunk, for which there is [room](Self::has_room): it takes [`next_len`](Self::next_len) bytes.
    #[inline]
    pub fn chunk<'a>(&'a mut self, segment: &'a Segment) -> Chunk<'a> {
        let at = layout::chunk(self.number, self.end());
        let end = at + self.next_len();
        Chunk { filling: self, segment, at, end }
    }

    /// Sends the next chunk, for which there is [room](Self::has_room), of exactly [`next_len`](Self::next_len) bytes, given as slices.
    ///
    /// # Panics
    /// When they are more or fewer.
    #[inline]
    pub fn fill<'a>(&mut self, segment: &Segment, slices: impl IntoIterator<Item = &'a [u8]>) {
        let mut chunk = self.chunk(segment);
        slices.into_iter().for_each(|slice| chunk.put(slice));
        chunk.finish();
    }

    /// As [`sleep`](Self::sleep), but asks `is_over` after this side is marked as asleep, and does not sleep if it returns true. The
    /// thread that makes it true then calls [`Emptying::decline`], which wakes a sleeper. `is_over` also checks whether there is room.
    pub fn sleep_unless(&self, segment: &Segment, limit_ns: u64, is_over: impl FnOnce() -> bool) {
        emptied(segment, self.number).sleep_unless(emptied(segment, self.number).get(), limit_ns, is_over);
    }

    /// Sleeps until the other side has emptied something more, at most `limit_ns`, and perhaps less for no reason; not at all from
    /// [`give_up`](Self::give_up) on.
    pub fn sleep(&self, segment: &Segment, limit_ns: u64) {
        let emptied = emptied(segment, self.number);
        let seen = emptied.get();
        if !self.has_room_after(seen) {
            emptied.sleep(seen, limit_ns);
        }
    }

    /// Wakes the threads that sleep for room or for chunks. For a segment whose other side has gone; the caller has noted that in the
    /// segment before, so that no thread sleeps on it any more. Chunks that have been filled stay.
    pub fn give_up(segment: &Segment, way: Way) {
        for channel in 0..CHANNELS as u8 {
            let number = number_of(way, channel).expect("there are so many");
            emptied(segment, number).give_up();
            filled(segment, number).give_up();
        }
    }
}

/// A chunk being filled.
#[derive(Debug)]
#[must_use = "a chunk goes when it is finished"]
pub struct Chunk<'a> {
    filling: &'a mut Filling,
    segment: &'a Segment,
    at: usize,
    end: usize,
}

impl Chunk<'_> {
    /// Puts bytes behind those that are there.
    ///
    /// # Panics
    /// When they are more than the chunk takes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.end - self.at, "a chunk holds no more");
        self.segment.put(self.at, bytes);
        self.at += bytes.len();
    }

    /// Sends it.
    ///
    /// # Panics
    /// When it is not full.
    #[inline]
    pub fn finish(self) {
        assert_eq!(self.at, self.end, "a chunk is full before it goes");
        let filling = self.filling;
        filling.sent += filling.next_len();
        filling.chunks += 1;
        advance(filled(self.segment, filling.number), filling.end());
    }
}

/// A chunk being emptied.
#[derive(Debug)]
#[must_use = "a chunk is empty when it is finished"]
pub struct Arrived<'a> {
    emptying: &'a mut Emptying,
    segment: &'a Segment,
    at: usize,
    end: usize,
}

impl Arrived<'_> {
    /// Takes the next bytes.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn take(&mut self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.end - self.at, "a chunk holds no more");
        self.segment.get(self.at, bytes);
        self.at += bytes.len();
    }

    /// Takes the next bytes, so many, to the end of `bytes`.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn append(&mut self, len: usize, bytes: &mut Vec<u8>) {
        assert!(len <= self.end - self.at, "a chunk holds no more");
        self.segment.append(self.at, len, bytes);
        self.at += len;
    }

    /// Passes over the next bytes.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn skip(&mut self, len: usize) {
        assert!(len <= self.end - self.at, "a chunk holds no more");
        self.at += len;
    }

    /// Its room can be filled again.
    ///
    /// # Panics
    /// When something is left in it.
    #[inline]
    pub fn finish(self) {
        assert_eq!(self.at, self.end, "a chunk is taken whole");
        let len = self.emptying.next_len();
        self.emptying.took(self.segment, len);
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
    /// A message of `len` bytes, whose sender has said the channel and the base. `None` if there is no such channel.
    pub fn new(way: Way, channel: u8, base: u32, len: usize) -> Option<Self> {
        let number = number_of(way, channel)?;
        Some(Self { number, base: base & count::MASK, chunks: 0, len, received: 0 })
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
    /// The sender says that it has filled more chunks than there are, or fewer than before.
    #[inline]
    pub fn has_more(&self, segment: &Segment) -> Result<bool, Disorder> {
        if self.is_done() {
            // The channel may carry later messages by now, which others take.
            return Ok(false);
        }
        let filled = filled(segment, self.number).get().wrapping_sub(self.base) & count::MASK;
        match filled.wrapping_sub(self.chunks) {
            0 => Ok(false),
            ahead if ahead <= CHUNKS as u32 => Ok(true),
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

    /// The next chunk, which [is there](Self::has_more), to be taken slice by slice.
    pub fn chunk<'a>(&'a mut self, segment: &'a Segment) -> Arrived<'a> {
        let at = self.next_chunk();
        let end = at + self.next_len();
        Arrived { emptying: self, segment, at, end }
    }

    /// Takes the next chunk, which [is there](Self::has_more), into slices of altogether [`next_len`](Self::next_len) bytes.
    ///
    /// # Panics
    /// When they are more or fewer.
    pub fn take_into<'a>(&mut self, segment: &Segment, slices: impl IntoIterator<Item = &'a mut [u8]>) {
        let mut chunk = self.chunk(segment);
        slices.into_iter().for_each(|slice| chunk.take(slice));
        chunk.finish();
    }

    /// The count of the next chunk.
    fn next(&self) -> u32 {
        self.base.wrapping_add(self.chunks) & count::MASK
    }

    fn next_chunk(&self) -> usize {
        layout::chunk(self.number, self.next())
    }

    fn took(&mut self, segment: &Segment, len: usize) {
        self.chunks += 1;
        self.received += len;
        advance(emptied(segment, self.number), self.next());
    }

    /// Wakes the message's sender if it sleeps for room: this side takes no more of the message, as the sender knows by other means.
    pub fn decline(&self, segment: &Segment) {
        emptied(segment, self.number).poke();
    }

    /// Sleeps until the sender has filled something more, at most `limit_ns`, and perhaps less for no reason; not at all from
    /// [`give_up`](Filling::give_up) on.
    pub fn sleep(&self, segment: &Segment, limit_ns: u64) {
        filled(segment, self.number).sleep(self.next(), limit_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
