//! What becomes of a call is decided in one place.

use crate::workspace::{root, sources_below};
use std::fs;

/// The rules that decide, and the files and folders that may name them.
const RULES: [(&[&str], &[&str]); 2] = [
    (
        &["AfterRefusal", "LostAttempts", "ATTEMPTS_MAX"],
        &["crates/exchange/src/outcome.rs", "crates/calls/src/"],
    ),
    // The simulator has lives of processes, too: of its sources the rules above are checked.
    (&["Life"], &["crates/calls/src/", "crates/stoop/src/calling/fate.rs", "crates/sim/src/"]),
];

/// The code of a source: no comments, and none of the tests at its end.
fn code_of(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    lines.map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
}

/// The lines of a source that name a rule which the file may not name.
fn decides(file: &str, source: &str) -> String {
    let mut found = String::new();
    for (number, line) in code_of(source) {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let forbids = |(rules, places): &(&[&str], &[&str])| {
                rules.contains(&word) && !places.iter().any(|place| file.starts_with(place))
            };
            if RULES.iter().any(forbids) {
                found += &format!("{file}:{number}: {word}\n");
            }
        }
    }
    found
}

#[test]
fn only_the_crate_of_calls_decides_what_becomes_of_a_call() {
    let root = root();
    let mut found = String::new();
    for source in sources_below(&root.join("crates")) {
        let file = source.strip_prefix(&root).expect("it is below the root").display().to_string();
        if file.contains("/src/") {
            found += &decides(&file, &fs::read_to_string(&source).expect("a source is text"));
        }
    }
    assert!(found.is_empty(), "ask `stoop_calls::life` (over transports by `calling::fate`):\n{found}");
}

#[test]
fn the_runtime_and_the_simulator_ask_it() {
    let asks = ["after(", "judged(", "not_bound(", "transmissions_of_unknown("];
    for folder in ["crates/stoop/src/calling", "crates/sim/src"] {
        let sources = sources_below(&root().join(folder));
        let text: String =
            sources.iter().map(|file| fs::read_to_string(file).expect("a source is text")).collect();
        for ask in asks {
            assert!(
                text.contains(&format!("life.{ask}")) || text.contains(&format!("attempts.{ask}")),
                "{folder}: {ask}"
            );
        }
    }
}

#[test]
fn a_decision_elsewhere_is_named() {
    let source = "use stoop_exchange::outcome::{AfterRefusal, Verdict};\n// LostAttempts\n#[cfg(test)]\nuse x::ATTEMPTS_MAX;";
    for file in ["crates/stoop/src/transport/stream/begun.rs", "crates/sim/src/caller_process/refused.rs"] {
        assert_eq!(decides(file, source), format!("{file}:1: AfterRefusal\n"));
    }
    let file = "crates/stoop/src/calling/recovery.rs";
    assert_eq!(decides(file, "let life = Life::default();"), format!("{file}:1: Life\n"));
    assert_eq!(decides("crates/stoop/src/calling/fate.rs", "life: Life,"), "");
}
