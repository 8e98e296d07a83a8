//! Worlds of calls with pipes, each from its seed, and every way in which a few things can go wrong in a small one. A failure prints the
//! seed, or the decisions, and the command that repeats it.

use stoop_sim::{PipeReport, PipeSabotage, run_pipe_seed, search_pipes};

const SEEDS: u64 = 2_000;

fn run(seed: u64) -> PipeReport {
    run_pipe_seed(seed, PipeSabotage::None).unwrap_or_else(|violation| panic!("{violation}"))
}

/// `STOOP_PIPE_SEED` runs one seed, `STOOP_PIPE_SEEDS` another number of them.
#[test]
fn no_seed_breaks_a_promise_about_pipes_and_together_they_reach_every_case() {
    let number = |variable: &str| {
        std::env::var(variable).ok().map(|value| value.parse::<u64>().expect("a number in the environment"))
    };
    if let Some(seed) = number("STOOP_PIPE_SEED") {
        return println!("{}", run(seed));
    }
    let seeds = number("STOOP_PIPE_SEEDS").unwrap_or(SEEDS);
    let mut report = PipeReport::default();
    (0..seeds).for_each(|seed| report.add(&run(seed)));
    println!("{report}");
    if seeds >= SEEDS {
        assert_eq!(report.never(), Vec::<&str>::new(), "a case that is never met proves nothing");
    }
}

#[test]
fn each_mistake_with_pipes_is_found() {
    let broken = [
        (PipeSabotage::DataBeginsCalls, "begins without its arguments"),
        (PipeSabotage::IgnoresNumbers, "is not the one that was sent"),
        (PipeSabotage::TakesOldReceipts, "and then None"),
        (PipeSabotage::GrantsWhatArrived, "granted beyond what was taken"),
        (PipeSabotage::SaysStopOnce, "never ends"),
        (PipeSabotage::DropIsEnd, "and then Some(Aborted)"),
        (PipeSabotage::KeepsWindow, "in flight"),
        (PipeSabotage::ResultWaitsForRoom, "never ends"),
        (PipeSabotage::NeverAsks, "never ends"),
        (PipeSabotage::RetriesAfterItems, "executed a second time"),
        (PipeSabotage::AnswersTwice, "ends with Failed"),
        (PipeSabotage::NeverWants, "never ends"),
        (PipeSabotage::FailureCutsPipe, "bytes sent before it"),
        (PipeSabotage::LateAnswers, "is given the result of another"),
    ];
    for (sabotage, what) in broken {
        let mut found = (0..5_000).filter_map(|seed| run_pipe_seed(seed, sabotage).err());
        let found = found.find(|found| found.contains(what));
        println!("{sabotage:?}: {}", found.unwrap_or_else(|| panic!("{sabotage:?} goes unnoticed")));
    }
}

#[test]
fn two_items_each_way_with_windows_of_one_item_survive_any_three_faults() {
    let (worlds, report) = search_pipes(64, 3, false, PipeSabotage::None).unwrap_or_else(|it| panic!("{it}"));
    println!("{worlds} worlds\n{report}");
    assert!(worlds > 5_000 && report.of("end delivered") > worlds, "{worlds} worlds\n{report}");
}

#[test]
fn items_survive_a_restart_of_the_server_or_the_call_is_lost() {
    let (worlds, report) = search_pipes(64, 2, true, PipeSabotage::None).unwrap_or_else(|it| panic!("{it}"));
    println!("{worlds} worlds\n{report}");
    assert!(report.of("lost") > 10, "{worlds} worlds\n{report}");
}
