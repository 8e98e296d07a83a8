//! A peer's two processes: started at their places, asked for slices, and ended.

use crate::cells::{Cell, Placement};
use crate::peers::{Peer, path};
use crate::processor_time;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The figures of one slice of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Calls per second of all callers together.
    pub(crate) rate: f64,
    /// Nanoseconds of one call: median, and percentiles 90, 99 and 99.9.
    pub(crate) times: [f64; 4],
    /// Processors that both processes together kept busy meanwhile.
    pub(crate) processors: f64,
}

/// A process whose standard input and output are pipes. It is ended when this is dropped.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// The lines of its standard output.
    lines: Receiver<String>,
    hangs: bool,
}

/// The time in which a peer answers, beyond that of a slice. Calls through some peers never return.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Pair {
    // The client ends first.
    client: Process,
    server: Process,
}

impl Process {
    fn start<'a>(
        peer: &Peer,
        words: impl Iterator<Item = &'a str>,
        processor: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(path(peer.program));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let place = move || {
            let mut only = CpuSet::new();
            only.set(processor);
            Ok(sched_setaffinity(None, &only)?)
        };
        // SAFETY: `place` makes one system call, and allocates nothing.
        let mut child = unsafe { command.pre_exec(place) }.spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Process { child, input, lines, hangs: false })
    }

    /// The next line of its output, which it has this time to write.
    fn line(&mut self, time: Duration) -> Result<String, &'static str> {
        let line = self.lines.recv_timeout(time);
        self.hangs = line == Err(RecvTimeoutError::Timeout);
        line.map_err(|why| match why {
            RecvTimeoutError::Timeout => "it does not answer",
            RecvTimeoutError::Disconnected => "it ended",
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A program that does not hang ends when its standard input does.
        self.input = None;
        if self.hangs {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Pair {
    pub(crate) fn start(peer: &Peer, placement: Placement) -> Result<Self, Box<dyn Error>> {
        let (client, server) = placement.processors();
        let (first, options) = peer.argument.split_once(' ').unwrap_or((peer.argument, ""));
        let options = || options.split_whitespace();
        let mut server = Process::start(peer, ["serve", first].into_iter().chain(options()), server)?;
        let address = server.line(PATIENCE)?;
        let client = Process::start(peer, ["call", &address].into_iter().chain(options()), client)?;
        Ok(Pair { client, server })
    }

    pub(crate) fn slice(&mut self, cell: &Cell, time: Duration) -> Result<Sample, Box<dyn Error>> {
        let Cell { procedure, bytes, callers } = cell;
        let (begin, used) = (Instant::now(), self.processor_time()?);
        let input = self.client.input.as_mut().expect("it is open until the end");
        writeln!(input, "{procedure} {bytes} {callers} {}", time.as_millis())?;
        let line = self.client.line(PATIENCE + time).inspect_err(|_| self.server.hangs = true)?;
        let processors = (self.processor_time()? - used).as_secs_f64() / begin.elapsed().as_secs_f64();
        let figures: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        match figures[..] {
            [_, rate, p50, p90, p99, p999] => Ok(Sample { rate, times: [p50, p90, p99, p999], processors }),
            _ => Err(format!("it answered `{line}`").into()),
        }
    }

    /// Of both processes.
    fn processor_time(&self) -> io::Result<Duration> {
        Ok(processor_time::of(&self.client.child)? + processor_time::of(&self.server.child)?)
    }
}
