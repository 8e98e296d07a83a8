//! The only argument of a call, if it is scalars that come back: a server can have it written where it was received.

use crate::data::align_of_wire;
use crate::layout::align_up;
use crate::{DecodeError, Reader, Scalar};

/// Bytes of a call's payload before its only argument, if that is a slice of `S`: a count, and padding.
#[inline(always)]
pub const fn bytes_before_slice<S: Scalar>() -> u8 {
    align_up(size_of::<u32>(), align_of_wire::<S>()) as u8
}

/// Checks that `count` elements of `S` are `len` bytes.
///
/// # Errors
/// When they are more or fewer.
pub fn check_filled<S: Scalar>(count: usize, len: usize) -> Result<(), DecodeError> {
    match count.checked_mul(size_of::<S>()) {
        Some(bytes) if bytes == len => Ok(()),
        Some(bytes) if bytes < len => Err(DecodeError::TrailingBytes { count: len - bytes }),
        _ => Err(DecodeError::Truncated),
    }
}

impl Reader<'_> {
    /// Reads the count of a sequence of `S` whose elements are elsewhere, all that there is of the call: `len` bytes.
    ///
    /// # Errors
    /// When that many elements are more bytes or fewer.
    pub fn count_filling<S: Scalar>(&mut self, len: usize) -> Result<usize, DecodeError> {
        let count: u32 = self.fixed()?;
        match check_filled::<S>(count as usize, len) {
            Ok(()) => Ok(count as usize),
            Err(DecodeError::Truncated) => Err(DecodeError::CountTooLarge { count }),
            Err(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;

    fn written<S: Scalar>(values: &[S]) -> Vec<u8> {
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 0, 1 << 20);
        writer.sequence(values);
        let len = writer.finish().expect("they fit");
        packet.truncate(len);
        packet
    }

    fn begins_where_it_says<S: Scalar>() {
        let packet = written(&[S::default(); 5]);
        let before = usize::from(bytes_before_slice::<S>());
        assert_eq!(packet.len(), before + 5 * size_of::<S>());
        assert_eq!(Reader::new(&packet[..before]).count_filling::<S>(packet.len() - before), Ok(5));
    }

    #[test]
    fn elements_begin_where_it_is_said() {
        begins_where_it_says::<u8>();
        begins_where_it_says::<u16>();
        begins_where_it_says::<f64>();
        begins_where_it_says::<u128>();
    }

    #[test]
    fn a_count_of_more_or_fewer_elements_than_there_are_is_refused() {
        let packet = written(&[7_u16; 5]);
        let count = |len| Reader::new(&packet).count_filling::<u16>(len);
        assert_eq!(count(9), Err(DecodeError::CountTooLarge { count: 5 }));
        assert_eq!(count(12), Err(DecodeError::TrailingBytes { count: 2 }));
        assert_eq!(Reader::new(&packet[..3]).count_filling::<u16>(10), Err(DecodeError::Truncated));
        assert_eq!(check_filled::<u64>(usize::MAX, 8), Err(DecodeError::Truncated));
    }
}
