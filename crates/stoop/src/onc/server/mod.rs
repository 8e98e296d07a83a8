//! Servers of Sun RPC programs.

pub(crate) mod activity;
pub(crate) mod answer;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod datagrams;
pub(crate) mod exported;
pub(crate) mod listener;
pub(crate) mod options;
pub(crate) mod programs;
pub(crate) mod registration;
pub(crate) mod streams;

use crate::error::{ListenError, UriError};
use crate::health::HealthBoard;
use crate::interface::Exported;
use crate::onc::server::exported::ExportedProgram;
use crate::onc::server::listener::{Listener, Setup};
use crate::onc::server::options::{ConnectionLimits, ReplyCacheLimits};
use crate::onc::server::programs::Programs;
use crate::onc::server::registration::Registration;
use crate::options::Waiting;
use crate::program::Program;
use crate::server::running::{Running, RunningServer};
use crate::serving::workers::Bounds;
use std::fmt;
use std::sync::Arc;
use stoop_net::fork;

/// A server of Sun RPC programs in the making: its programs and where it listens.
///
/// ```
/// use stoop::onc::stub::{IncomingCall, NoResult, Program};
/// use stoop::onc::{Client, Server, VersionId};
///
/// struct Squares;
///
/// impl Program for Squares {
///     fn version(&self) -> VersionId {
///         VersionId { program: 0x2000_0001, version: 1 }
///     }
///
///     fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
///         match call.procedure() {
///             1 => {
///                 let number: u32 = call.arguments().value()?;
///                 call.reply(&(u64::from(number) * u64::from(number)))
///             }
///             _ => Err(NoResult::ProcedureUnavailable),
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new().program(Squares).listen("onc+udp://127.0.0.1")?.start()?;
///
/// let client = Client::bind(&format!("{}/0x20000001:1", server.uris()[0]))?;
/// assert_eq!(client.call::<_, u64>(1, &9_u32)?, 81);
/// # Ok(())
/// # }
/// ```
///
/// Whoever reaches the address may call: AUTH_SYS proves nothing. Listen at a loopback address unless all hosts that reach another
/// one are trusted.
#[must_use = "a server serves when it is run or started"]
pub struct Server {
    programs: Programs,
    listeners: Vec<Listener>,
    waiting: Waiting,
    bounds: Bounds,
    replies: ReplyCacheLimits,
    connections: ConnectionLimits,
    registers: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<_> = self.programs.ids().map(|id| id.to_string()).collect();
        f.debug_struct("Server").field("programs", &versions).finish_non_exhaustive()
    }
}

impl Server {
    /// A server without programs that listens nowhere.
    pub fn new() -> Self {
        Self {
            programs: Programs::default(),
            listeners: Vec::new(),
            waiting: Waiting::Adaptive,
            bounds: Bounds { workers: 64, queue: 1024 },
            replies: ReplyCacheLimits::default(),
            connections: ConnectionLimits::default(),
            registers: false,
        }
    }

    /// Adds one version of a program.
    ///
    /// # Panics
    /// When it is there already.
    pub fn program(mut self, program: impl Program) -> Self {
        let id = program.version();
        assert!(self.programs.add(Arc::new(program)), "version {id} is there already");
        self
    }

    /// Adds an implementation of an interface that is a program of Sun RPC:
    /// `#[stoop::interface(program = 0x2000_0001, version = 1)]`.
    ///
    /// # Panics
    /// When the interface is no program, or the program is there already.
    pub fn export(self, export: impl Exported) -> Self {
        let name = export.interface().name;
        let program = ExportedProgram::new(export);
        self.program(program.unwrap_or_else(|| panic!("the interface {name} names no program and version")))
    }

    /// Listens at `onc+udp://HOST[:PORT]`, `onc+tcp://HOST[:PORT]` or `onc+unix:PATH`. The address is taken at once, and served from
    /// [`start`](Self::start) on. Without a port the system chooses one: [`RunningServer::uris`] tells which, and rpcbind, if the
    /// server [registers](Self::register).
    ///
    /// # Errors
    /// The text is no address, or it cannot be listened at.
    pub fn listen(mut self, uri: &str) -> Result<Self, ListenError> {
        let wrong = || {
            let why =
                "write onc+udp://HOST:PORT, onc+tcp://HOST:PORT or onc+unix:PATH; the port may be left out"
                    .into();
            ListenError::Uri(UriError { uri: uri.into(), why })
        };
        let listener = Listener::bind(uri).ok_or_else(wrong)?;
        self.listeners.push(listener.map_err(|cause| ListenError::Io { uri: uri.into(), cause })?);
        Ok(self)
    }

    /// Registers all programs at all addresses with the rpcbind of this host, when the server starts; it unregisters them when it shuts
    /// down. What was registered before for the same programs and transports goes: for example what a server left that was killed.
    pub fn register(mut self) -> Self {
        self.registers = true;
        self
    }

    /// Sets the way in which threads wait for calls. [`Waiting::Adaptive`] unless set.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Most calls that run at once at each address. 64 unless set.
    ///
    /// # Panics
    /// When it is zero.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "without a worker no call can run");
        self.bounds.workers = workers;
        self
    }

    /// Most calls that wait for a worker at each address, 1024 unless set. Beyond it a UDP call is dropped, so that its caller sends it
    /// again, and over TCP the connection is closed: Sun RPC has no word for it.
    pub fn queue(mut self, calls: usize) -> Self {
        self.bounds.queue = calls;
        self
    }

    /// Bounds of the replies that each UDP address keeps, to answer calls that are sent again. A call of which the reply was pushed out,
    /// or which comes again after a restart of the server, runs again: Sun RPC promises no more.
    pub fn reply_cache(mut self, limits: ReplyCacheLimits) -> Self {
        self.replies = limits;
        self
    }

    /// Bounds of the connections of each address.
    pub fn connections(mut self, limits: ConnectionLimits) -> Self {
        self.connections = limits;
        self
    }

    /// Starts serving, on threads of its own.
    ///
    /// # Errors
    /// There is no program, nowhere is listened, the system gives no thread; or no rpcbind registers the programs.
    pub fn start(self) -> Result<RunningServer, ListenError> {
        if self.programs.is_empty() {
            return Err(ListenError::Incomplete("the server has no program; call Server::program first"));
        }
        if self.listeners.is_empty() {
            return Err(ListenError::Incomplete("the server listens nowhere; call Server::listen first"));
        }
        fork::notice();
        let places: Vec<_> = self.listeners.iter().filter_map(Listener::registered).collect();
        let versions: Vec<_> = self.programs.ids().collect();
        let setup = Setup {
            programs: Arc::new(self.programs),
            waiting: self.waiting,
            bounds: self.bounds,
            replies: self.replies,
            connections: self.connections,
        };
        let mut running = Running::new(HealthBoard::new(), None);
        for listener in self.listeners {
            let uri = listener.uri();
            match listener.start(&setup) {
                Ok(endpoint) => running.add(uri, endpoint),
                Err(cause) => {
                    running.stop();
                    return Err(ListenError::Io { uri, cause });
                }
            }
        }
        if self.registers {
            match Registration::begin(&versions, &places) {
                Ok(registration) => running.add_quietly(Box::new(registration)),
                Err(cause) => {
                    running.stop();
                    return Err(ListenError::Io { uri: "rpcbind".into(), cause });
                }
            }
        }
        Ok(RunningServer::new(running))
    }

    /// Serves until the process ends, or until another thread shuts the server down.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn run(self) -> Result<(), ListenError> {
        self.start()?.wait();
        Ok(())
    }
}

/// The middle layer: serves one version of a program over UDP and TCP at all addresses of this host, and registers it with rpcbind.
///
/// # Errors
/// As [`Server::listen`] and [`Server::start`].
pub fn register(program: impl Program) -> Result<RunningServer, ListenError> {
    Server::new()
        .program(program)
        .listen("onc+udp://0.0.0.0")?
        .listen("onc+tcp://0.0.0.0")?
        .register()
        .start()
}
