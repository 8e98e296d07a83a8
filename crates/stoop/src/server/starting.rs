//! A server begins to serve.

use crate::account::served::Ledger;
use crate::account::tell::{StoopAccountServer, Teller};
use crate::error::ListenError;
use crate::health::StoopHealthServer;
use crate::later::pipe_threads::PIPE_THREADS_MAX;
use crate::later::room::{OPEN_CALLS_MAX, OpenRoom};
use crate::later::tasks::Tasks;
use crate::offers;
use crate::reflection::{Reflection, Reflector, StoopReflectionServer};
use crate::server::Server;
use crate::server::running::{Running, RunningServer};
use crate::server::stay_awake::StayAwake;
use crate::serving::dispatch::Exports;
use crate::serving::intercepted::intercept;
use crate::serving::message_memory::most_argument_bytes;
use crate::serving::procedures::options_of;
use crate::serving::running::Setup;
use std::mem;
use std::sync::Arc;
use stoop_net::fork;
use stoop_net::host::{granted_memory, reserve_few_arenas};

impl Server {
    /// Starts serving, on threads of its own.
    ///
    /// # Errors
    /// Nothing is exported, nowhere is listened, or the system gives no thread; or no rpcbind registers the programs.
    ///
    /// ```
    /// # #[stoop::interface] trait Greeter { fn greet(&self, name: &str) -> String; }
    /// # struct English;
    /// # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = stoop::Server::new().export(GreeterServer::new(English));
    /// let error = server.start().unwrap_err();
    /// assert!(error.to_string().contains("the server listens nowhere"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(mut self) -> Result<RunningServer, ListenError> {
        self.check()?;
        let teller = Teller::default();
        if let Some(options) = self.account.take() {
            let ledger = Arc::new(Ledger::new(&self.exports, options));
            self.exports = ledger.record(self.exports);
            teller.keeps(ledger);
        }
        self.exports = intercept(self.exports, mem::take(&mut self.interceptors));
        // The last: the numbers of the program's own interfaces stay as they are.
        self.exports.push(Arc::new(StoopHealthServer::new(self.health.clone())));
        self.exports.push(Arc::new(StoopAccountServer::new(teller.clone())));
        if self.reflection != Reflection::Off {
            let options =
                options_of(&self.exports, &self.procedures).map_err(ListenError::UnknownProcedure)?;
            let reflector = Reflector::new(
                &self.exports,
                &options,
                self.max_message,
                (self.reflection, self.lists.clone()),
            );
            self.exports.push(Arc::new(StoopReflectionServer::new(reflector)));
        }
        self.lists.restrict(&mut self.exports).map_err(ListenError::UnknownProcedure)?;
        fork::notice();
        let setup = self.setup()?;
        let awake = self.low_latency.then(StayAwake::begin).transpose()?;
        let mut running = Running::new(self.health, teller, Arc::clone(&setup.exports), awake);
        for listener in self.listeners {
            let uri = listener.uri().to_owned();
            if let Err(cause) = running.start(listener, &setup) {
                running.stop();
                return Err(ListenError::Io { uri, cause });
            }
        }
        if let Err(why) = self.sun.register(&setup.programs, &mut running) {
            running.stop();
            return Err(why);
        }
        Ok(RunningServer::new(running))
    }

    /// Whether there is something to serve at each address, and an address for each option.
    fn check(&self) -> Result<(), ListenError> {
        self.check_sun_rpc()?;
        if self.exports.is_empty() && !self.has_programs() {
            return Err(ListenError::Incomplete("the server exports nothing; call Server::export first"));
        }
        for interface in self.exports.iter().map(|export| export.interface()) {
            let refused = |why| ListenError::Revisions { interface: interface.name, why };
            interface.check_forms().map_err(refused)?;
        }
        if self.listeners.is_empty() {
            return Err(ListenError::Incomplete("the server listens nowhere; call Server::listen first"));
        }
        self.own.check_at_server()
    }

    /// The parts that all addresses share.
    fn setup(&mut self) -> Result<Setup, ListenError> {
        reserve_few_arenas();
        let offers = offers::text(self.listeners.iter().filter_map(|listener| listener.offer()));
        let limits = mem::take(&mut self.limits).within(granted_memory());
        let bytes = most_argument_bytes(&limits, self.max_message);
        let room = OpenRoom::new(limits.open_calls.unwrap_or(OPEN_CALLS_MAX), bytes);
        let room = Arc::new(room.with_pipe_step(limits.pipe_step));
        let threads = (self.bounds.workers, limits.pipe_threads.unwrap_or(PIPE_THREADS_MAX));
        let tasks = Arc::new(Tasks::new(self.executor.take(), threads, &room));
        self.exports.iter().for_each(|export| export.lend_tasks(&tasks));
        let options = options_of(&self.exports, &self.procedures).map_err(ListenError::UnknownProcedure)?;
        Ok(Setup {
            programs: Arc::new(self.programs()?),
            exports: Arc::new(
                Exports::new(mem::take(&mut self.exports), options, offers)
                    .with_panic_texts(self.panic_texts)
                    .with_open_room(room)
                    .silent_if(self.reflection == Reflection::Off || !self.lists.is_empty()),
            ),
            waiting: self.waiting,
            bounds: self.bounds,
            max_message: self.max_message,
            limits,
        })
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
