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

/// Bytes of stack that nested values of one message may take, as measured. It leaves half of the 2 MiB that a Rust
/// thread has by default to the caller.
pub const STACK_BUDGET: usize = 1024 * 1024;

/// Bytes of memory that the values of a message of `message_len` bytes may take, besides opaque data and strings.
#[inline(always)]
pub const fn allocation_budget(message_len: usize) -> usize {
    ALLOCATION_FLOOR.saturating_add(message_len.saturating_mul(ALLOCATION_PER_BYTE))
}

/// How much of the stack nested values take.
///
/// It is measured instead of estimated from the types: frames differ by build, and by how many arms a union has.
#[derive(Clone, Copy)]
pub(crate) struct Stack {
    /// Where the stack was at the outermost of the values that are being read or written; `None` outside of them.
    outermost: Option<usize>,
}

impl Stack {
    pub(crate) const fn new() -> Self {
        Stack { outermost: None }
    }

    /// One level deeper; `None` if that is too deep.
    #[inline(always)]
    pub(crate) fn deeper(self) -> Option<Self> {
        let here = stack_position();
        let outermost = self.outermost.unwrap_or(here);
        let fits = here.abs_diff(outermost) <= STACK_BUDGET;
        fits.then_some(Stack { outermost: Some(outermost) })
    }
}

/// The address of something in the frame of the function that this is inlined in.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0_u8;
    core::hint::black_box(&raw const here).addr()
}
