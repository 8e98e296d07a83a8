//! Servers of this process, by name: a call is a call through the trait.

use crate::stub::{Exported, Interface};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A server of this process, as its callers see it.
pub(crate) struct Door {
    exports: Vec<Arc<dyn Exported>>,
    open: AtomicBool,
}

static DOORS: LazyLock<Mutex<HashMap<String, Arc<Door>>>> = LazyLock::new(Mutex::default);

fn doors() -> std::sync::MutexGuard<'static, HashMap<String, Arc<Door>>> {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name held by a server; free again when this is dropped.
pub(crate) struct Listening {
    name: String,
    door: Arc<Door>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.door.open.store(false, Ordering::Release);
        doors().remove(&self.name);
    }
}

/// Takes a name for these exports; `None` if another server has it.
pub(crate) fn listen(name: &str, exports: Vec<Arc<dyn Exported>>) -> Option<Listening> {
    let mut doors = doors();
    if doors.contains_key(name) {
        return None;
    }
    let door = Arc::new(Door { exports, open: AtomicBool::new(true) });
    doors.insert(name.into(), Arc::clone(&door));
    Some(Listening { name: name.into(), door })
}

/// Whether a server has that name now.
pub(crate) fn is_taken(name: &str) -> bool {
    doors().contains_key(name)
}

/// The server of that name.
pub(crate) fn find(name: &str) -> Option<Arc<Door>> {
    doors().get(name).cloned()
}

impl Door {
    /// Whether the server still runs.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Its export of that interface name.
    pub(crate) fn export(&self, interface: &Interface) -> Option<&Arc<dyn Exported>> {
        self.exports.iter().find(|export| export.interface().name == interface.name)
    }

    /// Names of its interfaces.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.exports.iter().map(|export| export.interface().name).collect();
        names.join(", ")
    }
}
