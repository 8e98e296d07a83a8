//! One message being sent: what goes out next, what has arrived, what is lost, and how long to wait for news.

mod next;
mod sent;

use super::path::Path;
use super::ranges::Ranges;
use crate::Instant;
use sent::{Sent, Settled};
use stoop_wire::Receipt;

/// Ranges with gaps between them that a receiver is believed. An honest one has fewer: `incoming::MOST_RANGES`.
const MOST_RANGES: usize = 1024;

/// Packets that a wait in vain lets go beyond the window (RFC 9002 §6.2.4, §7.5).
const PACKETS_OF_A_WAIT: u8 = 2;

/// Consecutive packets of a message that are to be sent now, each with `fragment` bytes of it, the last perhaps with less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of the first packet.
    pub offset: u32,
    /// Bytes of the message in all packets together.
    pub len: u32,
    /// Bytes of the message in each packet but the last. More than [`Path::fragment`]: one packet that finds out whether
    /// the path carries so much; it must not be fragmented by the network.
    pub fragment: u32,
    /// Number of the first packet; the others follow. The fragment at offset 0 has one, too, and does not carry it.
    pub transmission: u32,
}

/// One message being sent. Whoever drops it calls [`end`](Self::end) before.
///
/// Of the bytes before `next`, each is acknowledged, lost or in flight, and never two of these.
#[derive(Debug)]
pub struct Outgoing {
    message_len: u32,
    /// The receiver has room for the bytes before it.
    limit: u32,
    /// The first byte that was never sent.
    next: u32,
    acknowledged: Ranges,
    /// To be sent again.
    lost: Ranges,
    sent: Sent,
    /// Number of the packet that was sent last, and of the highest that has arrived.
    transmission: u32,
    latest: u32,
    /// The bytes that the last receipt told of, whether they had arrived or not.
    certain: (u32, u32),
    /// What the wait for news is counted from; never, before the driver first asked what to send.
    since: Instant,
    last_sent: Instant,
    /// Waits in a row that brought nothing.
    waits: u32,
    /// Lengthens a wait by so many 1024ths.
    spread: u8,
    /// Packets that may go beyond the window.
    extra: u8,
    /// The receiver is to be asked how much it has room for.
    ask: bool,
    /// Sent from the first moment to the second, all without an answer.
    silence: Option<(Instant, Instant)>,
    /// When the time of what is in flight makes some of it lost.
    loss_time: Instant,
    /// The window has room, but the next packet is not to go before.
    paced_until: Instant,
}

impl Outgoing {
    /// A message of `message_len` bytes, of which the receiver takes `limit` before it says more.
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
            silence: None,
            loss_time: Instant::NEVER,
            paced_until: Instant::NEVER,
        }
    }

    /// Every byte has arrived.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged.up_to() == self.message_len
    }

    /// Takes what the receiver tells, and says whether it is news: bytes that have arrived, or room for more. What
    /// contradicts what was sent is ignored.
    pub fn on_receipt(&mut self, now: Instant, receipt: &Receipt, path: &mut Path) -> bool {
        if !self.can_be(receipt) {
            return false;
        }
        if receipt.limit == 0 && self.acknowledged.is_empty() && receipt.up_to == 0 {
            self.on_no_room(now, path);
            return false;
        }
        let more_room = receipt.limit > self.limit;
        if more_room {
            // An answer to a question, or more room: either way it goes on.
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

    /// Whether the receipt tells only of what was sent, in order.
    fn can_be(&self, receipt: &Receipt) -> bool {
        let mut before = receipt.up_to;
        let in_order = receipt.ranges().iter().all(|&(start, end)| {
            let right = before < start && start < end;
            before = end;
            right
        });
        in_order && before <= self.next && receipt.latest <= self.transmission
    }

    /// The receiver has no room for the message and has kept nothing of it.
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

    /// RFC 9002 §5.1: the highest number that has arrived, when it is told for the first time, is a sample.
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

    /// RFC 9002 §6.1: lost is what was sent long enough before something that has arrived.
    fn detect_losses(&mut self, now: Instant, path: &mut Path) {
        let lost = &mut self.lost;
        self.loss_time = self.sent.detect_losses(now, self.latest, self.certain, path, |start, end| {
            lost.insert(start, end, usize::MAX);
        });
    }

    /// Something sent at `oldest` is the first to arrive after waits in vain (RFC 9002 §7.6).
    fn after_silence(&mut self, oldest: Instant, path: &mut Path) {
        if let Some((from, until)) = self.silence.take()
            && oldest > until
        {
            path.on_silence_between(from, until);
        }
    }

    /// Delivered or given up: what was in flight no longer is.
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

    /// Waits for news, one after the other, that brought nothing.
    pub fn waits(&self) -> u32 {
        self.waits
    }

    /// Whether its receiver would take more of it now, if there were room on the way.
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

    /// Until when news is waited for.
    fn next_wait(&self, path: &Path) -> Instant {
        let wait = path.round_trip.wait_after(self.waits);
        self.since.after_nanos(wait.saturating_add(wait / 1024 * u64::from(self.spread)))
    }

    /// Does what is due at `now`, if anything is; [`next_run`](Self::next_run) may then have something.
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
            // The receiver takes no more, or what said that it does was lost.
            self.ask = true;
            return;
        }
        self.wait_was_in_vain(path);
    }

    /// What was sent last has certainly not been taken: a packet or two of it go out again at once, as after a wait in vain,
    /// but nothing is concluded from it.
    pub fn ask_again(&mut self, path: &mut Path) {
        if self.is_acknowledged() {
            return;
        }
        self.ask |= self.next_bytes().is_none() && self.sent.is_empty();
        self.extra = PACKETS_OF_A_WAIT;
        for _ in 0..PACKETS_OF_A_WAIT {
            if let Some((start, end)) = self.sent.give_up_oldest(path) {
                self.lost.insert(start, end, usize::MAX);
            }
        }
    }

    /// Nobody seems to be there: what was in flight no longer is, and counts as lost. What has arrived is not forgotten, nor
    /// how often was sent: whoever comes back speaks of both. [`ask_again`](Self::ask_again) goes on.
    pub fn rest(&mut self, path: &mut Path) {
        while let Some((start, end)) = self.sent.give_up_oldest(path) {
            self.lost.insert(start, end, usize::MAX);
        }
        (self.waits, self.extra, self.since) = (0, 0, Instant::NEVER);
        (self.loss_time, self.paced_until) = (Instant::NEVER, Instant::NEVER);
    }

    /// RFC 9002 §6.2.4: a packet or two are sent again whatever the window is. That they are lost is not said: the window
    /// is as it was.
    fn wait_was_in_vain(&mut self, path: &mut Path) {
        self.extra = PACKETS_OF_A_WAIT;
        let Some(oldest) = self.sent.oldest() else { return };
        let from = self.silence.map_or(oldest, |(from, _)| from);
        self.silence = Some((from, self.last_sent));
        path.size.on_silence(self.waits);
        for _ in 0..PACKETS_OF_A_WAIT {
            if let Some((start, end)) = self.sent.give_up_oldest(path) {
                self.lost.insert(start, end, usize::MAX);
            }
        }
    }
}

/// Of which bytes the receipt says whether they have arrived. The receiver has left out what lies behind the ranges, if
/// they are one less than fit, and what lies before them too, if they are as many as fit.
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
