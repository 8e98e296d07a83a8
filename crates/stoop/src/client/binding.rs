//! What a client can tell of its binding, and which it is in this process.

use super::Teller;
use super::counters::CallCounters;
use super::flight::{self, Awaited, Carrier, Carriers};
use super::order::Order;
use super::{Transport, choice};
use crate::bind::BindOptions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, CloseError, InPlaceError, SendError};
use crate::local::Door;
use crate::stub::Interface;
use crate::uri::Uri;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::fork::{self, PerProcess};
use stoop_shm::{InPlace, Number};

/// A client's binding to a server.
pub struct Binding {
    uri: String,
    interface: &'static Interface,
    options: BindOptions,
    /// That of the process that bound it.
    first: Bound,
    /// Those of processes that it has forked, which bind anew.
    of_children: PerProcess<Bound>,
    /// Which threads have one-way calls to wait for.
    pub(super) order: Order,
}

/// A binding of one process.
pub(super) struct Bound {
    /// The process, see [`fork::generation`].
    generation: u32,
    pub(super) transport: Transport,
    /// Who carries begun calls, from the first on.
    carriers: OnceLock<Carriers>,
}

impl Bound {
    fn new(transport: Transport) -> Self {
        Self { generation: fork::generation(), transport, carriers: OnceLock::new() }
    }
}

impl Drop for Bound {
    /// What is another process's is left alone: to end it would end it there.
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            mem::forget(mem::replace(&mut self.transport, Transport::Local));
            mem::forget(self.carriers.take());
        }
    }
}

impl Binding {
    /// By `make`.
    pub(super) fn new(
        interface: &'static Interface,
        uri: &str,
        options: &BindOptions,
        make: impl FnOnce() -> Result<Transport, BindError>,
    ) -> Result<Self, BindError> {
        // Before anything is made that could be inherited.
        fork::notice();
        let first = Bound::new(make()?);
        Ok(Self {
            uri: uri.into(),
            interface,
            options: options.clone(),
            first,
            of_children: PerProcess::new(),
            order: Order::default(),
        })
    }

    /// The address that was bound to.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// In words: which transport, why, and how it waits.
    pub fn describe(&self) -> String {
        match self.bound() {
            Ok(bound) => {
                let transport = &bound.transport;
                let buffers =
                    if self.interface.has_buffers() { transport.describe_buffers() } else { String::new() };
                format!("{}: {}{buffers}", self.uri, transport.describe())
            }
            Err(why) => format!("{}: not bound in this process, which has been forked: {why}", self.uri),
        }
    }

    /// A buffer of `len` numbers, which are anything, for procedures of this server to use where it lies ([`InPlace`]). It is
    /// [shared](InPlace::is_shared) if the transport is shared memory, some procedure of the interface takes a buffer, and the server
    /// gives memory for it (`Server::in_place`); otherwise its contents are copied with each call. [`describe`](Self::describe)
    /// says which, and why. In a forked child, those that its parent made are copied.
    ///
    /// It is to be made once and used for many calls: the first use of fresh memory costs about as much as copying it.
    ///
    /// # Errors
    /// When the memory that is shared for buffers has no room for it, or the server is gone and there is no other.
    pub fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        let bound = self.bound().map_err(|why| InPlaceError::Unbound(Box::new(why)))?;
        match &bound.transport {
            Transport::Shm(binding) if self.interface.has_buffers() => binding.in_place(len),
            _ => Ok(InPlace::private(len)),
        }
    }

    /// Waits until the one-way and detached calls of this binding have ended, at most for `timeout`: those of all threads and of
    /// all clones of the client. (A client's `close` does this.)
    ///
    /// # Errors
    /// Some have not ended, or have ended without a result since this was last asked.
    pub fn flush(&self, timeout: Duration) -> Result<(), CloseError> {
        let until = Instant::from_nanos(clock::now_ns()) + timeout;
        self.begun_carrier().map_or(Ok(()), |carrier| carrier.flush(until))
    }

    /// Waits until the calling thread's ordered one-way calls have returned, at most for `timeout_ns`. Returns how much of that is
    /// left.
    #[cold]
    pub(super) fn await_order(&self, timeout_ns: u64) -> Result<u64, CallError> {
        let not_sent = |why| Err(CallError::NotSent(why));
        let begun_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
        if deadline_ns <= begun_ns {
            return not_sent(SendError::DeadlinePassed);
        }
        if let Some(carrier) = self.begun_carrier() {
            match carrier.await_order(Teller::current(), Instant::from_nanos(deadline_ns)) {
                Awaited::All => {}
                Awaited::TooLate => return not_sent(SendError::OneWayPending),
                Awaited::Unknown => {
                    self.order.clear();
                    return not_sent(SendError::OneWayUnknown);
                }
            }
        }
        self.order.clear();
        Ok(timeout_ns.saturating_sub(clock::now_ns() - begun_ns))
    }

    /// The carrier of calls that this process has begun, if it has begun any.
    fn begun_carrier(&self) -> Option<Arc<dyn Carrier>> {
        let is_parents = self.first.generation != fork::generation();
        let bound = if is_parents { self.of_children.get() } else { Some(&self.first) };
        bound?.carriers.get().map(Carriers::present)
    }

    /// What this binding's calls have seen so far, those that have ended; it does not wait for the others. A `local:`
    /// binding counts nothing: it would cost more than the call.
    pub fn counters(&self) -> CallCounters {
        let Ok(bound) = self.bound() else { return CallCounters::default() };
        let mut counters = bound.transport.counters();
        if let Some(carriers) = bound.carriers.get() {
            counters.add(carriers.counters());
        }
        counters
    }

    /// The transport that this process uses.
    ///
    /// # Errors
    /// The process has been forked since its parent bound, and cannot bind.
    #[inline]
    pub(super) fn transport(&self) -> Result<&Transport, CallError> {
        match self.bound() {
            Ok(bound) => Ok(&bound.transport),
            Err(why) => Err(CallError::NotSent(SendError::Bind(Box::new(why)))),
        }
    }

    #[inline]
    fn bound(&self) -> Result<&Bound, BindError> {
        if self.first.generation == fork::generation() { Ok(&self.first) } else { self.bound_anew() }
    }

    /// In a process that was forked since: its parent's calls, sockets and memory are not its own.
    #[cold]
    fn bound_anew(&self) -> Result<&Bound, BindError> {
        self.of_children.get_or_try_make(|| {
            let transport = match &self.first.transport {
                // Its objects have been copied with all memory.
                Transport::Local => Transport::Local,
                _ => {
                    let to = Uri::parse(&self.uri).map_err(BindError::Uri)?;
                    choice::remote(self.interface, &self.uri, to, &self.options)?
                }
            };
            Ok(Bound::new(transport))
        })
    }

    /// Who carries calls that are begun now; if nobody can, one that says why, for now. `door` is the server of a `local:` one.
    #[inline]
    pub(super) fn carrier(&self, door: Option<&Arc<Door>>) -> Arc<dyn Carrier> {
        if self.first.generation == fork::generation()
            && let Some(carriers) = self.first.carriers.get()
        {
            return carriers.present();
        }
        self.make_carrier(door)
    }

    #[cold]
    fn make_carrier(&self, door: Option<&Arc<Door>>) -> Arc<dyn Carrier> {
        let bound = match self.bound() {
            Ok(bound) => bound,
            Err(why) => return flight::grounded(io::Error::other(why.to_string())),
        };
        if let Transport::Local = bound.transport
            && bound.generation != self.first.generation
        {
            let why = "the threads of the local: server are in the process from which this one was forked";
            return flight::grounded(io::Error::other(why));
        }
        if let Some(carriers) = bound.carriers.get() {
            return carriers.present();
        }
        match Carriers::new(&bound.transport, door, self.interface) {
            Ok(carriers) => bound.carriers.get_or_init(|| carriers).present(),
            Err(why) => flight::grounded(why),
        }
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Binding").field(&self.describe()).finish()
    }
}
