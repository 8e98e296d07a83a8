//! Two representations of a call's header: the one of Stoop, and the one of Sun RPC with its credentials (RFC 5531).

use std::hint::black_box;
use std::time::Instant;

const TIMES: u32 = 200_000;

/// Bytes of the headers of Sun RPC's call and of its reply, without credentials.
const CALL_LEN: usize = 40;
const REPLY_LEN: usize = 24;
/// Bytes of Stoop's header.
const OURS_LEN: usize = 32;

/// Microseconds by which the headers of a call and its result take longer in XDR: each is written once and read once.
pub(super) fn xdr_costs_more_us() -> f64 {
    let theirs = of_each(|| {
        let mut packet = [0; CALL_LEN];
        write_words(&mut packet);
        let read = read_words(black_box(&packet));
        let mut reply = [0; REPLY_LEN];
        write_words(&mut reply);
        read.wrapping_add(read_words(black_box(&reply)))
    });
    let ours = of_each(|| copied(black_box(7)).wrapping_add(copied(black_box(9))));
    theirs - ours
}

fn of_each(mut run: impl FnMut() -> u32) -> f64 {
    let began = Instant::now();
    for _ in 0..TIMES {
        black_box(run());
    }
    began.elapsed().as_nanos() as f64 / f64::from(TIMES) / 1e3
}

/// Writes each word of a header, most significant byte first.
fn write_words(header: &mut [u8]) {
    for (at, word) in header.chunks_exact_mut(4).enumerate() {
        word.copy_from_slice(&black_box(at as u32).to_be_bytes());
    }
}

/// Reads each word, and compares it as a program, version or flavour is compared.
fn read_words(header: &[u8]) -> u32 {
    let mut agree = 0;
    for (at, word) in header.chunks_exact(4).enumerate() {
        let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        if word == at as u32 {
            agree += 1;
        }
    }
    agree
}

/// A header from a template: two words change, and the rest is compared as it lies.
fn copied(number: u64) -> u32 {
    let mut header = [0x5a; OURS_LEN];
    header[16..24].copy_from_slice(&number.to_ne_bytes());
    let header = black_box(header);
    let binding = u64::from_ne_bytes(header[8..16].try_into().expect("eight bytes"));
    let read = u64::from_ne_bytes(header[16..24].try_into().expect("eight bytes"));
    u32::from(binding == black_box(0x5a5a_5a5a_5a5a_5a5a)) + read as u32
}
