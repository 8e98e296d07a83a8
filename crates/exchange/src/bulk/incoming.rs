//! One message being received: which of its bytes are here. Their memory is somebody else's.

use super::ranges::Ranges;
use super::stretch::Span;
use crate::Instant;
use stoop_wire::{HEADER_LEN, Receipt};

/// Ranges of a message that may be here with gaps between them. More need more memory than a sender may make us spend:
/// a sender that does not overtake itself beyond reason meets this only on a network that loses every other packet.
const MOST_RANGES: usize = 512;

/// Bytes after which a receipt does not wait any longer, before any has told a window.
const FIRST_QUARTER: u32 = 64 * 1024;

/// One message being received.
#[derive(Debug)]
pub struct Incoming {
    message_len: u32,
    here: Ranges,
    received: u32,
    /// The highest transmission number that has come, and when; 0 before there is one.
    latest: (u32, Instant),
    /// Bytes received that no receipt has told yet.
    untold: u32,
    /// A quarter of the window that was told last.
    quarter: u32,
    due: bool,
    urgent: bool,
    /// The next receipt tells other ranges than the lowest, if there are so many: those from the one that begins here.
    others_next: bool,
    told_up_to: u32,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It brought bytes that were not here. Some of its others may have been: they are the same in every transmission.
    New,
    /// All of it was here.
    Duplicate,
    /// It lies beyond the message or has no bytes, or too many gaps would have to be remembered: as if it had been lost.
    TooScattered,
}

impl Incoming {
    /// A message of `message_len` bytes, none of which is here.
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

    /// Notes a fragment that has arrived. `transmission`: the number that it carries; the one at offset 0 has none.
    #[inline]
    pub fn take(&mut self, now: Instant, offset: u32, len: u32, transmission: Option<u32>) -> Taken {
        let Some(end) = offset.checked_add(len).filter(|&end| len > 0 && end <= self.message_len) else {
            return Taken::TooScattered;
        };
        let ranges = self.here.count();
        let Some(new) = self.here.insert(offset, end, MOST_RANGES) else { return Taken::TooScattered };
        // Only of what was taken: a number tells the sender that its packet has been here.
        if let Some(number) = transmission.filter(|&number| number > self.latest.0) {
            self.latest = (number, now);
        }
        self.due = true;
        if new == 0 {
            return Taken::Duplicate;
        }
        self.received += new;
        self.untold += new;
        // RFC 9000 §13.2.1: out of order is told at once. The first range of all is no gap if it is the beginning.
        let gap_changed = self.here.count() != ranges && !(ranges == 0 && offset == 0);
        self.urgent |= gap_changed || self.untold >= self.quarter || self.is_complete();
        Taken::New
    }

    /// The parts with which `datagrams` begin, each of them `segment` bytes long, that continue one another, noted as if they
    /// were one; without what would complete the message. `None`: there are none, or they are no news.
    #[inline]
    pub fn take_span(&mut self, now: Instant, datagrams: &[u8], segment: usize) -> Option<Span> {
        // Fewer bytes than are missing: the last part of all is taken by itself, wherever it lies.
        let most = (self.message_len - self.received).checked_sub(1)? as usize;
        let parts = most / segment.checked_sub(HEADER_LEN).filter(|payload| *payload > 0)?;
        let datagrams = &datagrams[..datagrams.len().min(parts.saturating_mul(segment))];
        let stretch = Span::at_beginning(datagrams, segment, self.message_len)?;
        let (offset, len) = (stretch.offset as u32, stretch.len as u32);
        (self.take(now, offset, len, Some(stretch.transmission)) == Taken::New).then_some(stretch)
    }

    /// Bytes of the whole message.
    #[inline]
    pub fn message_len(&self) -> u32 {
        self.message_len
    }

    /// Every byte is here.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.received == self.message_len
    }

    /// Bytes that are here.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// A gap has opened or closed, a quarter of the window has come unacknowledged, or the message is complete: the
    /// sender should be told soon.
    #[inline]
    pub fn receipt_is_urgent(&self) -> bool {
        self.urgent
    }

    /// Something has come since the last receipt: it is to be told when the socket is drained. A duplicate counts: its
    /// sender has missed a receipt.
    #[inline]
    pub fn receipt_is_due(&self) -> bool {
        self.due
    }

    /// What the sender is to be told now. `window`: bytes that may be on their way to us at the same time, for this
    /// message; 0: send nothing more for now, we have no room.
    pub fn receipt(&mut self, now: Instant, window: u32) -> Receipt {
        (self.untold, self.due, self.urgent) = (0, false, false);
        self.quarter = (window / 4).max(1);
        let (latest, arrived) = self.latest;
        let delay = if latest == 0 { 0 } else { u32::try_from(now.nanos_since(arrived)).unwrap_or(u32::MAX) };
        // What was sent and is not here yet lies before this limit: at most a window of it.
        let limit = self.received.saturating_add(window).min(self.message_len);
        let mut receipt = Receipt::new(latest, delay, limit, self.here.up_to());
        self.ranges_to_tell().iter().for_each(|&(start, end)| _ = receipt.push(start, end));
        receipt
    }

    /// The lowest ranges, at most one less than fit. While there are more, every other receipt is full and tells others
    /// instead, in turn: its sender must learn of them, too, but of what lies before the first it learns nothing.
    fn ranges_to_tell(&mut self) -> &[(u32, u32)] {
        const FULL: usize = Receipt::MOST_RANGES;
        let ranges = self.here.beyond();
        if ranges.len() < FULL || !self.others_next {
            self.others_next = true;
            return &ranges[..ranges.len().min(FULL - 1)];
        }
        self.others_next = false;
        // One is told twice, so that the gap behind it is between two that are told.
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
    fn what_comes_in_order_is_told_as_one_beginning() {
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
    fn a_gap_is_told_when_it_opens_and_when_it_closes() {
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
    fn a_quarter_of_the_window_is_told_without_delay() {
        let mut message = Incoming::new(100_000);
        message.receipt(at(0), 8000);
        message.take(at(0), 0, 1999, None);
        assert!(!message.receipt_is_urgent());
        message.take(at(0), 1999, 1, Some(2));
        assert!(message.receipt_is_urgent());
    }

    #[test]
    fn a_duplicate_is_told_again() {
        let mut message = Incoming::new(3000);
        message.take(at(0), 0, 1440, None);
        message.receipt(at(0), 1);
        assert_eq!(message.take(at(0), 10, 1000, Some(7)), Taken::Duplicate);
        assert!(message.receipt_is_due());
        assert_eq!((message.received(), message.receipt(at(0), 1).latest), (1440, 7));
    }

    #[test]
    fn lies_about_places_and_lengths_are_not_taken() {
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
    fn receipts_tell_the_lowest_ranges_and_the_others_in_turn() {
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
