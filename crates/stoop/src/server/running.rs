//! A running server, from its start to its end.

use crate::account::tell::Teller;
use crate::account::{ServerAccount, counters_for_prometheus};
use crate::health::{Health, HealthBoard};
use crate::server::stay_awake::StayAwake;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::running::{Listener, RunningEndpoint, Setup};
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use stoop_net::fork;
use stoop_net::threads;

/// A running server. Dropping it shuts it down, unless a clone of it is left: keep it for as long as the server is to serve.
///
/// ```
/// #![deny(unused_must_use)]
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), stoop::ListenError> {
/// let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?;
/// let running = server.start()?;
/// # Ok(())
/// # }
/// ```
///
/// The compiler warns of one that nothing keeps:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
/// # struct English;
/// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
/// # fn main() -> Result<(), stoop::ListenError> {
/// let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?;
/// server.start()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the server shuts down when this is dropped: keep it in a variable, call `wait`, or call `Server::run` in place of `start`"]
#[derive(Clone)]
pub struct RunningServer {
    shared: Arc<Shared>,
}

struct Shared {
    /// The process that serves, see [`fork::generation`].
    generation: u32,
    uris: Vec<String>,
    health: HealthBoard,
    teller: Teller,
    state: Mutex<State>,
    stopped: Condvar,
}

enum State {
    Running(Arc<Running>),
    /// It refuses new calls, and finishes those that run.
    Stopping(Arc<Running>),
    /// Its threads have ended, and this one lets its addresses go.
    LettingGo(ThreadId),
    Stopped,
}

/// All addresses of a server.
pub(crate) struct Running {
    uris: Vec<String>,
    pub(super) endpoints: Vec<Box<dyn RunningEndpoint>>,
    health: HealthBoard,
    teller: Teller,
    exports: Arc<Exports>,
    /// Keeps the processors awake as long as it is there.
    _awake: Option<StayAwake>,
}

impl Running {
    pub(crate) fn new(
        health: HealthBoard,
        teller: Teller,
        exports: Arc<Exports>,
        awake: Option<StayAwake>,
    ) -> Self {
        Self { uris: Vec::new(), endpoints: Vec::new(), health, teller, exports, _awake: awake }
    }

    /// Starts to serve at an address.
    pub(crate) fn start(&mut self, listener: Box<dyn Listener>, setup: &Setup) -> io::Result<()> {
        let uri = listener.uri().to_owned();
        self.endpoints.push(listener.start(setup)?);
        self.uris.push(uri);
        Ok(())
    }

    /// Whether the calling thread serves a call, for which `stop` would wait.
    fn is_own_thread(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.is_own_thread())
    }

    /// The sum of the counters at all addresses.
    fn counters(&self) -> ServerCounters {
        // Counted at no address, because the addresses share the room.
        let room = &self.exports.open_room;
        let (open, pipes) = (room.open() as u64, room.pipes() as u64);
        let mut sum = ServerCounters { open, pipes, ..ServerCounters::default() };
        self.endpoints.iter().for_each(|endpoint| sum.add(endpoint.counters()));
        sum
    }

    /// Refuses new calls, finishes those that run, and ends all threads.
    pub(crate) fn stop(&self) {
        self.health.set_all(Health::ShuttingDown);
        self.exports.open_room.served.close();
        self.exports.close();
        self.endpoints.iter().for_each(|endpoint| endpoint.shut_down());
        self.endpoints.iter().for_each(|endpoint| endpoint.drain());
        self.endpoints.iter().for_each(|endpoint| endpoint.stop());
    }
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunningServer").field(&self.shared.uris).finish()
    }
}

impl RunningServer {
    pub(crate) fn new(mut running: Running) -> Self {
        let (uris, health, teller) =
            (mem::take(&mut running.uris), running.health.clone(), running.teller.clone());
        let running = Arc::new(running);
        // Not more than a weak reference: the server's exports have the closure, and end with what it refers to.
        let weak = Arc::downgrade(&running);
        teller.runs(move || {
            let counters = weak.upgrade().map_or_else(ServerCounters::default, |running| running.counters());
            counters.named()
        });
        let state = Mutex::new(State::Running(running));
        Self {
            shared: Arc::new(Shared {
                generation: fork::generation(),
                uris,
                health,
                teller,
                state,
                stopped: Condvar::new(),
            }),
        }
    }

    /// Where it listens, in the order of the calls of `listen`, with the ports that were chosen.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?.start()?;
    /// let [uri] = server.uris() else { panic!("it listens at one address") };
    /// assert!(uri.starts_with("tcp://127.0.0.1:") && !uri.ends_with(":0")); // to be told to the clients
    /// # Ok(())
    /// # }
    /// ```
    pub fn uris(&self) -> &[String] {
        &self.shared.uris
    }

    /// Its health, for the program to set, and for any caller to ask ([`health`](crate::health)).
    pub fn health(&self) -> &HealthBoard {
        &self.shared.health
    }

    /// Shuts down: new calls are refused, and calls that run are finished and answered. Then it waits for callers that are still reading
    /// long results, or what pipes have sent, until they have read all, or have read nothing more for two seconds (over packets) or five, and
    /// returns: its addresses are free. A caller that goes on reading a little at a time keeps the server for as long. If another thread
    /// shuts the server down already, it waits for that; if that is done, it does nothing.
    ///
    /// In a procedure of this server it returns at once, for that procedure is one of those to be finished; threads that
    /// [wait](Self::wait) see the end. (A procedure must not wait for a thread that shuts its server down: each would
    /// wait for the other.) Calls through `local:` addresses run on their callers' threads, or, if they were begun, on
    /// some of the server's: new ones are refused, and those that run are not waited for.
    ///
    /// In a process that was forked from the one that serves it does nothing.
    ///
    /// # Panics
    /// When it is called in a procedure of this server and the system gives no thread. Then nothing is shut down.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let client = AdderClient::bind(&uri)?;
    ///
    /// let call = client.begin().add(1, 2);
    /// assert_eq!(call.wait()?, 3);
    /// server.shut_down(); // would have waited for it
    /// let error = client.add(1, 2).unwrap_err();
    /// assert_eq!(error.ran(), stoop::Ran::No);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shut_down(&self) {
        if self.shared.is_a_parents() {
            return;
        }
        let mut state = self.shared.state();
        let is_first = matches!(*state, State::Running(_));
        let (State::Running(running) | State::Stopping(running)) = &*state else {
            drop(state);
            return self.wait();
        };
        let running = Arc::clone(running);
        let is_own_thread = running.is_own_thread();
        *state = State::Stopping(Arc::clone(&running));
        drop(state);
        match (is_first, is_own_thread) {
            (true, false) => self.shared.stop(running),
            (true, true) => {
                let shared = Arc::clone(&self.shared);
                let of_thread = Arc::clone(&running);
                let started = threads::start("stoop-stop", move || shared.stop(of_thread));
                if let Err(why) = started {
                    *self.shared.state() = State::Running(running);
                    panic!("the server is not shut down, for the system gives no thread: {why}");
                }
            }
            (false, false) => {
                drop(running);
                self.wait();
            }
            (false, true) => {}
        }
    }

    /// Waits until the server has been shut down by another thread, and all that ran has been answered.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?.start()?;
    /// let handle = server.clone();
    /// // In a program: a thread that waits for a signal, or for the end of its standard input.
    /// std::thread::spawn(move || handle.shut_down());
    /// server.wait();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self) {
        if self.shared.is_a_parents() {
            return;
        }
        let own = thread::current().id();
        // What the server drops last may be a program's.
        let is_up = |state: &mut State| match state {
            State::Running(_) | State::Stopping(_) => true,
            State::LettingGo(by) => *by != own,
            State::Stopped => false,
        };
        drop(self.shared.stopped.wait_while(self.shared.state(), is_up));
    }

    /// The server's counters, summed over all its addresses; zero once it is shut down. Calls to `local:` addresses
    /// are not counted.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:counters")?.start()?;
    /// # let client = AdderClient::bind("local:counters")?;
    /// assert_eq!(client.add(1, 2)?, 3);
    /// let counters = server.counters();
    /// println!("{} calls, {} waiting", counters.calls, counters.queue.waiting);
    /// println!("{}", server.prometheus());
    /// println!("{} procedures", server.account().procedures.len());
    /// server.health().set_all(stoop::health::Health::NotServing);
    /// server.shut_down();
    /// server.wait(); // until it has ended: at once
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self) -> ServerCounters {
        match &*self.shared.state() {
            State::Running(running) | State::Stopping(running) => running.counters(),
            State::LettingGo(_) | State::Stopped => ServerCounters::default(),
        }
    }

    /// The account of the server's calls; not kept, and empty, unless [`Server::account`](crate::Server::account) has asked for it.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::account::AccountOptions;
    ///
    /// let server = stoop::Server::new().export(AdderServer::new(Two)).account(AccountOptions::new().short_share(1));
    /// let server = server.listen("tcp://127.0.0.1:0")?.start()?;
    /// let client = AdderClient::bind(&server.uris()[0])?;
    /// client.add(1, 2)?;
    /// server.shut_down(); // so that the call is counted before its answer is looked for
    /// let account = server.account();
    /// let add = &account.procedures[0];
    /// assert_eq!((add.name.as_str(), add.calls), ("add", 1));
    /// println!("half of the calls ran for {:?} at most", add.ran.quantile(0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(&self) -> ServerAccount {
        self.shared.teller.whole()
    }

    /// The counters and the account in the text form of Prometheus, for the program to serve where its collector looks: see
    /// [`counters_for_prometheus`] and [`ServerAccount::prometheus`].
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(GreeterServer::new(English)).listen("tcp://127.0.0.1:0")?.start()?;
    /// // The body of the answer to GET /metrics.
    /// let body = server.prometheus();
    /// assert!(body.contains("stoop_server_queue_waiting 0\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prometheus(&self) -> String {
        let counters = self.counters().named().into_iter();
        let counters: Vec<_> = counters.map(|(name, value)| (name.to_owned(), value)).collect();
        format!("{}{}", counters_for_prometheus(&counters), self.account().prometheus())
    }
}

impl Shared {
    /// Whether this process was forked from the one that serves.
    fn is_a_parents(&self) -> bool {
        self.generation != fork::generation()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, running: Arc<Running>) {
        running.stop();
        let kept = mem::replace(&mut *self.state(), State::LettingGo(thread::current().id()));
        drop((running, kept));
        *self.state() = State::Stopped;
        self.stopped.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let is_a_parents = self.is_a_parents();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let State::Running(running) = mem::replace(state, State::Stopped) else { return };
        if is_a_parents {
            // It has none of the threads that would have to stop, and must not close what the parent listens at.
            return mem::forget(running);
        }
        if !running.is_own_thread() {
            return running.stop();
        }
        // The last clone was dropped in a procedure, which a stop would wait for. Without a thread it serves on.
        let _ = threads::start("stoop-stop", move || running.stop());
    }
}
