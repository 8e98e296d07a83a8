//! What of a message is in flight, in the order in which it was sent.

use super::Run;
use crate::Instant;
use crate::bulk::path::Path;
use crate::bulk::ranges::Ranges;
use alloc::collections::VecDeque;

/// RFC 9002 §6.1.1 kPacketThreshold.
const PACKET_THRESHOLD: u32 = 3;

/// Runs, and what is left of them. Receipts cut pieces out of a run only where its packets fare differently.
#[derive(Debug, Default)]
pub(super) struct Sent(VecDeque<Piece>);

/// Bytes `start..end` of the run that began at `base`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    base: u32,
    fragment: u32,
    /// Number of the run's first packet.
    transmission: u32,
    probe: bool,
    at: Instant,
}

/// When that was sent which a receipt tells for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// `None`: it tells nothing new.
    pub(super) oldest: Option<Instant>,
    pub(super) newest: Instant,
}

impl Settled {
    fn add(&mut self, at: Instant) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        self.newest = self.newest.max(at);
    }
}

impl Piece {
    /// Number of the packet with the byte at `offset`.
    fn number_of(&self, offset: u32) -> u32 {
        self.transmission.saturating_add((offset - self.base) / self.fragment)
    }

    fn first(&self) -> u32 {
        self.number_of(self.start)
    }

    fn last(&self) -> u32 {
        self.number_of(self.end - 1)
    }

    /// The end of the packet with number `number`, or of the piece if it is not in it any more.
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
            // An earlier transmission of a part of it has arrived: that says nothing.
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
        self.0.push_back(Piece { start, end: start + len, base: start, fragment, transmission, probe, at });
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|piece| (piece.start, piece.end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.0.front().map(|piece| piece.at)
    }

    /// When the packet with this number was sent, if it is in flight.
    pub(super) fn sent_at(&self, number: u32) -> Option<Instant> {
        let after = self.0.partition_point(|piece| piece.first() <= number);
        let piece = self.0.get(after.checked_sub(1)?)?;
        (piece.last() >= number).then_some(piece.at)
    }

    /// Takes out what has been acknowledged; `new` bytes of it are still here.
    pub(super) fn settle(&mut self, acknowledged: &Ranges, mut new: u32, path: &mut Path) -> Settled {
        let mut settled = Settled::default();
        let up_to = acknowledged.up_to();
        while new > 0
            && let Some(piece) = self.0.front_mut()
            && piece.start < up_to
        {
            let end = piece.end.min(up_to);
            let bytes = end - piece.start;
            piece.acknowledge(bytes, path);
            settled.add(piece.at);
            new -= bytes;
            if end < piece.end {
                (piece.start, piece.probe) = (end, false);
                break;
            }
            self.0.pop_front();
        }
        if new > 0 {
            self.settle_scattered(acknowledged, new, path, &mut settled);
        }
        settled
    }

    /// As [`settle`](Self::settle), wherever it is.
    fn settle_scattered(
        &mut self,
        acknowledged: &Ranges,
        mut new: u32,
        path: &mut Path,
        settled: &mut Settled,
    ) {
        for _ in 0..self.0.len() {
            let Some(mut piece) = self.0.pop_front() else { return };
            let touching = if new == 0 { &[] } else { acknowledged.touching(piece.start, piece.end) };
            for &(start, end) in touching {
                if piece.start < start {
                    self.0.push_back(Piece { end: start, probe: false, ..piece });
                    piece.start = start;
                }
                let end = end.min(piece.end);
                new -= end - start.max(piece.start);
                piece.acknowledge(end - piece.start, path);
                settled.add(piece.at);
                (piece.start, piece.probe) = (end, false);
            }
            if piece.start < piece.end {
                self.0.push_back(piece);
            }
        }
    }

    /// Takes out what is lost because the packet with number `latest` has arrived, and tells it to `lost`; nothing
    /// that is not `certain`ly missing. Returns when more will be lost if nothing else happens.
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
        while let Some(&piece) = self.0.get(next)
            && piece.transmission < latest
        {
            let first = piece.first();
            if first >= latest {
                break;
            }
            // RFC 9002 §6.1.2, and §6.1.1.
            let late = piece.at.after_nanos(delay) <= now;
            let number = if late { latest - 1 } else { latest.saturating_sub(PACKET_THRESHOLD) };
            if number < first {
                return piece.at.after_nanos(delay);
            }
            if piece.start < certain.0 || piece.end > certain.1 {
                next += 1;
                continue;
            }
            let end = piece.end_of(number);
            let part = Piece { end, ..piece };
            part.lose(now, path);
            lost(part.start, part.end);
            if end < piece.end {
                self.0[next].start = end;
                next += usize::from(late);
            } else {
                self.0.remove(next);
            }
        }
        Instant::NEVER
    }

    /// Takes out the packet that was sent first of those in flight, without saying that it was lost.
    pub(super) fn give_up_oldest(&mut self, path: &mut Path) -> Option<(u32, u32)> {
        let piece = self.0.front_mut()?;
        let part = Piece { end: piece.end_of(piece.first()), ..*piece };
        if part.end < piece.end {
            piece.start = part.end;
        } else {
            self.0.pop_front();
        }
        path.congestion.on_forgotten(part.bytes());
        if part.probe {
            path.size.on_probe_forgotten();
        }
        Some((part.start, part.end))
    }

    /// Takes out everything.
    pub(super) fn forget(&mut self, path: &mut Path) {
        for piece in self.0.drain(..) {
            path.congestion.on_forgotten(piece.bytes());
            if piece.probe {
                path.size.on_probe_forgotten();
            }
        }
    }
}
