//! The builder of a server: its interfaces, its addresses, and its options.

mod listening;
pub(crate) mod running;
mod starting;
pub(crate) mod stay_awake;
#[cfg_attr(not(feature = "onc"), path = "no_sun.rs")]
pub(crate) mod sun;

use crate::account::AccountOptions;
use crate::account::tell::{self, StoopAccountServer, Teller};
use crate::health::{self, HealthBoard, StoopHealthServer};
use crate::intercept::Intercept;
use crate::intercept::chain::Interceptors;
use crate::interface::Exported;
use crate::later::tasks::{Executor, Task};
use crate::limits::Limits;
use crate::options::{MAX_MESSAGE, OwnOptions, TransportOptions, Waiting};
use crate::reflection::{self, Reflection, StoopReflectionClient};
use crate::security::Security;
pub use crate::server::running::RunningServer;
pub use crate::serving::counters::ServerCounters;
use crate::serving::procedures::ProcedureOptions;
use crate::serving::restricted::Lists;
use crate::serving::running::Listener;
use crate::serving::workers::Bounds;
use std::sync::Arc;

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
    max_message: usize,
    limits: Limits,
    own: OwnOptions,
    low_latency: bool,
    health: HealthBoard,
    account: Option<AccountOptions>,
    interceptors: Interceptors,
    procedures: Vec<(String, String, ProcedureOptions)>,
    lists: Lists,
    panic_texts: Option<bool>,
    executor: Option<Executor>,
    reflection: Reflection,
    sun: sun::SunRpc,
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
            max_message: MAX_MESSAGE,
            limits: Limits::default(),
            own: OwnOptions::default(),
            low_latency: false,
            health: HealthBoard::new(),
            account: None,
            interceptors: Interceptors::default(),
            procedures: Vec::new(),
            lists: Lists::default(),
            panic_texts: None,
            executor: None,
            reflection: Reflection::Full,
            sun: sun::SunRpc::default(),
        }
    }

    /// Exports an implementation: `GreeterServer::new(…)` for a trait `Greeter`.
    ///
    /// # Panics
    /// When an interface of the same name is exported already: callers could not tell the two apart. `StoopHealth`,
    /// `StoopAccount` and `StoopReflection` are the names of those that every server exports ([`health`](crate::health),
    /// [`account`](crate::account), [`reflection`](crate::reflection)).
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # #[stoop::interface] trait Clock { fn now(&self) -> u64; }
    /// # impl Clock for English { fn now(&self) -> u64 { 0 } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = stoop::Server::new()
    ///     .export(GreeterServer::new(English))
    ///     .export(ClockServer::new(English)) // another interface, at the same addresses
    ///     .listen("tcp://127.0.0.1:0")?
    ///     .start()?;
    /// let uri = &server.uris()[0];
    /// assert_eq!(GreeterClient::bind(uri)?.greet("world")?, "Hello, world!");
    /// assert_eq!(ClockClient::bind(uri)?.now()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(mut self, export: impl Exported) -> Self {
        let name = export.interface().name;
        let twice = self.exports.iter().any(|other| other.interface().name == name);
        assert!(
            ![health::NAME, tell::NAME, reflection::NAME].contains(&name),
            "{name} is exported by every server already"
        );
        assert!(!twice, "two interfaces of the name {name} are exported; a caller could not tell them apart");
        self.health.add(name);
        self.exports.push(Arc::new(export));
        self
    }

    /// The procedures that it exports, with those of `StoopHealth`, `StoopAccount` and `StoopReflection`: a line for each, with its
    /// fingerprint, its interface, its number and its signature. The dissector for Wireshark (`stoop dissector`) reads a file of such
    /// lines, and then shows procedures by their names. `stoop describe URI --names` prints those of a running server.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = stoop::Server::new().export(GreeterServer::new(English));
    /// assert!(server.names().contains("Greeter 0 greet(name: String) -> String"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn names(&self) -> String {
        let standard = [
            StoopHealthServer::new(self.health.clone()).interface(),
            StoopAccountServer::new(Teller::default()).interface(),
            StoopReflectionClient::interface(),
        ];
        let own = self.exports.iter().map(|export| export.interface());
        own.chain(standard).map(|interface| interface.for_exchange().names()).collect()
    }

    /// Its health, for the program to set: before the start, a server may be told not to serve yet.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::health::{Health, StoopHealthClient};
    ///
    /// let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?;
    /// server.health().set_all(Health::NotServing); // while it reads its files
    /// let running = server.start()?;
    /// let health = StoopHealthClient::bind(&running.uris()[0])?;
    /// assert_eq!(health.check("")?, Some(Health::NotServing));
    /// running.health().set_all(Health::Serving);
    /// assert_eq!(health.check("")?, Some(Health::Serving));
    /// # Ok(())
    /// # }
    /// ```
    pub fn health(&self) -> HealthBoard {
        self.health.clone()
    }

    /// Sets options of one procedure, by the names of its interface and of the trait's method. They replace those that were set before.
    /// If there is no such procedure, [`start`](Self::start) fails.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::ProcedureOptions;
    ///
    /// let server = stoop::Server::new()
    ///     .export(GreeterServer::new(English))
    ///     .procedure("Greeter", "great", ProcedureOptions::new().at_once(4)) // a slip of the pen
    ///     .listen("tcp://127.0.0.1:0")?;
    /// assert!(server.start().unwrap_err().to_string().contains("great"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn procedure(mut self, interface: &str, procedure: &str, options: ProcedureOptions) -> Self {
        self.procedures.push((interface.into(), procedure.into(), options));
        self
    }

    /// Sets options of one transport, [`PacketOptions`](crate::PacketOptions), [`UnixOptions`](crate::UnixOptions) or
    /// [`ShmOptions`](crate::ShmOptions), for the addresses of that transport at which [`listen`](Self::listen) is called from now
    /// on. They replace those of the same type that were set before. If one of them acts at no such address, [`start`](Self::start)
    /// fails ([`ListenError::UnusedOptions`](crate::error::ListenError::UnusedOptions)): a server that listens only at `udp:` and `tcp:`
    /// addresses, say, cannot restrict its users by `UnixOptions`.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::{Server, UnixOptions};
    ///
    /// # let (open, own) = (format!("unix:@open-{}", std::process::id()), format!("unix:@own-{}", std::process::id()));
    /// let server = Server::new()
    ///     .export(GreeterServer::new(English))
    ///     .listen(&own)? // the server's own user, and root
    ///     .with(UnixOptions::new().allow_everybody())
    ///     .listen(&open)?; // everybody
    /// # server.start()?.shut_down();
    /// // Options that can act at none of the addresses are an error, not a silence.
    /// let tcp = Server::new().export(GreeterServer::new(English)).with(UnixOptions::new().allow_user(1000));
    /// assert!(tcp.listen("tcp://127.0.0.1:0")?.start().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with(mut self, options: impl TransportOptions) -> Self {
        self.own.set(options);
        self
    }

    /// The security of the addresses at which [`listen`](Self::listen) is called from now on: with keys, they make sealed bindings only,
    /// and serve calls of Sun RPC under TLS only. Other addresses, those of one machine, stay as they are.
    pub fn security(self, security: Security) -> Self {
        self.with(security)
    }

    /// Only these callers may call an interface (`Admin`) or one of its procedures (`Admin.stop`), whose list then counts in place of the
    /// interface's. The list replaces the one that was set before. Others' calls are refused as [`Denied`](crate::RefusalCode::Denied)
    /// before they run, over every transport, and [reflection](crate::reflection) does not tell them of an interface none of whose
    /// procedures they may call. Interfaces and procedures without a list may be called by all.
    ///
    /// The names are those of [`CurrentCall::peer`](crate::CurrentCall::peer): on networks the name of a sealed binding's caller, on this
    /// machine `uid:1000`. One that ends with `*` stands for all that begin so. Callers without a proved name are in no list, and the
    /// server's own process (`local:`) may call everything. Callers by Sun RPC have a proved name under TLS and over Unix sockets only.
    /// If the server does not export the interface or procedure, [`start`](Self::start) fails.
    ///
    /// ```
    /// # #[stoop::interface] trait Admin { fn state(&self) -> String; fn stop(&self); }
    /// # struct Machine;
    /// # impl Admin for Machine { fn state(&self) -> String { "well".into() } fn stop(&self) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = stoop::Server::new()
    ///     .export(AdminServer::new(Machine))
    ///     .callers("Admin", ["alice", "ops-*", "uid:*"])
    ///     .callers("Admin.stop", ["alice"])
    ///     .listen("unix:@admin")?
    ///     .start()?;
    /// let admin = AdminClient::bind("unix:@admin")?;
    /// assert_eq!(admin.state()?, "well");
    /// assert_eq!(admin.stop().unwrap_err().ran(), stoop::Ran::No);
    /// # server.shut_down();
    /// # Ok(())
    /// # }
    /// ```
    pub fn callers(mut self, of: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.lists.set(of, names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the way in which threads wait for calls. [`Waiting::Adaptive`] unless set.
    ///
    /// ```
    /// let server = stoop::Server::new().waiting(stoop::Waiting::Block);
    /// ```
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Most calls that run at once at each address. 64 unless set. Threads are started as they are needed and leave
    /// when they have been idle for ten seconds.
    ///
    /// If there are four or more, one host (network) or user (this machine) has at most three quarters of them, so that the calls of
    /// others need not wait for its calls to return. One binding leaves a sixteenth of the workers, of eight one, to others of its host or
    /// user. Calls of procedures that are known to take less than 0.2 ms are not counted.
    ///
    /// # Panics
    /// When it is zero.
    ///
    /// ```
    /// let server = stoop::Server::new().workers(8).queue(64);
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "without a worker no call can run");
        self.bounds.workers = workers;
        self
    }

    /// Most calls that wait for a worker at each address; beyond it they are refused as
    /// [`Overloaded`](crate::RefusalCode::Overloaded). 1024 unless set.
    ///
    /// This bounds memory. The time that calls wait is bounded by their deadlines: a call that still waits
    /// shortly before its deadline is refused, and so is a call that its caller gave up. Hosts or users take turns, and so do the bindings of each.
    ///
    /// ```
    /// use stoop::Server;
    ///
    /// // A cache in front of something slower: a caller that cannot be served soon rather learns it at once, and asks that.
    /// let server = Server::new().workers(8).queue(16);
    /// ```
    pub fn queue(mut self, calls: usize) -> Self {
        self.bounds.queue = calls;
        self
    }

    /// Bytes of the longest arguments and of the longest result, with the lengths that travel with them; less than 4 GiB. Unless set
    /// 64 MiB and 4 KiB, so that 64 MiB of data may have other values beside them; over UDP at least 1440, which one packet holds.
    ///
    /// It bounds memory, too: over TCP and Unix sockets one connection can make the server hold four times as much of
    /// incomplete arguments, and as much of OUT arguments and results that its caller has not read. A UDP address holds
    /// at most 256 MiB of arguments and 512 MiB of results of many packets, or twice the longest message if that is more,
    /// however many its callers are. One host holds at most three quarters of that.
    ///
    /// ```
    /// let server = stoop::Server::new().max_message(1 << 20);
    /// ```
    pub fn max_message(mut self, bytes: usize) -> Self {
        // A message has 32 bits for its length.
        self.max_message = bytes.min(u32::MAX as usize);
        self
    }

    /// Sets limits of what all callers together, and each host or user, can take of the server.
    ///
    /// ```
    /// use stoop::{Limits, Server};
    ///
    /// // At most 100 bindings at each address: 75 of one host or user, so that others have the rest.
    /// let server = Server::new().limits(Limits::new().bindings(100));
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps the machine's processors out of deep sleep while the server runs (`/dev/cpu_dma_latency`, held at 0), so that a call
    /// that comes after a silence is served at once: on a virtual machine in microseconds where it takes tens of them. Costs power,
    /// on the whole machine. Not unless this is said; then [`start`](Self::start) fails where it is not permitted.
    pub fn low_latency(mut self) -> Self {
        self.low_latency = true;
        self
    }

    /// The server keeps an account of its calls: how long each procedure runs, and for which callers.
    /// [`RunningServer::account`] gives it, and `stoop top` shows it to [any caller](crate::account::StoopAccount). Not unless this is said.
    ///
    /// ```
    /// let server = stoop::Server::new().account(stoop::account::AccountOptions::new());
    /// ```
    pub fn account(mut self, options: AccountOptions) -> Self {
        self.account = Some(options);
        self
    }

    /// Runs before and after each call of the interfaces that are [exported](Self::export), inside of those that were added before: see
    /// [`intercept`](crate::intercept). Calls by Sun RPC do not go through it.
    pub fn interceptor(mut self, interceptor: impl Intercept) -> Self {
        self.interceptors.add(Arc::new(interceptor));
        self
    }

    /// Whether callers get the messages of panics of procedures, which may hold what is not for them: paths, queries, values. Unless
    /// set, callers over `shm:` and `unix:` get them, and those over networks (`udp:`, `tcp:`, `ether:`) do not, on the loopback interface
    /// neither: a proxy may have brought their calls from elsewhere. They learn that the procedure has panicked. Callers in the
    /// server's own process always get the message, those by Sun RPC never: its reply (SYSTEM_ERR) has no text.
    ///
    /// Each message is on the server's standard error, unless the program has set another panic hook.
    ///
    /// ```
    /// let server = stoop::Server::new().panic_texts(true);
    /// ```
    pub fn panic_texts(mut self, told: bool) -> Self {
        self.panic_texts = Some(told);
        self
    }

    /// How much the server tells of its interfaces to callers that ask: see [`reflection`](crate::reflection). [`Reflection::Full`] unless
    /// set.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::reflection::{self, Reflection};
    ///
    /// let server = stoop::Server::new().export(GreeterServer::new(English)).reflection(Reflection::Off);
    /// let server = server.listen("tcp://127.0.0.1:0")?.start()?;
    /// assert!(reflection::interfaces(&server.uris()[0], &stoop::BindOptions::new()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reflection(mut self, told: Reflection) -> Self {
        self.reflection = told;
        self
    }

    /// Has this run the [tasks](Task) of procedures that are an `async fn`, in place of threads of the server: procedures can await what
    /// belongs to a runtime, such as its timers and sockets. `run` is called by the thread at which the call has arrived, which it must not
    /// keep for long. That thread is in no runtime: `tokio::spawn` would panic there, so keep a handle of the runtime.
    ///
    /// With tokio, a task that need not wait for anything is over where its call arrives:
    ///
    /// ```
    /// use stoop::{Server, Task};
    ///
    /// #[stoop::interface]
    /// pub trait Clock { async fn after(&self, millis: u64) -> u64; }
    ///
    /// struct Wall;
    /// impl Clock for Wall {
    ///     async fn after(&self, millis: u64) -> u64 {
    ///         tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
    ///         millis
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let server = Server::new()
    ///     .export(ClockServer::new(Wall))
    ///     .executor(move |task: Task| {
    ///         let _context = handle.enter();
    ///         if let Some(task) = task.start() {
    ///             handle.spawn(task);
    ///         }
    ///     })
    ///     .listen("udp://127.0.0.1:0")?
    ///     .start()?;
    /// assert_eq!(ClockClient::bind(&server.uris()[0])?.after(2)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn executor(mut self, run: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.executor = Some(Arc::new(run));
        self
    }
}
