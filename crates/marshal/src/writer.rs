//! Filling the payload of a packet.

use crate::data::align_of_wire;
use crate::layout::{POSITION_MAX, align_up};
use crate::limits::STACK_BUDGET;
use crate::sharing::Sent;
use crate::view::{Extent, Views};
use crate::{Data, EncodeError, Leading, Scalar};

/// Writes values into the payload of a packet, one after the other.
///
/// Overflow is sticky: what does not fit is not written, and [`finish`](Writer::finish) says so once for all. Held in a
/// local variable its position is a constant wherever the values before have a fixed size, and a value costs a bound
/// check and its stores.
pub struct Writer<'a> {
    /// The packet. Never longer than `start + limit`, so that its length is the only bound to check.
    packet: &'a mut Vec<u8>,
    /// Where the payload begins in the packet; less the bytes that were [skipped](Writer::skip_borrowed), so that it may be below 0,
    /// where no position in the packet is.
    start: usize,
    /// Bytes of payload there may be. [`NO_MEMORY`] once the process had none left: then nothing more is written.
    limit: usize,
    /// Bytes up to which the packet is made longer for arguments that a procedure writes in place.
    lendable: usize,
    /// Where the next byte goes, from the start of the payload. Goes on counting when nothing fits any more.
    position: usize,
    stack_left: usize,
    failure: Option<EncodeError>,
    sent: Option<Box<Sent>>,
}

/// Progress of a [`Writer`].
pub struct Progress {
    position: usize,
    limit: usize,
    failure: Option<EncodeError>,
}

/// The limit of a writer that has found no memory for its packet.
const NO_MEMORY: usize = usize::MAX;

impl<'a> Writer<'a> {
    /// A payload of at most `limit` bytes from byte `start` of `packet`, which is made longer when needed, or cut to
    /// `start + limit` bytes.
    ///
    /// # Panics
    /// If `start` is not a multiple of 16, the largest alignment.
    #[inline(always)]
    pub fn new(packet: &'a mut Vec<u8>, start: usize, limit: usize) -> Self {
        assert!(start.is_multiple_of(16), "a payload is aligned for every value in it");
        if packet.len() > start + limit {
            packet.truncate(start + limit);
        }
        let (lendable, position, stack_left) = (limit, 0, STACK_BUDGET);
        Writer { packet, start, limit, lendable, position, stack_left, failure: None, sent: None }
    }

    /// The same, but not made longer than `bytes` of payload for arguments that a procedure writes in place: how much
    /// that is, the caller says with a few bytes. When it is more, [`finish`](Writer::finish) says how much.
    #[inline(always)]
    #[must_use]
    pub fn with_out_limit(self, bytes: usize) -> Self {
        Writer { lendable: bytes.min(self.limit), ..self }
    }

    /// The same payload, of which so many bytes are written already, `borrowed` of them [elsewhere](Self::skip_borrowed).
    #[must_use]
    pub fn behind(self, written: usize, borrowed: usize) -> Self {
        Writer { start: self.start.wrapping_sub(borrowed), position: written, ..self }
    }

    /// Where the next byte goes, from the start of the payload.
    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes of the longest payload.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of the payload that OUT arguments may take.
    #[inline]
    pub fn out_limit(&self) -> usize {
        self.lendable
    }

    /// The same payload from its beginning, as a local variable of code that writes all of it;
    /// [`resume`](Writer::resume) with what was done there.
    #[inline(always)]
    pub fn restarted(&mut self) -> Writer<'_> {
        Writer {
            packet: self.packet,
            start: self.start,
            limit: self.limit,
            lendable: self.lendable,
            position: 0,
            stack_left: STACK_BUDGET,
            failure: None,
            sent: None,
        }
    }

    /// Progress so far.
    #[inline(always)]
    pub fn progress(self) -> Progress {
        Progress { position: self.position, limit: self.limit, failure: self.failure }
    }

    /// Goes on after what was done [elsewhere](Writer::restarted).
    #[inline(always)]
    pub fn resume(&mut self, progress: Progress) {
        (self.position, self.limit) = (progress.position, progress.limit);
        if progress.failure.is_some() {
            self.failure = progress.failure;
        }
    }

    /// The bytes of payload written, unless something could not be.
    ///
    /// # Errors
    /// When the values did not fit, or could not be expressed.
    #[inline(always)]
    pub fn finish(self) -> Result<usize, EncodeError> {
        if self.start.wrapping_add(self.position) > self.packet.len() || self.failure.is_some() {
            return Err(self.failure());
        }
        let position = self.position;
        if self.sent.is_none() {
            // Then there is nothing to drop, which the compiler sees to by a call each time.
            core::mem::forget(self);
        }
        Ok(position)
    }

    #[cold]
    fn failure(&self) -> EncodeError {
        let why = match self.limit {
            NO_MEMORY => EncodeError::NoMemory { needed_at_least: self.position },
            limit => EncodeError::TooLarge { needed_at_least: self.position, limit },
        };
        self.failure.unwrap_or(why)
    }

    /// Whether something could not be written, so that there is no point in going on.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some() || self.position > self.limit || self.limit == NO_MEMORY
    }

    /// Whether it has failed because its peer [cannot be told](EncodeError::Inexpressible) something.
    pub fn is_inexpressible(&self) -> bool {
        matches!(self.failure, Some(EncodeError::Inexpressible { .. }))
    }

    /// Declares the message unsendable; the first reason counts.
    #[cold]
    pub fn fail(&mut self, error: EncodeError) {
        self.failure.get_or_insert(error);
    }

    /// Declares the message unsendable for want of memory.
    #[cold]
    pub(crate) fn fail_for_memory(&mut self) {
        self.fail(EncodeError::NoMemory { needed_at_least: self.position });
    }

    /// Makes sure that the first values of a message fit, so that they need not be checked one by one; if they do not,
    /// there is nothing more to write, and [`finish`](Writer::finish) says so.
    #[inline(always)]
    #[must_use]
    pub fn begin(&mut self, leading: Leading) -> bool {
        let end = self.start.wrapping_add(leading.len());
        // Asked again after growing: it is what the compiler then knows of every later position.
        if self.packet.len() < end {
            self.limit = grow(self.packet, end, self.start, self.limit);
        }
        let fits = self.packet.len() >= end;
        if !fits {
            self.position = leading.len();
        }
        fits
    }

    /// The next `len` bytes, at a multiple of `align`; `None` if they do not fit.
    #[inline(always)]
    pub fn chunk(&mut self, align: usize, len: usize) -> Option<&mut [u8]> {
        let before = self.position;
        let at = align_up(before, align);
        let end = at.saturating_add(len).min(POSITION_MAX);
        self.position = end;
        let from = self.start.wrapping_add(at);
        let fits = self.packet.len().checked_sub(from).is_some_and(|room| room >= len);
        if !fits {
            self.limit = grow(self.packet, self.start.wrapping_add(end), self.start, self.limit);
        }
        if at != before {
            // The packet held another message before; nothing of it may leave with this one.
            self.packet.get_mut(self.start.wrapping_add(before)..from)?.fill(0);
        }
        self.packet.get_mut(from..)?.get_mut(..len)
    }

    /// Skips `len` bytes of the payload at a multiple of `align`, which the transport takes from the caller's memory. Returns their
    /// offset in the payload.
    pub fn skip_borrowed(&mut self, align: usize, len: usize) -> usize {
        // The packet holds the padding before them.
        let _ = self.chunk(align, 0);
        let at = self.position;
        self.position = at.saturating_add(len).min(POSITION_MAX);
        if self.limit == NO_MEMORY {
            return at;
        }
        if self.position > self.limit {
            self.fail(EncodeError::TooLarge { needed_at_least: self.position, limit: self.limit });
            return at;
        }
        self.start = self.start.wrapping_sub(len);
        self.packet.truncate(self.start.wrapping_add(self.limit).min(self.packet.len()));
        at
    }

    /// Writes a value.
    #[inline(always)]
    pub fn value<T: Data>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Writes a value of a fixed type.
    #[inline(always)]
    pub fn fixed<T: Data>(&mut self, value: &T) {
        if let Some(chunk) = self.chunk(T::LAYOUT.align(), T::LAYOUT.fixed_size()) {
            value.store(chunk);
        }
    }

    /// Writes the count of a sequence.
    #[inline(always)]
    pub fn count(&mut self, count: usize) {
        let Ok(count) = u32::try_from(count) else {
            return self.fail(EncodeError::TooMany { count });
        };
        self.fixed(&count);
    }

    /// Writes a text: its length in bytes, and UTF-8.
    #[inline(always)]
    pub fn text(&mut self, text: &str) {
        self.count(text.len());
        self.scalars(text.as_bytes());
    }

    /// Writes a sequence: its count and its elements.
    #[inline(always)]
    pub fn sequence<T: Data>(&mut self, values: &[T]) {
        self.count(values.len());
        T::encode_all(values, self);
    }

    /// Writes scalars one after the other, without a count.
    #[inline(always)]
    pub fn scalars<S: Scalar>(&mut self, values: &[S]) {
        if values.is_empty() {
            return;
        }
        if let Some(chunk) = self.chunk(align_of_wire::<S>(), size_of_val(values)) {
            S::store_scalars(values, chunk);
        }
    }

    /// Goes one level deeper, for `charge` bytes of stack as [`stack_charge`](crate::limits::stack_charge) estimates
    /// them; to be followed by [`leave`](Writer::leave) with the same. `false`, and nothing more is to be written, when
    /// that is too deep or something has failed already.
    #[inline]
    #[must_use]
    pub fn enter(&mut self, charge: usize) -> bool {
        if self.has_failed() {
            return false;
        }
        match self.stack_left.checked_sub(charge) {
            Some(left) => self.stack_left = left,
            None => self.fail(EncodeError::TooDeep),
        }
        self.failure.is_none()
    }

    /// Comes back from one level deeper.
    #[inline]
    pub fn leave(&mut self, charge: usize) {
        self.stack_left += charge;
    }

    /// The shared values that this message has already.
    pub(crate) fn sent(&mut self) -> &mut Sent {
        self.sent.get_or_insert_default()
    }

    /// Where [`reserve`](Writer::reserve) would begin.
    #[inline(always)]
    pub fn extent(&self) -> Extent {
        Extent::at(self.position)
    }

    /// Takes the bytes up to `extent` for arguments that a procedure writes in place; `None` if the packet is not long
    /// enough [yet](Writer::with_room).
    #[inline(always)]
    pub fn reserve(&mut self, extent: Extent) -> Option<Views<'_>> {
        let position = self.position;
        let chunk =
            self.packet.get_mut(self.start.wrapping_add(position)..)?.get_mut(..extent.end() - position)?;
        self.position = extent.end();
        Some(Views::new(chunk, position))
    }

    /// Makes the packet long enough for `extent`, and goes on with `then`; `None` if it must not be that long, which
    /// [`finish`](Writer::finish) then explains.
    ///
    /// The function that calls this returns the value of `then`, and so keeps nothing in registers for this rare case.
    #[cold]
    #[inline(never)]
    pub fn with_room<R>(&mut self, extent: Extent, then: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let end = extent.end();
        if end > self.lendable {
            self.fail(EncodeError::TooLarge { needed_at_least: end, limit: self.limit });
            return None;
        }
        grow(self.packet, self.start.wrapping_add(end), self.start, self.lendable);
        if self.packet.len() < self.start.wrapping_add(end) {
            self.position = end;
            self.fail_for_memory();
            return None;
        }
        Some(then(self))
    }
}

/// Makes the packet `end` bytes long if its payload, which begins at `start`, may have so many bytes. Doubles it, so that many small
/// values stay cheap. Returns the limit of the payload, which is [`NO_MEMORY`] from now on if the process has none left.
// A value that the writer then stores, and no reference to the writer: its fields stay in registers.
#[cold]
#[inline(never)]
fn grow(packet: &mut Vec<u8>, end: usize, start: usize, limit: usize) -> usize {
    let most = start.wrapping_add(limit);
    if limit == NO_MEMORY || end > most {
        return limit;
    }
    let doubled = packet.len().saturating_mul(2).clamp(end, most);
    for len in [doubled, end] {
        if packet.try_reserve_exact(len - packet.len()).is_ok() {
            packet.resize(len, 0);
            return limit;
        }
    }
    NO_MEMORY
}
