//! `./test`: the parts of `cargo test`'s output that it shows, and the tests that it names at its end.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The output that is shown, the output of failed tests, and the lines that name them.
fn shown(cargo: &str, run: &str) -> [String; 3] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let thread = std::thread::current();
    let name = thread.name().expect("a test has a name");
    let folder = std::env::temp_dir().join(format!("stoop-test-output-{}-{name}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let (outputs, failed) = (folder.join("outputs"), folder.join("failed"));
    let mut awk = Command::new("awk")
        .args([
            "-v",
            &format!("outputs={}", outputs.display()),
            "-v",
            &format!("failed={}", failed.display()),
        ])
        .args(["-v", &format!("run={run}"), "-f"])
        .arg(root.join(".ci/test-output.awk"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    awk.stdin.take().unwrap().write_all(cargo.as_bytes()).unwrap();
    let output = awk.wait_with_output().unwrap();
    assert!(output.status.success());
    let written = |file| fs::read_to_string(file).unwrap_or_default();
    let all = [String::from_utf8(output.stdout).unwrap(), written(outputs), written(failed)];
    fs::remove_dir_all(folder).unwrap();
    all
}

/// A target whose passing test has run tests itself, one of which failed.
const PASSING: &str = "     Running tests/onc.rs (target/debug/deps/onc-1)

running 1 test
test nested ... ok

successes:

---- nested stdout ----
test inner ... FAILED

failures:

---- inner stdout ----
thread 'inner' panicked at tests/onc.rs:1

failures:
    inner

test result: FAILED. 0 passed; 1 failed
as expected

successes:
    nested

test result: ok. 1 passed; 0 failed

";

/// A target in which one test passes and two fail, of which one shows a run of its own.
const FAILING: &str = "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m tests/calls.rs (target/debug/deps/calls-1)

running 3 tests
test quick ... ok
test nested ... FAILED
test silent ... FAILED

successes:

---- quick stdout ----
thread 'stoop-worker' panicked as the test wants

successes:
    quick

failures:

---- nested stdout ----
test result: FAILED. 0 passed; 1 failed
thread 'nested' panicked at tests/calls.rs:7

failures:
    nested
    silent

test result: FAILED. 1 passed; 2 failed

\u{1b}[1m\u{1b}[91merror\u{1b}[0m: test failed, to rerun pass `-p stoop --test calls`
";

#[test]
fn output_of_tests_that_pass_is_hidden_also_where_they_run_tests_themselves() {
    let [shown, outputs, failed] = shown(PASSING, "");
    assert!(shown.ends_with("test nested ... ok\n\ntest result: ok. 1 passed; 0 failed\n\n"), "{shown}");
    assert_eq!([outputs, failed], ["", ""]);
}

#[test]
fn failed_tests_are_named_with_their_target_and_their_output_is_kept() {
    let [shown, outputs, failed] = shown(&[PASSING, FAILING, PASSING].concat(), "");
    assert!(!shown.contains("as the test wants"), "{shown}");
    assert!(outputs.starts_with("failures:\n\n---- nested stdout ----\ntest result: FAILED."), "{outputs}");
    assert!(outputs.ends_with("test result: FAILED. 1 passed; 2 failed\n\n"), "{outputs}");
    assert!(shown.contains(&outputs));
    let expected = "cargo test -p stoop --test calls -- --exact 'nested'\n\
                    cargo test -p stoop --test calls -- --exact 'silent'\n";
    assert_eq!(failed, expected);
}

#[test]
fn a_test_that_hangs_until_its_target_is_aborted_is_named() {
    let hung = "     Running tests/death.rs (target/debug/deps/death-1)\n\nrunning 3 tests\n\
                test slow has been running for over 60 seconds\ntest stuck has been running for over 60 seconds\n\
                test quick ... ok\ntest slow ... ok\n\
                error: test failed, to rerun pass `-p stoop --test death`\n\n\
                Caused by:\n  process didn't exit successfully: `timeout 300 death-1` (exit status: 124)\n";
    let [_, _, failed] = shown(&[hung, FAILING].concat(), "");
    let expected = "cargo test -p stoop --test death -- --exact 'stuck'   \
                    (had run for over a minute when its program ended)\n\
                    cargo test -p stoop --test calls -- --exact 'nested'\n\
                    cargo test -p stoop --test calls -- --exact 'silent'\n";
    assert_eq!(failed, expected);
}

#[test]
fn a_target_that_is_killed_or_not_compiled_is_named() {
    let killed = "     Running tests/death.rs (target/debug/deps/death-1)\n\nrunning 1 test\n\
                  error: test failed, to rerun pass `-p stoop --test death`\n\n\
                  Caused by:\n  process didn't exit successfully (signal: 11)\n\
                  error: could not compile `stoop` (lib test) due to 1 previous error\n";
    let [shown, _, failed] = shown(killed, "-p stoop --features account");
    assert_eq!(shown, killed);
    let run = "   (of cargo test -p stoop --features account)\n";
    let expected = [
        "cargo test -p stoop --test death   (ended before all its tests had)",
        "error: could not compile `stoop` (lib test) due to 1 previous error",
    ];
    assert_eq!(failed, expected.map(|line| format!("{line}{run}")).concat());
}
