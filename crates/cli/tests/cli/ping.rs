//! `stoop ping`: a server that answers, one that does not serve, and none.

use std::process::{Command, Output};
use stoop::Server;
use stoop::health::Health;

#[stoop::interface]
trait Idle {
    fn nothing(&self);
}

struct Idler;

impl Idle for Idler {
    fn nothing(&self) {}
}

fn ping(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.arg("ping").args(arguments).output().expect("stoop can be started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn a_server_that_answers_is_described_and_its_calls_are_counted() {
    let server = Server::new().export(IdleServer::new(Idler));
    let server =
        server.listen("udp://127.0.0.1:0").unwrap().listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    for (uri, transport) in server.uris().iter().zip(["UDP", "TCP"]) {
        let output = ping(&[uri, "-n", "3", "-i", "0"]);
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        for part in [transport, "incarnation", "Idle serving", "3 calls, 0 lost; min ", "median", "max"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    server.health().set("Idle", Health::NotServing);
    let uri = &server.uris()[0];
    assert!(ping(&[uri, "-n", "1"]).status.success());
    let output = ping(&[uri, "-n", "1", "--interface", "Idle"]);
    assert!(!output.status.success() && said(&output).contains("Idle: not serving"), "{}", said(&output));
}

#[test]
fn a_ping_in_json_has_a_line_for_each_call_and_one_for_all() {
    let server =
        Server::new().export(IdleServer::new(Idler)).listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let output = ping(&[&server.uris()[0], "-n", "2", "-i", "0", "--json"]);
    let text = said(&output);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [first, second, all] = &lines[..] else { panic!("{text}") };
    assert!(first["call"] == 1 && second["call"] == 2 && second["ns"].as_u64() > Some(0), "{text}");
    assert!(all["calls"] == 2 && all["lost"] == 0 && all["interfaces"]["Idle"] == "serving", "{text}");
    assert!(all["median_ns"].as_u64() <= all["max_ns"].as_u64(), "{text}");
}

#[test]
fn a_ping_without_a_server_says_why() {
    let output = ping(&["unix:@stoop-test-nobody-listens-here"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("no server listens"), "{}", said(&output));
}

#[test]
fn a_time_limit_that_no_answer_can_meet_is_refused() {
    for wrong in ["0", "-1", "soon"] {
        let output = ping(&["udp://127.0.0.1:9", "-t", wrong]);
        assert!(!output.status.success());
        assert!(said(&output).contains("from 0.001 to 86400"), "{}", said(&output));
    }
}
