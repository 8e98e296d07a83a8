//! Memory for a message whose length its sender has announced and whose bytes arrive in parts.
//!
//! The memory grows with the bytes that have arrived, not with the announced length: a sender that announces a long message and
//! sends little of it costs its receiver nothing. A process with a limit on memory refuses a message that does not fit.

use std::collections::TryReserveError;

/// Bytes reserved at first: the size of a channel in shared memory, which a sender can fill at once.
const FIRST: usize = 256 * 1024;
/// Factor between the bytes that have arrived and the next reservation. A higher factor copies less.
const GROWTH: usize = 4;

/// Reserves memory behind `message` for `more` bytes of the `announced` ones.
///
/// # Errors
/// The process has no memory or address space left. `message` is unchanged.
#[inline]
pub(crate) fn reserve(message: &mut Vec<u8>, more: usize, announced: usize) -> Result<(), TryReserveError> {
    match message.capacity() - message.len() >= more {
        true => Ok(()),
        false => grow(message, more, announced),
    }
}

#[cold]
fn grow(message: &mut Vec<u8>, more: usize, announced: usize) -> Result<(), TryReserveError> {
    message.try_reserve_exact(capacity_for(message, more, announced) - message.len())
}

/// Bytes that `message` has room for after [`reserve`] with these arguments.
pub(crate) fn capacity_for(message: &Vec<u8>, more: usize, announced: usize) -> usize {
    let len = message.len();
    if message.capacity() - len >= more {
        return message.capacity();
    }
    len.saturating_mul(GROWTH).max(FIRST).min(announced).max(len.saturating_add(more))
}

/// Detail of the failure of a call whose caller's process has no memory for the result of `len` bytes.
pub(crate) fn no_memory_for_result(len: usize) -> String {
    format!("it has {len} bytes, and the caller's process has no memory left for them")
}

#[cfg(test)]
mod tests {
    use crate::message_buffer::*;

    #[test]
    fn room_is_in_proportion_to_what_has_arrived_and_never_more_than_announced() {
        let announced = 64 << 20;
        let mut message = Vec::new();
        while message.len() < announced {
            reserve(&mut message, 16 * 1024, announced).unwrap();
            assert!(message.capacity() <= FIRST.max(GROWTH * message.len()).min(announced));
            message.resize(message.len() + 16 * 1024, 1);
        }
        assert_eq!(message.capacity(), announced);
    }

    #[test]
    fn a_short_message_gets_what_it_needs() {
        let mut message = Vec::new();
        reserve(&mut message, 5000, 5000).unwrap();
        assert_eq!(message.capacity(), 5000);
    }

    #[test]
    fn room_that_there_cannot_be_is_an_error() {
        let mut message = vec![7; 10];
        assert!(reserve(&mut message, isize::MAX as usize, usize::MAX).is_err());
        assert_eq!(message, [7; 10]);
    }
}
