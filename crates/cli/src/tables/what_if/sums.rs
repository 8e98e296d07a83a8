//! The time of an Internet checksum (RFC 1071), as a loop over the bytes of a packet takes it.

use std::hint::black_box;
use std::time::Instant;

/// The one's complement sum of 16-bit words, eight bytes at a time.
fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum: u64 = 0;
    for word in words {
        let (next, carry) = sum.overflowing_add(u64::from_ne_bytes(*word));
        sum = next + u64::from(carry);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let (next, carry) = sum.overflowing_add(u64::from_ne_bytes(last));
    sum = next + u64::from(carry);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const TIMES: u32 = 100_000;

/// Microseconds of the checksum of so many bytes.
pub(super) fn checksum_us(len: usize) -> f64 {
    let packet = vec![0x5a; len];
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(checksum(black_box(&packet)));
    }
    began.elapsed().as_nanos() as f64 / f64::from(TIMES) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_that_of_the_words() {
        // RFC 1071 §3 has this example: 0001 f203 f4f5 f6f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes).to_ne_bytes(), (!0xddf2_u16).to_be_bytes());
        assert_eq!(checksum(&[&bytes[..], &[0; 5]].concat()), checksum(&bytes), "zeros add nothing");
    }
}
