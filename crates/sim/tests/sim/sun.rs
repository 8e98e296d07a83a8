//! Worlds of Sun RPC, each from its seed. A failure prints the seed and the command that repeats it.

use stoop_sim::{SunReport, SunSabotage, run_sun_seed};

const SEEDS: u64 = 5_000;

fn run(seed: u64) -> SunReport {
    run_sun_seed(seed, SunSabotage::None).unwrap_or_else(|violation| panic!("{violation}"))
}

/// `STOOP_SUN_SEED` runs one seed, `STOOP_SUN_SEEDS` another number of them.
#[test]
fn no_seed_breaks_a_promise_of_sun_rpc_and_together_they_reach_every_case() {
    let number = |variable: &str| {
        std::env::var(variable).ok().map(|value| value.parse::<u64>().expect("a number in the environment"))
    };
    if let Some(seed) = number("STOOP_SUN_SEED") {
        return println!("{}", run(seed));
    }
    let seeds = number("STOOP_SUN_SEEDS").unwrap_or(SEEDS);
    let mut report = SunReport::default();
    (0..seeds).for_each(|seed| report.add(&run(seed)));
    println!("{report}");
    if seeds >= SEEDS {
        assert_eq!(report.never(), Vec::<&str>::new(), "a case that is never met proves nothing");
    }
}

#[test]
fn each_sabotage_is_found() {
    let broken = [
        (SunSabotage::KeepsNoReplies, "runs again though the server keeps its reply"),
        (SunSabotage::SilenceIsNo, "did not"),
        (SunSabotage::RefusalIsNo, "did not"),
        (SunSabotage::IgnoresXids, "has the result of call"),
        (SunSabotage::TrustsOldSockets, "is told that it did not run, and it ran"),
    ];
    for (sabotage, what) in broken {
        let found = (0..20_000).find_map(|seed| run_sun_seed(seed, sabotage).err());
        let found = found.unwrap_or_else(|| panic!("{sabotage:?} goes unnoticed"));
        assert!(found.contains(what), "{sabotage:?}: {found}");
    }
}
