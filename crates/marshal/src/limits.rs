//! Bounds on what a payload can make its receiver do.
//!
//! A peer chooses the bytes; these bounds decide what they can cost. Nothing is allocated for a count that the bytes
//! after it could not hold, all allocations of one message together stay within [`allocation_budget`], and types that
//! contain themselves are followed only as deep as [`STACK_BUDGET`] allows.

/// Bytes that any message may make its receiver allocate.
pub const ALLOCATION_FLOOR: usize = 64 * 1024;

/// Bytes that each byte of a message may make its receiver allocate on top of [`ALLOCATION_FLOOR`].
pub const ALLOCATION_PER_BYTE: usize = 32;

/// Bytes of stack, as estimated by [`stack_charge`], that nested values of one message may take. A quarter of the
/// 2 MiB that a Rust thread has by default is left to the procedure and everything around it.
pub const STACK_BUDGET: usize = 1536 * 1024;

/// What a level of nesting costs beyond the values themselves: frames of a build without optimisation.
const FRAME: usize = 1024;

/// Copies of a value that may be on the stack at once while it is on its way to the heap, without optimisation.
const COPIES: usize = 6;

/// Bytes of heap that decoding a payload of `payload_len` bytes may take in all.
#[inline(always)]
pub const fn allocation_budget(payload_len: usize) -> usize {
    ALLOCATION_FLOOR.saturating_add(payload_len.saturating_mul(ALLOCATION_PER_BYTE))
}

/// What following a pointer to a `T` is charged against [`STACK_BUDGET`]: both sides of a call charge the same, so that
/// what could be sent can be received.
#[inline(always)]
pub const fn stack_charge<T>() -> usize {
    size_of::<T>().saturating_mul(COPIES).saturating_add(FRAME)
}
