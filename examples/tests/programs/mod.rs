//! Running examples, as processes.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The compiled example; `cargo test` builds it beside this test.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a running test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests lie in PROFILE/deps");
    let path: PathBuf = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: run cargo test -p stoop-examples", path.display());
    Command::new(path)
}

/// A running server, stopped when this is dropped.
pub(crate) struct Server {
    process: Child,
    /// Where it listens.
    pub(crate) uris: Vec<String>,
}

impl Server {
    /// Starts the example, and waits until it listens at all of the addresses.
    pub(crate) fn start(name: &str, addresses: &[&str]) -> Self {
        let mut command = example(name);
        let mut process = command.args(addresses).stdout(Stdio::piped()).spawn().expect("the example starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines().take(addresses.len());
        let uris = lines.map(|line| {
            let line = line.expect("it prints text");
            line.strip_prefix("listening at ").unwrap_or_else(|| panic!("it says {line:?}")).to_owned()
        });
        Self { uris: uris.collect(), process }
    }
}

impl Server {
    /// The number of its process.
    #[allow(dead_code, reason = "one test needs it")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("our own process can be stopped");
        self.process.wait().expect("and waited for");
        // What a server that is stopped like this leaves behind is another user's obstacle, sooner or later.
        for path in self.uris.iter().filter_map(|uri| uri.strip_prefix("unix:/")) {
            std::fs::remove_file(format!("/{path}")).expect("the socket has a file");
        }
    }
}

pub(crate) fn run(client: &str, uri: &str) -> Output {
    example(client).arg(uri).output().expect("the example starts")
}

/// What the client prints when all goes well.
pub(crate) fn said(client: &str, uri: &str) -> String {
    let output = run(client, uri);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client} {uri}: {errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}
