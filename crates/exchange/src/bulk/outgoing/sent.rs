//! The packets of a message that are in flight, in the order in which they were sent.

use super::Run;
use crate::Instant;
use crate::bulk::path::Path;
use crate::bulk::ranges::Ranges;
use alloc::collections::VecDeque;

/// RFC 9002 §6.1.1 kPacketThreshold.
const PACKET_THRESHOLD: u32 = 3;

/// Memory for so few runs is not kept while none is in flight: quiet pipes are many, and send one at a time.
const KEPT: usize = 1;

/// Runs in flight, or parts of them. A receipt splits a run only if some of its packets have arrived and others have
/// not.
#[derive(Debug, Default)]
pub(super) struct Sent(VecDeque<SentRange>);

/// Bytes `start..end` of the run that began at `base`.
#[derive(Clone, Copy, Debug)]
struct SentRange {
    start: u32,
    end: u32,
    base: u32,
    fragment: u32,
    /// Transmission number of the run's first packet.
    transmission: u32,
    probe: bool,
    at: Instant,
}

/// When the packets were sent that a receipt reports for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// `None`: it reports nothing new.
    pub(super) oldest: Option<Instant>,
    pub(super) newest: Instant,
}

impl Settled {
    fn add(&mut self, at: Instant) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        self.newest = self.newest.max(at);
    }
}

impl SentRange {
    /// Transmission number of the packet with the byte at `offset`.
    fn number_of(&self, offset: u32) -> u32 {
        self.transmission.saturating_add((offset - self.base) / self.fragment)
    }

    fn first(&self) -> u32 {
        self.number_of(self.start)
    }

    fn last(&self) -> u32 {
        self.number_of(self.end - 1)
    }

    /// End of the packet with this number, or of this range if the packet reaches beyond it.
    fn end_of(&self, number: u32) -> u32 {
        let packets = u64::from(number - self.transmission) + 1;
        let end = u64::from(self.base) + packets * u64::from(self.fragment);
        u32::try_from(end).unwrap_or(u32::MAX).min(self.end)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.end - self.start)
    }

    fn acknowledge(&self, bytes: u32, path: &mut Path) {
        let packet = path.packet();
        path.congestion.on_acknowledged(u64::from(bytes), self.at, packet);
        if !self.probe {
            return;
        }
        match bytes == self.fragment {
            true => path.on_probe_acknowledged(self.fragment),
            // An earlier transmission of a part of it may have arrived, so this says nothing about the size.
            false => path.size.on_probe_forgotten(),
        }
    }

    fn lose(&self, now: Instant, path: &mut Path) {
        if self.probe {
            path.congestion.on_forgotten(self.bytes());
            return path.size.on_probe_lost(now);
        }
        let packet = path.packet();
        path.congestion.on_lost(now, self.bytes(), self.at, packet);
    }
}

impl Sent {
    pub(super) fn push(&mut self, run: Run, at: Instant, probe: bool) {
        let Run { offset: start, len, fragment, transmission } = run;
        if self.0.capacity() == 0 {
            // Of most messages and items there is only one.
            self.0.reserve_exact(1);
        }
        self.0.push_back(SentRange {
            start,
            end: start + len,
            base: start,
            fragment,
            transmission,
            probe,
            at,
        });
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|range| (range.start, range.end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.0.front().map(|range| range.at)
    }

    /// When the packet with this number was sent, if it is in flight.
    pub(super) fn sent_at(&self, number: u32) -> Option<Instant> {
        let after = self.0.partition_point(|range| range.first() <= number);
        let range = self.0.get(after.checked_sub(1)?)?;
        (range.last() >= number).then_some(range.at)
    }

    /// Removes acknowledged bytes, of which `new` are still here.
    pub(super) fn settle(&mut self, acknowledged: &Ranges, mut new: u32, path: &mut Path) -> Settled {
        let mut settled = Settled::default();
        let up_to = acknowledged.up_to();
        while new > 0
            && let Some(range) = self.0.front_mut()
            && range.start < up_to
        {
            let end = range.end.min(up_to);
            let bytes = end - range.start;
            range.acknowledge(bytes, path);
            settled.add(range.at);
            new -= bytes;
            if end < range.end {
                (range.start, range.probe) = (end, false);
                break;
            }
            self.0.pop_front();
        }
        if new > 0 {
            self.settle_scattered(acknowledged, new, path, &mut settled);
        }
        if self.0.is_empty() && self.0.capacity() <= KEPT {
            self.0 = VecDeque::new();
        }
        settled
    }

    /// As [`settle`](Self::settle), for bytes at any place.
    fn settle_scattered(
        &mut self,
        acknowledged: &Ranges,
        mut new: u32,
        path: &mut Path,
        settled: &mut Settled,
    ) {
        for _ in 0..self.0.len() {
            let Some(mut range) = self.0.pop_front() else { return };
            let touching = if new == 0 { &[] } else { acknowledged.touching(range.start, range.end) };
            for &(start, end) in touching {
                if range.start < start {
                    self.0.push_back(SentRange { end: start, probe: false, ..range });
                    range.start = start;
                }
                let end = end.min(range.end);
                new -= end - start.max(range.start);
                range.acknowledge(end - range.start, path);
                settled.add(range.at);
                (range.start, range.probe) = (end, false);
            }
            if range.start < range.end {
                self.0.push_back(range);
            }
        }
    }

    /// Removes packets that count as lost because the packet with number `latest` has arrived, and passes them to
    /// `lost`. Only bytes that are `certain` to be missing are removed. Returns when more will count as lost without
    /// further arrivals.
    pub(super) fn detect_losses(
        &mut self,
        now: Instant,
        latest: u32,
        certain: (u32, u32),
        path: &mut Path,
        mut lost: impl FnMut(u32, u32),
    ) -> Instant {
        let delay = path.round_trip.loss_delay();
        let mut next = 0;
        while let Some(&range) = self.0.get(next)
            && range.transmission < latest
        {
            let first = range.first();
            if first >= latest {
                break;
            }
            // RFC 9002 §6.1.2, and §6.1.1.
            let late = range.at.after_nanos(delay) <= now;
            let number = if late { latest - 1 } else { latest.saturating_sub(PACKET_THRESHOLD) };
            if number < first {
                return range.at.after_nanos(delay);
            }
            if range.start < certain.0 || range.end > certain.1 {
                next += 1;
                continue;
            }
            let end = range.end_of(number);
            let part = SentRange { end, ..range };
            part.lose(now, path);
            lost(part.start, part.end);
            if end < range.end {
                self.0[next].start = end;
                next += usize::from(late);
            } else {
                self.0.remove(next);
            }
        }
        Instant::NEVER
    }

    /// Removes the packet that was sent first, without counting it as lost.
    pub(super) fn give_up_oldest(&mut self, path: &mut Path) -> Option<(u32, u32)> {
        let range = self.0.front_mut()?;
        let part = SentRange { end: range.end_of(range.first()), ..*range };
        if part.end < range.end {
            range.start = part.end;
        } else {
            self.0.pop_front();
        }
        path.congestion.on_forgotten(part.bytes());
        if part.probe {
            path.size.on_probe_forgotten();
        }
        Some((part.start, part.end))
    }

    /// The lowest offset and the lowest transmission number that a range refers to.
    pub(super) fn least(&self) -> (u32, u32) {
        let least = |of: fn(&SentRange) -> u32| self.0.iter().map(of).min().unwrap_or(u32::MAX);
        (least(|range| range.base), least(|range| range.transmission))
    }

    /// Makes all offsets and transmission numbers smaller.
    pub(super) fn rebase(&mut self, offsets: u32, numbers: u32) {
        for range in &mut self.0 {
            range.start -= offsets;
            range.end -= offsets;
            range.base -= offsets;
            range.transmission -= numbers;
        }
    }

    /// Removes everything.
    pub(super) fn forget(&mut self, path: &mut Path) {
        for range in self.0.drain(..) {
            path.congestion.on_forgotten(range.bytes());
            if range.probe {
                path.size.on_probe_forgotten();
            }
        }
    }
}
