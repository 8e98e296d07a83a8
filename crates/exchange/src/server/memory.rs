//! The memory for messages of many packets: how much is in use, and what is kept for the next message.

use alloc::vec::Vec;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// Counts of message memory in use, and spare memory. Memory that was used before costs no page faults and no clearing.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Bytes of calls that are arriving, waiting or running.
    pub(super) incomplete: usize,
    /// Bytes of retained results.
    pub(super) retained: usize,
    spare: Vec<Vec<u8>>,
    /// Spare messages that have not been used since the last [`age`](Self::age).
    unused: usize,
}

/// Most spare messages.
const SPARE: usize = 8;
/// Most bytes of spare messages.
const SPARE_BYTES: usize = 64 << 20;

impl Memory {
    /// Memory for a header and a message of `len` bytes; `None` if more than `limit` bytes would be in use, or the
    /// process has no memory. It contains bytes of earlier messages: none of it may be read before it has been written.
    pub(super) fn take(&mut self, len: usize, limit: usize) -> Option<Vec<u8>> {
        let needed = HEADER_LEN + len;
        let left = limit.saturating_sub(self.incomplete);
        if needed > left {
            return None;
        }
        // A spare message that is far too long is not used: all of its bytes would count as in use.
        let fits = |message: &Vec<u8>| (needed..=needed.saturating_mul(2).min(left)).contains(&message.len());
        let message = match self.spare.iter().position(fits) {
            Some(place) => self.spare.swap_remove(place),
            None => crate::zeroed(needed)?,
        };
        self.unused = self.unused.min(self.spare.len());
        self.incomplete += message.len();
        Some(message)
    }

    /// Whether a call of `len` more bytes is too much for a binding that holds `held()` bytes of calls already. While
    /// less than a quarter of `limit` is in use, no binding can hold that much, and `held` is not called.
    pub(super) fn is_unfair(&self, len: usize, limit: usize, held: impl FnOnce() -> usize) -> bool {
        let (needed, share) = (HEADER_LEN + len, limit / 4);
        if self.incomplete.saturating_add(needed) <= share {
            return false;
        }
        let held = held();
        held > 0 && held.saturating_add(needed) > share
    }

    /// Takes back the memory of a call that will not run.
    pub(super) fn give_back(&mut self, message: Option<Vec<u8>>) {
        let counted = message.as_ref().map_or(0, Vec::len);
        self.give_back_other(message, counted);
    }

    /// Takes back the memory of a call that has ended, whose message was counted as `counted` bytes. It may be other
    /// memory than that, if the call's own message has become its result.
    pub(super) fn give_back_other(&mut self, message: Option<Vec<u8>>, counted: usize) {
        let Some(message) = message else { return };
        self.incomplete -= counted;
        let is_long = message.len() > MAX_DATAGRAM;
        if is_long && self.spare.len() < SPARE && self.spare_bytes() + message.len() <= SPARE_BYTES {
            self.spare.push(message);
        }
    }

    /// Releases the counts of a removed binding: bytes of its calls and of its retained results.
    pub(super) fn release_all(&mut self, incomplete: usize, retained: usize) {
        self.incomplete -= incomplete;
        self.retained -= retained;
    }

    /// Counts `bytes` more of results retained for a binding, which holds `held`.
    pub(super) fn retain(&mut self, held: &mut usize, bytes: usize) {
        (self.retained, *held) = (self.retained + bytes, *held + bytes);
    }

    /// Counts `bytes` fewer of them.
    pub(super) fn release(&mut self, held: &mut usize, bytes: usize) {
        (self.retained, *held) = (self.retained - bytes, *held - bytes);
    }

    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::len).sum()
    }

    /// Frees spare messages that were not used since the last call of this method.
    pub(super) fn age(&mut self) {
        self.spare.truncate(self.spare.len() - self.unused);
        self.unused = self.spare.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_has_a_bound_and_is_used_again() {
        let mut memory = Memory::default();
        let first = memory.take(10_000, 16_000).expect("there is room");
        assert!(memory.take(10_000, 16_000).is_none());
        let place = first.as_ptr();
        memory.give_back(Some(first));
        assert_eq!((memory.incomplete, memory.spare_bytes()), (0, 10_032));
        let again = memory.take(9_000, 16_000).expect("there is room");
        assert_eq!(again.as_ptr(), place);
    }

    #[test]
    fn unused_spare_memory_is_freed() {
        let mut memory = Memory::default();
        let message = memory.take(10_000, 16_000);
        memory.give_back(message);
        memory.age();
        assert_ne!(memory.spare_bytes(), 0, "it was used just now");
        memory.age();
        assert_eq!(memory.spare_bytes(), 0);
    }
}
