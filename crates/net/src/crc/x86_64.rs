//! By the instructions of SSE 4.2 and PCLMULQDQ, which every x86-64 processor since 2010 has; and long data by those that multiply
//! 512 bits, which processors of servers have since 2019.

use super::wide;
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
};

/// `None`: this processor lacks the instructions.
#[inline]
pub(super) fn append(state: u32, bytes: &[u8]) -> Option<u32> {
    if bytes.len() >= wide::LEN_MIN
        && let Some((state, rest)) = wide::append(state, bytes)
    {
        return append_in_words(state, rest);
    }
    append_in_words(state, bytes)
}

/// 64 bits at a time. `None`: this processor lacks the instructions.
#[inline]
pub(super) fn append_in_words(state: u32, bytes: &[u8]) -> Option<u32> {
    if !(is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")) {
        return None;
    }
    #[expect(unsafe_code)]
    // SAFETY: the processor has what the function is compiled for, as has just been found out.
    Some(unsafe { append_by_instruction(state, bytes) })
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn append_by_instruction(state: u32, bytes: &[u8]) -> u32 {
    super::append_in_three_streams!(state, bytes, _mm_crc32_u8, word, multiply)
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn word(state: u32, word: u64) -> u32 {
    // The upper half of its result is zero.
    _mm_crc32_u64(u64::from(state), word) as u32
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn multiply(a: u32, b: u32) -> u64 {
    let [a, b] = [a, b].map(|factor| _mm_cvtsi64_si128(i64::from(factor)));
    _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b)) as u64
}
