//! Private namespaces with an rpcbind: only `lo`, an empty `/run`, and all processes end with the test.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Set for the test that runs inside.
const INSIDE: &str = "STOOP_ONC_SANDBOX";

/// Makes the namespace ready, and runs the test in it.
const SETUP: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind && chown _rpc /run/rpcbind && \
                     ip link set lo up && rpcbind -f -r & exec \"$@\"";

/// Runs `test` of this program in a sandbox, or says why it is skipped.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        wait_until("rpcbind answers", || rpcinfo(&["-u", "127.0.0.1", "100000", "4"]));
        return body();
    }
    if let Err(why) = can_run() {
        return println!("SKIPPED: {test}: {why}");
    }
    let mut command = unshare();
    command.args(["sh", "-c", SETUP, "sandbox"]).arg(env::current_exe().expect("the test has a path"));
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
    let output = command.output().expect("unshare has run before");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    // "1 passed": the name is right.
    assert!(output.status.success() && text.contains("1 passed"), "the test in the sandbox has failed");
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
    ]);
    command.env("PATH", format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default()));
    command
}

fn can_run() -> Result<(), String> {
    let programs = "command -v rpcbind && command -v rpcinfo && command -v rpcgen && command -v ip && \
                    mount -t tmpfs tmpfs /run && test -e /usr/include/tirpc/rpc/rpc.h";
    let output = unshare().args(["sh", "-c", programs]).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(format!("needs root for namespaces, and rpcbind, rpcgen and libtirpc-dev: {why}"))
}

/// Runs rpcinfo, which succeeds if the server answered well.
pub(crate) fn rpcinfo(arguments: &[&str]) -> bool {
    let output = Command::new("rpcinfo").args(arguments).output().expect("rpcinfo starts");
    output.status.success()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}, but not within 30 seconds");
        std::thread::yield_now();
    }
}

/// The folder with the programs `client` and `server` of `peer.x`, compiled.
pub(crate) fn c_programs(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    // The crate of the run time runs these tests' programs, too.
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onc/tests/peer/make");
    let made = Command::new(make).arg(&folder).status().expect("a shell starts");
    assert!(made.success(), "the programs do not compile");
    folder
}

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(program: &Path) -> Self {
        Self::spawn(&mut Command::new(program))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("the program starts"))
    }

    #[allow(dead_code, reason = "not all tests that include this file ask")]
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Starts a program that prints a line when it is ready.
    #[allow(dead_code, reason = "not all tests that include this file start such programs")]
    pub(crate) fn and_first_line(command: &mut Command) -> (Self, String) {
        let mut process = Self::spawn(command.stdout(Stdio::piped()));
        let mut line = String::new();
        let output = process.0.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("the program prints text");
        (process, line.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
