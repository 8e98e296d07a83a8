//! Instructions that arguments add to a call, counted by callgrind; they are exact, so that growth is noticed.

use std::process::Command;

#[test]
fn arguments_add_no_more_instructions_than_they_may() {
    let skipped = |why: &str| println!("SKIPPED: arguments_add_no_more_instructions_than_they_may: {why}");
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
    println!("{table}");
    assert!(
        counted.status.success(),
        "a line of this table is above its bound, or nothing was counted:\n{table}{errors}"
    );
}
