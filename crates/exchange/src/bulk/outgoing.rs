//! A message that is being sent: what to send next, what has arrived, what is lost, and how long to wait for a receipt.

mod next;
mod open;
mod sent;

use super::path::Path;
use super::ranges::Ranges;
use crate::Instant;
use alloc::boxed::Box;
use sent::{Sent, Settled};
use stoop_wire::Receipt;

/// Most ranges with gaps between them that a receipt may add up to. An honest receiver reports fewer:
/// `incoming::MOST_RANGES`.
const MOST_RANGES: usize = 1024;

/// Packets beyond the window that may be sent after a wait without a receipt (RFC 9002 §6.2.4, §7.5).
const PROBE_PACKETS: u8 = 2;

/// Consecutive packets of a message that are to be sent now, each with `fragment` bytes of it, the last perhaps with
/// fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first packet.
    pub offset: u32,
    /// Bytes of the message in all packets together.
    pub len: u32,
    /// Bytes of the message in each packet but the last. More than [`Path::fragment`]: one packet that probes whether
    /// the path carries so much; the network must not fragment it.
    pub fragment: u32,
    /// Transmission number of the first packet; the others follow. The packet at offset 0 has a number, too, but does
    /// not carry it.
    pub transmission: u32,
}

/// A message that is being sent. The owner calls [`end`](Self::end) before it drops it.
///
/// Each byte before `next` is in exactly one state: acknowledged, lost, or in flight.
#[derive(Debug)]
pub struct Outgoing {
    message_len: u32,
    /// The receiver has memory for the bytes before this one.
    limit: u32,
    /// The first byte that was never sent.
    next: u32,
    acknowledged: Ranges,
    /// To be sent again.
    lost: Ranges,
    sent: Sent,
    /// Transmission number of the last packet, and of the highest one that has arrived.
    transmission: u32,
    latest: u32,
    /// The bytes about which the last receipt says whether they have arrived.
    certain: (u32, u32),
    /// When the wait for a receipt began; `NEVER` before the driver first asked what to send.
    since: Instant,
    last_sent: Instant,
    /// Consecutive waits without a useful receipt.
    waits: u32,
    /// Lengthens a wait by so many 1024ths.
    spread: u8,
    /// Packets that may be sent beyond the window.
    extra: u8,
    /// Whether to ask the receiver how much memory it has.
    ask: bool,
    /// More bytes may be added, so that the first ones are not sent again as a question.
    is_open: bool,
    /// The last bytes were added while others were in flight: more come soon.
    is_followed: bool,
    /// The bytes before this one leave without waiting for more.
    flushed: u32,
    /// Packets sent from the first moment to the second have no answer. Rare, and so in a box.
    silence: Option<Box<(Instant, Instant)>>,
    /// When packets in flight will count as lost because of their age.
    loss_time: Instant,
    /// Pacing delays the next packet until then, although the window has space.
    paced_until: Instant,
}

impl Outgoing {
    /// A message of `message_len` bytes, of which the receiver accepts `limit` before its first receipt.
    pub fn new(message_len: u32, limit: u32) -> Self {
        Self {
            message_len,
            limit: limit.min(message_len),
            next: 0,
            acknowledged: Ranges::new(),
            lost: Ranges::new(),
            sent: Sent::default(),
            transmission: 0,
            latest: 0,
            certain: (0, u32::MAX),
            since: Instant::NEVER,
            last_sent: Instant::default(),
            waits: 0,
            spread: 0,
            extra: 0,
            ask: limit == 0 && message_len > 0,
            is_open: false,
            is_followed: false,
            flushed: 0,
            silence: None,
            loss_time: Instant::NEVER,
            paced_until: Instant::NEVER,
        }
    }

    /// Whether every byte has arrived.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged.up_to() == self.message_len
    }

    /// Offset of the first byte that was never sent.
    #[inline]
    pub fn never_sent(&self) -> u32 {
        self.next
    }

    /// Handles a receipt, and returns whether it reports new bytes or a higher limit. A receipt that contradicts what
    /// was sent is ignored.
    pub fn on_receipt(&mut self, now: Instant, receipt: &Receipt, path: &mut Path) -> bool {
        if !self.can_be(receipt) {
            return false;
        }
        if receipt.limit == 0 && self.acknowledged.is_empty() && receipt.up_to == 0 && !self.is_open {
            self.on_no_room(now, path);
            return false;
        }
        let more_room = receipt.limit > self.limit;
        if more_room {
            // The answer to a question, or a higher limit: sending goes on.
            self.limit = receipt.limit.min(self.message_len);
            (self.since, self.waits, self.ask) = (now, 0, false);
        }
        self.sample(now, receipt, path);
        let settled = self.take_ranges(receipt, path);
        self.latest = self.latest.max(receipt.latest);
        self.certain = certain(receipt);
        self.detect_losses(now, path);
        if let Some(oldest) = settled.oldest {
            self.after_silence(oldest, path);
            path.on_arrival(settled.newest);
            (self.since, self.waits, self.extra) = (now, 0, 0);
        }
        more_room || settled.oldest.is_some()
    }

    /// Whether the receipt reports only bytes that were sent, in order.
    fn can_be(&self, receipt: &Receipt) -> bool {
        let mut before = receipt.up_to;
        let in_order = receipt.ranges().iter().all(|&(start, end)| {
            let right = before < start && start < end;
            before = end;
            right
        });
        in_order && before <= self.next && receipt.latest <= self.transmission
    }

    /// The receiver has no memory for the message and has stored nothing of it.
    fn on_no_room(&mut self, now: Instant, path: &mut Path) {
        if self.limit > 0 {
            self.sent.forget(path);
            self.waits = 0;
            (self.limit, self.silence, self.loss_time) = (0, None, Instant::NEVER);
            if self.next > 0 {
                self.lost.insert(0, self.next, usize::MAX);
            }
        }
        self.since = now;
    }

    /// RFC 9002 §5.1: the highest number that has arrived gives a sample when it is first reported.
    fn sample(&mut self, now: Instant, receipt: &Receipt, path: &mut Path) {
        if receipt.latest <= self.latest {
            return;
        }
        if let Some(sent) = self.sent.sent_at(receipt.latest) {
            path.round_trip.sample(now.nanos_since(sent), u64::from(receipt.delay_ns));
        }
    }

    fn take_ranges(&mut self, receipt: &Receipt, path: &mut Path) -> Settled {
        let mut new = 0;
        let beginning = (receipt.up_to > 0).then_some((0, receipt.up_to));
        for (start, end) in beginning.into_iter().chain(receipt.ranges().iter().copied()) {
            let Some(bytes) = self.acknowledged.insert(start, end, MOST_RANGES) else { continue };
            new += bytes;
            if bytes > 0 && !self.lost.is_empty() {
                // It was only late.
                new -= self.lost.remove(start, end);
            }
        }
        self.sent.settle(&self.acknowledged, new, path)
    }

    /// RFC 9002 §6.1: a packet is lost if it was sent long enough before one that has arrived.
    fn detect_losses(&mut self, now: Instant, path: &mut Path) {
        let lost = &mut self.lost;
        self.loss_time = self.sent.detect_losses(now, self.latest, self.certain, path, |start, end| {
            lost.insert(start, end, usize::MAX);
        });
    }

    /// Handles the first arrival after waits without a receipt (RFC 9002 §7.6); `oldest` is when that packet was sent.
    fn after_silence(&mut self, oldest: Instant, path: &mut Path) {
        if let Some((from, until)) = self.silence.take().map(|silence| *silence)
            && oldest > until
        {
            path.on_silence_between(from, until);
        }
    }

    /// Ends the message, delivered or abandoned: its bytes are no longer in flight.
    pub fn end(&mut self, path: &mut Path) {
        self.sent.forget(path);
        self.acknowledged = Ranges::new();
        if self.message_len > 0 {
            self.acknowledged.insert(0, self.message_len, MOST_RANGES);
        }
        self.lost = Ranges::new();
        (self.next, self.ask) = (self.message_len, false);
        (self.loss_time, self.paced_until) = (Instant::NEVER, Instant::NEVER);
    }

    /// Consecutive waits without a useful receipt.
    pub fn waits(&self) -> u32 {
        self.waits
    }

    /// Whether the receiver would accept more now, if the window had space.
    pub fn has_more(&self) -> bool {
        self.ask || self.next_bytes().is_some()
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn next_timeout(&self, path: &Path) -> Instant {
        if self.is_acknowledged() {
            return Instant::NEVER;
        }
        self.next_wait(path).min(self.loss_time).min(self.paced_until)
    }

    /// End of the present wait for a receipt.
    fn next_wait(&self, path: &Path) -> Instant {
        let wait = path.round_trip.wait_after(self.waits);
        let wait = if self.is_open { wait.max(path.round_trip.with_delay()) } else { wait };
        self.since.after_nanos(wait.saturating_add(wait / 1024 * u64::from(self.spread)))
    }

    /// Does what is due at `now`, if anything is. Afterwards [`next_run`](Self::next_run) may return a run.
    pub fn on_timeout(&mut self, now: Instant, path: &mut Path) {
        if now < self.next_timeout(path) {
            return;
        }
        if now >= self.paced_until {
            self.paced_until = Instant::NEVER;
        }
        if now >= self.loss_time {
            return self.detect_losses(now, path);
        }
        if now < self.next_wait(path) {
            return;
        }
        self.waits = self.waits.saturating_add(1);
        (self.since, self.spread) = (now, path.spread());
        if self.next_bytes().is_none() && self.sent.is_empty() {
            // The receiver accepts no more, or the receipt with a higher limit was lost.
            self.ask = true;
            return;
        }
        self.on_fruitless_wait(path);
    }

    /// The last packets were certainly not accepted: sends one or two of them again at once, as after a wait without a
    /// receipt, but without conclusions about loss.
    pub fn ask_again(&mut self, path: &mut Path) {
        if self.is_acknowledged() {
            return;
        }
        self.ask |= self.next_bytes().is_none() && self.sent.is_empty();
        self.extra = PROBE_PACKETS;
        for _ in 0..PROBE_PACKETS {
            if let Some((start, end)) = self.sent.give_up_oldest(path) {
                self.lost.insert(start, end, usize::MAX);
            }
        }
    }

    /// Stops sending, because nothing is heard from the receiver. The packets in flight count as lost. The state of
    /// arrived bytes and the transmission numbers remain, because a later receipt refers to both.
    /// [`ask_again`](Self::ask_again) continues.
    pub fn pause(&mut self, path: &mut Path) {
        while let Some((start, end)) = self.sent.give_up_oldest(path) {
            self.lost.insert(start, end, usize::MAX);
        }
        (self.waits, self.extra, self.since) = (0, 0, Instant::NEVER);
        (self.loss_time, self.paced_until) = (Instant::NEVER, Instant::NEVER);
    }

    /// RFC 9002 §6.2.4: sends one or two packets again, whatever the window. They do not count as lost, so the window
    /// stays.
    fn on_fruitless_wait(&mut self, path: &mut Path) {
        self.extra = PROBE_PACKETS;
        let Some(oldest) = self.sent.oldest() else { return };
        let from = self.silence.as_deref().map_or(oldest, |&(from, _)| from);
        self.silence = Some(Box::new((from, self.last_sent)));
        path.size.on_silence(self.waits);
        for _ in 0..PROBE_PACKETS {
            if let Some((start, end)) = self.sent.give_up_oldest(path) {
                self.lost.insert(start, end, usize::MAX);
            }
        }
    }
}

/// The bytes about which the receipt says whether they have arrived. If there is one range less than fit, the receiver
/// may have left out those behind the last range; if the receipt is full, also those before the first.
fn certain(receipt: &Receipt) -> (u32, u32) {
    let told = receipt.ranges();
    match told {
        [first, .., last] if told.len() == Receipt::MOST_RANGES => (first.0, last.1),
        [.., last] if told.len() == Receipt::MOST_RANGES - 1 => (0, last.1),
        _ => (0, u32::MAX),
    }
}

#[cfg(test)]
mod tests;
