//! The long messages of a binding that are under way: calls that arrive in chunks, and results that leave in chunks.
//!
//! No thread waits for the peer. The receiver takes the chunks that are there, fills the chunks for which there is room, and looks
//! again later.

use crate::message_buffer;
use crate::serving::message_memory::{Content, MemoryShare};
use std::collections::VecDeque;
use stoop_shm::layout::CHANNELS;
use stoop_shm::{Answer, AnswerKind, Disorder, Emptying, Filling, Request, Segment, Way, listening};
use stoop_wire::HEADER_LEN;

/// Calls that arrive in chunks.
#[derive(Default)]
pub(super) struct Incoming {
    channels: [Option<Arriving>; CHANNELS],
    /// A buffer for the next: a caller that sent one long message is likely to send another.
    unused: Vec<u8>,
}

/// A call of which chunks are still to come.
struct Arriving {
    request: Request,
    emptying: Emptying,
    message: Vec<u8>,
    /// Bytes of memory that are counted for it.
    counted: usize,
}

/// Results that leave in chunks.
#[derive(Default)]
pub(super) struct LeavingResults {
    channels: [Option<Leaving>; CHANNELS],
    /// The last result that left through each channel. Its caller may not have taken it, and will not if it cancels the call.
    left: [Option<(u16, u32, Filling)>; CHANNELS],
    /// The count at which the next message of each channel begins.
    bases: [u32; CHANNELS],
    /// Results that wait for a channel.
    waiting: VecDeque<LongResult>,
    /// Bytes of all these.
    bytes: usize,
    /// A buffer for the next result.
    unused: Vec<u8>,
}

/// A result of `len` bytes in a packet, with its call's lane and number.
pub(super) struct LongResult {
    pub(super) lane: u16,
    pub(super) number: u32,
    /// Nanoseconds that its call was here, as the answer tells them.
    pub(super) told_ns: u32,
    pub(super) len: usize,
    pub(super) packet: Vec<u8>,
}

struct Leaving {
    result: LongResult,
    filling: Filling,
}

/// Chunks of one message that are taken or sent before other messages have their turn.
const ROUNDS: usize = 8;
/// Messages of the greatest length that may be under way to a caller, or wait until it takes them.
pub(super) const LONG_MESSAGES: usize = 4;

/// Bytes of the longest buffer that a binding keeps for the next message each way. Mapping and clearing a longer one takes
/// little beside copying the message.
const BUFFER_KEPT: usize = 4 << 20;

/// How the arrival of a call ended.
pub(super) enum Received {
    /// All of it is there.
    Arrived(Request, Vec<u8>),
    /// There is no memory for the rest: in this process, or in what its caller may have of it.
    NoMemory(Request, Emptying, NoMemory),
}

/// Why there is no memory for a call.
#[derive(Clone, Copy)]
pub(super) enum NoMemory {
    /// The process has none left.
    Process,
    /// The caller's user, or the binding, has its share.
    Share,
}

/// The message that was cancelled.
pub(super) enum Cancelled {
    /// A result that was leaving: its call has been answered.
    Answered,
    /// A result that waited for a channel.
    Unanswered,
    /// No result that is here.
    Nothing,
}

impl Incoming {
    /// Begins to receive the message of a request.
    ///
    /// # Errors
    /// There is no such channel, or it is in use.
    pub(super) fn begin(&mut self, request: Request, memory: &MemoryShare) -> Result<(), Disorder> {
        let emptying = Emptying::new(Way::Call, request.channel, request.base, request.len as usize);
        let slot = self.channels.get_mut(usize::from(request.channel));
        let (Some(emptying), Some(slot @ None)) = (emptying, slot) else { return Err(Disorder) };
        let mut message = std::mem::take(&mut self.unused);
        memory.uncount_kept(message.capacity());
        message.clear();
        *slot = Some(Arriving { request, emptying, message, counted: 0 });
        Ok(())
    }

    /// Takes the chunks that are there, and sets `moved` if there are some. Returns a call whose arrival has ended.
    pub(super) fn advance(
        &mut self,
        segment: &Segment,
        memory: &MemoryShare,
        moved: &mut bool,
    ) -> Result<Option<Received>, Disorder> {
        for slot in &mut self.channels {
            let Some(arriving) = slot else { continue };
            for _ in 0..ROUNDS {
                if !arriving.emptying.has_more(segment)? {
                    break;
                }
                if let Err(why) = arriving.make_room(memory) {
                    memory.give_back(Content::Arguments, arriving.counted);
                    // The part that has arrived is freed before the refusal is written, which takes memory.
                    return Ok(slot
                        .take()
                        .map(|arriving| Received::NoMemory(arriving.request, arriving.emptying, why)));
                }
                arriving.emptying.take(segment, &mut arriving.message);
                *moved = true;
                listening::tell_of_chunks(segment);
            }
            if arriving.emptying.is_done() {
                return Ok(slot.take().map(|arrived| Received::Arrived(arrived.request, arrived.message)));
            }
        }
        Ok(None)
    }

    /// Whether there is something to take, or to find fault with.
    pub(super) fn can_advance(&self, segment: &Segment) -> bool {
        let arriving = self.channels.iter().flatten();
        let mut there = arriving.map(|arriving| arriving.emptying.has_more(segment));
        there.any(|there| there != Ok(false))
    }

    /// Forgets a call that has not arrived whole. Returns whether there was one.
    pub(super) fn cancel(&mut self, lane: u16, number: u32, memory: &MemoryShare) -> bool {
        let is_it = |arriving: &Arriving| (arriving.request.lane, arriving.request.number) == (lane, number);
        let slot = self.channels.iter_mut().find(|slot| slot.as_ref().is_some_and(is_it));
        let cancelled = slot.and_then(Option::take);
        if let Some(arriving) = &cancelled {
            memory.give_back(Content::Arguments, arriving.counted);
        }
        cancelled.is_some()
    }

    /// Keeps the buffer of a call that has been served, for the next.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>, memory: &MemoryShare) {
        keep(&mut self.unused, buffer, memory);
    }

    /// Bytes of memory that are counted for calls that are arriving.
    pub(super) fn counted(&self) -> usize {
        self.channels.iter().flatten().map(|arriving| arriving.counted).sum()
    }

    /// The calls that are arriving.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Request> {
        self.channels.iter().flatten().map(|arriving| &arriving.request)
    }
}

impl Arriving {
    /// Makes room for the next chunk.
    #[inline]
    fn make_room(&mut self, memory: &MemoryShare) -> Result<(), NoMemory> {
        let more = self.emptying.next_len();
        let fits = self.message.capacity() - self.message.len() >= more;
        if fits && self.counted == self.message.capacity() { Ok(()) } else { self.grow(more, memory) }
    }

    #[cold]
    fn grow(&mut self, more: usize, memory: &MemoryShare) -> Result<(), NoMemory> {
        let announced = self.request.len as usize;
        let capacity = message_buffer::capacity_for(&self.message, more, announced);
        if !memory.take(Content::Arguments, capacity - self.counted) {
            return Err(NoMemory::Share);
        }
        self.counted = capacity;
        message_buffer::reserve(&mut self.message, more, announced).then_some(()).ok_or(NoMemory::Process)
    }
}

/// Keeps a buffer for the next message, instead of a shorter one.
fn keep(unused: &mut Vec<u8>, buffer: Vec<u8>, memory: &MemoryShare) {
    if !(unused.capacity()..=BUFFER_KEPT).contains(&buffer.capacity()) {
        return;
    }
    memory.uncount_kept(unused.capacity());
    *unused = if memory.keep(buffer.capacity()) { buffer } else { Vec::new() };
}

impl LeavingResults {
    /// A buffer for a result, if there is one that has been used for another of this caller's.
    pub(super) fn take_buffer(&mut self, memory: &MemoryShare) -> Vec<u8> {
        memory.uncount_kept(self.unused.capacity());
        std::mem::take(&mut self.unused)
    }

    /// Whether so many bytes more would be more than a caller may leave unread.
    pub(super) fn is_full(&self, bytes: usize, message_max: usize) -> bool {
        self.bytes + bytes > message_max.saturating_mul(LONG_MESSAGES)
    }

    /// Begins to send the waiting results for which there are channels: publishes their answers by `answer`.
    pub(super) fn begin_waiting(
        &mut self,
        segment: &Segment,
        cpu: u16,
        mut answer: impl FnMut(u16, u32, &Answer),
    ) {
        while let Some(channel) = self.channels.iter().position(Option::is_none)
            && let Some(result) = self.waiting.pop_front()
        {
            let LongResult { lane, number, len, told_ns: word, .. } = result;
            let filling = Filling::new(Way::Result, channel as u8, self.bases[channel], len);
            let base = filling.base();
            let mut leaving = Leaving { result, filling };
            // The first chunks are there when the caller is told.
            leaving.advance(segment);
            let (kind, len) = (AnswerKind::Result, len as u32);
            answer(lane, number, &Answer { kind, len, word, cpu, channel: channel as u8, base });
            self.channels[channel] = Some(leaving);
        }
    }

    /// Sends chunks while there is room, and sets `moved` if there was some. Returns how many results have left.
    pub(super) fn advance(&mut self, segment: &Segment, memory: &MemoryShare, moved: &mut bool) -> usize {
        let mut left = 0;
        for channel in 0..CHANNELS {
            let Some(leaving) = &mut self.channels[channel] else { continue };
            *moved |= leaving.advance(segment);
            if leaving.filling.is_done() {
                self.end(channel, memory);
                left += 1;
            }
        }
        left
    }

    /// Whether there is room for something.
    pub(super) fn can_advance(&self, segment: &Segment) -> bool {
        let mut leaving = self.channels.iter().flatten();
        leaving.any(|leaving| leaving.filling.is_done() || leaving.filling.has_room(segment))
    }

    /// The channel is free for another.
    fn end(&mut self, channel: usize, memory: &MemoryShare) {
        let Some(Leaving { result, filling }) = self.channels[channel].take() else { return };
        self.bases[channel] = filling.end();
        if filling.has_begun() {
            self.left[channel] = Some((result.lane, result.number, filling));
        }
        self.bytes -= result.packet.len();
        memory.give_back(Content::Results, result.packet.len());
        keep(&mut self.unused, result.packet, memory);
    }

    /// If the result of a call has left, its caller takes no more of it: it makes room for the next.
    fn forget_left(&mut self, segment: &Segment, lane: u16, number: u32) {
        let is_it = |left: &&mut Option<(u16, u32, Filling)>| {
            left.as_ref().is_some_and(|left| (left.0, left.1) == (lane, number))
        };
        if let Some((_, _, filling)) = self.left.iter_mut().find(is_it).and_then(Option::take) {
            filling.forget(segment);
        }
    }

    /// Cancels the result of a call. Its caller takes no more of it.
    pub(super) fn cancel(
        &mut self,
        segment: &Segment,
        memory: &MemoryShare,
        lane: u16,
        number: u32,
    ) -> Cancelled {
        let is_it = |result: &LongResult| (result.lane, result.number) == (lane, number);
        let is_leaving = |slot: &Option<Leaving>| slot.as_ref().is_some_and(|leaving| is_it(&leaving.result));
        if let Some(channel) = self.channels.iter().position(is_leaving) {
            if let Some(leaving) = &self.channels[channel] {
                leaving.filling.forget(segment);
            }
            self.end(channel, memory);
            return Cancelled::Answered;
        }
        if let Some(waiting) = self.waiting.iter().position(is_it).and_then(|at| self.waiting.remove(at)) {
            self.bytes -= waiting.packet.len();
            memory.give_back(Content::Results, waiting.packet.len());
            return Cancelled::Unanswered;
        }
        self.forget_left(segment, lane, number);
        Cancelled::Nothing
    }

    /// Adds a result, which waits for a channel. The memory of the packet has been counted.
    pub(super) fn push(&mut self, result: LongResult) {
        self.bytes += result.packet.len();
        self.waiting.push_back(result);
    }

    /// Bytes of the results that have not left.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many results have not left; and the calls of those among them that are not answered.
    pub(super) fn into_parts(self) -> (usize, impl Iterator<Item = (u16, u32)>) {
        let leaving = self.channels.iter().flatten().count();
        (leaving + self.waiting.len(), self.waiting.into_iter().map(|waiting| (waiting.lane, waiting.number)))
    }
}

impl Leaving {
    /// Sends chunks while there is room. Returns whether there was some.
    fn advance(&mut self, segment: &Segment) -> bool {
        for round in 0..ROUNDS {
            if self.filling.is_done() || !self.filling.has_room(segment) {
                return round > 0;
            }
            let sent = HEADER_LEN + self.filling.sent();
            let next = &self.result.packet[sent..sent + self.filling.next_len()];
            let mut chunk = self.filling.chunk(segment);
            chunk.put(next);
            chunk.finish();
            listening::tell_of_chunks(segment);
        }
        true
    }
}
