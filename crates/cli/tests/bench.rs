//! The command `bench`, small: every figure is there, and nothing stays behind. Nothing here depends on how fast anything is.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn stoop(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

/// How many processors a run can have here: lines for more than there are would be left out.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2))
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().expect("the command was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn rows(output: &Output) -> Vec<Value> {
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(|line| serde_json::from_str(line).expect("a line is a JSON object")).collect()
}

#[test]
fn every_combination_of_a_choice_is_one_object_a_line() {
    let processors = processors();
    let output = succeed(stoop(&format!(
        "bench --calls 200 --transport udp,local --callers 1,2 --procedure null,max-arg,max-result \
         --processors {processors} --json",
    )));
    let rows = rows(&output);
    assert_eq!(rows.len(), 2 * 3 * 2);
    for row in &rows {
        assert!(row["calls"].as_u64() >= Some(200), "{row}");
        for figure in
            ["calls_per_second", "p50_ns", "p99_ns", "p999_ns", "floor_p50_ns", "floor_p99_ns", "ratio"]
        {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
        let with_data = row["procedure"] != "null" && row["transport"] != "local";
        assert_eq!(row["mbits_per_second"].as_f64() > Some(0.0), with_data, "{row}");
    }
}

#[test]
fn byte_streams_are_measured_in_each_way_to_wait() {
    let processors = processors();
    let output = succeed(stoop(&format!(
        "bench --calls 50 --transport tcp,unix --callers 1 --procedure null --waiting block,adaptive \
         --processors {processors} --json",
    )));
    let rows = rows(&output);
    assert_eq!(rows.len(), 2 * 2);
    assert!(rows.iter().all(|row| row["fast_path_share"].as_f64().is_some()));
}

#[test]
fn where_no_private_ethernet_can_be_made_it_measures_on_loopback_and_says_why() {
    let mut without_ip =
        stoop("bench --calls 50 --transport udp --callers 1 --procedure null --processors 1");
    without_ip.env("PATH", "");
    let table = String::from_utf8_lossy(&succeed(without_ip).stdout).into_owned();
    assert!(table.contains("loopback, because"), "{table}");
    assert!(table.contains("iproute2"), "{table}");
}

#[test]
fn a_killed_run_leaves_no_process_behind() {
    let mut run = stoop("bench --calls 1000000000 --transport udp --callers 1 --processors 1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command was built");
    let mut table = BufReader::new(run.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("transport") {
        line.clear();
        assert!(table.read_line(&mut line).expect("it is text") > 0, "the table never began");
    }
    run.kill().expect("it runs for hours");
    run.wait().expect("it was killed");
    // Its children write to the same standard error: this ends when the last of them has.
    let mut errors = String::new();
    run.stderr.take().expect("piped").read_to_string(&mut errors).expect("it is text");
    assert_eq!(errors, "");
}

#[test]
fn nonsense_is_refused_with_what_is_possible() {
    let output = stoop("bench --transport carrier-pigeon").output().expect("the command was built");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("udp"));
}
