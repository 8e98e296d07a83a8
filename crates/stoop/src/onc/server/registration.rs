//! A server's entries at the rpcbind of its host, from its start to its end.

use crate::error::{CallError, SendError};
use crate::onc::rpcbind::{Registration as Entry, Rpcbind};
use crate::onc::server::listener::Registered;
use crate::program::VersionId;
use crate::serving::counters::ServerCounters;
use crate::serving::running::RunningEndpoint;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stoop_net::threads;

/// Time between two looks at the entries. A look is one call over rpcbind's Unix socket.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time from a look that misses an entry to the one that registers it again. An entry is also missing for the moment in which another
/// server takes its place, by UNSET and SET.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// The entries of a server. They go when the server shuts down, unless another server has taken their place meanwhile. Those of a server
/// that was killed stay, until it is started again.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    watching: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    entries: Vec<(VersionId, Registered)>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl Registration {
    /// Registers every version at every place, in place of the entries of other servers and of an earlier one that was killed. From then
    /// on a thread registers them again when rpcbind has lost them, because it was started again.
    ///
    /// # Errors
    /// No rpcbind answers, or it does not allow this user to do so; or the system gives no thread.
    pub(crate) fn begin(versions: &[VersionId], places: &[Registered]) -> io::Result<Self> {
        let rpcbind = Rpcbind::local().map_err(io::Error::other)?;
        let mut all =
            versions.iter().flat_map(|version| places.iter().map(|place| (*version, place.clone())));
        let mut entries = Vec::new();
        let begun = all.try_for_each(|(version, place)| {
            if !set(&rpcbind, version, place.netid, &place.address).map_err(io::Error::other)? {
                return Err(refused(version, place.netid));
            }
            entries.push((version, place));
            Ok(())
        });
        let shared = Arc::new(Shared { entries, has_ended: Mutex::new(false), ended: Condvar::new() });
        let watched = Arc::clone(&shared);
        let watching = begun.and_then(|()| threads::start("stoop-rpcbind", move || watched.watch()));
        let watching = watching.inspect_err(|_| shared.unregister())?;
        Ok(Self { shared, watching: Mutex::new(Some(watching)) })
    }

    /// Ends them, once.
    fn end(&self) {
        let watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(watching) = watching else { return };
        *self.shared.has_ended() = true;
        self.shared.ended.notify_all();
        // It might register an entry again.
        let _ = watching.join();
        self.shared.unregister();
    }
}

impl Shared {
    fn has_ended(&self) -> MutexGuard<'_, bool> {
        self.has_ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers entries again that are gone, until the end.
    fn watch(&self) {
        let mut missed = false;
        loop {
            let limit = if missed { CONFIRM_AFTER } else { LOOK_EVERY };
            let waited = self.ended.wait_timeout_while(self.has_ended(), limit, |ended| !*ended);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            // While no rpcbind answers, nothing is known to be missing.
            missed = self.look(missed).unwrap_or(false);
        }
    }

    /// Looks for entries that are gone, and registers them again if they were `missed` before. Returns whether some are missing.
    fn look(&self, missed: bool) -> Result<bool, CallError> {
        let rpcbind = Rpcbind::local().map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?;
        let found = rpcbind.dump()?;
        let mut missing = missing(&self.entries, &found).peekable();
        if !missed {
            return Ok(missing.peek().is_some());
        }
        for (version, Registered { netid, address }) in missing {
            // Refused: another server was faster.
            rpcbind.set(*version, netid, address)?;
        }
        Ok(false)
    }

    fn unregister(&self) {
        let Ok(rpcbind) = Rpcbind::local() else { return };
        // UNSET asks for no address: it would end the entry of a server that has registered since, too.
        let entries = rpcbind.dump();
        for (version, Registered { netid, address }) in &self.entries {
            let is_own =
                |entry: &Entry| (entry.version, &*entry.netid, &entry.address) == (*version, *netid, address);
            if entries.as_ref().map_or(true, |entries| entries.iter().any(is_own)) {
                let _ = rpcbind.unset(*version, netid);
            }
        }
    }
}

/// Those of a server's entries for which rpcbind has none, neither of this server nor of another.
fn missing<'e>(
    entries: &'e [(VersionId, Registered)],
    found: &[Entry],
) -> impl Iterator<Item = &'e (VersionId, Registered)> {
    entries.iter().filter(|(version, place)| {
        !found.iter().any(|entry| entry.version == *version && entry.netid == place.netid)
    })
}

/// Registers a version in place of one that is registered, unless it is transient: then the other may be another process's.
fn set(rpcbind: &Rpcbind, version: VersionId, netid: &str, address: &str) -> Result<bool, CallError> {
    if !version.is_transient() {
        // SET of a program with another address is refused: UNSET comes first.
        rpcbind.unset(version, netid)?;
    }
    rpcbind.set(version, netid, address)
}

fn refused(version: VersionId, netid: &str) -> io::Error {
    let how = match version.is_transient() {
        true => "another process has that number: draw another (`VersionId::transient`)",
        false => "it is registered by another user: have that user or root remove it (`rpcinfo -d`)",
    };
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("rpcbind refuses to register {version} for {netid}; {how}"),
    )
}

/// Ends with the server.
impl RunningEndpoint for Registration {
    fn shut_down(&self) {
        self.end();
    }

    fn drain(&self) {}

    fn stop(&self) {
        self.end();
    }

    fn counters(&self) -> ServerCounters {
        ServerCounters::default()
    }

    fn is_own_thread(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_that_no_server_has_are_missing() {
        let version = |number| VersionId { program: 0x2000_0000, version: number };
        let own = |number, netid| (version(number), Registered { netid, address: "0.0.0.0.8.1".into() });
        let found = |number, netid: &str, address: &str| Entry {
            version: version(number),
            netid: netid.into(),
            address: address.into(),
            owner: String::new(),
        };
        let entries = [own(1, "udp"), own(1, "tcp"), own(2, "udp")];
        let of = |found: &[Entry]| missing(&entries, found).cloned().collect::<Vec<_>>();
        assert_eq!(of(&[]), entries);
        let all =
            [found(1, "udp", "0.0.0.0.8.1"), found(1, "tcp", "0.0.0.0.8.1"), found(2, "udp", "0.0.0.0.8.1")];
        assert_eq!(of(&all), []);
        // Another server has the version over UDP.
        assert_eq!(of(&[found(1, "udp", "0.0.0.0.9.9"), found(2, "tcp", "0.0.0.0.8.1")]), entries[1..]);
    }
}
