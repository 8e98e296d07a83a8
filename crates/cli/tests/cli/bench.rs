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
fn run_without_choices_prints_an_overview_that_fits_on_a_screen() {
    let output = succeed(stoop("bench --calls 20"));
    let overview = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = overview.lines().collect();
    assert!(lines.len() <= 45, "{} lines:\n{overview}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{overview}");
    for word in
        ["Table I", "callers", "udp", "tcp", "unix", "shm", "local", "in flight", "1 MiB", "of floor  "]
    {
        assert!(overview.contains(word), "{word} is missing:\n{overview}");
    }
}

#[test]
fn overview_for_machines_is_one_object_for_each_figure() {
    let rows = rows(&succeed(stoop("bench --calls 10 --json")));
    let of = |callers: u64| rows.iter().filter(|row| row["callers"] == callers).count();
    if processors() == 2 {
        assert_eq!((of(8), of(1)), (2, 2 + 5 * 2 + 4 + 3 * 2));
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
fn shared_memory_stands_beside_a_bare_line_and_a_call_through_a_vtable() {
    let output = succeed(stoop(&format!(
        "bench --calls 200 --transport shm --callers 1,2 --waiting block,adaptive --processors {} --json",
        processors(),
    )));
    let rows = rows(&output);
    assert_eq!(rows.len(), 2 * 2 * 3);
    for row in &rows {
        for figure in ["p50_ns", "floor_p50_ns", "ratio"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
        let alone = row["procedure"] == "null" && row["callers"] == 1;
        assert_eq!(row["vtable_ratio"].as_f64() > Some(0.0), alone, "{row}");
    }
}

#[test]
fn long_messages_stand_beside_the_bare_exchange_of_as_many_bytes() {
    let processors = processors();
    let output = succeed(stoop(&format!(
        "bench --calls 20 --transport udp,tcp,unix,shm,local --bytes 1441,200000 --processors {processors} --json",
    )));
    let rows = rows(&output);
    assert_eq!(rows.len(), 5 * 3 * 2);
    for row in &rows {
        assert!([1441, 200_000].contains(&row["bytes"].as_u64().expect("a number")), "{row}");
        let over_network = row["transport"] != "local";
        for figure in ["mbits_per_second", "floor_mbits_per_second"] {
            assert_eq!(row[figure].as_f64() > Some(0.0), over_network, "{figure}: {row}");
        }
        for figure in ["floor_calls_per_second", "rate_ratio", "rate_ratio_low", "rate_ratio_high"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
        for figure in ["tcp_mbits_per_second", "tcp_rate_ratio"] {
            assert_eq!(row[figure].as_f64() > Some(0.0), row["transport"] == "udp", "{figure}: {row}");
        }
    }
}

#[test]
fn results_of_outstanding_calls_are_taken_in_each_way() {
    let (processors, ways) = (processors(), ["wait", "await", "wait-any", "detach", "one-way"]);
    for (choice, each) in [("udp,tcp,unix,shm,local --in-flight 100", 5), ("unix --in-flight 1", 1)] {
        let output = succeed(stoop(&format!(
            "bench --calls 300 --transport {choice} --results {} --processors {processors} --json",
            ways.join(","),
        )));
        let rows = rows(&output);
        for way in ways {
            let of_way: Vec<_> = rows.iter().filter(|row| row["results"] == way).collect();
            assert_eq!(of_way.len(), each, "{way}");
            assert!(of_way.iter().all(|row| row["calls"].as_u64() >= Some(300)), "{of_way:?}");
        }
    }
}

#[test]
fn one_way_calls_with_data_are_refused() {
    let output = stoop("bench --transport udp --results one-way --procedure max-arg --processors 1").output();
    let output = output.expect("the command was built");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("choose the procedure null"), "{why}");
}

#[test]
fn frames_on_each_mechanism_stand_beside_bare_frames_or_are_left_out_on_loopback() {
    let bench = |words: &str| {
        let words = format!("bench {words} --processors {} --json", processors());
        let output = stoop(&words).output().expect("the command was built");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        if why.contains("loopback is no Ethernet") || why.contains("CAP_") {
            println!("SKIPPED: {words}: {why}");
            return Vec::new();
        }
        assert!(output.status.success(), "{why}");
        rows(&output)
    };
    let mechanisms = "--transport ether,ether-xdp,ether-xdp-generic";
    for words in [
        "--calls 100 --callers 1,3 --procedure null,max-result",
        "--calls 10 --callers 1 --bytes 200000 --procedure bulk-in,bulk-out --no-checksum",
        "--calls 300 --callers 1 --in-flight 7,100",
    ] {
        for row in bench(&format!("{mechanisms} {words}")) {
            assert!(row["calls"].as_u64() >= Some(10), "{row}");
            for figure in ["calls_per_second", "floor_calls_per_second", "ratio", "rate_ratio"] {
                assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
            }
        }
    }
}

#[test]
fn each_bar_of_the_ethernet_is_one_object_a_line() {
    let output = stoop("bench --ethernet --calls 50 --json").output().expect("the command was built");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if why.contains("private Ethernet") || why.contains("two processors") || why.contains("CAP_") {
        println!("SKIPPED: bench --ethernet: {why}");
        return;
    }
    assert!(output.status.success(), "{why}");
    let bars = rows(&output);
    let of = |part: &str| bars.iter().filter(|bar| bar["part"] == part).count();
    let parts = ["null", "max-result", "bulk", "bulk-unchecked", "in-flight", "callers", "lanes"];
    assert_eq!(parts.map(of), [9, 3, 12, 12, 3, 3, 1]);
    for bar in &bars {
        assert!(bar["figure"].as_f64() > Some(0.0), "{bar}");
        assert_eq!(bar["met"].is_boolean(), bar["wanted"] != "nothing", "{bar}");
    }
}

#[test]
fn network_penalty_stands_beside_the_figures_of_the_paper() {
    let output = stoop("penalty --calls 200").output().expect("the command was built");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if why.contains("private Ethernet") || why.contains("two processors") {
        println!("SKIPPED: penalty: {why}");
        return;
    }
    assert!(output.status.success(), "{why}");
    let tables = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "48000 bytes IN-OUT"] {
        assert!(tables.contains(word), "{word} is missing:\n{tables}");
    }
    let smallest = tables.lines().find(|line| line.trim_start().starts_with("46 ")).expect("the first frame");
    let figures: Vec<f64> = smallest.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert_eq!(figures[..2], [46.0, 132.0]);
    assert!(figures[2] > 0.0 && figures[3] >= figures[2], "{smallest}");
}

#[test]
fn with_a_size_the_procedures_of_the_paper_are_bulk_procedures() {
    let output = succeed(stoop(&format!(
        "bench --calls 10 --transport tcp --procedure max-arg,max-result --bytes 5000 --processors {} --json",
        processors(),
    )));
    let procedures: Vec<Value> = rows(&output).iter().map(|row| row["procedure"].clone()).collect();
    assert_eq!(procedures, ["bulk-in", "bulk-out"]);
}

#[test]
fn outstanding_calls_are_compared_with_the_bare_echo_of_the_same_window() {
    for (choice, count) in [
        ("udp,tcp,unix --procedure null --in-flight 1,7,300", 9),
        ("udp --procedure max-arg,max-result --in-flight 7", 2),
    ] {
        let words = format!("bench --calls 500 --transport {choice} --processors {} --json", processors());
        let rows = rows(&succeed(stoop(&words)));
        assert_eq!(rows.len(), count);
        for row in &rows {
            assert!(row["calls"].as_u64() >= Some(500), "{row}");
            assert!([1, 7, 300].contains(&row["in_flight"].as_u64().expect("a number")), "{row}");
            for figure in ["calls_per_second", "floor_calls_per_second", "rate_ratio"] {
                assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
            }
        }
    }
}

#[test]
fn idle_clients_silence_and_a_busy_neighbour_are_told_in_the_line() {
    let unix = "bench --transport unix --procedure null --processors 1 --json";
    let rows_with = |words: &str| rows(&succeed(stoop(&format!("{unix} {words}"))));
    let clients = rows_with("--calls 100 --clients 1,9");
    assert_eq!(clients.iter().map(|row| row["clients"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(9)]);
    let silent = &rows_with("--calls 5 --silence 1ms")[0];
    assert_eq!(silent["silence_ms"].as_u64(), Some(1), "{silent}");
    assert!(silent["calls_per_second"].as_f64() < Some(1000.0), "a call and its silence take more: {silent}");
    let busy = &rows_with("--calls 100 --busy")[0];
    assert_eq!((busy["busy"].as_bool(), clients[0]["busy"].as_bool()), (Some(true), Some(false)), "{busy}");
}

#[test]
fn a_slow_link_carries_no_more_than_its_rate_or_is_refused_on_loopback() {
    let output = stoop(&format!("bench --calls 3 --rate 50mbit --processors {} --json", processors()))
        .output()
        .expect("the command was built");
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("loopback has no rate") || why.contains("tc qdisc"), "{why}");
        return;
    }
    for row in rows(&output) {
        assert_eq!(row["link_rate"].as_u64(), Some(50), "{row}");
        // A bucket of two frames and a device's own packets are nothing beside three calls of 48,000 bytes.
        for figure in ["mbits_per_second", "floor_mbits_per_second"] {
            assert!(row[figure].as_f64() < Some(51.0), "{figure}: {row}");
        }
    }
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

/// The output of a short measurement that needs two processors; `None` without them.
fn short(words: &str) -> Option<String> {
    if processors() < 2 {
        println!("SKIPPED: {words}: it needs two processors");
        return None;
    }
    let output = succeed(stoop(words));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines behind the one that begins so, up to one that is no row.
fn rows_behind<'a>(output: &'a str, head: &str, is_row: impl Fn(&&str) -> bool) -> Vec<&'a str> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with(head));
    assert!(lines.next().is_some(), "{head} is missing:\n{output}");
    lines.skip_while(|line| !is_row(line)).take_while(|line| is_row(line)).collect()
}

/// Numbers of a row of the measurement under overload.
const OVERLOAD_COLUMNS: usize = 11;

#[test]
fn an_overload_over_udp_is_told_interval_by_interval() {
    check_overload("udp");
}

#[test]
fn an_overload_over_unix_sockets_is_told_interval_by_interval() {
    check_overload("unix");
}

fn check_overload(transport: &str) {
    let Some(output) = short(&format!("bench --overload 3 --short --transport {transport}")) else { return };
    let is_row = |line: &&str| {
        line.trim_start().starts_with(|first: char| first.is_ascii_digit()) && line.contains(" s ")
    };
    for (head, rows) in [("control: ", 3), ("open loop: ", 6), ("closed loop: ", 6)] {
        let rows_there = rows_behind(&output, &format!("{transport}, {head}"), is_row);
        assert_eq!(rows_there.len(), rows, "{head}:\n{output}");
        for row in rows_there {
            let numbers = row.split_whitespace().filter(|word| word.parse::<f64>().is_ok());
            assert_eq!(numbers.count(), OVERLOAD_COLUMNS, "{row}");
        }
    }
    for (line, times) in [
        ("one after the other  Null() ", 1),
        ("64 at a time         Null() ", 1),
        ("after it, 8 callers:", 2),
        ("goodput after the first second: ", 2),
        ("begun after their deadline: ", 2),
    ] {
        assert_eq!(output.matches(line).count(), times, "{line}:\n{output}");
    }
}

#[test]
fn a_victim_is_served_beside_each_attack_over_udp() {
    check_greedy("udp");
}

#[test]
fn a_victim_is_served_beside_each_attack_over_unix_sockets() {
    check_greedy("unix");
}

#[test]
fn pipes_are_measured_where_they_are_carried() {
    let Some(output) = short("bench --pipes --short --transport udp,shm") else { return };
    let carrying = if output.contains("\nudp: pipes are not carried: ") { 1 } else { 2 };
    for (line, times) in [
        ("  64 bytes to the procedure", 1),
        ("  64 KiB from the procedure", 1),
        ("  64 bytes there and back: p50 ", 1),
        ("  Null() beside 64 KiB items ", 2),
    ] {
        assert_eq!(output.matches(line).count(), times * carrying, "{line}:\n{output}");
    }
}

fn check_greedy(transport: &str) {
    let words = format!("bench --greedy --short --calls 1 --transport {transport} --attack calls,bindings");
    let Some(output) = short(&words) else { return };
    if output.contains(": not measured: ") {
        return println!("SKIPPED: {words}: {output}");
    }
    let rows = rows_behind(&output, transport, |line| line.contains("(20)") || line.contains("memory of"));
    assert_eq!(rows.len(), 4, "one without an attack, two attacks, and memory:\n{output}");
    for row in &rows[..3] {
        assert!(row.ends_with(" 0"), "a call of the victim failed: {row}");
        assert!(row.contains("(20)"), "{row}");
    }
    assert!(rows[3].contains("memory of the server: "), "{output}");
    assert!(output.contains("\n0 lines miss a bar"), "{output}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_lines_in_a_pipe_are_whole() {
    let longest = |output: Output| {
        let text = String::from_utf8(output.stdout).expect("it is text");
        text.lines().map(|line| line.chars().count()).max().expect("it has lines")
    };
    let words = "bench --transport local,unix --calls 20 --callers 1,2";
    for words in [words, "bench --transport unix --in-flight 2 --calls 20", "bench --help", "tables --list"] {
        let mut narrow = stoop(words);
        narrow.env("COLUMNS", "80");
        let longest = longest(succeed(narrow));
        assert!(longest <= 80, "{words}: {longest} characters");
    }
    assert!(longest(succeed(stoop(words))) > 150, "the lines of a pipe are broken");
}

/// Time of a processor that the children of a process have had, in hundredths of a second (`proc_pid_stat(5)`).
fn processor_of_children(parent: u32) -> u64 {
    let stats = std::fs::read_dir("/proc").expect("it is there").flatten();
    let of_child = |stat: String| {
        // Behind the name, which may have spaces: the state, the parent, and as the 12th and 13th the times.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        (number(1)? == u64::from(parent)).then_some(number(11)? + number(12)?)
    };
    stats.filter_map(|entry| of_child(std::fs::read_to_string(entry.path().join("stat")).ok()?)).sum()
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
    // One that is killed while it begins to listen may find that the network of the others is gone, and say so.
    while processor_of_children(run.id()) < 50 {
        assert!(run.try_wait().expect("it is a child").is_none(), "it ended by itself");
        std::thread::yield_now();
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
    let output = stoop("bench --transport calls-pigeon").output().expect("the command was built");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("udp"));
}
