//! A network of its own for a test: `lo`, and an Ethernet whose two ends are interfaces of the same namespace.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The ends of the Ethernet.
pub(crate) const CALLERS: &str = "stoop0";
pub(crate) const SERVERS: &str = "stoop1";
/// An address behind the callers' end, to which datagrams can be sent.
pub(crate) const BEHIND: &str = "192.0.2.2";

/// Set for the test that runs inside: its name.
const INSIDE: &str = "STOOP_DISSECTOR_SANDBOX";

const SETUP: &str = "ip link set lo up && ip link add stoop0 type veth peer name stoop1 && \
                     ip address add 192.0.2.1/24 dev stoop0 && ip link set stoop0 up && ip link set stoop1 up && \
                     ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev stoop0 && exec \"$@\"";

/// Runs `test` of this program in a sandbox, or says why it is skipped.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    if let Err(why) = can_run() {
        return println!("SKIPPED: {test}: needs root for namespaces, and iproute2: {why}");
    }
    let mut command = unshare();
    command.arg(env::current_exe().expect("the test has a path"));
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, test.replace("::", "-"));
    let output = command.output().expect("unshare has run before");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    // "1 passed": the name is right.
    assert!(output.status.success() && text.contains("1 passed"), "the test in the sandbox has failed");
}

/// The name of the test inside of a sandbox, in which processes have the same numbers as in others.
pub(crate) fn name() -> String {
    env::var(INSIDE).unwrap_or_else(|_| "dissector".into())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SETUP, "sandbox"]);
    command.env("PATH", format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default()));
    command
}

fn can_run() -> Result<(), String> {
    let output = unshare().arg("true").output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned())
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}, but not within a minute");
        std::thread::yield_now();
    }
}

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
