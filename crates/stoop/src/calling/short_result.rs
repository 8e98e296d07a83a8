//! A result of at most eight bytes, held in a word.

/// A result that is no longer than a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    bytes: [u8; 8],
    len: u32,
}

impl Short {
    /// `result`, if it is short enough.
    #[inline]
    pub(crate) fn of(result: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        if !result.is_empty() {
            bytes.get_mut(..result.len())?.copy_from_slice(result);
        }
        Some(Self { bytes, len: result.len() as u32 })
    }

    #[inline]
    pub(crate) fn from_bits(bits: u64, len: u32) -> Self {
        Self { bytes: bits.to_le_bytes(), len }
    }

    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }

    #[inline]
    pub(crate) fn len(self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}
