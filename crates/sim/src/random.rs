//! The simulator's only source of chance: the same seed gives the same run, on every machine. Instead of a seed it can
//! follow a script, by which every way that chance could take is gone through.

use core::time::Duration;

/// Chance, or what stands for it.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    script: Option<Script>,
}

/// Decisions in the order in which they are asked for: those given, then the first choice of each. The first choice is
/// always that nothing bad happens.
#[derive(Clone, Debug, Default)]
pub struct Script {
    given: Vec<u64>,
    /// The decisions so far, each with its number of choices.
    taken: Vec<(u64, u64)>,
    /// Faults that may still happen; after them no decision is asked for.
    faults_left: u32,
}

impl Script {
    /// The first script: nothing bad happens.
    pub fn new(faults: u32) -> Self {
        Self { faults_left: faults, ..Self::default() }
    }

    /// The script after this one has been followed to the end, depth first; none when all have been.
    pub fn next(mut self, faults: u32) -> Option<Self> {
        while let Some((choice, choices)) = self.taken.pop() {
            if choice + 1 < choices {
                let mut given: Vec<u64> = self.taken.iter().map(|(choice, _)| *choice).collect();
                given.push(choice + 1);
                return Some(Self { given, taken: Vec::new(), faults_left: faults });
            }
        }
        None
    }

    /// The decisions that it gives.
    pub fn decisions(&self) -> &[u64] {
        &self.given
    }

    fn decide(&mut self, choices: u64) -> u64 {
        if choices < 2 || self.faults_left == 0 {
            return 0;
        }
        let choice = self.given.get(self.taken.len()).copied().unwrap_or(0);
        self.taken.push((choice, choices));
        self.faults_left -= u32::from(choice > 0);
        choice
    }
}

impl Random {
    /// Numbers that follow from `seed`: SplitMix64 (Steele, Lea & Flood 2014), for which any seed will do.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, script: None }
    }

    /// Decisions that follow a script. Numbers that decide nothing are those of a fixed seed.
    pub fn scripted(script: Script) -> Self {
        Self { state: 1, script: Some(script) }
    }

    /// The script that was followed, if one was.
    pub fn into_script(self) -> Option<Script> {
        self.script
    }

    /// 64 random bits, for what only must differ.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// 64 bits for nonces: never zero.
    pub(crate) fn nonce(&mut self) -> u64 {
        self.bits() | 1
    }

    /// A number below `n`.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        match &mut self.script {
            Some(script) => script.decide(n),
            None => self.bits() % n,
        }
    }

    /// True in `per_mille` of a thousand cases; in a script it is a decision, unless it is certain.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        match &mut self.script {
            _ if per_mille == 0 => false,
            Some(_) if per_mille >= 1000 => true,
            Some(script) => script.decide(2) == 1,
            None => self.bits() % 1000 < u64::from(per_mille),
        }
    }

    /// A duration of at least `range.0` and less than `range.1`, which may be equal. In a script it is one of the two.
    pub fn between(&mut self, (least, most): (Duration, Duration)) -> Duration {
        let span = most.saturating_sub(least).as_nanos() as u64;
        match &mut self.script {
            _ if span == 0 => least,
            Some(script) => [least, most][script.decide(2) as usize],
            None => least + Duration::from_nanos(self.bits() % span),
        }
    }

    /// A number of bytes of at least `least` and at most `most`, all orders of magnitude equally likely. In a script it
    /// is one of the two.
    pub fn size(&mut self, (least, most): (usize, usize)) -> usize {
        match &mut self.script {
            _ if least >= most => least,
            Some(script) => [least, most][script.decide(2) as usize],
            None => {
                let doublings = (most / least.max(1)).ilog2() + 1;
                let top = least.max(1) << (self.bits() % u64::from(doublings) + 1);
                least + (self.bits() % (top.min(most) - least + 1) as u64) as usize
            }
        }
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
