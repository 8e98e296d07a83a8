//! A cipher for simulators and tests: a change of any bit is noticed with the chance of a hash of 128 bits, and nothing is secret.

use crate::{Cipher, NONCE_LEN, Secret, Suite, TAG_LEN};

/// The suite of the toy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toy;

/// The toy with a key.
#[derive(Clone, Copy, Debug)]
pub struct ToyCipher(u64);

/// Mixes a word into a hash (the finisher of SplitMix64).
fn mix(hash: u64, word: u64) -> u64 {
    let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn absorb(hash: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(mix(hash, bytes.len() as u64), mix)
}

impl ToyCipher {
    fn tag(&self, nonce: &[u8], associated: &[u8], data: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        for (half, salt) in tag.chunks_mut(8).zip([1, 2]) {
            let hash = absorb(absorb(absorb(mix(self.0, salt), nonce), associated), data);
            half.copy_from_slice(&hash.to_le_bytes());
        }
        tag
    }

    fn mask(&self, nonce: &[u8], data: &mut [u8]) {
        let key = absorb(mix(self.0, 3), nonce);
        for (at, chunk) in (0..).zip(data.chunks_mut(8)) {
            let mask = mix(key, at).to_le_bytes();
            chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
    }
}

impl Cipher for ToyCipher {
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8]) -> [u8; TAG_LEN] {
        self.mask(&nonce, data);
        self.tag(&nonce, associated, data)
    }

    fn open(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8], tag: &[u8; TAG_LEN]) -> bool {
        let opens = self.tag(&nonce, associated, data) == *tag;
        self.mask(&nonce, data);
        opens
    }
}

impl Suite for Toy {
    type Cipher = ToyCipher;

    fn cipher(&self, secret: &Secret) -> (ToyCipher, [u8; NONCE_LEN]) {
        let mut mask = [0; NONCE_LEN];
        mask[4..].copy_from_slice(&absorb(4, secret).to_le_bytes());
        (ToyCipher(absorb(5, secret)), mask)
    }

    fn next(&self, secret: &Secret) -> Secret {
        let mut next = [0; 32];
        for (salt, part) in (6..).zip(next.chunks_mut(8)) {
            part.copy_from_slice(&absorb(salt, secret).to_le_bytes());
        }
        next
    }
}
