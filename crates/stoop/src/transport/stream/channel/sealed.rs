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

/// Bytes that are sealed before they are sent together: those of a fragment of a long message, with its header.
const BATCH_MAX: usize = 5 * RECORD_DATA_MAX;

/// Bytes received at once: at first, and after a receive that has filled so much or a record that is longer.
const READ_MIN: usize = 4 << 10;
const READ_MAX: usize = 5 * (RECORD_DATA_MAX + RECORD_OVERHEAD);

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
    /// Memory for records, and those in it that the stream has not taken.
    records: Vec<u8>,
    unsent: Range<usize>,
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

/// The next record of the bytes behind the first `at` of these slices: what of it is in the first slice, and how many bytes it has. A slice
/// that fills a record by itself begins one, and needs not be copied.
fn next_record<'a>(slices: &'a [IoSlice<'_>], mut at: usize) -> (&'a [u8], usize) {
    let (mut first, mut len): (&[u8], usize) = (&[], 0);
    for slice in slices {
        let behind = slice.get(at..).unwrap_or_default();
        at = at.saturating_sub(slice.len());
        if len == 0 {
            first = behind;
        } else if behind.len() >= RECORD_DATA_MAX {
            break;
        }
        len += behind.len();
        if len >= RECORD_DATA_MAX {
            break;
        }
    }
    (first, len.min(RECORD_DATA_MAX))
}

/// Fills `out` with the bytes of the slices behind the first `at`.
fn gather(slices: &[IoSlice<'_>], mut at: usize, out: &mut [u8]) {
    let mut filled = 0;
    for slice in slices {
        let behind = slice.get(at..).unwrap_or_default();
        let len = behind.len().min(out.len() - filled);
        out[filled..filled + len].copy_from_slice(&behind[..len]);
        filled += len;
        at = at.saturating_sub(slice.len());
    }
}

impl Sealing {
    /// Sends what is there. Returns whether the stream has taken all.
    fn flush(&mut self, stream: &Stream) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match stream.try_send(&[IoSlice::new(&self.records[self.unsent.clone()])])? {
                0 => return Ok(false),
                sent => self.unsent.start += sent,
            }
        }
        self.unsent = 0..0;
        Ok(true)
    }

    /// Makes records of the bytes in these slices behind the first `skipped`: of a batch at most. Returns how many bytes. All records before
    /// have been sent.
    fn seal(&mut self, slices: &[IoSlice<'_>], skipped: usize) -> usize {
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let (mut at, end) = (skipped, all.min(skipped + BATCH_MAX));
        while at < end {
            let (first, len) = next_record(slices, at);
            let (start, len) = (self.unsent.end, len.min(end - at));
            self.unsent.end += len + RECORD_OVERHEAD;
            if self.records.len() < self.unsent.end {
                self.records.resize(self.unsent.end, 0);
            }
            let record = &mut self.records[start..self.unsent.end];
            match first.get(..len) {
                Some(data) => self.sealer.seal_from(record, data),
                None => {
                    gather(slices, at, &mut record[RECORD_HEADER_LEN..][..len]);
                    self.sealer.seal(record);
                }
            }
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
            if !self.clear.is_empty() || given == buffer.len() {
                return Ok(given);
            }
            match self.open_next(&mut buffer[given..])? {
                Some(len) => given += len,
                None => return Ok(given),
            }
        }
    }

    /// Opens the next record, if all of it has arrived: into `out` if its data fits there, else where it is. Returns how many bytes are in
    /// `out`.
    fn open_next(&mut self, out: &mut [u8]) -> io::Result<Option<usize>> {
        if self.has_failed {
            return Err(forged());
        }
        let unread = &mut self.bytes[self.unread.clone()];
        let Some(header) = unread.first_chunk() else { return Ok(None) };
        let len = RecordOpener::<PacketSuite>::data_len(*header);
        let record = len.and_then(|len| unread.get_mut(..len + RECORD_OVERHEAD));
        let (opens, given) = match (len, record) {
            (None, _) => (false, 0),
            (Some(_), None) => return Ok(None),
            (Some(len), Some(record)) if len <= out.len() => {
                (self.opener.open_to(record, &mut out[..len]), len)
            }
            (Some(_), Some(record)) => (self.opener.open(record), 0),
        };
        if !opens {
            self.has_failed = true;
            return Err(forged());
        }
        let start = self.unread.start + RECORD_HEADER_LEN;
        let end = start + len.unwrap_or(0);
        self.clear = start + given..end;
        self.unread.start = end + TAG_LEN;
        Ok(Some(given))
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
            sealing: Mutex::new(Sealing { sealer, records: Vec::new(), unsent: 0..0, owes_last: false }),
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
        if sealing.unsent.is_empty() {
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
