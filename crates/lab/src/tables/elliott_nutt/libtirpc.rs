//! Program Two by the C library libtirpc, if it is installed: it is compiled at run time and runs as two processes.

use super::by_hand::Procedure;
use crate::callers::{Calls, Measured, Window};
use crate::child::Child;
use crate::network::Network;
use crate::samples::Samples;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const SOURCE: &str = include_str!("libtirpc.c");

/// The compiled program. Its file is removed when this is dropped.
pub(super) struct Program(PathBuf);

impl Program {
    /// Compiles the program.
    ///
    /// # Errors
    /// The compiler or the library is not installed.
    pub(super) fn compile() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("stoop-libtirpc-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = Self(folder);
        let source = program.0.join("libtirpc.c");
        fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-I/usr/include/tirpc", "-o"]).arg(program.path()).arg(&source).arg("-ltirpc");
        match compiler.output() {
            Ok(output) if output.status.success() => Ok(program),
            Ok(_) => Err("libtirpc is not installed here (Debian: apt install libtirpc-dev)".into()),
            Err(error) => Err(format!("there is no C compiler here ({error})")),
        }
    }

    fn path(&self) -> PathBuf {
        self.0.join("libtirpc")
    }

    /// Starts its server at `address` on a processor, and a client of it on the caller's side and processor.
    pub(super) fn pair(
        &self,
        address: &str,
        cpus: (usize, usize),
        network: Option<&Network>,
    ) -> io::Result<(Child, Client)> {
        let path = self.path();
        let mut server =
            Child::start_other("server of libtirpc", on(cpus.1, &path, &["server", address]), network)?;
        let port = server.expect("listening")?;
        let client =
            Child::start_other("client of libtirpc", on(cpus.0, &path, &["client", address, &port]), None)?;
        let mut client = Client(client);
        // When the first call has returned, both processes have started, and the file may be removed.
        client.repeat(Procedure::Nothing, 1, Task::Call)?;
        Ok((server, client))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command that runs the program on one processor. `taskset` is part of util-linux, which every Debian has.
fn on(cpu: usize, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program).args(words);
    command
}

/// A client process, which makes calls on request.
pub(super) struct Client(Child);

/// What a client does so many times. The numbers are those of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Task {
    /// Calls.
    Call = 0,
    /// Calls, and times its system calls.
    Watch = 1,
    /// Runs the XDR routines of a call at the client: it writes the call and reads the reply.
    XdrOfClient = 2,
    /// Runs those of the server before the procedure is known: it reads the header of the call.
    XdrOfHeader = 3,
    /// Runs those of the server for arguments and reply.
    XdrOfServer = 4,
    /// Once: asks the server how many calls reached a procedure since it was asked last, and in which time after they were received. The
    /// answer is that of the kind that receives. The server measures after every second time.
    Dispatched = 5,
}

/// The time of some calls.
pub(super) struct Took {
    pub(super) all_ns: f64,
    /// Number and total nanoseconds of the system calls that send, that receive, and that wait.
    pub(super) kinds: [(f64, f64); 3],
}

impl Client {
    pub(super) fn repeat(&mut self, procedure: Procedure, times: u64, task: Task) -> io::Result<Took> {
        self.0.tell(&format!("{} {times} {}", procedure as u8, task as u8))?;
        let words = self.0.expect("took")?;
        let numbers: Vec<f64> = words.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [all_ns, a, b, c, d, e, f] => Ok(Took { all_ns, kinds: [(a, b), (c, d), (e, f)] }),
            _ => Err(io::Error::other("the client of libtirpc said something else than what its calls took")),
        }
    }

    /// Nanoseconds of such a task in each of `slices` slices of `times`, on average.
    pub(super) fn each(
        &mut self,
        (procedure, task): (Procedure, Task),
        slices: usize,
        times: u64,
    ) -> io::Result<Vec<f64>> {
        (0..slices).map(|_| Ok(self.repeat(procedure, times, task)?.all_ns / times as f64)).collect()
    }

    /// Nanoseconds in which the server finds the procedure of a call that it has received, on average in each slice.
    pub(super) fn dispatched(
        &mut self,
        procedure: Procedure,
        slices: usize,
        times: u64,
    ) -> io::Result<Vec<f64>> {
        let slice = |_| {
            // The first question begins to measure, the second ends it, and counts as a call itself.
            self.repeat(procedure, 1, Task::Dispatched)?;
            self.repeat(procedure, times, Task::Call)?;
            let (calls, ns) = self.repeat(procedure, 1, Task::Dispatched)?.kinds[1];
            Ok(ns / calls.max(1.0))
        };
        (0..slices).map(slice).collect()
    }

    /// Calls of one procedure.
    pub(super) fn calls(
        client: std::sync::Arc<std::sync::Mutex<Client>>,
        procedure: Procedure,
    ) -> Box<dyn Calls> {
        Box::new(OfProcedure { client, procedure })
    }
}

struct OfProcedure {
    client: std::sync::Arc<std::sync::Mutex<Client>>,
    procedure: Procedure,
}

/// Calls that a client makes for one request: so many that the time of the request does not matter.
const BATCH: u64 = 100;

impl Calls for OfProcedure {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let mut client = self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut picoseconds, mut calls) = (Vec::new(), 0);
        let began = Instant::now();
        loop {
            let took = client.repeat(self.procedure, BATCH, Task::Call).map_err(|error| error.to_string())?;
            if Instant::now() >= window.count_from {
                picoseconds.push((took.all_ns * 1000.0) as u64 / BATCH);
                calls += BATCH;
            }
            if !picoseconds.is_empty() && (Instant::now() >= window.until || calls >= window.calls_max) {
                return Ok(Measured {
                    samples: Samples::new(picoseconds),
                    calls,
                    began,
                    ended: Instant::now(),
                });
            }
        }
    }
}
