//! By tables, on any processor: eight bytes at a time (*slicing by 8*, Kounavis & Berry, ISCC 2005).

use super::times_x;

/// `TABLES[n][byte]`: the remainder of that byte with n bytes of zeros behind it.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut table) = (byte as u32, 0);
        while table < 8 {
            let mut bit = 0;
            while bit < 8 {
                remainder = times_x(remainder);
                bit += 1;
            }
            tables[table][byte] = remainder;
            table += 1;
        }
        byte += 1;
    }
    tables
};

pub(super) fn append(mut state: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = (u64::from_le_bytes(*word) ^ u64::from(state)).to_le_bytes();
        // The first byte has seven behind it.
        let remainders = word.iter().zip(TABLES.iter().rev()).map(|(byte, table)| table[usize::from(*byte)]);
        state = remainders.fold(0, |all, one| all ^ one);
    }
    for byte in rest {
        state = state >> 8 ^ TABLES[0][usize::from(state as u8 ^ byte)];
    }
    state
}
