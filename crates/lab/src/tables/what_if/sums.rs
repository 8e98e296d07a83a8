//! The time of the checksum that `ether:` computes, as a loop over the bytes of a packet takes it.

use std::hint::black_box;
use std::time::Instant;
use stoop_net::crc::crc32c;

const TIMES: u32 = 100_000;

/// Microseconds of the CRC-32C of so many bytes.
pub(super) fn crc_us(len: usize) -> f64 {
    let packet = vec![0x5a; len];
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(crc32c(black_box(&packet)));
    }
    began.elapsed().as_nanos() as f64 / f64::from(TIMES) / 1e3
}
