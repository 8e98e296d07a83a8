//! The exports of an endpoint at which callers bind over a connection, and its terms for bindings.

use crate::context::{Caller, Credentials};
use crate::options::Waiting;
use crate::serving::activity::Activity;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::running::Setup;
use crate::serving::workers::Background;
use crate::users::Users;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_exchange::Interfaces;
use stoop_net::clock;
use stoop_net::host::HostFacts;
use stoop_net::stream::Stream;
use stoop_net::waiting::Placement;

/// The exports of an endpoint, what it says when it binds, and its activity.
pub(crate) struct Service {
    pub(crate) exports: Arc<Exports>,
    pub(crate) interfaces: Interfaces,
    /// Number of the interface by which callers authenticate themselves, if all other bindings are sealed.
    pub(crate) handshakes: Option<u16>,
    pub(crate) own: HostFacts,
    /// Tells this start of the server from others.
    pub(crate) incarnation: u64,
    /// When the endpoint began to receive, by [`boot_now_ns`](clock::boot_now_ns).
    pub(crate) started_ns: u64,
    /// Bytes of the longest arguments and of the longest result.
    pub(crate) message_max: usize,
    /// Lanes of a binding.
    pub(crate) lanes: u32,
    pub(crate) waiting: Waiting,
    pub(crate) spinners_max: u32,
    pub(crate) background: Background,
    pub(crate) activity: Activity,
    pub(crate) bindings: AtomicU64,
    pub(crate) binds_refused: AtomicU64,
}

impl Service {
    pub(crate) fn new(setup: &Setup, incarnation: u64, lanes: u32) -> Self {
        let own = HostFacts::gather();
        Self {
            exports: Arc::clone(&setup.exports),
            interfaces: setup.exports.interfaces(),
            handshakes: None,
            spinners_max: Placement::of(&own, &own).waiting_max,
            own,
            incarnation,
            started_ns: clock::boot_now_ns(),
            message_max: setup.max_message,
            lanes,
            waiting: setup.waiting,
            background: Background::default(),
            activity: Activity::default(),
            bindings: AtomicU64::new(0),
            binds_refused: AtomicU64::new(0),
        }
    }

    /// The counters at this moment.
    pub(crate) fn counters(&self) -> ServerCounters {
        ServerCounters {
            bindings: self.bindings.load(Ordering::Relaxed),
            binds_refused: self.binds_refused.load(Ordering::Relaxed),
            ..self.activity.counters()
        }
    }
}

/// The caller at the other end of a connection, and whether a server that allows these users serves it.
///
/// # Errors
/// The connection is broken.
pub(crate) fn caller_of(stream: &Stream, allowed: &Users) -> io::Result<(Caller, bool)> {
    let Some(peer) = stream.peer_credentials()? else {
        let address = stream.peer_addr()?.ok_or(io::ErrorKind::NotConnected)?;
        return Ok((Caller::Network(address), true));
    };
    // Zero: the kernel does not tell, because the process is in another namespace.
    let pid = peer.pid.map_or(0, |pid| pid as i32);
    Ok((Caller::Process(Credentials { uid: peer.uid, gid: peer.gid, pid }), allowed.contains(peer.uid)))
}
