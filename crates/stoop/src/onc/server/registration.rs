//! A server's entries at the rpcbind of its host, from its start to its end.

use crate::error::CallError;
use crate::onc::rpcbind::{Registration as Entry, Rpcbind};
use crate::onc::server::listener::Registered;
use crate::program::VersionId;
use crate::serving::counters::ServerCounters;
use crate::serving::running::RunningEndpoint;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The entries of a server. They go when the server shuts down, unless another server has taken their place meanwhile. Those of a server
/// that was killed stay, until it is started again.
pub(crate) struct Registration {
    entries: Vec<(VersionId, Registered)>,
    has_ended: AtomicBool,
}

impl Registration {
    /// Registers all versions at all places. What is registered for them by others, or by an earlier server that was killed, goes.
    ///
    /// # Errors
    /// No rpcbind answers, or it does not allow this user to do so.
    pub(crate) fn begin(versions: &[VersionId], places: &[Registered]) -> io::Result<Self> {
        let rpcbind = Rpcbind::local().map_err(io::Error::other)?;
        let mut registration = Self { entries: Vec::new(), has_ended: AtomicBool::new(false) };
        for version in versions {
            for place in places {
                match set(&rpcbind, *version, place.netid, &place.address) {
                    Ok(true) => registration.entries.push((*version, place.clone())),
                    Ok(false) => {
                        registration.end();
                        return Err(refused(*version, place.netid));
                    }
                    Err(why) => {
                        registration.end();
                        return Err(io::Error::other(why));
                    }
                }
            }
        }
        Ok(registration)
    }

    /// Ends them, once.
    fn end(&self) {
        if self.has_ended.swap(true, Ordering::SeqCst) {
            return;
        }
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
