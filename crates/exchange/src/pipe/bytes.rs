//! Bytes of a pipe that are in memory, between two offsets.

use alloc::vec::Vec;

/// Bytes from an offset on, one behind the other. Memory without bytes is freed, or little.
#[derive(Debug)]
pub(super) struct Bytes {
    /// Offset of the first.
    at: u64,
    /// Where they begin in `memory`.
    start: usize,
    memory: Vec<u8>,
}

/// Bytes of memory for the next bytes that are kept at most: for items of 64 KiB.
const KEPT: usize = 128 * 1024;
/// And at least: less is had as quickly when it is needed, and many pipes are quiet.
const KEPT_LEAST: usize = 256;

impl Bytes {
    pub(super) fn new(at: u64) -> Self {
        Self { at, start: 0, memory: Vec::new() }
    }

    /// Offset of the first byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Offset behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.at + self.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    /// Bytes of memory in use.
    pub(super) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// The `len` bytes from `offset` on.
    pub(super) fn slice(&self, offset: u64, len: usize) -> &[u8] {
        let from = self.start + (offset - self.at) as usize;
        &self.memory[from..from + len]
    }

    /// Adds bytes to the end. Returns whether there was memory for them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let has_memory = self.memory.try_reserve(bytes.len()).is_ok();
        if has_memory {
            self.memory.extend_from_slice(bytes);
        }
        has_memory
    }

    /// Gets memory for the bytes before `end`. Returns whether there was enough.
    pub(super) fn reserve(&mut self, end: u64) -> bool {
        let more = end.saturating_sub(self.end());
        self.memory.try_reserve(more as usize).is_ok()
    }

    /// Puts bytes at `offset`, not before the first, into memory that was [reserved](Self::reserve). What lies between them and the last
    /// so far is arbitrary.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let from = self.start + (offset - self.at) as usize;
        let to = from + bytes.len();
        if to > self.memory.len() {
            self.memory.resize(to, 0);
        }
        self.memory[from..to].copy_from_slice(bytes);
    }

    /// Puts parts that continue one another at `offset`, into memory that was [reserved](Self::reserve).
    pub(super) fn put_parts<'a>(&mut self, offset: u64, parts: impl Iterator<Item = &'a [u8]>) {
        if offset == self.end() {
            return parts.for_each(|part| self.memory.extend_from_slice(part));
        }
        let mut at = offset;
        for part in parts {
            self.put(at, part);
            at += part.len() as u64;
        }
    }

    /// Moves the bytes before `end` behind those in `into`. If they are all, and `into` is empty, the memory is exchanged: that of `into` is
    /// kept, unless it is large or small.
    pub(super) fn move_to(&mut self, end: u64, into: &mut Vec<u8>) {
        let bytes = (end - self.at) as usize;
        if into.is_empty() && self.start == 0 && bytes == self.memory.len() {
            core::mem::swap(&mut self.memory, into);
            if !(KEPT_LEAST..=KEPT).contains(&self.memory.capacity()) {
                self.memory = Vec::new();
            }
            self.at = end;
            return;
        }
        into.extend_from_slice(self.slice(self.at, bytes));
        self.release(end);
    }

    /// Frees the bytes before `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        let Some(bytes) = offset.checked_sub(self.at) else { return };
        let bytes = (bytes as usize).min(self.len());
        self.at = offset;
        self.start += bytes;
        if self.start == self.memory.len() {
            (self.memory, self.start) = (Vec::new(), 0);
        } else if self.start >= self.memory.len() - self.start {
            // Each byte is moved at most once for each that was freed.
            self.memory.drain(..self.start);
            self.start = 0;
        }
    }
}
