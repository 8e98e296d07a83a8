//! Bounds on the memory and the stack that the bytes of a peer can take.
//!
//! Opaque data and strings take at most as many bytes of memory as they have in the message. Everything else that is
//! allocated (elements of sequences and chains, boxes) is counted against [`allocation_budget`] before it is allocated.
//! Types that contain themselves are followed only as deep as [`STACK_BUDGET`] allows.

/// Bytes of memory that the values of any message may take.
pub const ALLOCATION_FLOOR: usize = 64 * 1024;

/// Bytes of memory that each byte of a message may take on top of [`ALLOCATION_FLOOR`]. An element is often larger in
/// memory than in the message: a union takes the memory of its largest arm.
pub const ALLOCATION_PER_BYTE: usize = 32;

/// Bytes of stack, as estimated from the size of the values, that nested values of one message may take. It leaves a
/// part of the 2 MiB that a Rust thread has by default to the caller.
pub const STACK_BUDGET: usize = 1024 * 1024;

/// Bytes of memory that the values of a message of `message_len` bytes may take, besides opaque data and strings.
#[inline(always)]
pub const fn allocation_budget(message_len: usize) -> usize {
    ALLOCATION_FLOOR.saturating_add(message_len.saturating_mul(ALLOCATION_PER_BYTE))
}

/// An upper estimate of the stack that decoding a `T` takes: frames, and copies of the value on the way to its place.
/// Without optimisation every temporary has a place of its own.
#[inline(always)]
pub(crate) const fn stack_charge<T>() -> usize {
    let (frames, copies) = if cfg!(debug_assertions) { (4096, 12) } else { (512, 6) };
    size_of::<T>().saturating_mul(copies).saturating_add(frames)
}
