//! The program without its laboratory and without keys.

use std::process::{Command, Output};

fn stoop(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.args(words.split_whitespace()).output().expect("stoop can be started")
}

#[test]
fn commands_that_are_not_in_the_program_say_how_to_get_them_whatever_follows_them() {
    for (words, feature) in [
        ("bench", "lab"),
        ("bench --transport udp --calls 10", "lab"),
        ("penalty --help", "lab"),
        ("account --svg call.svg", "account"),
        ("tables firefly what-if --json -", "lab"),
        ("keygen", "seal"),
        ("key --help", "seal"),
    ] {
        let output = stoop(words);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{words}: {output:?}");
        let how = format!("cargo install --path crates/cli --features {feature}\n");
        assert!(why.ends_with(&how), "{words}: {why}");
    }
}

#[test]
fn help_lists_the_commands_that_are_there_and_names_the_others_below() {
    let output = stoop("--help");
    let help = String::from_utf8_lossy(&output.stdout);
    let listed: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(listed.contains(&"ping") && listed.contains(&"gen") && !listed.contains(&"bench"), "{help}");
    assert!(help.contains("bench, penalty, account and tables are not in this program"), "{help}");
}
