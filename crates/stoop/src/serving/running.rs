//! One address of a server, from the moment when it is taken to the end of the server.

use crate::limits::Limits;
use crate::offers::Offer;
use crate::program::programs::Programs;
use crate::serving::counters::ServerCounters;
use crate::serving::dispatch::Exports;
use crate::serving::workers::{Bounds, Endpoint, WorkerPool};
use std::io;
use std::sync::Arc;
use stoop_net::waiting::Waiting;

/// Settings that the addresses of a server have in common.
pub(crate) struct Setup {
    pub(crate) exports: Arc<Exports>,
    /// The programs that the addresses of Sun RPC serve: those of the exports that are programs, too, and programs that are no exports.
    pub(crate) programs: Arc<Programs>,
    pub(crate) waiting: Waiting,
    pub(crate) bounds: Bounds,
    /// Bytes of the longest arguments and of the longest result.
    pub(crate) max_message: usize,
    pub(crate) limits: Limits,
}

/// An address that is taken, and not served yet.
pub(crate) trait Listener: Send + Sync {
    /// The address, with the port that was chosen.
    fn uri(&self) -> &str;

    /// The address as callers on this machine are told of it; `None` if it is of no use to them.
    fn offer(&self) -> Option<Offer> {
        Some(Offer::to(self.uri()))
    }

    /// Whether other machines reach the address, so that calls may meet an attacker on the way.
    fn is_reached_by_others(&self) -> bool {
        false
    }

    /// Starts to serve.
    ///
    /// # Errors
    /// The system gives no thread, or something else that the transport needs.
    fn start(self: Box<Self>, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>>;
}

/// An address that is served. A server that ends calls `shut_down` of all, then `drain` of all, then `stop` of all.
pub(crate) trait RunningEndpoint: Send + Sync {
    /// Refuses calls from now on.
    fn shut_down(&self);

    /// Waits until all calls are answered, and until callers have read the answers or have stopped reading.
    fn drain(&self);

    /// Ends all threads. Procedures that run are waited for.
    fn stop(&self);

    /// Its counters at this moment.
    fn counters(&self) -> ServerCounters;

    /// Whether the calling thread serves a call here, for which [`drain`](Self::drain) would wait.
    fn is_own_thread(&self) -> bool;
}

impl<E: Endpoint> RunningEndpoint for Arc<WorkerPool<E>> {
    fn shut_down(&self) {
        self.endpoint.shut_down();
    }

    fn drain(&self) {
        self.endpoint.drain();
    }

    fn stop(&self) {
        WorkerPool::stop(self);
    }

    fn counters(&self) -> ServerCounters {
        ServerCounters { queue: self.queue_counters(), ..self.endpoint.counters() }
    }

    fn is_own_thread(&self) -> bool {
        WorkerPool::is_own_thread(self)
    }
}

/// Serves an endpoint with a worker pool.
pub(crate) fn start<E: Endpoint>(endpoint: E, setup: &Setup) -> io::Result<Box<dyn RunningEndpoint>> {
    start_within(endpoint, setup.bounds)
}

/// As [`start`], with no more workers and waiting calls than these.
pub(crate) fn start_within<E: Endpoint>(endpoint: E, bounds: Bounds) -> io::Result<Box<dyn RunningEndpoint>> {
    Ok(Box::new(WorkerPool::start(endpoint, bounds)?))
}
