//! A server in a process of its own, which runs the test `server_process` of the same program.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Set in the environment of a process that is to be the server.
const SERVE_AT: &str = "STOOP_TEST_SERVE_AT";

/// The address at which this process is to serve, if it was started as a server.
pub(crate) fn address() -> Option<String> {
    std::env::var(SERVE_AT).ok()
}

/// A server's process, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a server at `uri`.
    pub(crate) fn start(uri: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server_process", "--nocapture"])
            .env(SERVE_AT, uri)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has printed such a line.
    pub(crate) fn await_line(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| is_it(line))
            .expect("the server's process has ended")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
