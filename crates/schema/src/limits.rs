//! Bounds on what a text or a message from a peer can cost.

/// Bytes of the longest signature that is parsed.
pub const TEXT_MAX: usize = 64 * 1024;

/// Types, fields and variants in the largest tree.
pub const NODES_MAX: usize = 10_000;

/// Types inside of types, as the text nests them.
pub const NESTING_MAX: usize = 128;

/// Values inside of values. A list whose elements hold the next in an `Option<Box<_>>` takes three for each element.
pub const DEPTH_MAX: usize = 400;

/// Stack that one level of a value takes while it is read or written, in bytes: charged against the budget of `marshal`.
pub(crate) const FRAME: usize = stoop_marshal::limits::STACK_BUDGET / DEPTH_MAX;

/// Bytes of the largest value of a fixed type.
pub(crate) const FIXED_MAX: u64 = u32::MAX as u64;
