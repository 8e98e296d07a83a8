//! The servers of this process, by name.

use crate::agreed::Agreed;
use crate::interface::{Exported, Interface};
use crate::later::pool::Pool;
use crate::locked::locked;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::running::{RunningEndpoint, Setup};
use crate::transport::local::begun::{LocalCalls, LocalJob};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// A server of this process, as its callers see it.
pub(crate) struct LocalServer {
    name: String,
    pub(crate) exports: Arc<Exports>,
    open: AtomicBool,
    /// The threads for begun calls.
    pub(crate) pool: Arc<Pool<LocalJob>>,
    /// Bytes of the longest arguments and results of begun calls.
    pub(crate) message_max: usize,
}

static SERVERS: LazyLock<Mutex<HashMap<String, Arc<LocalServer>>>> = LazyLock::new(Mutex::default);

fn servers() -> MutexGuard<'static, HashMap<String, Arc<LocalServer>>> {
    locked(&SERVERS)
}

/// Whether a server has that name now.
pub(crate) fn is_taken(name: &str) -> bool {
    servers().contains_key(name)
}

/// The server of that name.
pub(crate) fn find(name: &str) -> Option<Arc<LocalServer>> {
    servers().get(name).cloned()
}

impl LocalServer {
    /// Takes a name.
    ///
    /// # Errors
    /// Another server has it.
    pub(crate) fn start(name: String, setup: &Setup) -> io::Result<Arc<Self>> {
        let mut servers = servers();
        if servers.contains_key(&name) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let server = Arc::new(Self {
            name: name.clone(),
            exports: Arc::clone(&setup.exports),
            open: AtomicBool::new(true),
            pool: Arc::new(Pool::new(setup.bounds)),
            message_max: setup.max_message,
        });
        servers.insert(name, Arc::clone(&server));
        Ok(server)
    }

    /// Whether the server still runs.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its export of that interface name.
    pub(crate) fn export(&self, interface: &Interface) -> Option<&Arc<dyn Exported>> {
        self.number(interface).map(|number| &self.exports.all[number])
    }

    /// The number of its export of that interface name.
    pub(crate) fn number(&self, interface: &Interface) -> Option<usize> {
        self.exports.all.iter().position(|export| export.interface().name == interface.name)
    }

    /// A table for begun calls of that interface.
    pub(crate) fn calls(self: &Arc<Self>, interface: &Interface, agreed: Option<Agreed>) -> LocalCalls {
        let number = self.number(interface).expect("a client is bound to an interface that is exported");
        LocalCalls::new(Arc::clone(self), number as u16, agreed)
    }

    /// Names of its interfaces.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.exports.all.iter().map(|export| export.interface().name).collect();
        names.join(", ")
    }
}

impl RunningEndpoint for Arc<LocalServer> {
    /// Calls that run go on. A begun call that does not run yet is refused.
    fn shut_down(&self) {
        self.open.store(false, Ordering::Release);
        servers().remove(&self.name);
        self.pool.close().into_iter().for_each(LocalJob::refuse);
    }

    fn drain(&self) {}

    fn stop(&self) {}

    /// Counting would cost more than the call.
    fn counters(&self) -> ServerCounters {
        ServerCounters::default()
    }

    fn is_own_thread(&self) -> bool {
        false
    }
}
