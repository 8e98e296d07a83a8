//! A server, a binding to it and the threads that call: what the cells of one transport, wait and placement share.

use crate::args::{Transport, Waiting, name_of};
use crate::callers::Callers;
use crate::child::Child;
use crate::network::Network;
use crate::ours::{self, Binding};
use crate::placement::{Sides, pin};
use crate::plan::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoop::RunningServer;

/// Everything that outlives a cell.
pub(crate) struct Session {
    serves: Cell,
    pub(crate) sides: Sides,
    server: Server,
    /// One that is called, and as many idle ones as the cell has clients besides.
    pub(crate) bindings: Vec<Binding>,
    /// Runs all the time, beside both sides.
    busy: Option<Child>,
    pub(crate) callers: Callers,
}

impl Session {
    /// Pins this thread, starts the server that `cell` needs, and binds to it.
    ///
    /// Pinning comes first: the adaptive wait asks at bind whether both ends can run at the same time.
    pub(crate) fn open(cell: &Cell, sides: Sides, network: &Network) -> Result<Self, String> {
        pin(sides.caller)
            .map_err(|error| format!("pinning the caller to processor {}: {error}", sides.caller))?;
        network.limit(cell.link_rate)?;
        let path = socket_path("serve");
        let server = Server::start(cell, sides, network, &path)?;
        let (mut callers, uri, cell) = (Callers::new(), server.uri().to_owned(), *cell);
        let bind = move || (0..cell.clients).map(|_| Binding::bind(&uri, &cell)).collect();
        let bindings: Result<Vec<Binding>, String> = callers.on_first(bind)?;
        // Bound sockets need no name, and nothing must be left behind.
        let _ = std::fs::remove_file(&path);
        let bindings = bindings?;
        let busy = cell.busy.then(|| start_busy(sides.caller, network)).transpose();
        let busy = busy.map_err(|error| error.to_string())?;
        Ok(Session { serves: cell, sides, server, bindings, busy, callers })
    }

    /// Whether `cell` can be measured in this session.
    pub(crate) fn fits(&self, cell: &Cell) -> bool {
        let of = |cell: &Cell| {
            let of_both = (cell.transport, cell.waiting, cell.processors, cell.no_checksum);
            (of_both, cell.link_rate, cell.clients, cell.busy, cell.share_endpoints)
        };
        of(&self.serves) == of(cell)
    }

    /// The processor time that the server has used since it started; none of its own for `local:`.
    pub(crate) fn server_cpu(&mut self) -> io::Result<Duration> {
        let Some(process) = self.server.process() else { return Ok(Duration::ZERO) };
        process.tell("cpu")?;
        let nanoseconds = process.expect("cpu")?;
        Ok(Duration::from_nanos(nanoseconds.parse().map_err(io::Error::other)?))
    }

    /// The processes that it started: the server's, if that has one of its own, and the busy one.
    pub(crate) fn process_ids(&mut self) -> impl Iterator<Item = u32> {
        let server = self.server.process().map(|process| process.id());
        server.into_iter().chain(self.busy.as_ref().map(Child::id))
    }

    /// The server's process, if it has one of its own.
    pub(crate) fn server_process(&mut self) -> Option<&mut Child> {
        self.server.process()
    }

    pub(crate) fn stop_server(&mut self) -> io::Result<()> {
        self.server.process().map_or(Ok(()), Child::stop)
    }

    pub(crate) fn resume_server(&mut self) -> io::Result<()> {
        self.server.process().map_or(Ok(()), Child::resume)
    }
}

fn start_busy(cpu: usize, network: &Network) -> io::Result<Child> {
    let mut busy = Child::start("busy process", &["bench-busy".into(), format!("--cpu={cpu}")], network)?;
    busy.expect("busy")?;
    Ok(busy)
}

/// The process that serves the calls.
#[derive(Debug)]
enum Server {
    /// This process, for `local:`.
    Here(RunningServer),
    /// A process on the server's side, and where it listens.
    Process(Child, String),
}

impl Server {
    fn start(cell: &Cell, sides: Sides, network: &Network, path: &Path) -> Result<Self, String> {
        if cell.transport == Transport::Local {
            return ours::serve("local:bench", cell.waiting).map(Server::Here);
        }
        let started = Server::start_process(cell, sides, network, path);
        started.map_err(|error| error.to_string())
    }

    fn start_process(cell: &Cell, sides: Sides, network: &Network, path: &Path) -> io::Result<Self> {
        let how = (cell.transport, cell.waiting, sides.server);
        let more = cell.no_checksum.then(|| "--no-checksum".into());
        let (process, uri) = start_server("bench-serve", how, network, path, more)?;
        Ok(Server::Process(process, uri))
    }

    fn uri(&self) -> &str {
        match self {
            Server::Here(running) => &running.uris()[0],
            Server::Process(_, uri) => uri,
        }
    }

    fn process(&mut self) -> Option<&mut Child> {
        match self {
            Server::Here(_) => None,
            Server::Process(process, _) => Some(process),
        }
    }
}

/// Starts a server as a process of its own, by a command of this program, on that processor. Returns also where it listens.
pub(crate) fn start_server(
    command: &str,
    (transport, waiting, cpu): (Transport, Waiting, usize),
    network: &Network,
    path: &Path,
    more: Option<String>,
) -> io::Result<(Child, String)> {
    let mut arguments = vec![
        command.into(),
        format!("--transport={}", name_of(transport)),
        format!("--waiting={}", name_of(waiting)),
        format!("--cpu={cpu}"),
        format!("--address={}", network.server),
        format!("--path={}", path.display()),
    ];
    arguments.extend(more);
    let mut process = Child::start("server", &arguments, network)?;
    let uri = process.expect("listening")?;
    Ok((process, uri))
}

/// A name for a Unix socket of this run that nothing else has.
pub(crate) fn socket_path(purpose: &str) -> PathBuf {
    std::env::temp_dir().join(format!("stoop-bench-{}-{purpose}", std::process::id()))
}
