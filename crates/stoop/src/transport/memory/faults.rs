//! Faults of packets on their way: some are lost, repeated, or overtaken by others.

/// Frequencies of faults in a queue, in percent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    lose: u64,
    repeat: u64,
    reorder: u64,
    /// State of the pseudo-random numbers.
    state: u64,
}

/// The fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    IsLost,
    ArrivesTwice,
    /// The next packet arrives before it.
    IsOvertaken,
}

impl Faults {
    /// Reads `lose=5&repeat=5&reorder=5&seed=7`, of which any part may be missing.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut faults = Self::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            let value = value.parse().ok()?;
            match name {
                "lose" => faults.lose = value,
                "repeat" => faults.repeat = value,
                "reorder" => faults.reorder = value,
                "seed" => faults.state = value,
                _ => return None,
            }
        }
        Some(faults)
    }

    /// The same for another queue: with other numbers.
    pub(super) fn of_queue(&self, queue: u64) -> Self {
        Self { state: self.state ^ queue.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..self.clone() }
    }

    pub(super) fn next(&mut self) -> Fate {
        match self.percent() {
            dice if dice < self.lose => Fate::IsLost,
            dice if dice < self.lose + self.repeat => Fate::ArrivesTwice,
            dice if dice < self.lose + self.repeat + self.reorder => Fate::IsOvertaken,
            _ => Fate::Arrives,
        }
    }

    /// A pseudo-random number below 100 (splitmix64).
    fn percent(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % 100
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::memory::faults::{Fate, Faults};

    fn fates(text: &str) -> Vec<Fate> {
        let mut faults = Faults::parse(text).unwrap();
        (0..1000).map(|_| faults.next()).collect()
    }

    #[test]
    fn faults_are_as_frequent_as_the_address_says_and_repeat_with_the_seed() {
        let some = fates("lose=10&repeat=20&reorder=30&seed=7");
        let count = |fate| some.iter().filter(|each| **each == fate).count();
        assert!((50..150).contains(&count(Fate::IsLost)));
        assert!((150..250).contains(&count(Fate::ArrivesTwice)));
        assert!((250..350).contains(&count(Fate::IsOvertaken)));
        assert_eq!(some, fates("lose=10&repeat=20&reorder=30&seed=7"));
        assert_ne!(some, fates("lose=10&repeat=20&reorder=30&seed=8"));
        assert!(fates("seed=7").iter().all(|fate| *fate == Fate::Arrives));
    }

    #[test]
    fn unknown_faults_are_rejected() {
        assert!(Faults::parse("loose=5").is_none() && Faults::parse("lose").is_none());
        assert!(Faults::parse("lose=much").is_none());
    }
}
