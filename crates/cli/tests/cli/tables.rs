//! The command `tables`, small: figures are there in all three forms. Nothing here depends on how fast anything is.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn stoop(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.args(words.split_whitespace()).stdin(Stdio::null()).output().expect("stoop can be started")
}

#[test]
fn a_time_too_short_for_a_figure_is_refused_with_the_reason() {
    let output = stoop("tables --ms 60");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("510 ms at least") && text.contains("--rounds 1"), "{text}");
}

fn has_two_processors() -> bool {
    std::thread::available_parallelism().is_ok_and(|number| number.get() > 1)
}

/// A file of this test alone, which is removed with this.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("stoop-tables-{}-{name}", std::process::id())))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("the file was written")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A round of a few calls for each figure, and what it wrote.
fn run(tables: &str, file: &File) -> (String, Value) {
    run_rounds(1, tables, file)
}

fn run_rounds(rounds: u32, tables: &str, file: &File) -> (String, Value) {
    let output = stoop(&format!("tables --calls 50 --rounds {rounds} --json {} {tables}", file.0.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = serde_json::from_str(&file.text()).expect("it is a JSON object");
    (String::from_utf8_lossy(&output.stdout).into_owned(), run)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("it is a list")
}

fn lines(run: &Value) -> Vec<&Value> {
    let groups = list(&run["tables"]).iter().flat_map(|table| list(&table["groups"]));
    groups.flat_map(|group| list(&group["lines"])).collect()
}

#[test]
fn every_table_of_the_papers_is_listed() {
    let output = stoop("tables --list");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let of =
        |paper: &str, tables: u32| (1..=tables).map(|table| format!("{paper}-{table}")).collect::<Vec<_>>();
    let all = [of("firefly", 12), of("elliott-nutt", 5), of("peregrine", 7), of("what-if", 3)];
    assert_eq!(names, all.concat(), "{listed}");
}

#[test]
fn name_that_no_table_has_is_refused() {
    let output = stoop("tables firefly-99");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--list"));
}

#[test]
fn file_that_is_no_earlier_run_is_refused_before_anything_is_measured() {
    let file = File::new("no-run");
    for (text, why) in [("{}", "no figures"), ("a, b", "expected")] {
        std::fs::write(&file.0, text).expect("the folder can be written");
        let output = stoop(&format!("tables --against {} firefly-1", file.0.display()));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why) && error.contains("--json FILE"), "{error}");
    }
}

#[test]
fn file_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let output = stoop("tables --json /no/such/folder/run.json firefly-1");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("/no/such/folder/run.json cannot be written"),
        "{error}"
    );
}

#[test]
fn reader_that_has_seen_enough_is_no_fault() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    let (reader, writer) = std::io::pipe().expect("the kernel has pipes");
    // Closed before the command prints its first line.
    drop(reader);
    let output = command.args(["tables", "--list"]).stdout(writer).stderr(Stdio::piped()).output();
    let output = output.expect("stoop can be started");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn calls_within_a_machine_stand_beside_those_of_the_paper() {
    let file = File::new("local");
    let (text, run) = run("elliott-nutt-1 elliott-nutt-4", &file);
    assert!(text.contains("average of 25 runs") && text.contains("4a: blocking"), "{text}");
    for line in lines(&run) {
        assert!(line["paper"].as_f64() > Some(0.0), "{line}");
        assert!(
            line["today"]["median"].as_f64().is_some() && !list(&line["today"]["samples"]).is_empty(),
            "{line}"
        );
    }
    assert!(run["before"]["datagram_ns"]["median"].as_f64() > Some(0.0));
}

#[test]
fn programs_two_three_and_four_are_called_on_both_sides_of_the_network() {
    if !has_two_processors() {
        println!("SKIPPED: programs_two_three_and_four: one processor");
        return;
    }
    let file = File::new("programs");
    let (_, run) = run("elliott-nutt-3", &file);
    let lines = lines(&run);
    assert_eq!(lines.len(), 2 * 3 * 6);
    for line in lines {
        let is_missing = line["label"] == "Program 2 (Sun RPC), by libtirpc" && line["remark"].is_string();
        assert!(is_missing || line["today"]["median"].as_f64() > Some(0.0), "{line}");
    }
}

#[test]
fn page_shows_what_the_text_shows_and_a_second_run_is_compared() {
    if !has_two_processors() {
        println!("SKIPPED: page_shows_what_the_text_shows: one processor");
        return;
    }
    let (first, second, page) = (File::new("first"), File::new("second"), File::new("page"));
    let (_, run) = run_rounds(2, "firefly-2 firefly-10", &first);
    for line in lines(&run) {
        let rounds = line["today"]["rounds"].as_array();
        assert!(rounds.is_none_or(|rounds| rounds.len() == 2), "{line}");
    }
    assert_eq!(list(&run["after"]).len(), 2, "the machine is judged after each round");
    let words = format!("--against {} --html {} firefly-2 firefly-10", first.0.display(), page.0.display());
    let (text, _) = run_rounds(1, &words, &second);
    assert!(text.contains("Beside the earlier run"), "{text}");
    let page = page.text();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for word in [
        "Firefly Table II:",
        "4 arguments",
        "caller 1, server 1",
        "<svg",
        "prefers-color-scheme: dark",
        "viewport",
    ] {
        assert!(page.replace("scheme:dark", "scheme: dark").contains(word), "{word} is missing");
    }
    assert!(!page.contains("<script") && !page.contains("http"), "it needs nothing from elsewhere");
}

/// The predictions of all rounds of a line: when each was fixed, and when its improved call began to be measured.
fn order(line: &Value) -> Vec<Option<(f64, f64)>> {
    let rounds = line["predicted"]["rounds"].as_array().map_or(&[][..], Vec::as_slice);
    let moment = |round: &Value, name: &str| round[name].as_f64();
    rounds.iter().map(|round| Some((moment(round, "fixed_s")?, moment(round, "measured_s")?))).collect()
}

#[test]
fn every_saving_is_predicted_before_any_improved_call_of_the_round_is_measured() {
    if !has_two_processors() {
        println!("SKIPPED: every_saving_is_predicted: one processor");
        return;
    }
    let file = File::new("what-if");
    let (text, run) = run_rounds(2, "what-if-1", &file);
    let lines = lines(&run);
    let tried: Vec<_> = lines.iter().filter(|line| order(line).iter().any(Option::is_some)).collect();
    assert!(!tried.is_empty(), "the header by hand needs nothing that may be missing: {text}");
    // On a busy machine a line may lack a round: then it does not tell of which round the other is.
    let whole: Vec<_> = tried.iter().map(|line| order(line)).filter(|rounds| rounds.len() == 2).collect();
    assert!(!whole.is_empty(), "no line has both rounds: {text}");
    for round in 0..2 {
        let moments = whole.iter().filter_map(|rounds| rounds[round]);
        let last_fixed = moments.clone().map(|(fixed, _)| fixed).fold(0.0, f64::max);
        let first_measured = moments.map(|(_, measured)| measured).fold(f64::INFINITY, f64::min);
        assert!(last_fixed < first_measured, "round {round}: {last_fixed} s, {first_measured} s");
    }
    for line in tried {
        assert!(line["predicted"]["value"].is_f64() && line["today"]["median"].is_f64(), "{line}");
        let is_judged = line["predicted"]["off"].is_f64() || line["remark"] == "no saving beyond the spread";
        assert!(is_judged, "{line}");
    }
    assert!(text.contains("Null(): saved, µs") && text.contains("off"), "{text}");
}
