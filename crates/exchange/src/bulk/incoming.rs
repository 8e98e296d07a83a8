//! A message that is being received: which of its bytes have arrived. The driver owns the memory for them.

use super::ranges::Ranges;
use super::span::Span;
use crate::Instant;
use stoop_wire::{HEADER_LEN, Receipt};

/// Most ranges of a message that may be remembered with gaps between them. The bound limits the memory that a sender
/// can make us use. An honest sender meets it only on a network that loses every other packet.
const MOST_RANGES: usize = 512;

/// Bytes after which a receipt is urgent, before any receipt has told a window.
const FIRST_QUARTER: u32 = 64 * 1024;

/// A message that is being received.
#[derive(Debug)]
pub struct Incoming {
    message_len: u32,
    here: Ranges,
    received: u32,
    /// The highest transmission number that has arrived, and when; 0 before the first.
    latest: (u32, Instant),
    /// Bytes received since the last receipt.
    untold: u32,
    /// A quarter of the window in the last receipt.
    quarter: u32,
    due: bool,
    urgent: bool,
    /// Whether the next receipt reports other ranges than the lowest, if there are too many for one: those that begin
    /// after `told_up_to`.
    others_next: bool,
    told_up_to: u32,
}

/// The meaning of an arriving fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It brought new bytes. Some of its bytes may have been here before: they are the same in every transmission.
    New,
    /// All of its bytes were here.
    Duplicate,
    /// It is outside the message or empty, or would need too many gaps to be remembered. It counts as lost.
    TooScattered,
}

impl Incoming {
    /// A message of `message_len` bytes, none of which has arrived.
    pub fn new(message_len: u32) -> Self {
        Self {
            message_len,
            here: Ranges::new(),
            received: 0,
            latest: (0, Instant::default()),
            untold: 0,
            quarter: FIRST_QUARTER,
            due: false,
            urgent: false,
            others_next: false,
            told_up_to: 0,
        }
    }

    /// Records the arrival of a fragment. `transmission`: the number that it carries; the one at offset 0 carries none.
    #[inline]
    pub fn take(&mut self, now: Instant, offset: u32, len: u32, transmission: Option<u32>) -> Taken {
        let Some(end) = offset.checked_add(len).filter(|&end| len > 0 && end <= self.message_len) else {
            return Taken::TooScattered;
        };
        let ranges = self.here.count();
        let Some(new) = self.here.insert(offset, end, MOST_RANGES) else { return Taken::TooScattered };
        // Only after it was accepted: a number in a receipt tells the sender that this packet has arrived.
        if let Some(number) = transmission.filter(|&number| number > self.latest.0) {
            self.latest = (number, now);
        }
        self.due = true;
        if new == 0 {
            return Taken::Duplicate;
        }
        self.received += new;
        self.untold += new;
        // RFC 9000 §13.2.1: a packet out of order is reported at once. The first range of all is no gap if it is the
        // beginning.
        let gap_changed = self.here.count() != ranges && !(ranges == 0 && offset == 0);
        self.urgent |= gap_changed || self.untold >= self.quarter || self.is_complete();
        Taken::New
    }

    /// Records parts from the beginning of `datagrams`, each datagram `segment` bytes long, as if they were one: as
    /// long as they continue one another, and without the part that would complete the message. `None`: there is no
    /// such part, or all of it was here.
    #[inline]
    pub fn take_span(&mut self, now: Instant, datagrams: &[u8], segment: usize) -> Option<Span> {
        // Fewer bytes than are missing: the last missing part is handled by itself, wherever it belongs.
        let most = (self.message_len - self.received).checked_sub(1)? as usize;
        let parts = most / segment.checked_sub(HEADER_LEN).filter(|payload| *payload > 0)?;
        let datagrams = &datagrams[..datagrams.len().min(parts.saturating_mul(segment))];
        let span = Span::at_beginning(datagrams, segment, self.message_len)?;
        let (offset, len) = (span.offset as u32, span.len as u32);
        (self.take(now, offset, len, Some(span.transmission)) == Taken::New).then_some(span)
    }

    /// Bytes of the whole message.
    #[inline]
    pub fn message_len(&self) -> u32 {
        self.message_len
    }

    /// Whether every byte has arrived.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.received == self.message_len
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// Whether the sender should be told soon: a gap has opened or closed, a quarter of the window has come without a
    /// receipt, or the message is complete.
    #[inline]
    pub fn receipt_is_urgent(&self) -> bool {
        self.urgent
    }

    /// Whether anything has come since the last receipt, so that one is to be sent when the socket is drained. A
    /// duplicate counts, because its sender has missed a receipt.
    #[inline]
    pub fn receipt_is_due(&self) -> bool {
        self.due
    }

    /// When the packet with the highest transmission number came.
    pub(crate) fn arrived(&self) -> Instant {
        self.latest.1
    }

    /// The receipt to send now. `window`: bytes of this message that may be outstanding at the same time; 0: there is
    /// no memory, the sender must stop for now.
    pub fn receipt(&mut self, now: Instant, window: u32) -> Receipt {
        // The bytes under way lie before this limit: at most a window of them.
        let limit = self.received.saturating_add(window).min(self.message_len);
        self.receipt_for(now, window, limit)
    }

    /// The receipt to send now, which allows the bytes before `limit`, within a `window`.
    #[inline]
    pub(crate) fn receipt_for(&mut self, now: Instant, window: u32, limit: u32) -> Receipt {
        (self.untold, self.due, self.urgent) = (0, false, false);
        self.quarter = (window / 4).max(1);
        let (latest, arrived) = self.latest;
        let delay = if latest == 0 { 0 } else { u32::try_from(now.nanos_since(arrived)).unwrap_or(u32::MAX) };
        let mut receipt = Receipt::new(latest, delay, limit, self.here.up_to());
        self.ranges_to_tell().iter().for_each(|&(start, end)| _ = receipt.push(start, end));
        receipt
    }

    /// A message whose length is not known yet.
    pub(crate) fn open() -> Self {
        Self::new(u32::MAX)
    }

    /// The peer says that the message has `len` bytes. `false`: bytes beyond that have arrived, or it has said another length before.
    pub(crate) fn end_at(&mut self, len: u32) -> bool {
        let can_be = match self.message_len {
            u32::MAX => self.here.end() <= len,
            known => known == len,
        };
        if can_be {
            self.message_len = len;
        }
        can_be
    }

    /// The peer ends the message at `len`, and does not send the bytes that are missing before. `false`: as of [`end_at`](Self::end_at).
    pub(crate) fn skip_to(&mut self, len: u32) -> bool {
        let can_be = self.end_at(len);
        if can_be && len > 0 {
            self.here = Ranges::new();
            self.here.insert(0, len, MOST_RANGES);
            self.received = len;
        }
        (self.due, self.urgent) = (true, true);
        can_be
    }

    /// Offset behind the last byte that has arrived.
    pub(crate) fn end(&self) -> u32 {
        self.here.end()
    }

    /// Bytes from the beginning of the message without a gap.
    pub(crate) fn up_to(&self) -> u32 {
        self.here.up_to()
    }

    /// Lets offsets and transmission numbers count from a later place. Returns by how much both become smaller.
    pub(crate) fn rebase(&mut self) -> (u32, u32) {
        let (offsets, numbers) = (self.up_to(), self.latest.0.saturating_sub(1));
        self.here.rebase(offsets);
        self.received -= offsets;
        self.told_up_to = self.told_up_to.saturating_sub(offsets);
        self.latest.0 -= numbers;
        if self.message_len < u32::MAX {
            self.message_len -= offsets;
        }
        (offsets, numbers)
    }

    /// The lowest ranges, at most one less than fit. While there are more, every other receipt is full and reports
    /// others in turn. The sender must learn of those, too, but a full receipt says nothing about the bytes before its
    /// first range.
    fn ranges_to_tell(&mut self) -> &[(u32, u32)] {
        const FULL: usize = Receipt::MOST_RANGES;
        let ranges = self.here.beyond();
        if ranges.len() < FULL || !self.others_next {
            self.others_next = true;
            return &ranges[..ranges.len().min(FULL - 1)];
        }
        self.others_next = false;
        // One range is reported twice, so that the gap behind it is between two reported ranges.
        let after = ranges.partition_point(|range| range.0 <= self.told_up_to);
        let from = after.saturating_sub(1).min(ranges.len() - FULL);
        self.told_up_to = if from + FULL == ranges.len() { 0 } else { ranges[from + FULL - 1].0 };
        &ranges[from..from + FULL]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn bytes_in_order_are_reported_as_one_range_from_the_beginning() {
        let mut message = Incoming::new(4000);
        assert_eq!(message.take(at(5), 0, 1440, None), Taken::New);
        assert!(message.receipt_is_due() && !message.receipt_is_urgent());
        assert_eq!(message.take(at(10), 1440, 1440, Some(2)), Taken::New);
        assert_eq!(message.receipt(at(40), 1000), Receipt::new(2, 30, 3880, 2880));
        assert!(!message.receipt_is_due());
        assert_eq!(message.take(at(50), 2880, 1120, Some(3)), Taken::New);
        assert!(message.is_complete() && message.receipt_is_urgent());
        assert_eq!(message.receipt(at(50), 1000), Receipt::new(3, 0, 4000, 4000));
    }

    #[test]
    fn a_receipt_is_urgent_when_a_gap_opens_or_closes() {
        let mut message = Incoming::new(10_000);
        message.take(at(0), 0, 1000, None);
        message.take(at(0), 2000, 1000, Some(3));
        assert!(message.receipt_is_urgent());
        let mut expected = Receipt::new(3, 0, 2100, 1000);
        expected.push(2000, 3000);
        assert_eq!(message.receipt(at(0), 100), expected);
        message.take(at(0), 3000, 20, Some(4));
        assert!(!message.receipt_is_urgent(), "the gap is the same");
        message.take(at(0), 1000, 1000, Some(5));
        assert!(message.receipt_is_urgent());
        assert_eq!(message.receipt(at(0), 100).up_to, 3020);
    }

    #[test]
    fn a_receipt_is_urgent_after_a_quarter_of_the_window() {
        let mut message = Incoming::new(100_000);
        message.receipt(at(0), 8000);
        message.take(at(0), 0, 1999, None);
        assert!(!message.receipt_is_urgent());
        message.take(at(0), 1999, 1, Some(2));
        assert!(message.receipt_is_urgent());
    }

    #[test]
    fn a_duplicate_makes_a_receipt_due() {
        let mut message = Incoming::new(3000);
        message.take(at(0), 0, 1440, None);
        message.receipt(at(0), 1);
        assert_eq!(message.take(at(0), 10, 1000, Some(7)), Taken::Duplicate);
        assert!(message.receipt_is_due());
        assert_eq!((message.received(), message.receipt(at(0), 1).latest), (1440, 7));
    }

    #[test]
    fn fragments_outside_the_message_are_rejected() {
        let mut message = Incoming::new(3000);
        for (offset, len) in [(0, 0), (0, 3001), (2999, 2), (3000, 1), (u32::MAX, 1), (1, u32::MAX), (5, 0)] {
            assert_eq!(message.take(at(0), offset, len, Some(9)), Taken::TooScattered);
        }
        assert!(!message.receipt_is_due());
        assert_eq!(message.receipt(at(0), 0), Receipt::new(0, 0, 0, 0));
    }

    #[test]
    fn gaps_are_remembered_up_to_a_bound() {
        let mut message = Incoming::new(u32::MAX);
        for i in 0..MOST_RANGES as u32 {
            assert_eq!(message.take(at(0), 1 + 10 * i, 5, Some(i + 1)), Taken::New);
        }
        assert_eq!(message.take(at(0), 1_000_000, 5, Some(1000)), Taken::TooScattered);
        assert_eq!(message.take(at(0), 0, 6000, None), Taken::New, "what fills gaps needs no memory");
        let receipt = message.receipt(at(0), u32::MAX);
        assert_eq!((receipt.latest, receipt.limit, receipt.up_to), (MOST_RANGES as u32, u32::MAX, 6000));
    }

    #[test]
    fn receipts_alternate_between_the_lowest_ranges_and_the_others() {
        let mut message = Incoming::new(u32::MAX);
        (0..100).for_each(|i| assert_eq!(message.take(at(0), 1 + 10 * i, 5, Some(i + 1)), Taken::New));
        let told: Vec<(usize, u32)> = (0..8)
            .map(|_| {
                let receipt = message.receipt(at(0), 0);
                (receipt.ranges().len(), receipt.ranges()[0].0 / 10)
            })
            .collect();
        assert_eq!(told, [(31, 0), (32, 0), (31, 0), (32, 31), (31, 0), (32, 62), (31, 0), (32, 68)]);
        message.take(at(0), 0, 700, None);
        assert_eq!(message.receipt(at(0), 0).ranges().len(), 30);
    }
}
