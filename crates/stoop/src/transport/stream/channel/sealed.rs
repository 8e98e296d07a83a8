//! A sealed connection: its bytes in records.

use crate::locked::locked;
use crate::security::cipher::PacketSuite;
use crate::security::keys::PublicKey;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_net::stream::{Stream, StreamArrival};
use stoop_net::{Patience, clock, fork};
use stoop_seal::{
    RECORD_DATA_MAX, RECORD_HEADER_LEN, RECORD_OVERHEAD, RecordOpener, RecordSealer, Secret, TAG_LEN,
};

/// Bytes that are sealed before they are sent together.
const BATCH_MAX: usize = 2 * RECORD_DATA_MAX;

/// Bytes received at once: at first, and after a receive that has filled so much or a record that is longer.
const READ_MIN: usize = 4 << 10;
const READ_MAX: usize = 64 << 10;

/// Records between two looks whether keys have been used for long.
const LOOK_EVERY: u64 = 1024;

/// The keys of a connection, and the bytes on their way.
pub(crate) struct SealedStream {
    /// The peer's key; `None`: it is anonymous.
    pub(crate) peer: Option<PublicKey>,
    /// The process that has made it: no other uses its numbers.
    generation: u32,
    sealing: Mutex<Sealing>,
    opening: Mutex<Opening>,
    /// The last receive found nothing more.
    has_emptied: AtomicBool,
}

/// How a receive waits.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    Patience(Patience),
    /// About so long, and so long at most.
    About(u64, u64),
}

struct Sealing {
    sealer: RecordSealer<PacketSuite>,
    /// Records that the stream has not taken.
    records: Vec<u8>,
    sent: usize,
    /// The last byte that is in them is not counted as sent: it is given again.
    owes_last: bool,
}

struct Opening {
    opener: RecordOpener<PacketSuite>,
    bytes: Vec<u8>,
    /// The bytes in it that have been received and not opened.
    unread: Range<usize>,
    /// The clear bytes in it, in front of these.
    clear: Range<usize>,
    has_failed: bool,
}

fn forged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a record that does not open")
}

impl Sealing {
    /// Sends what is there. Returns whether the stream has taken all.
    fn flush(&mut self, stream: &Stream) -> io::Result<bool> {
        while self.sent < self.records.len() {
            match stream.try_send(&[IoSlice::new(&self.records[self.sent..])])? {
                0 => return Ok(false),
                sent => self.sent += sent,
            }
        }
        self.records.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Makes records of the bytes in these slices behind the first `skipped`: of a batch at most. Returns how many bytes.
    fn seal(&mut self, slices: &[IoSlice<'_>], skipped: usize) -> usize {
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let (mut at, end) = (skipped, all.min(skipped + BATCH_MAX));
        self.records.reserve(end - at + (end - at).div_ceil(RECORD_DATA_MAX) * RECORD_OVERHEAD);
        while at < end {
            let len = (end - at).min(RECORD_DATA_MAX);
            let start = self.records.len();
            self.records.extend_from_slice(&[0; RECORD_HEADER_LEN]);
            let mut before = 0;
            for slice in slices {
                let of = |place: usize| place.clamp(before, before + slice.len()) - before;
                self.records.extend_from_slice(&slice[of(at)..of(at + len)]);
                before += slice.len();
            }
            self.records.extend_from_slice(&[0; TAG_LEN]);
            self.sealer.seal(&mut self.records[start..]);
            if self.sealer.numbers().is_multiple_of(LOOK_EVERY) {
                self.sealer.look(clock::now_ns());
            }
            at += len;
        }
        end - skipped
    }
}

impl Opening {
    /// Space for more bytes.
    fn space(&mut self) -> &mut [u8] {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        let needed = match self.bytes[self.unread.clone()].first_chunk() {
            Some(header) => RecordOpener::<PacketSuite>::data_len(*header).unwrap_or(0) + RECORD_OVERHEAD,
            None => RECORD_OVERHEAD,
        };
        if self.unread.start > 0 && self.unread.start + needed > self.bytes.len() {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let len = if needed > READ_MIN { READ_MAX } else { READ_MIN };
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[self.unread.end..]
    }

    /// Gives out clear bytes, of as many records as have arrived.
    fn give(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        loop {
            let len = self.clear.len().min(buffer.len() - given);
            buffer[given..given + len].copy_from_slice(&self.bytes[self.clear.start..self.clear.start + len]);
            self.clear.start += len;
            given += len;
            if !self.clear.is_empty() || given == buffer.len() || !self.open_next()? {
                return Ok(given);
            }
        }
    }

    /// Opens the next record, if all of it has arrived.
    fn open_next(&mut self) -> io::Result<bool> {
        if self.has_failed {
            return Err(forged());
        }
        let unread = &mut self.bytes[self.unread.clone()];
        let Some(header) = unread.first_chunk() else { return Ok(false) };
        let opened = RecordOpener::<PacketSuite>::data_len(*header).and_then(|len| {
            let Some(record) = unread.get_mut(..len + RECORD_OVERHEAD) else { return Some(None) };
            self.opener.open(record).then_some(Some(len))
        });
        let Some(len) = opened else {
            self.has_failed = true;
            return Err(forged());
        };
        let Some(len) = len else { return Ok(false) };
        let start = self.unread.start + RECORD_HEADER_LEN;
        self.clear = start..start + len;
        self.unread.start += len + RECORD_OVERHEAD;
        Ok(true)
    }
}

impl SealedStream {
    /// With the secrets of what this end seals and opens. `early`: bytes that have been received already.
    pub(crate) fn new(
        suite: PacketSuite,
        (seals, opens): (Secret, Secret),
        peer: Option<PublicKey>,
        early: Vec<u8>,
    ) -> Self {
        let sealer = RecordSealer::new(suite, seals, clock::now_ns());
        let opener = RecordOpener::new(suite, opens);
        let unread = 0..early.len();
        Self {
            peer,
            generation: fork::generation(),
            sealing: Mutex::new(Sealing { sealer, records: Vec::new(), sent: 0, owes_last: false }),
            opening: Mutex::new(Opening { opener, bytes: early, unread, clear: 0..0, has_failed: false }),
            has_emptied: AtomicBool::new(false),
        }
    }

    pub(super) fn recv(
        &self,
        stream: &Stream,
        buffer: &mut [u8],
        mut wait: Wait,
    ) -> io::Result<StreamArrival> {
        let mut opening = locked(&self.opening);
        loop {
            let given = opening.give(buffer)?;
            if given > 0 || buffer.is_empty() {
                return Ok(StreamArrival::Bytes(given));
            }
            let space = opening.space();
            let space_len = space.len();
            let arrival = match wait {
                Wait::Patience(patience) => stream.recv(space, patience)?,
                Wait::About(about_ns, latest_ns) => stream.recv_about(space, about_ns, latest_ns)?,
            };
            let StreamArrival::Bytes(len) = arrival else { return Ok(arrival) };
            opening.unread.end += len;
            self.has_emptied.store(len < space_len, Ordering::Relaxed);
            if len == space_len && opening.bytes.len() < READ_MAX {
                opening.bytes.resize(READ_MAX, 0);
            }
            // Part of a record is nothing yet.
            wait = Wait::Patience(Patience::DontWait);
        }
    }

    pub(super) fn take_held(&self, buffer: &mut [u8]) -> io::Result<usize> {
        locked(&self.opening).give(buffer)
    }

    pub(super) fn has_emptied(&self) -> bool {
        self.has_emptied.load(Ordering::Relaxed)
    }

    pub(super) fn release_memory(&self) {
        let mut opening = locked(&self.opening);
        if opening.unread.is_empty() && opening.clear.is_empty() {
            (opening.bytes, opening.unread, opening.clear) = (Vec::new(), 0..0, 0..0);
        }
        drop(opening);
        let mut sealing = locked(&self.sealing);
        if sealing.records.is_empty() {
            sealing.records = Vec::new();
        }
    }

    pub(super) fn try_send(&self, stream: &Stream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.generation != fork::generation() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut sealing = locked(&self.sealing);
        if sealing.owes_last && !sealing.flush(stream)? {
            return Ok(0);
        }
        let skipped = usize::from(std::mem::take(&mut sealing.owes_last));
        let taken = skipped + sealing.seal(slices, skipped);
        sealing.owes_last = !sealing.flush(stream)?;
        Ok(taken - usize::from(sealing.owes_last))
    }
}

#[cfg(test)]
mod tests;
