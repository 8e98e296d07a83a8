//! Memory for long messages: those whose length the sender has announced and whose bytes arrive in parts, and copies of arguments.
//!
//! The memory grows with the bytes that have arrived, not with the announced length: a sender that announces a long message and
//! sends little of it costs its receiver nothing. A process with a limit on memory refuses a message that does not fit.

use crate::error::{CallError, SendError};
use stoop_marshal::EncodeError;

/// Bytes reserved at first: the size of a channel in shared memory, which a sender can fill at once.
const FIRST: usize = 256 * 1024;
/// Factor between the bytes that have arrived and the next reservation. A higher factor copies less.
const GROWTH: usize = 4;

/// Reserves memory behind `message` for `more` bytes of the `announced` ones.
///
/// `false`, and `message` is unchanged, if the process has no memory or address space left.
#[inline]
pub(crate) fn reserve(message: &mut Vec<u8>, more: usize, announced: usize) -> bool {
    message.capacity() - message.len() >= more || grow(message, more, announced)
}

#[cold]
fn grow(message: &mut Vec<u8>, more: usize, announced: usize) -> bool {
    stoop_exchange::reserve(message, capacity_for(message, more, announced) - message.len())
}

/// Appends a call's arguments to a packet that keeps them until they have been sent.
///
/// # Errors
/// The process has no memory left for them. `packet` is unchanged.
#[inline]
pub(crate) fn keep_arguments(packet: &mut Vec<u8>, arguments: &[u8]) -> Result<(), CallError> {
    if !stoop_exchange::reserve(packet, arguments.len()) {
        return Err(no_memory_for_arguments(arguments.len()));
    }
    packet.extend_from_slice(arguments);
    Ok(())
}

/// The error of a call whose caller's process has no memory for its `len` bytes of arguments.
#[cold]
pub(crate) fn no_memory_for_arguments(len: usize) -> CallError {
    CallError::not_sent(SendError::Arguments(EncodeError::NoMemory { needed_at_least: len }))
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
            assert!(reserve(&mut message, 16 * 1024, announced));
            assert!(message.capacity() <= FIRST.max(GROWTH * message.len()).min(announced));
            message.resize(message.len() + 16 * 1024, 1);
        }
        assert_eq!(message.capacity(), announced);
    }

    #[test]
    fn a_short_message_gets_what_it_needs() {
        let mut message = Vec::new();
        assert!(reserve(&mut message, 5000, 5000));
        assert_eq!(message.capacity(), 5000);
    }

    #[test]
    fn room_that_there_cannot_be_is_an_error() {
        let mut message = vec![7; 10];
        assert!(!reserve(&mut message, isize::MAX as usize, usize::MAX));
        assert_eq!(message, [7; 10]);
    }
}
