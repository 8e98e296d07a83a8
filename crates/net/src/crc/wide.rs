//! 512 bits at a time: data are folded onto data that lie further behind, until 128 bits are left that have the same remainder.
//!
//! Folding is described by Gopal et al., *Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction*, Intel 2009.
//! A part of 128 bits, at a distance of d bits, has the same remainder as the sum of two products: of its first 64 bits by x to
//! the power of d + 64, and of the other 64 by x to the power of d.

use std::arch::x86_64::*;

/// With fewer bytes the instruction for 8 bytes is faster.
pub(super) const LEN_MIN: usize = BLOCK * FOUR;
/// Bytes that are taken at once, and how many blocks are folded at the same time: a multiplication takes several cycles.
const BLOCK: usize = 64;
const FOUR: usize = 4;

/// Factors that fold a part by so many bits. The factors are the 32 bits of a polynomial in the lower half of 64, which stand for it
/// times x³², and a product of two polynomials that are written lowest bit first is one bit off: 33 less.
const fn fold_by(bits: usize) -> [i64; 2] {
    [power(bits + 64 - 33), power(bits - 33)]
}

/// The remainder of x to the power of `exponent`. The module stands below the one that has the polynomial, so it has its own.
const fn power(exponent: usize) -> i64 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let (mut remainder, mut times): (u32, usize) = (1 << 31, 0);
    while times < exponent {
        remainder = if remainder & 1 == 0 { remainder >> 1 } else { remainder >> 1 ^ POLYNOMIAL };
        times += 1;
    }
    remainder as i64
}

const BY_FOUR_BLOCKS: [i64; 2] = fold_by(8 * BLOCK * FOUR);
const BY_ONE_BLOCK: [i64; 2] = fold_by(8 * BLOCK);
/// For each of the four parts of a block: onto the last one, which stays.
const ONTO_LAST_PART: [[i64; 2]; 4] = [fold_by(384), fold_by(256), fold_by(128), [0, 0]];

/// Appends all bytes but the last few, which are returned. `None`: this processor lacks the instructions.
///
/// # Panics
///
/// If there are fewer than [`LEN_MIN`] bytes.
#[inline]
pub(super) fn append(state: u32, bytes: &[u8]) -> Option<(u32, &[u8])> {
    if !(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")) {
        return None;
    }
    let (blocks, rest) = bytes.as_chunks();
    #[expect(unsafe_code)]
    // SAFETY: the processor has what the function is compiled for, as has just been found out. AVX-512 includes SSE 4.2.
    let state = unsafe { append_blocks(state, blocks) };
    Some((state, rest))
}

#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn append_blocks(state: u32, blocks: &[[u8; BLOCK]]) -> u32 {
    let (fours, single) = blocks.as_chunks::<FOUR>();
    let (first, fours) = fours.split_first().expect("the data are long enough");
    let [a, b, c, d] = first;
    let mut parallel = [load(a), load(b), load(c), load(d)];
    let state = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed()));
    parallel[0] = _mm512_xor_si512(parallel[0], state);
    let factors = in_each_part(BY_FOUR_BLOCKS);
    for four in fours {
        for (folded, block) in parallel.iter_mut().zip(four) {
            *folded = fold(*folded, factors, load(block));
        }
    }
    let factors = in_each_part(BY_ONE_BLOCK);
    let [mut folded, others @ ..] = parallel;
    for other in others {
        folded = fold(folded, factors, other);
    }
    for block in single {
        folded = fold(folded, factors, load(block));
    }
    remainder(folded)
}

/// The remainder of a block.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn remainder(block: __m512i) -> u32 {
    let [[a, b], [c, d], [e, f], [g, h]] = ONTO_LAST_PART;
    let last = _mm512_maskz_mov_epi64(0b1100_0000, block);
    let parts = fold(block, _mm512_set_epi64(h, g, f, e, d, c, b, a), last);
    let halves = [_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64::<1>(parts)];
    let half = _mm256_xor_si256(halves[0], halves[1]);
    let part = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let [first, second] = [_mm_cvtsi128_si64(part), _mm_extract_epi64::<1>(part)].map(i64::cast_unsigned);
    _mm_crc32_u64(_mm_crc32_u64(0, first), second) as u32
}

#[inline]
#[target_feature(enable = "avx512f")]
fn in_each_part([first, second]: [i64; 2]) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(second, first))
}

/// Folds each part onto the one in `behind`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(parts: __m512i, factors: __m512i, behind: __m512i) -> __m512i {
    const XOR_OF_THREE: i32 = 0x96;
    let first = _mm512_clmulepi64_epi128::<0x00>(parts, factors);
    let second = _mm512_clmulepi64_epi128::<0x11>(parts, factors);
    _mm512_ternarylogic_epi64::<XOR_OF_THREE>(first, second, behind)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; BLOCK]) -> __m512i {
    #[expect(unsafe_code)]
    // SAFETY: the pointer is to 64 bytes, and need not be aligned.
    unsafe {
        _mm512_loadu_si512(block.as_ptr().cast())
    }
}
