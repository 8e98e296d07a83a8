//! Numbers that look random, and are the same for the same seed.

/// Numbers that a seed gives.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A word that the protocol may have somewhere, or nearly.
    pub(crate) fn word(&mut self) -> u64 {
        match self.below(6) {
            0 => self.next(),
            1 => self.below(40),
            2 => self.below(40).wrapping_neg(),
            3 => 1 << self.below(64),
            4 => self.below(1 << 20) | self.below(8) << 32 | self.below(4) << 48 | self.below(8) << 56,
            _ => self.below(64) << 1 | self.below(2),
        }
    }
}
