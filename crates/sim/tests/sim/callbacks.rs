//! Worlds of callbacks, each from its seed. A failure prints the seed, and the command that repeats it.

use stoop_sim::{CallbackReport, CallbackSabotage, run_callback_seed};

const SEEDS: u64 = 3_000;

fn run(seed: u64) -> CallbackReport {
    run_callback_seed(seed, CallbackSabotage::None).unwrap_or_else(|violation| panic!("{violation}"))
}

/// `STOOP_CALLBACK_SEED` runs one seed, `STOOP_CALLBACK_SEEDS` another number of them.
#[test]
fn no_seed_breaks_a_promise_about_callbacks_and_together_they_reach_every_case() {
    let number = |variable: &str| {
        std::env::var(variable).ok().map(|value| value.parse::<u64>().expect("a number in the environment"))
    };
    if let Some(seed) = number("STOOP_CALLBACK_SEED") {
        return println!("{}", run(seed));
    }
    let seeds = number("STOOP_CALLBACK_SEEDS").unwrap_or(SEEDS);
    let mut report = CallbackReport::default();
    (0..seeds).for_each(|seed| report.add(&run(seed)));
    println!("{report}");
    if seeds >= SEEDS {
        assert_eq!(report.never(), Vec::<&str>::new(), "a case that is never met proves nothing");
    }
}

#[test]
fn each_mistake_with_callbacks_is_found() {
    let broken = [
        (CallbackSabotage::AnswersInLaterSession, "is given the result of"),
        (CallbackSabotage::LostIsNotRun, "is told that it has not"),
        (CallbackSabotage::DepthIsUnbounded, "callbacks have begun"),
        (CallbackSabotage::ForgetsOrder, "while another waits"),
        (CallbackSabotage::WaitsOn, "after its deadline"),
    ];
    for (sabotage, what) in broken {
        let mut found = (0..SEEDS).filter_map(|seed| run_callback_seed(seed, sabotage).err());
        let found = found.find(|found| found.contains(what));
        println!("{sabotage:?}: {}", found.unwrap_or_else(|| panic!("{sabotage:?} goes unnoticed")));
    }
}
