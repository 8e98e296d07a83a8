//! Runs the examples as a user would: a server process and a client process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The compiled example; `cargo test` builds it beside this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a running test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests lie in PROFILE/deps");
    let path: PathBuf = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: run cargo test -p stoop-examples", path.display());
    Command::new(path)
}

/// A running server, stopped when this is dropped.
struct Server {
    process: Child,
    uri: String,
}

impl Server {
    fn start(name: &str, uri: &str) -> Self {
        let mut process = example(name).arg(uri).stdout(Stdio::piped()).spawn().expect("the example starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("it prints text");
        let uri = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("it says {line:?}"));
        Self { uri: uri.into(), process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("our own process can be stopped");
        self.process.wait().expect("and waited for");
        // What a server that is stopped like this leaves behind is another user's obstacle, sooner or later.
        if let Some(path) = self.uri.strip_prefix("unix:/") {
            std::fs::remove_file(format!("/{path}")).expect("the socket has a file");
        }
    }
}

fn run(client: &str, uri: &str) -> Output {
    example(client).arg(uri).output().expect("the example starts")
}

/// What the client prints when all goes well.
fn said(client: &str, uri: &str) -> String {
    let output = run(client, uri);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client} {uri}: {errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// One address for each transport between processes, at which nothing listens yet. `name` is the test's.
fn addresses(name: &str) -> [String; 5] {
    let unique = format!("stoop-examples-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(&unique);
    [
        "udp://127.0.0.1:0".into(),
        "tcp://127.0.0.1:0".into(),
        format!("unix:@{unique}"),
        format!("unix:{}", path.display()),
        format!("shm:{unique}"),
    ]
}

#[test]
fn the_greeter_greets() {
    for address in addresses("greeter") {
        let server = Server::start("greeter-server", &address);
        assert_eq!(said("greeter-client", &server.uri), "Hello, world!\n", "{address}");
    }
}

#[test]
fn the_store_answers_and_refuses_as_its_interface_says() {
    for address in addresses("kv") {
        let server = Server::start("kv-server", &address);
        let said = said("kv-client", &server.uri);
        let (first, last) = said.trim_end().rsplit_once('\n').expect("several lines");
        assert_eq!(
            first,
            "colour is blue\n\
             its 4 bytes begin with 'b'\n\
             colour has changed: true\n\
             not set: another client was faster",
            "{address}"
        );
        assert!(last.contains("at most 1024 bytes, not 100000"), "{address}: {last}");
    }
}

#[test]
fn a_client_without_a_server_says_so_and_fails() {
    let output = run("greeter-client", "udp://127.0.0.1:1");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("is the server running"), "{errors}");
}

#[test]
fn two_servers_cannot_listen_at_one_address() {
    let first = Server::start("greeter-server", "udp://127.0.0.1:0");
    let output = run("greeter-server", &first.uri);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("another server runs there"), "{errors}");
}
