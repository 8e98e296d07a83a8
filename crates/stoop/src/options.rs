//! Options of a binding.

pub(crate) mod callbacks;
pub(crate) mod own;

use crate::account::AccountOptions;
use crate::intercept::Intercept;
use crate::intercept::chain::Interceptors;
use crate::options::callbacks::CallbackOptions;
pub use crate::options::own::TransportOptions;
pub(crate) use crate::options::own::{OwnOptions, Sealed, Setting};
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::retry::{Retry, RetryBudget};
use stoop_net::host;
pub use stoop_net::waiting::Waiting;

/// Bytes of the longest message, unless the user says otherwise: 64 MiB of data, and a page for lengths and small values beside them.
pub(crate) const MAX_MESSAGE: usize = (64 << 20) + 4096;

/// Options of a binding. Each has a default that suits most programs.
///
/// ```
/// use std::time::Duration;
/// use stoop::BindOptions;
///
/// # #[stoop::interface]
/// # pub trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let name = format!("unix:@bind-options-{}", std::process::id());
/// # let uri = name.clone();
/// # let starting = std::thread::spawn(move || {
/// #     stoop::Server::new().export(GreeterServer::new(English)).listen(&uri).unwrap().start().unwrap()
/// # });
/// // Another program starts the server at about the same time: binding waits for it, and each call may take 200 ms.
/// let options = BindOptions::new().wait_for_server(Duration::from_secs(60)).timeout(Duration::from_millis(200));
/// let greeter = GreeterClient::bind_with(&name, &options)?;
/// # let greeter = greeter.with_timeout(Duration::from_secs(30));
/// assert_eq!(greeter.greet("world")?, "Hello, world!");
/// # drop(starting.join());
/// # Ok(())
/// # }
/// ```
///
/// ```
/// use std::time::Duration;
/// use stoop::account::AccountOptions;
/// use stoop::{BindOptions, PacketOptions, Retry, Waiting};
///
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = BindOptions::new()
///     .timeout(Duration::from_millis(500)) // of each call
///     .bind_timeout(Duration::from_secs(2))
///     .wait_for_server(Duration::from_secs(60)) // it may start later
///     .wait_for_restart(Duration::from_secs(10)) // and be started again
///     .lazy() // the first call binds
///     .waiting(Waiting::Block)
///     .max_message(1 << 20)
///     .upgrade() // to shared memory, if it is on this machine
///     .retry(Retry::default())
///     .account(AccountOptions::new())
///     .with(PacketOptions::new().checksum());
/// let client = AdderClient::bind_with("udp://127.0.0.1:7400", &options)?;
/// assert!(client.binding().describe().contains("not bound yet"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct BindOptions {
    pub(crate) timeout: Duration,
    pub(crate) waiting: Waiting,
    pub(crate) bind_timeout: Duration,
    pub(crate) wait_for_server: Option<Duration>,
    pub(crate) wait_for_restart: Option<Duration>,
    pub(crate) lazy: bool,
    pub(crate) max_message: usize,
    pub(crate) upgrade: bool,
    pub(crate) retry: Retry,
    pub(crate) account: Option<AccountOptions>,
    pub(crate) interceptors: Interceptors,
    pub(crate) callbacks: CallbackOptions,
    pub(crate) own: OwnOptions,
    /// Why this transport was chosen.
    pub(crate) reason: String,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            waiting: Waiting::Adaptive,
            bind_timeout: Duration::from_secs(5),
            wait_for_server: None,
            wait_for_restart: None,
            lazy: false,
            max_message: crate::options::MAX_MESSAGE,
            upgrade: false,
            retry: Retry::default(),
            account: None,
            interceptors: Interceptors::default(),
            callbacks: CallbackOptions::default(),
            own: OwnOptions::default(),
            reason: "because the address says so".into(),
        }
    }
}

impl BindOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds options of one transport: [`PacketOptions`](crate::PacketOptions), [`UnixOptions`](crate::UnixOptions) or
    /// [`ShmOptions`](crate::ShmOptions). They count if the binding gets that transport, and replace those of the same type that were
    /// added before. Options that cannot act at the address are an error of binding
    /// ([`BindError::UnusedOptions`](crate::BindError::UnusedOptions)): those of `unix:` addresses at a `tcp:` address, for example.
    /// A name alone may lead to any transport, and one that is not used ignores its options; so does shared memory that
    /// [`upgrade`](Self::upgrade) may lead to. The client's `binding().describe()` tells which transport it got.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::{BindOptions, PacketOptions};
    ///
    /// // Over UDP, a server that is silent for ten seconds is given up.
    /// let options = BindOptions::new().with(PacketOptions::new().silence_limit(Duration::from_secs(10)));
    /// let error = stoop::health::StoopHealthClient::bind_with("tcp://127.0.0.1:7400", &options).unwrap_err();
    /// assert!(matches!(error, stoop::BindError::UnusedOptions { .. }));
    /// ```
    pub fn with(mut self, options: impl TransportOptions) -> Self {
        self.own.set(options);
        self
    }

    /// How long each call may take: its deadline, which travels with it and bounds the calls that it leads to.
    /// 30 s unless set. The client's `with_timeout` sets it for single calls. A `local:` call is a call through the
    /// trait: its procedure can see the deadline, but nothing ends it there.
    ///
    /// ```
    /// # #[stoop::interface] trait Oven { fn bake(&self); }
    /// # struct Slow;
    /// # impl Oven for Slow { fn bake(&self) { std::thread::sleep(std::time::Duration::from_millis(40)) } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(OvenServer::new(Slow)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = &server.uris()[0];
    /// use std::time::Duration;
    ///
    /// let options = stoop::BindOptions::new().timeout(Duration::from_millis(20));
    /// let oven = OvenClient::bind_with(uri, &options)?;
    /// assert!(oven.bake().unwrap_err().is_timeout());
    /// oven.with_timeout(Duration::from_secs(5)).bake()?; // this call may take longer
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How threads wait for results. [`Waiting::Adaptive`] unless set.
    ///
    /// ```
    /// use stoop::{BindOptions, Waiting};
    ///
    /// // Sleeps in every wait: a call takes longer, and its thread leaves the processor to others at once.
    /// let options = BindOptions::new().waiting(Waiting::Block);
    /// ```
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// If the server at a `udp:`, `tcp:` or `unix:` address turns out to be on this machine and offers shared memory, that is used
    /// instead. If the server at a `udp:` address is on the same Ethernet as this machine, listens there at a port or a name that it was
    /// given, and this process has the privilege for it, that is used (cargo feature `ether`). Only the client's `binding().describe()`
    /// tells, also why the Ethernet could not be used, and the time that calls take.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.listen(&format!("shm:upgrade-{}", std::process::id()))?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// let client = AdderClient::bind_with(&uri, &stoop::BindOptions::new().upgrade())?; // a UDP address
    /// assert_eq!(client.add(1, 2)?, 3);
    /// println!("{}", client.binding().describe()); // shared memory, if both may use it
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade(mut self) -> Self {
        self.upgrade = true;
        self
    }

    /// How calls are sent again that the server has refused because it is overloaded. (A refused call has not run, so that this is
    /// right for every procedure.) They are sent again up to twice, after waits, if that makes no more than ten percent of the
    /// binding's calls, and never beyond their deadlines; unless this is set. The error of a refused call says when to call again.
    ///
    /// ```
    /// use stoop::{BindOptions, Retry};
    ///
    /// let batch = BindOptions::new().retry(Retry::new().attempts(5).percent(50)); // has time
    /// let page = BindOptions::new().retry(Retry::never()); // rather shows an error at once
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The binding keeps an account of its calls: [`Binding::account`](crate::Binding::account) gives it. Not unless set.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// use stoop::account::AccountOptions;
    ///
    /// let client = AdderClient::bind_with(&uri, &stoop::BindOptions::new().account(AccountOptions::new()))?;
    /// client.add(1, 2)?;
    /// let account = client.binding().account();
    /// let add = account.procedure("add").ok_or("it was called")?;
    /// println!("{} calls, the longest took {:?}", add.whole.count(), add.whole.quantile(1.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(mut self, options: AccountOptions) -> Self {
        self.account = Some(options);
        self
    }

    /// Runs before and after each call of the binding, inside of those that were added before: see [`intercept`](crate::intercept). A client of Sun
    /// RPC has none.
    pub fn interceptor(mut self, interceptor: impl Intercept) -> Self {
        self.interceptors.add(Arc::new(interceptor));
        self
    }

    /// The budget of a binding with these options.
    pub(crate) fn new_retry_budget(&self) -> RetryBudget {
        RetryBudget::new(self.retry, u64::from_le_bytes(host::random_bytes()))
    }

    pub(crate) fn because(&self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self.clone() }
    }

    /// How long binding may take. 5 s unless set. With [`wait_for_server`](Self::wait_for_server), how long each attempt may take.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use stoop::health::StoopHealthClient;
    ///
    /// # let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    /// # let uri = format!("udp://{}", silent.local_addr().unwrap());
    /// // Nothing answers there.
    /// let options = stoop::BindOptions::new().bind_timeout(Duration::from_millis(20));
    /// let error = StoopHealthClient::bind_with(&uri, &options).unwrap_err();
    /// assert!(matches!(error, stoop::BindError::NoAnswer { .. }));
    /// ```
    pub fn bind_timeout(mut self, timeout: Duration) -> Self {
        self.bind_timeout = timeout;
        self
    }

    /// Binding waits for a server that is not there yet: it tries again, at least every 100 ms, until a server answers or the
    /// timeout has passed. Then the error says why the last attempt failed. It tries again when the address refuses, is not there, does not
    /// resolve or does not answer, and when its server is shutting down; other errors end it at once, for example a server with
    /// another interface.
    ///
    /// Off unless set. It also holds when the server is lost later, or shuts down: a call waits for the next one, as long as that and
    /// its deadline allow.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// # let uri = format!("unix:@late-{}", std::process::id());
    /// # let server = std::thread::spawn({ let uri = uri.clone(); move || stoop::Server::new().export(AdderServer::new(Two)).listen(&uri).unwrap().start().unwrap() });
    /// // The two programs may start in any order.
    /// let options = stoop::BindOptions::new().wait_for_server(Duration::from_secs(60));
    /// let client = AdderClient::bind_with(&uri, &options)?;
    /// assert_eq!(client.add(1, 2)?, 3);
    /// # server.join().unwrap().shut_down();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_server(mut self, timeout: Duration) -> Self {
        self.wait_for_server = Some(timeout);
        self
    }

    /// A call waits for the next server when the one that was bound is lost, or shuts down, as long as this timeout and the call's
    /// deadline allow. Binding itself does not wait: the error of a wrong address, or of a server that does not run, comes at once.
    ///
    /// A call that may have run at the lost server is made at the next one only if its procedure is `#[idempotent]`. Of begun calls over
    /// UDP that leave together and meet a closed port, the first waits if it has not run. The others end at once: it is not known
    /// whether they have run. A call with pipes is never made again, and does not wait.
    ///
    /// Off unless set. With [`wait_for_server`](Self::wait_for_server), which also waits in binding, this one counts after that.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use stoop::{BindOptions, Server};
    ///
    /// # let uri = format!("unix:@restarted-{}", std::process::id());
    /// # let start = || Server::new().export(AdderServer::new(Two)).listen(&uri).and_then(Server::start);
    /// let server = start()?;
    /// let options = BindOptions::new().wait_for_restart(Duration::from_secs(10));
    /// let client = AdderClient::bind_with(&uri, &options)?;
    /// server.shut_down();
    /// let next = start()?; // for example the next version of the program
    /// assert_eq!(client.add(1, 2)?, 3); // no error in between
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_restart(mut self, timeout: Duration) -> Self {
        self.wait_for_restart = Some(timeout);
        self
    }

    /// Binding returns at once, and the first call binds, within its deadline; the first use of `begin()` or `in_place()` does so too.
    /// The asynchronous form of a client has another thread bind: its calls wait in their handles.
    /// If that fails, the call has not run: it ends with [`CallError::NotSent`](crate::CallError::NotSent) of
    /// [`SendError::Bind`](crate::error::SendError::Bind), and the next call tries again. Only a text that is not an address is an
    /// error of binding at once.
    ///
    /// With [`wait_for_server`](Self::wait_for_server) the first call waits for the server, at most that long.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let uri = format!("unix:@lazy-{}", std::process::id());
    /// let client = AdderClient::bind_with(&uri, &stoop::BindOptions::new().lazy())?; // no server yet
    /// assert_eq!(client.add(1, 2).unwrap_err().ran(), stoop::Ran::No);
    /// let server = stoop::Server::new().export(AdderServer::new(Two)).listen(&uri)?.start()?;
    /// assert_eq!(client.add(1, 2)?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    pub(crate) fn waits_for_server(&self) -> bool {
        self.wait_for_server.is_some()
    }

    /// The options by which a binding that was made binds again.
    pub(crate) fn once_bound(&self) -> Self {
        Self { wait_for_server: self.wait_for_restart.or(self.wait_for_server), ..self.clone() }
    }

    /// How long all attempts to bind may take.
    pub(crate) fn time_to_bind(&self) -> Duration {
        self.wait_for_server.unwrap_or(self.bind_timeout)
    }

    /// Bytes of the longest arguments and of the longest result, with the lengths that travel with them; over every transport to another
    /// process. Unless set 64 MiB and 4 KiB, so that 64 MiB of data may have other values beside them. The server has a bound of its own,
    /// `Server::max_message`; the smaller one counts. Over UDP what takes more than 1440 bytes travels as many packets, and needs memory
    /// for the whole of it at both ends.
    ///
    /// ```
    /// # #[stoop::interface] trait Sink { fn take(&self, bytes: &[u8]); }
    /// # struct Nowhere;
    /// # impl Sink for Nowhere { fn take(&self, _: &[u8]) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(SinkServer::new(Nowhere)).listen("tcp://127.0.0.1:0")?.start()?;
    /// let options = stoop::BindOptions::new().max_message(64 << 10);
    /// let sink = SinkClient::bind_with(&server.uris()[0], &options)?;
    /// sink.take(&[0; 60 << 10])?;
    /// assert_eq!(sink.take(&[0; 70 << 10]).unwrap_err().ran(), stoop::Ran::No); // it was not sent
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }
}
