//! Arrays on the heap that no thread builds on its stack, which may be small.

use std::iter;

/// An array of values that `make` returns.
#[cold]
pub(crate) fn heap_array<T, const N: usize>(make: impl FnMut() -> T) -> Box<[T; N]> {
    let values: Vec<T> = iter::repeat_with(make).take(N).collect();
    values.try_into().unwrap_or_else(|_| unreachable!("{N} values were made"))
}
