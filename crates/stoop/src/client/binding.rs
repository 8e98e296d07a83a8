//! A client's binding: made together with the client, by a lazy client's first call, or anew in a forked child.

mod early_table;
mod offered;

use crate::account::CallAccount;
use crate::account::spans::BegunSpans;
use crate::callbacks::nested;
use crate::calling::counters::CallCounters;
use crate::calling::detached::CallingThread;
use crate::calling::detaching::{Awaited, Detaching};
use crate::calling::order::Order;
use crate::calling::patience::{self, Attempts};
use crate::client::bound::{Bound, Describe};
use crate::client::choice::{self, Source};
use crate::client::early::EarlyCalls;
use crate::client::offered_object::OwnOffering;
use crate::client::unable::Unable;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, Callee, CloseError, InPlaceError, SendError};
use crate::intercept::client::ClientChain;
use crate::options::BindOptions;
use crate::transport::packet::options::PacketOptions;
use crate::transports::{AnyBegunCalls, AnyBinding, AnyCalls};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::fork::{self, PerProcess};
use stoop_net::host::reserve_few_arenas;
use stoop_shm::{InPlace, Number};
use stoop_wire::metadata::BLOCK_MAX;

/// A client's binding to a server.
///
/// ```
/// use std::time::Duration;
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:binding")?.start()?;
/// # let client = AdderClient::bind("local:binding")?;
/// let binding = client.binding();
/// assert_eq!(binding.uri(), "local:binding");
/// println!("{}", binding.describe()); // the transport, and why
/// println!("{} calls so far", binding.counters().calls);
/// println!("{} procedures in the account", binding.account().procedures.len());
/// client.note(3)?;
/// binding.flush(Duration::from_secs(1))?; // waits for one-way and detached calls
/// let buffer = binding.in_place::<u16>(480)?;
/// assert_eq!(buffer.len(), 480);
/// # Ok(())
/// # }
/// ```
pub struct Binding {
    source: Source,
    options: Arc<BindOptions>,
    /// The process in which the client was made, see [`fork::generation`].
    generation: u32,
    /// The binding of this process, to a server of another process, or to one of its own whose calls are marshaled.
    remote: OnceLock<Bound>,
    /// The binding of this process, to a server of its own whose calls go through the trait. Apart from `remote`, so that a thread that finds either knows which.
    in_process: OnceLock<Box<Bound>>,
    /// The bindings of processes that were forked from this one.
    of_children: PerProcess<Bound>,
    pub(super) attempts: Attempts,
    /// The table of calls that were begun before there is a binding, of each process.
    early: PerProcess<Mutex<Weak<EarlyCalls>>>,
    /// Calls do not go by this binding, which is never made, but by what this describes.
    pub(super) elsewhere: Option<Describe>,
    /// The threads that have ordered one-way calls to wait for.
    pub(crate) order: Order,
    /// The object that the client offers, if it does.
    pub(super) offering: Option<Box<OwnOffering>>,
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl Binding {
    /// A binding that is not made yet.
    pub(crate) fn new(source: Source, options: Arc<BindOptions>) -> Self {
        // Before anything is made that could be inherited.
        fork::notice();
        Self {
            source,
            generation: fork::generation(),
            remote: OnceLock::new(),
            in_process: OnceLock::new(),
            of_children: PerProcess::new(),
            attempts: Attempts::default(),
            early: PerProcess::new(),
            elsewhere: None,
            order: Order::default(),
            offering: OwnOffering::of(&options.callbacks),
            options,
        }
    }

    /// The address that was bound to.
    pub fn uri(&self) -> &str {
        &self.source.uri
    }

    /// In words: which transport, why, and how it waits; of a [lazy](BindOptions::lazy) client without a call so far, that it is not
    /// bound yet.
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
    /// let text = client.binding().describe();
    /// assert!(text.contains("UDP"), "{text}"); // for a log: which transport it is, and why
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&self) -> String {
        let uri = self.uri();
        if let Some(describe) = &self.elsewhere {
            return describe();
        }
        let bound = match self.known() {
            Some(bound) => Ok(bound),
            None if self.options.lazy => return format!("{uri}: not bound yet; the first call binds"),
            None => self.bound_by(Instant::NEVER),
        };
        match bound {
            Ok(Bound { transport, .. }) => {
                let has_buffers = self.source.interface.has_buffers();
                let buffers = if has_buffers { transport.describe_buffers() } else { String::new() };
                let checksums = if self.options.own.of::<PacketOptions>().checksum {
                    transport.describe_checksums()
                } else {
                    ""
                };
                let callee = if matches!(transport, AnyBinding::Callback(_)) { "client" } else { "server" };
                let forms =
                    self.source.interface.describe_forms(callee, |procedure| transport.form(procedure));
                format!("{uri}: {}{buffers}{checksums}{forms}", transport.describe())
            }
            Err(why) => format!("{uri}: not bound in this process, which has been forked: {why}"),
        }
    }

    /// A buffer of `len` numbers of any values, for procedures of this server to use where it lies ([`InPlace`]). It is
    /// [shared](InPlace::is_shared) if the transport is shared memory, some procedure of the interface takes a buffer, and the server
    /// gives memory for it (`ShmOptions::in_place`); otherwise its contents are copied with each call. [`describe`](Self::describe)
    /// says which, and why. In a forked child, those that its parent made are copied.
    ///
    /// It is to be made once and used for many calls: the first use of fresh memory costs about as much as copying it.
    ///
    /// # Errors
    /// When the memory that is shared for buffers has no room for it, or the client is not bound and cannot bind.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::{InPlace, Server};
    ///
    /// #[stoop::interface]
    /// trait Sensor { fn read(&self, samples: &mut InPlace<u16>); }
    ///
    /// struct Ramp;
    /// impl Sensor for Ramp {
    ///     fn read(&self, samples: &mut InPlace<u16>) {
    ///         (0..samples.len()).for_each(|index| samples.set(index, index as u16));
    ///     }
    /// }
    ///
    /// let server = Server::new().export(SensorServer::new(Ramp)).listen("tcp://127.0.0.1:0")?.start()?;
    /// let sensor = SensorClient::bind(&server.uris()[0])?;
    /// let mut samples = sensor.binding().in_place::<u16>(480)?;
    /// sensor.read(&mut samples)?;
    /// assert_eq!(samples.get(7), 7);
    /// assert!(!samples.is_shared()); // over TCP it is copied; over `shm:` it would not be
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        let bound = self.bound_by(Instant::NEVER).map_err(|why| InPlaceError::Unbound(Box::new(why)))?;
        match self.source.interface.has_buffers() {
            true => bound.transport.in_place(len),
            false => Ok(InPlace::private(len)),
        }
    }

    /// Waits until the one-way and detached calls of this binding have ended, at most for `timeout`: those of all threads and of
    /// all clones of the client. (A client's `close` does this.)
    ///
    /// # Errors
    /// Some have not ended, or have ended without a result since this was last asked.
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
    /// client.note(3)?; // one-way
    /// client.begin().add(1, 2).detach();
    /// client.binding().flush(std::time::Duration::from_secs(5))?; // both have run
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self, timeout: Duration) -> Result<(), CloseError> {
        let until = Instant::from_nanos(clock::now_ns()) + timeout;
        // The early ones first: they go over to the table of the binding.
        let early = self.early_calls().map_or(Ok(()), |calls| calls.flush(until));
        let begun = self.table().map_or(Ok(()), |calls| calls.flush(until));
        early.and(begun).map_err(|error| self.name_cause(error))
    }

    /// The report, in which the first failure names its server, and its procedure if that is known.
    fn name_cause(&self, mut report: CloseError) -> CloseError {
        let named = |error: CallError| match report.procedure {
            Some(procedure) => self.name(error, procedure),
            None => error.at(self.uri()),
        };
        report.cause = report.cause.map(named);
        report
    }

    /// The error of a call of that procedure, with its name and that of its server.
    #[cold]
    #[inline(never)]
    pub(crate) fn name(&self, error: CallError, procedure: u16) -> CallError {
        error.knowing(Callee::new(self.source.interface, procedure, self.uri()))
    }

    /// For this reason no call can be begun.
    #[cold]
    #[inline(never)]
    pub(crate) fn unable(&self, why: SendError) -> Box<Unable> {
        Box::new(Unable { why, server: self.uri().into() })
    }

    /// Waits until the calling thread's ordered one-way calls have returned, at most for `timeout_ns`, before it calls that procedure.
    /// Returns how much of that is left.
    #[cold]
    pub(crate) fn await_order(&self, timeout_ns: u64, procedure: u16) -> Result<u64, CallError> {
        let not_sent = |why| Err(self.name(CallError::not_sent(why), procedure));
        let begun_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
        if deadline_ns <= begun_ns {
            return not_sent(SendError::DeadlinePassed);
        }
        let (interface, procedures) = (self.source.interface.name, self.source.interface.procedures);
        let idempotent = procedures[usize::from(procedure)].idempotent;
        let until = Instant::from_nanos(deadline_ns);
        let awaited = self
            .table()
            .map(|calls| nested::waiting(|| calls.await_order(CallingThread::current(), idempotent, until)));
        match awaited.unwrap_or(Awaited::All) {
            Awaited::All => self.order.clear(),
            Awaited::TooLate => return not_sent(SendError::OneWayPending),
            Awaited::UnknownYet => {}
            Awaited::Unknown(procedure) => {
                self.order.clear();
                let procedure = procedures[usize::from(self.source.interface.base(procedure))].name;
                return not_sent(SendError::OneWayUnknown { interface, procedure });
            }
        }
        match timeout_ns.saturating_sub(clock::now_ns() - begun_ns) {
            // Over `local:` this thread can have run them, for longer than that.
            0 => not_sent(SendError::OneWayPending),
            left_ns => Ok(left_ns),
        }
    }

    /// The table of the calls that this process has begun, if it has begun any.
    fn table(&self) -> Option<AnyCalls> {
        self.known()?.tables.get().map(AnyBegunCalls::latest)
    }

    /// The counters of this binding's calls that have ended; it does not wait for the others. A `local:`
    /// binding counts nothing: it would cost more than the call.
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
    /// client.add(1, 2)?;
    /// let counters = client.binding().counters();
    /// assert_eq!(counters.calls, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self) -> CallCounters {
        let Some(bound) = self.known() else { return CallCounters::default() };
        let mut counters = bound.transport.counters();
        if let Some(tables) = bound.tables.get() {
            counters.add(tables.counters());
        }
        counters.skipped_callbacks = self.offering.as_ref().map_or(0, |offering| offering.skipped());
        counters
    }

    /// The account of this binding's calls so far, those that have ended; empty unless
    /// [`BindOptions::account`](crate::BindOptions::account) has asked for it. That of a forked child has the child's calls.
    pub fn account(&self) -> CallAccount {
        self.known().map_or_else(CallAccount::default, |bound| bound.transport.account())
    }

    /// What makes spans of the calls that are begun.
    #[inline]
    pub(crate) fn begun_spans(&self) -> BegunSpans {
        match self.options.account.is_some() {
            true => self.known().map_or_else(BegunSpans::default, |bound| bound.transport.begun_spans()),
            false => BegunSpans::default(),
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// The transport to a server of another process, if there is one by now.
    #[inline]
    pub(crate) fn transport(&self) -> Option<&AnyBinding> {
        if self.generation != fork::generation() {
            return None;
        }
        self.remote.get().map(|bound| &bound.transport)
    }

    /// The binding of this process, if there is one by now.
    pub(super) fn known(&self) -> Option<&Bound> {
        match self.is_of_this_process() {
            true => self.remote.get().or_else(|| self.in_process.get().map(Box::as_ref)),
            false => self.of_children.get(),
        }
    }

    /// The binding of this process, made now if there is none.
    ///
    /// # Errors
    /// There is none by `deadline`, or by the time that the options allow.
    #[cold]
    pub(crate) fn bound_by(&self, deadline: Instant) -> Result<&Bound, BindError> {
        if let Some(bound) = self.known() {
            return Ok(bound);
        }
        let begun = now();
        let deadline = deadline.min(begun + self.options.time_to_bind());
        if !self.is_of_this_process() {
            // Its parent's calls, sockets and memory are not its own; nor is a lock that it holds.
            return self.of_children.get_or_try_make(|| Ok(Bound::new(self.bind(deadline)?)));
        }
        let _guard = self.attempts.take(self.uri(), deadline)?;
        if let Some(bound) = self.known() {
            return Ok(bound);
        }
        let bound = Bound::new(self.bind(deadline)?);
        Ok(match bound.transport {
            AnyBinding::Local(ref binding) if !binding.is_marshaled => {
                self.in_process.get_or_init(|| Box::new(bound))
            }
            _ => self.remote.get_or_init(|| bound),
        })
    }

    /// As [`bound_by`](Self::bound_by), in one attempt after the other while the options allow that and `is_wanted` says so.
    pub(crate) fn bind_while(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), BindError> {
        let begun = now();
        let until = begun + self.options.time_to_bind();
        loop {
            let Err(mut why) = self.bound_by(until.min(now() + self.options.bind_timeout)) else {
                return Ok(());
            };
            let goes_on = self.options.waits_for_server() && why.may_pass() && now() < until;
            if !goes_on || !is_wanted() {
                if let BindError::NoAnswer { waited, .. } = &mut why {
                    *waited = now().since(begun);
                }
                return Err(why);
            }
        }
    }

    /// Binds; if the options say so, again and again until the server is there.
    fn bind(&self, deadline: Instant) -> Result<AnyBinding, BindError> {
        reserve_few_arenas();
        patience::bind(&self.options, deadline, &self.attempts, |deadline| self.attempt(deadline))
    }

    /// Binds by the transport that the address names; to a name alone, by the best that both ends can use.
    fn attempt(&self, deadline: Instant) -> Result<AnyBinding, BindError> {
        // The child has a copy of its parent's server, of which nothing is known outside.
        if let Some(bound) = self.in_process.get().map(Box::as_ref).or_else(|| self.remote.get())
            && let AnyBinding::Local(_) = bound.transport
        {
            return Ok(bound.transport.clone());
        }
        choice::bind(&self.source, &self.options, self.is_of_this_process(), deadline)
    }

    /// The table for calls that are begun now; if there is none, the reason. Binds within that time, if the
    /// client is not bound yet.
    #[inline]
    pub(crate) fn calls(&self, timeout_ns: u64) -> Result<AnyCalls, SendError> {
        match self.calls_at_once() {
            Some(calls) => calls,
            None => self.calls_by(Instant::from_nanos(clock::now_ns().saturating_add(timeout_ns))),
        }
    }

    /// As [`calls`](Self::calls), if the client is bound. It does not wait.
    #[inline]
    pub(crate) fn calls_at_once(&self) -> Option<Result<AnyCalls, SendError>> {
        if self.generation == fork::generation()
            && let Some(bound) = self.remote.get()
            && let Some(tables) = bound.tables.get()
        {
            return Some(tables.present());
        }
        self.table_at_once()
    }

    #[cold]
    fn table_at_once(&self) -> Option<Result<AnyCalls, SendError>> {
        self.known().map(|bound| self.table_of(bound))
    }

    /// As [`calls`](Self::calls), until that time.
    #[cold]
    pub(crate) fn calls_by(&self, deadline: Instant) -> Result<AnyCalls, SendError> {
        self.table_of(self.bound_by(deadline).map_err(|why| SendError::Bind(Box::new(why)))?)
    }

    /// Bytes of the longest block of metadata that the server takes. While the client is not bound: of any.
    pub(crate) fn metadata_max(&self) -> usize {
        self.known().map_or(BLOCK_MAX, |bound| bound.transport.metadata_max())
    }

    /// Bytes of the longest arguments that the options allow.
    pub(crate) fn max_message(&self) -> usize {
        self.options.max_message
    }

    /// The table of the calls of this binding, made now if there is none.
    fn table_of(&self, bound: &Bound) -> Result<AnyCalls, SendError> {
        if let AnyBinding::Local(_) = bound.transport
            && !self.is_of_this_process()
        {
            let why = "the threads of the local: server are in the process from which this one was forked; bind to another there";
            return Err(SendError::Io(io::Error::other(why)));
        }
        if let Some(tables) = bound.tables.get() {
            return tables.present();
        }
        let tables = bound.transport.begun_calls().map_err(SendError::Io)?;
        let (interceptors, interface) = (&self.options.interceptors, self.source.interface);
        let tables = tables.intercepted(
            ClientChain::new(interceptors, interface, self.uri()),
            bound.transport.metadata_max(),
        );
        bound.tables.get_or_init(|| tables).present()
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Binding").field(&self.describe()).finish()
    }
}
