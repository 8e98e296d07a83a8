//! The other processes of a run: this program again, told what to do in its arguments and afterwards line by line.
//!
//! A child ends with its parent, also when the parent is killed: the kernel kills it, and its standard input ends.

use crate::network::Network;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A child process on the server's side of the network.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    pid: Pid,
    /// Its name in messages.
    role: &'static str,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// An answer of a child takes well under a millisecond, or tens of them when another process spins on its processor.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

impl Child {
    /// Starts this program again with `arguments` on the server's side.
    pub(crate) fn start(role: &'static str, arguments: &[String], network: &Network) -> io::Result<Self> {
        Self::start_by(role, arguments, |start| network.on_server_side(start))
    }

    /// As [`start`](Self::start), on a host that is neither the server's nor the caller's.
    pub(crate) fn start_on_third_host(
        role: &'static str,
        arguments: &[String],
        network: &Network,
    ) -> io::Result<Self> {
        Self::start_by(role, arguments, |start| network.on_third_host(start))
    }

    /// As [`start`](Self::start), on the caller's side.
    pub(crate) fn start_beside_caller(role: &'static str, arguments: &[String]) -> io::Result<Self> {
        Self::start_by(role, arguments, |start| start())
    }

    /// Starts another program on the caller's side, or on the server's side of a network. It must end with its standard
    /// input, or with its parent.
    pub(crate) fn start_other(
        role: &'static str,
        mut command: Command,
        server_side_of: Option<&Network>,
    ) -> io::Result<Self> {
        let mut start = || command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let process = match server_side_of {
            Some(network) => network.on_server_side(start)?,
            None => start()?,
        };
        Ok(Self::of(role, process))
    }

    fn start_by(
        role: &'static str,
        arguments: &[String],
        there: impl FnOnce(&mut dyn FnMut() -> io::Result<std::process::Child>) -> io::Result<std::process::Child>,
    ) -> io::Result<Self> {
        let this_program = std::env::current_exe()?;
        let process = there(&mut || {
            Command::new(&this_program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        })?;
        Ok(Self::of(role, process))
    }

    fn of(role: &'static str, mut process: std::process::Child) -> Self {
        let orders = process.stdin.take().expect("standard input was asked for");
        let answers = BufReader::new(process.stdout.take().expect("standard output was asked for"));
        let pid = Pid::from_child(&process);
        Child { process, pid, role, orders, answers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Tells it one line.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.orders, "{line}").map_err(|error| self.failed(&format!("does not listen ({error})")))
    }

    /// The rest of its next line, which must begin with `word`.
    pub(crate) fn expect(&mut self, word: &str) -> io::Result<String> {
        self.expect_within(word, ANSWER_WITHIN)
    }

    /// As [`expect`](Self::expect), of a child that has much to do before it answers.
    pub(crate) fn expect_within(&mut self, word: &str, within: Duration) -> io::Result<String> {
        let line = self.next_line(within)?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(self.failed(&format!("said {line:?} where {word:?} was expected"))),
        }
    }

    fn next_line(&mut self, within: Duration) -> io::Result<String> {
        let mut line = String::new();
        let answered = !self.answers.buffer().is_empty() || readable(self.answers.get_ref(), within)?;
        if !answered {
            return Err(self.failed(&format!("gave no answer within {} s", within.as_secs())));
        }
        if self.answers.read_line(&mut line)? == 0 {
            return Err(self.failed("ended early; its own message is above"));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Stops it, and returns when it has stopped: a stopped process takes no processor time from what is measured.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        kill_process(self.pid, Signal::STOP)?;
        match waitpid(Some(self.pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(()),
            _ => Err(self.failed("ended while it was being stopped")),
        }
    }

    /// Lets it run again.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    fn failed(&self, what: &str) -> io::Error {
        io::Error::other(format!("the {} {what}", self.role))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It has nothing to save, and may be stopped: only this signal ends a stopped process. An error means that it is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn readable(stream: &ChildStdout, within: Duration) -> io::Result<bool> {
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    Ok(poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&within))? > 0)
}

/// In a child, first of all: end when the parent ends.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// A child's message about an error: nothing when its parent has gone, because no process would read it.
pub(crate) fn unless_orphaned(ended: io::Result<()>) -> Result<(), String> {
    match ended {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// In a child: answers one line.
pub(crate) fn answer(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// In a child: what the parent says next, or `None` when it has ended.
pub(crate) fn next_order() -> io::Result<Option<String>> {
    let mut line = String::new();
    let len = io::stdin().lock().read_line(&mut line)?;
    Ok((len > 0).then(|| line.trim_end().to_owned()))
}
