//! The limits of a server.

use std::time::Duration;

/// Limits of a server, for [`Server::limits`](crate::Server::limits). They hold at each of its addresses. Those that are not set have
/// defaults, which differ by transport.
///
/// The resources that they limit are shared among the hosts of the callers (at `udp:`, `tcp:` and `ether:` addresses) or their users (at `unix:` and
/// `shm:` addresses): none has more than three quarters of it, even if it is alone, so that another always finds room. `docs/limits.md` has
/// the rule and all limits.
///
/// ```
/// use stoop::{Limits, Server};
///
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A small machine.
/// let limits = Limits::new().bindings(1000).argument_bytes(16 << 20).result_bytes(16 << 20);
/// let server = Server::new().export(GreeterServer::new(English)).max_message(4 << 20).limits(limits);
/// let server = server.listen("udp://127.0.0.1:0")?.start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Limits {
    pub(crate) bindings: Option<usize>,
    pub(crate) lanes: Option<usize>,
    pub(crate) retained_results: Option<usize>,
    pub(crate) argument_bytes: Option<usize>,
    pub(crate) result_bytes: Option<usize>,
    pub(crate) open_calls: Option<usize>,
    pub(crate) pipe_threads: Option<usize>,
    pub(crate) pipe_bytes: Option<usize>,
    pub(crate) pipe_step: Option<Duration>,
    /// Most bytes of each of the two unless they are set; `None`: nothing limits the memory of the process.
    pub(crate) affordable: Option<usize>,
}

/// A process whose memory is limited uses this part of it for long arguments, and the same for long results.
const PART_OF_MEMORY: u64 = 4;

impl Limits {
    /// The defaults.
    ///
    /// ```
    /// let limits = stoop::Limits::new()
    ///     .bindings(1000)
    ///     .lanes(16)
    ///     .retained_results(4096)
    ///     .argument_bytes(16 << 20)
    ///     .result_bytes(16 << 20)
    ///     .open_calls(10_000);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The same limits in a process that may have so many bytes of memory.
    pub(crate) fn within(self, memory: Option<u64>) -> Self {
        let part = |memory| usize::try_from(memory / PART_OF_MEMORY).unwrap_or(usize::MAX);
        Self { affordable: memory.map(part), ..self }
    }

    /// A number of bytes that is not set: `default`, or less if the memory of the process is limited.
    pub(crate) fn unset_bytes(&self, default: usize) -> usize {
        self.affordable.map_or(default, |most| default.min(most))
    }

    /// Most bindings. Binds beyond it, or beyond the share of a host or user, are refused.
    ///
    /// 65,536 at `udp:` and `ether:` addresses; 4096 at `tcp:` and `unix:` addresses, but never more than three quarters of the
    /// descriptors of the process (`ulimit -n`). At `shm:` addresses, where each binding takes two descriptors, they alone limit the
    /// bindings unless this is set.
    ///
    /// ```
    /// use stoop::{Limits, Server};
    ///
    /// // Sensors that bind once each, 40,000 of them behind one address: a host has three quarters of the limit.
    /// let server = Server::new().limits(Limits::new().bindings(60_000));
    /// ```
    pub fn bindings(mut self, most: usize) -> Self {
        self.bindings = Some(most);
        self
    }

    /// At `udp:` and `ether:` addresses: most lanes of all bindings together, without the first four of each. Each calling thread of a
    /// client has a lane, and each begun call that is under way. A call on a lane beyond it is dropped, and ends at its deadline.
    /// 524,288 unless set; a lane takes about 60 bytes.
    pub fn lanes(mut self, most: usize) -> Self {
        self.lanes = Some(most);
        self
    }

    /// At `udp:` and `ether:` addresses: most results that are retained until the next call of their lane, or the deadline of their
    /// call; and calls that wait for their lane. A result beyond it is not sent again if it is lost: its call has run, and fails.
    /// 131,072 unless set; each takes at most about 1.6 KB.
    pub fn retained_results(mut self, most: usize) -> Self {
        self.retained_results = Some(most);
        self
    }

    /// Most bytes of the arguments of long calls that are arriving, waiting or running.
    ///
    /// If it is not set, and the memory of the process is limited when the server starts, by `ulimit -v` (`RLIMIT_AS`) or by a control
    /// group (`memory.max`), it is a quarter of that if the default is more.
    ///
    /// At `udp:` and `ether:` addresses a call of many packets is long, and callers wait beyond the limit: 256 MiB unless set. At `tcp:`,
    /// `unix:` and `shm:` addresses a call is long if it does not fit in one buffer (16 KiB, or 4 KiB over shared memory), and calls are
    /// refused beyond the limit: 512 MiB unless set, or eight times [`Server::max_message`](crate::Server::max_message) if that is more.
    /// At `onc+tcp:` and `onc+unix:` addresses calls of more than 16 KiB count, and the server closes the connections that bring more:
    /// 256 MiB unless set, or eight times the longest call.
    ///
    /// As many bytes may be kept, at all addresses together, by the tasks of procedures that are an `async fn`, and by calls about which an
    /// interceptor decides later: arguments of more than a kilobyte count, until the task has ended, and calls are refused beyond.
    ///
    /// At every address it is at least twice the longest message that the server takes, even if it is set to less.
    ///
    /// ```
    /// use stoop::{Limits, Server};
    ///
    /// // Uploads of 8 MiB at most, of which eight may be under way. Bounds on arguments hold for results, too, where they are set.
    /// let limits = Limits::new().argument_bytes(64 << 20).result_bytes(64 << 20);
    /// let server = Server::new().max_message(8 << 20).limits(limits);
    /// ```
    pub fn argument_bytes(mut self, most: usize) -> Self {
        self.argument_bytes = Some(most);
        self
    }

    /// Most bytes of long results that their callers do not have yet. A call whose result finds no room has run, and fails. If it is not
    /// set, it follows the memory of the process as [`argument_bytes`](Self::argument_bytes) does.
    ///
    /// At `udp:` and `ether:` addresses these are retained results of many packets: 512 MiB unless set. At `tcp:`, `unix:` and `shm:`
    /// addresses they are results that are not read, and OUT arguments of more than 256 KiB while they are filled: 512 MiB unless set, or
    /// eight times [`Server::max_message`](crate::Server::max_message) if that is more. At `onc+tcp:` and `onc+unix:` addresses they are
    /// replies that are not read, as many bytes as for arguments. The least is the same as that of
    /// [`argument_bytes`](Self::argument_bytes).
    pub fn result_bytes(mut self, most: usize) -> Self {
        self.result_bytes = Some(most);
        self
    }

    /// Most calls of the server, at all its addresses together, whose answers come later ([`Deferred`](crate::Deferred), `async fn`) and have
    /// not come. A task of an `async fn` counts until it has ended, also when its call is over before. Beyond it, or beyond the share of a host or user, a procedure that may leave its answer for later is not run, and the call refused.
    /// 65,536 unless set; each takes at most about 2 KB.
    pub fn open_calls(mut self, most: usize) -> Self {
        self.open_calls = Some(most);
        self
    }

    /// Most procedures with [pipes](crate::Sender) of the server, at all its addresses together, that run in threads at the same time: those
    /// that are no `async fn` and do not return a [`Deferred`](crate::Deferred). Each has a thread of its own, beside the workers. Beyond it,
    /// or beyond the share of a host or user, calls are refused. 256 unless set.
    pub fn pipe_threads(mut self, most: usize) -> Self {
        self.pipe_threads = Some(most);
        self
    }

    /// At `udp:` and `ether:` addresses: most bytes that the [pipes](crate::Sender) of all calls hold, or that their callers may send. 16 KiB
    /// are counted for a call whose procedure receives. Beyond it, or beyond the share of a host, such calls are refused, windows do not
    /// grow, and procedures that send wait for room. 256 MiB unless set, or a quarter of the memory of the process if that is
    /// limited and less.
    ///
    /// ```
    /// use stoop::{Limits, Server};
    ///
    /// // A host has at most three quarters of it: some 1500 uploads at the same time.
    /// let server = Server::new().limits(Limits::new().pipe_bytes(32 << 20));
    /// ```
    pub fn pipe_bytes(mut self, most: usize) -> Self {
        self.pipe_bytes = Some(most);
        self
    }

    /// How long a procedure that sends by a [pipe](crate::Sender) waits for room, each time, before it learns by
    /// [`PipeError::NoRoom`](crate::PipeError::NoRoom) that its caller takes nothing. 30 s unless set.
    pub fn pipe_step(mut self, step: Duration) -> Self {
        self.pipe_step = Some(step);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_bytes_are_a_quarter_of_the_memory_of_the_process_if_the_default_is_more() {
        let mib = |count: usize| count << 20;
        let within = |memory| Limits::new().within(memory).unset_bytes(mib(512));
        assert_eq!(
            (within(None), within(Some(8 << 30)), within(Some(1 << 30))),
            (mib(512), mib(512), mib(256))
        );
    }
}
