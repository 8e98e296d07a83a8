//! The server's side: what is exported, where it listens, and how it ends.

pub(crate) mod running;
pub(crate) mod stay_awake;

use crate::error::ListenError;
use crate::interface::Exported;
use crate::offers;
use crate::options::Waiting;
use crate::server::running::Running;
pub use crate::server::running::RunningServer;
use crate::server::stay_awake::StayAwake;
pub use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::running::{Listener, Setup};
use crate::serving::workers::Bounds;
use crate::transports;
use crate::uri::Uri;
use crate::users::Users;
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::server::Limits;
use stoop_net::fork;

/// A server in the making: what it exports and where it listens.
///
/// [`start`](Self::start) serves in threads of its own, until [`RunningServer::shut_down`] or the drop of all handles:
///
/// ```
/// use stoop::Server;
///
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Port 0: the system chooses one, which `uris` tells.
/// let server = Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?.workers(8).start()?;
/// assert_eq!(GreeterClient::bind(&server.uris()[0])?.greet("world")?, "Hello, world!");
/// assert_eq!(server.counters().calls, 1);
/// server.shut_down();
/// # Ok(())
/// # }
/// ```
///
/// [`run`](Self::run) serves until the process ends, in this thread and others:
///
/// ```no_run
/// # use stoop::Server;
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// Server::new()
///     .export(GreeterServer::new(English))
///     .listen("udp://127.0.0.1:7400")?
///     .listen("unix:@greeter")?
///     .run()?;
/// # Ok::<(), stoop::ListenError>(())
/// ```
#[must_use = "a server serves when it is run or started"]
pub struct Server {
    exports: Vec<Arc<dyn Exported>>,
    listeners: Vec<Box<dyn Listener>>,
    waiting: Waiting,
    bounds: Bounds,
    silence_limit: Duration,
    max_message: usize,
    in_place: usize,
    allowed: Users,
    low_latency: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.exports.iter().map(|export| export.interface().name).collect();
        f.debug_struct("Server")
            .field("exports", &names)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server that exports nothing and listens nowhere.
    pub fn new() -> Self {
        Self {
            exports: Vec::new(),
            listeners: Vec::new(),
            waiting: Waiting::Adaptive,
            bounds: Bounds { workers: 64, queue: 1024 },
            silence_limit: Limits::default().silence,
            max_message: crate::options::MAX_MESSAGE,
            in_place: IN_PLACE,
            allowed: Users::default(),
            low_latency: false,
        }
    }

    /// Exports an implementation: `GreeterServer::new(…)` for a trait `Greeter`.
    ///
    /// # Panics
    /// When an interface of the same name is exported already: callers could not tell the two apart.
    pub fn export(mut self, export: impl Exported) -> Self {
        let name = export.interface().name;
        let twice = self.exports.iter().any(|other| other.interface().name == name);
        assert!(!twice, "two interfaces of the name {name} are exported; a caller could not tell them apart");
        self.exports.push(Arc::new(export));
        self
    }

    /// Listens at an address: `udp://HOST:PORT`, `tcp://HOST:PORT`, `unix:PATH`, `unix:@NAME` (abstract), `shm:NAME` or
    /// `shm:/PATH` (memory shared with each caller; the path is that of a socket at which callers bind), or `local:NAME` (this
    /// process). The address is taken at once, and served from [`start`](Self::start) on. Port 0
    /// takes any free one; [`RunningServer::uris`] tells which.
    ///
    /// A name alone, without a transport, stands for `shm:NAME` and `local:NAME` together: callers on this machine bind to the
    /// name, and get the best that they can use of all the places at which the server listens.
    ///
    /// On a wildcard address (`0.0.0.0`) a server answers from the address that was called, which costs each call about
    /// 0.3 µs; listening at one address is faster.
    ///
    /// # Errors
    /// The text is no address, or it cannot be listened at.
    pub fn listen(mut self, uri: &str) -> Result<Self, ListenError> {
        match transports::parse(uri).map_err(ListenError::Uri)? {
            Uri::Address(scheme, address) => {
                let listener = transports::listen(scheme, uri, address);
                self.listeners.push(listener.map_err(|cause| ListenError::Io { uri: uri.into(), cause })?);
                Ok(self)
            }
            Uri::Name(name) => {
                let named = transports::schemes().filter(|scheme| scheme.has_names);
                let uris = named.map(|scheme| format!("{}:{name}", scheme.name));
                uris.chain([format!("local:{name}")]).try_fold(self, |server, uri| server.listen(&uri))
            }
        }
    }

    /// How threads wait for calls. [`Waiting::Adaptive`] unless set.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Most calls that run at once at each address. 64 unless set. Threads are started as they are needed and leave
    /// when they have been idle for ten seconds.
    ///
    /// # Panics
    /// When it is zero.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "without a worker no call can run");
        self.bounds.workers = workers;
        self
    }

    /// Most calls that wait for a worker at each address; beyond it they are refused as
    /// [`Overloaded`](crate::RefusalCode::Overloaded). 1024 unless set.
    pub fn queue(mut self, calls: usize) -> Self {
        self.bounds.queue = calls;
        self
    }

    /// A binding from which nothing was heard for so long is released. 10 minutes unless set. A caller that comes back
    /// later binds again by itself.
    pub fn silence_limit(mut self, silence: Duration) -> Self {
        self.silence_limit = silence;
        self
    }

    /// Bytes of the longest arguments and of the longest result, less than 4 GiB. 64 MiB unless set; over UDP at least
    /// 1440, which one packet holds.
    ///
    /// It bounds memory, too: over TCP and Unix sockets one connection can make the server hold four times as much of
    /// incomplete arguments, and as much of OUT arguments and results that its caller has not read. A UDP address holds
    /// at most 256 MiB of arguments and 512 MiB of results of many packets, or one of each if that is longer, however
    /// many its callers are.
    pub fn max_message(mut self, bytes: usize) -> Self {
        // What travels has 32 bits for its length.
        self.max_message = bytes.min(u32::MAX as usize);
        self
    }

    /// Bytes that are shared with each caller for its buffers ([`InPlace`](crate::InPlace)), over shared memory and if some procedure
    /// of its interface takes one. 64 MiB unless set; 0 for none: then they are copied.
    ///
    /// It is address space at both ends. Memory is taken by what callers write there, which can be all of it, and is given back
    /// as they drop their buffers.
    pub fn in_place(mut self, bytes: usize) -> Self {
        self.in_place = bytes;
        self
    }

    /// Keeps the machine's processors out of deep sleep while the server runs (`/dev/cpu_dma_latency`, held at 0), so that a call
    /// that comes after a silence is served at once: on a virtual machine in microseconds where it takes tens of them. Costs power,
    /// on the whole machine. Not unless this is said; then [`start`](Self::start) fails where it is not permitted.
    pub fn low_latency(mut self) -> Self {
        self.low_latency = true;
        self
    }

    /// Serves processes of this user over shared memory and Unix sockets, too. Unless this is said, `shm:` and `unix:` addresses serve
    /// processes of the user as whom the server runs, and root's. May be said again for others. Over shared memory each such user may
    /// have bindings for a quarter of the descriptors of the server's process (`ulimit -n`; a binding takes two), so that none can keep
    /// the others out.
    ///
    /// It is the effective user of the process that binds, as the kernel tells the server. In a user namespace (a container
    /// without root) all users that are not mapped there look like 65534: to allow that one is to allow all of them. Of a socket with a
    /// path, the permissions of the file say besides who can connect.
    ///
    /// A client expects a server of its own user or of root: one of another user names the server's
    /// ([`BindOptions::trust_user`](crate::BindOptions::trust_user)).
    pub fn allow_user(mut self, user: u32) -> Self {
        self.allowed.add(user);
        self
    }

    /// Serves everybody who can reach the socket of a `shm:` or `unix:` address: of an abstract name (`shm:NAME`, `unix:@NAME`) every
    /// process of the network namespace, of a path whom the permissions of the file let in. A procedure can ask who calls
    /// ([`CurrentCall::caller`](crate::CurrentCall::caller)).
    pub fn allow_everybody(mut self) -> Self {
        self.allowed = Users::Everybody;
        self
    }

    /// Starts serving, on threads of its own.
    ///
    /// # Errors
    /// Nothing is exported, nowhere is listened, or the system gives no thread.
    pub fn start(self) -> Result<RunningServer, ListenError> {
        if self.exports.is_empty() {
            return Err(ListenError::Incomplete("the server exports nothing; call Server::export first"));
        }
        if self.listeners.is_empty() {
            return Err(ListenError::Incomplete("the server listens nowhere; call Server::listen first"));
        }
        fork::notice();
        let offers = offers::text(self.listeners.iter().filter_map(|listener| listener.offer()));
        let setup = Setup {
            exports: Arc::new(Exports::new(self.exports, offers)),
            waiting: self.waiting,
            bounds: self.bounds,
            max_message: self.max_message,
            silence_limit: self.silence_limit,
            in_place: self.in_place,
            allowed: self.allowed,
        };
        let mut running = Running::new(self.low_latency.then(StayAwake::begin).transpose()?);
        for listener in self.listeners {
            let uri = listener.uri().to_owned();
            if let Err(cause) = running.start(listener, &setup) {
                running.stop();
                return Err(ListenError::Io { uri, cause });
            }
        }
        Ok(RunningServer::new(running))
    }

    /// Serves until the process ends, or until another thread shuts the server down ([`start`](Self::start) gives
    /// what that needs).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn run(self) -> Result<(), ListenError> {
        self.start()?.wait();
        Ok(())
    }
}

/// Bytes shared with a caller for its buffers, unless the user says otherwise.
const IN_PLACE: usize = 64 << 20;
