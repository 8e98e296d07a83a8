//! Memory for values whose size a peer decides. If there is none, the message is refused and the process goes on.

use crate::DecodeError;
use core::hint::black_box;
use zerocopy::FromZeros;

/// Bytes in small allocations after which a reader [looks](look_for) whether there is memory for as many more.
pub(crate) const STEP: usize = 64 * 1024;

/// An empty vector with room for `count` elements.
#[inline]
pub(crate) fn vec_for<T>(count: usize) -> Result<Vec<T>, DecodeError> {
    let mut values = Vec::new();
    match values.try_reserve_exact(count) {
        Ok(()) => Ok(values),
        Err(_) => Err(DecodeError::NoMemory),
    }
}

/// As many zeros.
///
/// # Errors
/// [`DecodeError::NoMemory`].
#[inline]
pub fn zeros<S: FromZeros>(count: usize) -> Result<Vec<S>, DecodeError> {
    S::new_vec_zeroed(count).map_err(|_| DecodeError::NoMemory)
}

/// Looks whether there is memory for so many bytes, which will be taken in pieces that cannot report a failure.
#[cold]
pub(crate) fn look_for(bytes: usize) -> Result<(), DecodeError> {
    let mut probe = vec_for::<u8>(bytes)?;
    // Keeps the compiler from removing an allocation that nothing uses.
    black_box(probe.as_mut_ptr());
    Ok(())
}
