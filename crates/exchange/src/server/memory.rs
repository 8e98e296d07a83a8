//! Memory for messages of many packets that is kept for the next message.

use alloc::vec::Vec;
use stoop_wire::MAX_DATAGRAM;

/// Spare memory. Memory that was used before costs no page faults and no clearing.
#[derive(Debug, Default)]
pub(super) struct Spare {
    messages: Vec<Vec<u8>>,
    /// Messages that have not been used since the last [`age`](Self::age).
    unused: usize,
}

/// Most spare messages.
const MESSAGES: usize = 8;
/// Most bytes of spare messages.
const BYTES: usize = 64 << 20;

impl Spare {
    /// Length of the message that [`take`](Self::take) would give.
    pub(super) fn len_for(&self, needed: usize) -> Option<usize> {
        self.place_for(needed).map(|place| self.messages[place].len())
    }

    /// A message of at least `needed` bytes. It contains bytes of earlier messages: none of it may be read before it has
    /// been written.
    pub(super) fn take(&mut self, needed: usize) -> Option<Vec<u8>> {
        let message = self.messages.swap_remove(self.place_for(needed)?);
        self.unused = self.unused.min(self.messages.len());
        Some(message)
    }

    fn place_for(&self, needed: usize) -> Option<usize> {
        // A spare message that is far too long is not used: all of its bytes would count as in use.
        let fits = |message: &Vec<u8>| (needed..=needed.saturating_mul(2)).contains(&message.len());
        self.messages.iter().position(fits)
    }

    /// Keeps the memory of a message that has ended, unless there is enough.
    pub(super) fn keep(&mut self, message: Option<Vec<u8>>) {
        let Some(message) = message else { return };
        let is_long = message.len() > MAX_DATAGRAM;
        if is_long && self.messages.len() < MESSAGES && self.bytes_held() + message.len() <= BYTES {
            self.messages.push(message);
        }
    }

    pub(super) fn bytes_held(&self) -> usize {
        self.messages.iter().map(Vec::len).sum()
    }

    /// Frees the messages that were not used since the last call of this method.
    pub(super) fn age(&mut self) {
        self.messages.truncate(self.messages.len() - self.unused);
        self.unused = self.messages.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_if_it_is_not_far_too_long() {
        let mut spare = Spare::default();
        let first = alloc::vec![0; 10_000];
        let place = first.as_ptr();
        spare.keep(Some(first));
        assert_eq!(
            (spare.len_for(10_001), spare.len_for(4_999), spare.len_for(9_000)),
            (None, None, Some(10_000))
        );
        assert_eq!(spare.take(9_000).map(|again| again.as_ptr()), Some(place));
        assert!(spare.take(9_000).is_none() && spare.bytes_held() == 0);
    }

    #[test]
    fn unused_spare_memory_is_freed() {
        let mut spare = Spare::default();
        spare.keep(Some(alloc::vec![0; 10_000]));
        let message = spare.take(10_000);
        spare.keep(message);
        spare.age();
        assert_ne!(spare.bytes_held(), 0, "it was used just now");
        spare.age();
        assert_eq!(spare.bytes_held(), 0);
    }
}
