//! Servers of this process, by name: a call is a call through the trait.

pub(crate) mod begun;
pub(crate) mod caller;
pub(crate) mod pool;
pub(crate) mod rebinding;

use crate::interface::{Exported, Interface};
use crate::serving::dispatch::Exports;
use crate::transport::local::begun::LocalCalls;
use crate::transport::local::begun::LocalJob;
pub(crate) use crate::transport::local::pool::Bounds;
use crate::transport::local::pool::Pool;
pub(crate) use crate::transport::local::rebinding::LocalRebinding;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A server of this process, as its callers see it.
pub(crate) struct LocalServer {
    exports: Arc<Exports>,
    open: AtomicBool,
    /// For calls that their callers have begun and gone on.
    pool: Arc<Pool<LocalJob>>,
    /// Bytes of the longest arguments and results of those.
    message_max: usize,
}

static SERVERS: LazyLock<Mutex<HashMap<String, Arc<LocalServer>>>> = LazyLock::new(Mutex::default);

fn servers() -> std::sync::MutexGuard<'static, HashMap<String, Arc<LocalServer>>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name held by a server; free again when this is dropped.
pub(crate) struct Listening {
    name: String,
    server: Arc<LocalServer>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.server.open.store(false, Ordering::Release);
        servers().remove(&self.name);
        self.server.pool.close().into_iter().for_each(LocalJob::refuse);
    }
}

/// Takes a name for these exports; `None` if another server has it.
pub(crate) fn listen(
    name: &str,
    exports: Arc<Exports>,
    bounds: Bounds,
    message_max: usize,
) -> Option<Listening> {
    let mut servers = servers();
    if servers.contains_key(name) {
        return None;
    }
    let pool = Arc::new(Pool::new(bounds));
    let server = Arc::new(LocalServer { exports, open: AtomicBool::new(true), pool, message_max });
    servers.insert(name.into(), Arc::clone(&server));
    Some(Listening { name: name.into(), server })
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
    /// Whether the server still runs.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Its export of that interface name.
    pub(crate) fn export(&self, interface: &Interface) -> Option<&Arc<dyn Exported>> {
        self.number(interface).map(|number| &self.exports.all[number])
    }

    fn number(&self, interface: &Interface) -> Option<usize> {
        self.exports.all.iter().position(|export| export.interface().name == interface.name)
    }

    /// What carries begun calls of that interface to it.
    fn calls(self: &Arc<Self>, interface: &Interface) -> LocalCalls {
        let number = self.number(interface).expect("whoever is bound to an export has found it");
        LocalCalls::new(Arc::clone(self), number as u16)
    }

    /// Names of its interfaces.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.exports.all.iter().map(|export| export.interface().name).collect();
        names.join(", ")
    }
}
