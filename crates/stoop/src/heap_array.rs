//! Arrays on the heap that no thread builds on its stack, which may be small.

/// An array of the values that `make` returns for their indices.
#[cold]
pub(crate) fn heap_array<T, const N: usize>(make: impl FnMut(usize) -> T) -> Box<[T; N]> {
    let values: Vec<T> = (0..N).map(make).collect();
    values.try_into().unwrap_or_else(|_| unreachable!("{N} values were made"))
}
