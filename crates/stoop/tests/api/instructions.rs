//! Instructions of calls over each transport, counted by callgrind, so that growth is noticed.

use std::process::Command;

#[test]
fn calls_take_no_more_instructions_than_they_may() {
    let skipped = |why: &str| println!("SKIPPED: calls_take_no_more_instructions_than_they_may: {why}");
    if std::env::var_os("STOOP_COUNT_CALLS").is_none() {
        return skipped("it builds the library once more, optimised; set STOOP_COUNT_CALLS=1");
    }
    if !cfg!(target_arch = "x86_64") {
        return skipped("the bounds are in instructions of x86-64");
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skipped("valgrind is not installed");
    }
    let counter = concat!(env!("CARGO_MANIFEST_DIR"), "/count-instructions");
    let counted = Command::new(counter).output().expect("the script beside this crate can be run");
    let (table, errors) =
        (String::from_utf8_lossy(&counted.stdout), String::from_utf8_lossy(&counted.stderr));
    errors.lines().filter(|line| line.starts_with("SKIPPED: ")).for_each(|line| println!("{line}"));
    println!("{table}");
    assert!(
        counted.status.success(),
        "a line of this table is above its bound, or nothing was counted:\n{table}{errors}"
    );
}
