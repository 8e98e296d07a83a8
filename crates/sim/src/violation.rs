//! The report of a broken promise, and how to repeat the run.

use std::fmt;

/// A broken promise, with what is needed to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Scenarios from which the seed chooses.
    pub family: Family,
    /// Progress of the run.
    pub steps: u64,
    /// The rule that was broken.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, family, steps, what } = self;
        write!(
            f,
            "seed {seed}, event {steps}: {what}\nto repeat: {}={seed} cargo test -p stoop-sim --test sim seeds::",
            family.variable()
        )
    }
}

impl std::error::Error for Violation {}

/// Which kind of worlds a seed stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Messages are a packet, and packets travel however many there are.
    #[default]
    Small,
    /// Messages may be long, lines have rates and queues, sockets fill, and bits flip.
    Large,
    /// More calls than the server can do, from callers that keep to credits and send refused calls again; and servers at two
    /// addresses, which shut down and start in turn.
    Load,
    /// Bindings are sealed, and an attacker on the way sees, loses, repeats, changes and makes up packets.
    Sealed,
}

impl Family {
    /// The environment variable that names one of its seeds to the tests.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Small => "STOOP_SEED",
            Self::Large => "STOOP_LARGE_SEED",
            Self::Load => "STOOP_LOAD_SEED",
            Self::Sealed => "STOOP_SEALED_SEED",
        }
    }
}
