//! By the CRC32 and PMULL instructions, which Armv8.1 and the cryptographic extension have.

use std::arch::aarch64::{__crc32cb, __crc32cd, vmull_p64};
use std::arch::is_aarch64_feature_detected;

/// `None`: this processor lacks the instructions.
#[inline]
pub(super) fn append(state: u32, bytes: &[u8]) -> Option<u32> {
    // Rust's feature `aes` is both AES and PMULL; `neon` is part of every such target.
    let has_all = is_aarch64_feature_detected!("crc")
        && is_aarch64_feature_detected!("aes")
        && is_aarch64_feature_detected!("pmull");
    if !has_all {
        return None;
    }
    #[expect(unsafe_code)]
    // SAFETY: the processor has each feature for which the function is compiled: `has_all` above.
    Some(unsafe { append_by_instruction(state, bytes) })
}

#[target_feature(enable = "crc,neon,aes")]
fn append_by_instruction(state: u32, bytes: &[u8]) -> u32 {
    super::append_in_three_streams!(state, bytes, __crc32cb, __crc32cd, multiply)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply(a: u32, b: u32) -> u64 {
    // Of two factors of 32 bits the product has 63.
    vmull_p64(u64::from(a), u64::from(b)) as u64
}
