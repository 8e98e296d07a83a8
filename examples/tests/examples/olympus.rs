//! Olympus: graphs whose nodes are interpreted on several servers, some of which die or join while the graph runs.

#[allow(dead_code, reason = "other tests use the rest of it")]
use crate::programs::{Server, example};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder for the files of one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("olympus").join(test);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

fn graph(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("graph");
    fs::write(&file, text).expect("it can be written");
    file
}

/// The name of an address of shared memory that no other test has.
fn memory(test: &str) -> String {
    format!("shm:olympus-{test}-{}", std::process::id())
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn all_nodes_of_the_example_fire_and_the_time_line_shows_them() {
    let folder = folder("bread");
    let server = Server::start("olympus-worker", &[&memory("bread"), "udp://127.0.0.1:0"]);
    let bread = concat!(env!("CARGO_MANIFEST_DIR"), "/olympus/bread.graph");
    let svg = folder.join("bread.svg");
    let output =
        example("olympus").arg(bread).args(&server.uris).arg("--svg").arg(&svg).output().expect("it starts");
    let (text, errors) = said(&output);
    assert!(output.status.success(), "{errors}");
    assert!(text.starts_with("4 nodes fired in "), "{text}");
    assert!(
        text.contains("critical path: heats") && text.contains("bakes") && text.contains("cuts"),
        "{text}"
    );
    let picture = fs::read_to_string(svg).expect("it was drawn");
    assert_eq!(picture.matches("<rect").count(), 4);
}

/// Nodes without an order, by so many places of one token each.
fn independent(count: usize, procedure: &str) -> String {
    (0..count).map(|n| format!("place p{n} 1\nnode n{n} {procedure} : p{n} -> end\n")).collect()
}

#[test]
fn a_server_is_given_no_more_nodes_at_a_time_than_its_limit() {
    let folder = folder("limit");
    let server = Server::start("olympus-worker", &[&memory("limit")]);
    let graph = graph(&folder, &independent(5, "sleep 5"));
    let output =
        example("olympus").arg(graph).arg(format!("{} 1", server.uris[0])).output().expect("it starts");
    let (text, errors) = said(&output);
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("parallelism 1.0; the graph allows "), "{text}");
}

/// A graph that runs.
struct Olympus(Child);

impl Olympus {
    fn start(arguments: &[&Path]) -> Self {
        let mut command = example("olympus");
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("the example starts"))
    }

    fn end(self) -> Output {
        self.0.wait_with_output().expect("our own process")
    }
}

#[test]
fn a_server_that_joins_while_the_graph_runs_is_used() {
    let folder = folder("joins");
    let servers = folder.join("servers");
    fs::write(&servers, "# None yet.\n").expect("it can be written");
    let graph = graph(&folder, &independent(3, "empty"));
    let running = Olympus::start(&[&graph, Path::new("--servers"), &servers]);
    let server = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    fs::write(&servers, format!("{}\n", server.uris[0])).expect("it can be written");
    let (text, errors) = said(&running.end());
    assert!(text.starts_with("3 nodes fired in "), "{text}{errors}");
    assert!(text.contains(&server.uris[0]), "{text}");
}

/// Waits until a thread of the process sleeps in a procedure, which only `sleep` and `once` of the worker do.
fn until_it_interprets(server: &Server) {
    let tasks = format!("/proc/{}/task", server.id());
    let sleeps = || {
        let tasks = fs::read_dir(&tasks).expect("it runs");
        // 230 is clock_nanosleep on x86-64, 115 on AArch64.
        tasks.flatten().any(|task| {
            let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
            ["230 ", "115 "].iter().any(|number| call.starts_with(number))
        })
    };
    while !sleeps() {
        std::thread::yield_now();
    }
}

#[test]
fn a_node_whose_server_died_is_interpreted_by_another_if_it_is_idempotent() {
    let folder = folder("dies");
    let dying = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    let servers = folder.join("servers");
    fs::write(&servers, format!("{}\n", dying.uris[0])).expect("it can be written");
    let graph = graph(&folder, "place a 1\nnode long sleep 300 : a -> b\nnode last empty : b -> c\n");
    let running = Olympus::start(&[&graph, Path::new("--servers"), &servers]);
    until_it_interprets(&dying);
    let other = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    fs::write(&servers, format!("{}\n", other.uris[0])).expect("it can be written");
    drop(dying);
    let (text, errors) = said(&running.end());
    assert!(text.starts_with("2 nodes fired in "), "{text}{errors}");
    assert!(text.contains("1 were given to a server once more"), "{text}");
}

#[test]
fn a_graph_stops_at_a_node_of_which_nobody_knows_whether_it_ran_and_goes_on_from_its_marking() {
    let folder = folder("unknown");
    let dying = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    let graph = graph(&folder, "place a 1\nnode pays once 60000 : a -> b\nnode last empty : b -> c\n");
    let marking = folder.join("marking");
    let running = Olympus::start(&[&graph, Path::new(&dying.uris[0]), Path::new("--marking"), &marking]);
    until_it_interprets(&dying);
    drop(dying);
    let output = running.end();
    let (text, errors) = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{errors}");
    assert!(errors.contains("nobody knows whether the node pays was interpreted"), "{errors}");
    assert_eq!(fs::read_to_string(&marking).expect("it was written"), "a 1\n");
    // Somebody has found out that it was.
    fs::write(&marking, "b 1\n").expect("it can be written");
    let server = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    let output = example("olympus")
        .arg(&graph)
        .arg(&server.uris[0])
        .arg("--resume")
        .arg(&marking)
        .output()
        .expect("it starts");
    assert!(said(&output).0.starts_with("1 nodes fired in "), "{:?}", said(&output));
}

#[test]
fn a_node_that_fails_stops_the_graph_and_its_tokens_stay() {
    let folder = folder("fails");
    let server = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    let graph = graph(&folder, "place a 1\nplace z 1\nnode bad fail : a -> b\nnode good empty : z -> y\n");
    let marking = folder.join("marking");
    let output = example("olympus")
        .arg(graph)
        .arg(&server.uris[0])
        .arg("--marking")
        .arg(&marking)
        .output()
        .expect("it starts");
    let (_, errors) = said(&output);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("the node bad failed at udp://"), "{errors}");
    assert_eq!(fs::read_to_string(marking).expect("it was written"), "a 1\ny 1\n");
}

#[test]
fn a_graph_says_which_procedures_no_server_offers() {
    let folder = folder("offers");
    let server = Server::start("olympus-worker", &["udp://127.0.0.1:0"]);
    let graph = graph(&folder, "place a 1\nnode n bake : a -> b\n");
    let mut running = Olympus::start(&[&graph, Path::new(&server.uris[0])]);
    let mut line = String::new();
    BufReader::new(running.0.stderr.take().expect("piped")).read_line(&mut line).expect("it prints text");
    running.0.kill().expect("our own process can be stopped");
    running.end();
    assert_eq!(line, "waiting for a server that offers bake\n");
}

#[test]
fn a_missing_graph_and_a_missing_server_are_said_in_one_line() {
    let output = example("olympus").args(["/nowhere", "shm:none"]).output().expect("it starts");
    assert_eq!(said(&output).1, "/nowhere: No such file or directory (os error 2)\n");
    let output = example("olympus").arg("graph").output().expect("it starts");
    assert!(said(&output).1.starts_with("no server is named: olympus GRAPH"), "{:?}", said(&output));
}

/// A program that is stopped when this is dropped.
struct InC(Child);

impl Drop for InC {
    fn drop(&mut self) {
        self.0.kill().expect("our own process can be stopped");
        self.0.wait().expect("and waited for");
    }
}

/// The commands in the comment of `worker.c`, but for the interface file, which the library of `stoop gen` prints.
fn make_worker_in_c(folder: &Path) {
    let printed = stoop_stubgen::interface_file::of_text(include_str!("../../src/olympus.rs"));
    fs::write(folder.join("olympus.x"), printed.expect("the trait can be printed"))
        .expect("it can be written");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/olympus/worker.c");
    let mut commands = Vec::new();
    for (part, file) in [("-h", "olympus.h"), ("-c", "olympus_xdr.c"), ("-m", "olympus_svc.c")] {
        // rpcgen overwrites nothing.
        let _ = fs::remove_file(folder.join(file));
        commands.push(format!("rpcgen -N {part} -o {file} olympus.x"));
    }
    commands.push(format!(
        "cc -w -I/usr/include/tirpc -I. -o worker {source} olympus_svc.c olympus_xdr.c -ltirpc"
    ));
    for command in commands {
        let output =
            Command::new("sh").args(["-c", &command]).current_dir(folder).output().expect("there is a shell");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn one_graph_is_interpreted_over_shared_memory_udp_and_sun_rpc_by_rust_and_c() {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("rpcgen") || !is_there("cc") || !Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
        return println!("SKIPPED: one_graph_is_interpreted…: needs rpcgen, libtirpc-dev and a C compiler");
    }
    let folder = folder("c");
    make_worker_in_c(&folder);
    let mut worker =
        InC(Command::new(folder.join("worker")).stdout(Stdio::piped()).spawn().expect("it starts"));
    let lines = BufReader::new(worker.0.stdout.take().expect("piped")).lines().take(2);
    let in_c: Vec<String> =
        lines.map(|line| line.expect("text").trim_start_matches("listening at ").to_owned()).collect();
    let in_rust = Server::start("olympus-worker", &[&memory("c"), "udp://127.0.0.1:0"]);
    let servers: Vec<String> = in_c.iter().chain(&in_rust.uris).map(|uri| format!("{uri} 1")).collect();
    // They are bound while the first nodes are interpreted: seconds, if one server had to interpret all of them.
    let graph = graph(&folder, &independent(16, "sleep 200"));
    let output = example("olympus").arg(graph).args(&servers).output().expect("it starts");
    let (text, errors) = said(&output);
    assert!(text.starts_with("16 nodes fired in "), "{text}{errors}");
    for uri in in_c.iter().chain(&in_rust.uris) {
        let line =
            text.lines().find(|line| line.ends_with(uri.as_str())).unwrap_or_else(|| panic!("{uri}: {text}"));
        let count = line.split_whitespace().next().and_then(|count| count.parse::<u32>().ok());
        assert!(count > Some(0), "{line}");
    }
}
