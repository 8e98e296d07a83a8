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

/// Stack taken by the frames of a build: without optimisation, every temporary has a place of its own.
const BUILD: FrameSize = if cfg!(debug_assertions) {
    FrameSize { base: 1536, field: 384, copies: 10 }
} else {
    FrameSize { base: 128, field: 48, copies: 5 }
};

/// An upper estimate of the stack that a function takes which makes a value.
struct FrameSize {
    /// For itself, in bytes.
    base: usize,
    /// For each field that it reads on the way, in bytes.
    field: usize,
    /// Most copies of the value while it is on its way to its place.
    copies: usize,
}

/// Bytes of heap that decoding a payload of `payload_len` bytes may take in all.
#[inline(always)]
pub const fn allocation_budget(payload_len: usize) -> usize {
    ALLOCATION_FLOOR.saturating_add(payload_len.saturating_mul(ALLOCATION_PER_BYTE))
}

/// Charge against [`STACK_BUDGET`] for making a `T` of `fields` parts. Both sides of a call charge the same, so that
/// between builds of one kind, what could be sent can be received.
#[inline(always)]
pub const fn stack_charge<T>(fields: usize) -> usize {
    let FrameSize { base, field, copies } = BUILD;
    base.saturating_add(fields.saturating_mul(field)).saturating_add(size_of::<T>().saturating_mul(copies))
}
