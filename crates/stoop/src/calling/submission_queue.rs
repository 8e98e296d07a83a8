//! A submission queue: the packets of calls that one [`Begin`](crate::Begin) has begun, until they leave together.
//!
//! The thread that begins the calls takes the queue's lock for each of them, nearly always without waiting. Another thread takes it only
//! to have the calls leave, because it asks about one of them. Slots for the calls are reserved under the lock of the table, many at a
//! time: so a call has its number at once, and the table's lock is taken once for many calls.
//!
//! The packets lie one behind the other in one buffer, each as long as the first, as one system call sends them.

use crate::context::TimeBounds;
use stoop_exchange::Instant;
use stoop_net::packets::{MAX_SEGMENTS, MAX_SEGMENTS_LEN};
use stoop_wire::HEADER_LEN;

/// Packets up to this length take any shorter one among them, which is padded: a packet costs more than some bytes.
const PADDED_MAX: usize = 256;

/// Calls that leave together, and slots for more.
#[derive(Debug, Default)]
pub(crate) struct SubmissionQueue {
    /// Memory for packets; the bytes behind `len` are of earlier calls.
    packets: Vec<u8>,
    /// Bytes of the packets.
    len: usize,
    /// Bytes from one packet to the next. The last packet may be shorter.
    segment: usize,
    calls: Vec<Submitted>,
    /// Slots for the calls that follow.
    reserved: Vec<u32>,
    bounds: TimeBounds,
    /// When the calls left, and their deadline.
    left: Instant,
    deadline: Instant,
}

/// A call in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitted {
    pub(crate) call: u32,
    /// Number of the procedure in the interface.
    pub(crate) procedure: u16,
    /// Bytes of its packet.
    len: u16,
}

impl SubmissionQueue {
    /// Whether a packet with that many bytes of arguments can leave with the others.
    pub(crate) fn takes(&self, arguments_len: usize) -> bool {
        let len = HEADER_LEN + arguments_len;
        let fits = len <= self.segment && (self.segment <= PADDED_MAX || len >= self.segment / 4);
        self.calls.is_empty() || fits && !self.is_full()
    }

    /// Whether no further packet can leave with those that are here.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.calls.len() == MAX_SEGMENTS || (self.calls.len() + 1) * self.segment > MAX_SEGMENTS_LEN
    }

    /// Puts a call into the queue and returns its slot. `None`: no slot is reserved for it, or its packet cannot leave with
    /// the others. The header of the packet is written when it leaves.
    // Called, it takes twenty instructions more for each call that is begun.
    #[inline(always)]
    pub(crate) fn put(&mut self, procedure: u16, arguments: &[u8]) -> Option<u32> {
        if !self.takes(arguments.len()) {
            return None;
        }
        let call = self.reserved.pop()?;
        let len = HEADER_LEN + arguments.len();
        if self.calls.is_empty() {
            self.segment = len.next_multiple_of(8);
        }
        let start = self.calls.len() * self.segment;
        if self.packets.len() < start + self.segment {
            self.packets.resize(start + self.segment, 0);
        }
        if self.len < start {
            self.packets[self.len..start].fill(0);
        }
        self.len = start + len;
        self.packets[start + HEADER_LEN..self.len].copy_from_slice(arguments);
        self.calls.push(Submitted { call, procedure, len: len as u16 });
        Some(call)
    }

    /// Puts a call into the queue that has its slot already. `false`: its packet cannot leave with the others.
    pub(crate) fn put_held(&mut self, call: u32, procedure: u16, arguments: &[u8]) -> bool {
        self.reserved.push(call);
        let is_put = self.put(procedure, arguments).is_some();
        if !is_put {
            self.reserved.pop();
        }
        is_put
    }

    /// Keeps the first `count` calls, and removes the others.
    pub(crate) fn keep_first(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1).and_then(|last| self.calls.get(last)) {
            self.len = self.len.min((count - 1) * self.segment + usize::from(last.len));
            self.calls.truncate(count);
        } else if count == 0 {
            self.clear();
        }
    }

    /// When the calls left, and their deadline.
    pub(crate) fn times(&self) -> (Instant, Instant) {
        (self.left, self.deadline)
    }

    /// Sets the bounds of the calls that come next. The queue is empty.
    pub(crate) fn set_bounds(&mut self, bounds: TimeBounds) {
        debug_assert!(self.calls.is_empty(), "the calls of a queue have the same times");
        self.bounds = bounds;
    }

    /// The calls leave at that time, from which their time runs.
    pub(crate) fn leave(&mut self, clock: Instant) {
        (self.left, self.deadline) = (clock, Instant::from_nanos(self.bounds.deadline_ns(clock.as_nanos())));
    }

    /// Adds a slot for a call that may come.
    #[inline]
    pub(crate) fn reserve(&mut self, call: u32) {
        self.reserved.push(call);
    }

    /// Takes back the slots that no call uses.
    pub(crate) fn take_reserved(&mut self) -> impl Iterator<Item = u32> {
        self.reserved.drain(..)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls, in the order of their packets.
    pub(crate) fn calls(&self) -> &[Submitted] {
        &self.calls
    }

    /// The calls and their packets.
    #[inline]
    pub(crate) fn packets_mut(&mut self) -> impl Iterator<Item = (Submitted, &mut [u8])> {
        let packets = self.packets[..self.len].chunks_mut(self.segment.max(1));
        let submitted = self.calls.iter().copied();
        submitted.zip(packets).map(|(call, packet)| (call, &mut packet[..usize::from(call.len)]))
    }

    /// The call of the packet at that position, and the packet.
    pub(crate) fn packet(&self, position: usize) -> (u32, &[u8]) {
        let (Submitted { call, len, .. }, start) = (self.calls[position], position * self.segment);
        (call, &self.packets[start..start + usize::from(len)])
    }

    /// The packets, one behind the other.
    pub(crate) fn packets(&self) -> &[u8] {
        &self.packets[..self.len]
    }

    /// Bytes from one packet to the next.
    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Removes the calls, which have left.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::submission_queue::*;

    fn queue(slots: u32) -> SubmissionQueue {
        let mut queue = SubmissionQueue::default();
        (0..slots).rev().for_each(|slot| queue.reserve(slot));
        queue
    }

    #[test]
    fn packets_of_a_queue_are_equally_long_but_for_the_last() {
        let mut queue = queue(3);
        assert_eq!(queue.put(7, &[1; 5]), Some(0));
        assert_eq!((queue.segment(), queue.packets().len()), (40, 37));
        assert!(queue.takes(8) && queue.takes(0) && !queue.takes(9));
        assert_eq!(queue.put(8, &[2; 1]), Some(1));
        assert_eq!(queue.packets()[32..40], [1, 1, 1, 1, 1, 0, 0, 0]);
        assert_eq!((queue.packets().len(), queue.packets()[72]), (73, 2));
        let calls: Vec<_> =
            queue.packets_mut().map(|(call, packet)| (call.procedure, packet.len())).collect();
        assert_eq!(calls, [(7, 37), (8, 33)]);
    }

    #[test]
    fn the_first_calls_can_be_kept() {
        let fill = || {
            let mut queue = queue(3);
            (0..3).for_each(|len| assert!(queue.put(0, &vec![1; 8 - len]).is_some()));
            queue
        };
        for (count, calls, bytes) in [(0, 0, 0), (1, 1, 40), (2, 2, 79), (3, 3, 118), (9, 3, 118)] {
            let mut queue = fill();
            queue.keep_first(count);
            assert_eq!((queue.calls().len(), queue.packets().len()), (calls, bytes), "{count}");
        }
    }

    #[test]
    fn a_call_needs_a_slot_that_was_reserved() {
        let mut queue = queue(1);
        assert_eq!((queue.put(0, &[]), queue.put(0, &[])), (Some(0), None));
        queue.reserve(9);
        assert_eq!(queue.put(0, &[]), Some(9));
        queue.reserve(11);
        assert!(queue.take_reserved().eq([11]) && queue.put(0, &[]).is_none());
    }

    #[test]
    fn a_short_packet_is_not_padded_to_a_long_one() {
        let mut queue = queue(1);
        queue.put(0, &[0; 1440]);
        assert!(queue.takes(1440) && queue.takes(336) && !queue.takes(328));
    }

    #[test]
    fn a_queue_takes_no_more_than_one_system_call_sends() {
        let fill = |len: usize| {
            let mut queue = queue(100);
            while queue.put(0, &vec![0; len]).is_some() {}
            assert!(queue.is_full());
            (queue.calls().len(), queue.packets().len())
        };
        assert_eq!(fill(0), (64, 64 * 32));
        assert_eq!(fill(1440), (44, 44 * 1472));
    }

    #[test]
    fn bytes_of_earlier_calls_do_not_leave_behind_a_shorter_packet() {
        let mut queue = queue(4);
        queue.put(0, &[1; 8]);
        queue.put(0, &[1; 8]);
        queue.clear();
        queue.put(0, &[2; 6]);
        queue.put(0, &[2; 2]);
        assert_eq!(queue.packets()[32..40], [2, 2, 2, 2, 2, 2, 0, 0]);
        assert_eq!((queue.packets().len(), &queue.packets()[72..]), (74, &[2, 2][..]));
    }
}
