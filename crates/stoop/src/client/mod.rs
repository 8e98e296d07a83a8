//! The caller's side: what emitted clients are made of.
//!
//! The three verbs are Firefly's: *start* finds the calling thread's lane and its call packet, *transport* sends it
//! and waits for the result, *end* gives the lane back. Which transport they reach is decided when the client binds.

pub(crate) mod begin;
pub(crate) mod binding;
pub(crate) mod binding_task;
pub(crate) mod bound;
pub(crate) mod call;
pub(crate) mod choice;
pub(crate) mod early;
pub(crate) mod offered_object;
pub(crate) mod offering;
pub(crate) mod pending;
pub(crate) mod unable;

pub use crate::calling::counters::CallCounters;
pub use crate::client::begin::{Begin, Beginning};
pub use crate::client::binding::Binding;
use crate::client::binding_task::bind_in_thread;
pub use crate::client::call::{Call, Remote, Route};
use crate::client::choice::Source;
use crate::client::early::Binds;
use crate::context::{bounded_deadline, nanos};
use crate::error::{BindError, CallError, SendError};
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::metadata::outgoing::{AnswerMetadata, Carried};
use crate::metadata::served::goes_on;
use crate::options::BindOptions;
use crate::pipes::window::Window;
pub use crate::transport::local::caller::Local;
use crate::transport::local::caller::{Here, Next};
use crate::transports::{AnyBinding, AnyCalls};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_net::clock;

/// A bound client of an interface whose trait object is `L`.
pub struct Client<L: ?Sized> {
    shared: Arc<Shared<L>>,
    timeout_ns: u64,
    /// The metadata that its calls carry.
    carried: Option<Arc<Carried>>,
    /// The window of pipes from procedures, and the time for a whole call with pipes.
    window: Window,
    total_ns: u64,
}

struct Shared<L: ?Sized> {
    /// The server of this process to which the client was bound first.
    first: OnceLock<Here<L>>,
    /// Those that had its name later, as each thread last found them.
    next: Next<L>,
    binding: Binding,
}

impl<L: ?Sized + 'static> Shared<L> {
    #[inline]
    fn local<'a>(&'a self, here: &'a Here<L>, timeout_ns: u64) -> Local<'a, L> {
        Local::new(&self.next, here, timeout_ns)
    }
}

impl<L: ?Sized + Send + Sync> Binds for Shared<L> {
    fn uri(&self) -> &str {
        self.binding.uri()
    }

    fn not_bound_within(&self, waited: Duration) -> BindError {
        self.binding.attempts.report(self.binding.uri(), waited)
    }

    fn max_message(&self) -> usize {
        self.binding.max_message()
    }

    fn calls_by(&self, deadline: Instant) -> Result<AnyCalls, SendError> {
        self.binding.calls_by(deadline)
    }
}

// A call that panics leaves nothing half done: what a panic interrupts is at a place of the calling thread, which the next call there
// begins anew.
impl<L: ?Sized> UnwindSafe for Client<L> {}
impl<L: ?Sized> RefUnwindSafe for Client<L> {}

impl<L: ?Sized> Clone for Client<L> {
    fn clone(&self) -> Self {
        let &Self { timeout_ns, window, total_ns, .. } = self;
        Self { shared: Arc::clone(&self.shared), timeout_ns, carried: self.carried.clone(), window, total_ns }
    }
}

impl<L: ?Sized> std::fmt::Debug for Client<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("binding", &self.shared.binding)
            .field("timeout", &Duration::from_nanos(self.timeout_ns))
            .finish()
    }
}

impl<L: ?Sized + Send + Sync + 'static> Client<L> {
    /// Binds to the server at `uri`, by the transport that it names; to a name alone, of a server on this machine, by the best that
    /// both can use.
    ///
    /// # Errors
    /// Why there is no binding; see [`BindError`].
    pub fn bind(interface: &'static Interface, uri: &str, options: &BindOptions) -> Result<Self, BindError> {
        let client = Self::unbound(interface, uri, options)?;
        if !options.lazy {
            client.bind_by(Instant::NEVER)?;
        }
        client.begin_offering()?;
        Ok(client)
    }

    /// As [`bind`](Self::bind), in another thread. If the future is dropped, that thread ends with its present attempt.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); or the system gives no thread.
    pub async fn bind_async(
        interface: &'static Interface,
        uri: &str,
        options: &BindOptions,
    ) -> Result<Self, BindError> {
        let client = Self::unbound(interface, uri, options)?;
        if !options.lazy {
            let unbound = client.clone();
            let bind = move |is_wanted: &dyn Fn() -> bool| {
                let binding = &unbound.shared.binding;
                binding.bind_while(is_wanted)?;
                // Makes it now, and not in the thread of the first call. If it cannot be made, that call says so.
                let _ = binding.calls(0);
                unbound.begin_offering()
            };
            bind_in_thread(uri, bind).await?;
        } else {
            client.begin_offering()?;
        }
        Ok(client)
    }

    /// A client that is not bound yet.
    fn unbound(interface: &'static Interface, uri: &str, options: &BindOptions) -> Result<Self, BindError> {
        choice::check_options(uri, options)?;
        let refused = |why| BindError::Revisions { interface: interface.name, why };
        interface.check_forms().map_err(refused)?;
        offering::check(interface, uri, options)?;
        let source = Source { interface, uri: uri.into(), is_ours: |object| object.is::<Arc<L>>() };
        // From now on it is known how far the coarse clock lags.
        clock::tick_ns();
        let binding = Binding::new(source, Arc::new(options.clone()));
        let shared = Shared { first: OnceLock::new(), next: Next::new(), binding };
        Ok(Self::of(shared, nanos(options.timeout)))
    }

    fn of(shared: Shared<L>, timeout_ns: u64) -> Self {
        Self::of_shared(Arc::new(shared), timeout_ns)
    }

    fn of_shared(shared: Arc<Shared<L>>, timeout_ns: u64) -> Self {
        let (window, total_ns) = (Window::default(), u64::MAX);
        Self { shared, timeout_ns, carried: None, window, total_ns }
    }

    /// A client of that address, by a binding that has been made.
    pub(crate) fn made(interface: &'static Interface, uri: Arc<str>, transport: AnyBinding) -> Self {
        let source = Source { interface, uri, is_ours: |object| object.is::<Arc<L>>() };
        let binding = Binding::made(source, transport);
        let timeout_ns = nanos(binding.timeout());
        Self::of(Shared { first: OnceLock::new(), next: Next::new(), binding }, timeout_ns)
    }

    /// A client of that address whose calls take another way than a binding; `describe` says which.
    #[cfg(feature = "onc")]
    pub(crate) fn elsewhere(
        interface: &'static Interface,
        uri: String,
        describe: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let source = Source { interface, uri: uri.into(), is_ours: |object| object.is::<Arc<L>>() };
        let options = BindOptions::default();
        let timeout_ns = nanos(options.timeout);
        let mut binding = Binding::new(source, Arc::new(options));
        binding.elsewhere = Some(Box::new(describe));
        Self::of(Shared { first: OnceLock::new(), next: Next::new(), binding }, timeout_ns)
    }

    /// The transport of this process; of a server of its own, `first` is known then.
    fn bind_by(&self, deadline: Instant) -> Result<&AnyBinding, BindError> {
        let transport = &self.shared.binding.bound_by(deadline)?.transport;
        if let AnyBinding::Local(binding) = transport
            && !binding.is_marshaled
        {
            self.shared.first.get_or_init(|| Here::of(binding));
        }
        Ok(transport)
    }

    /// The way that a call of that procedure takes.
    ///
    /// # Errors
    /// The client is not bound yet in this process, and cannot bind within the time of the call.
    #[inline(always)]
    pub fn route(&self, procedure: u16) -> Result<Route<'_, L>, CallError> {
        self.route_within(procedure, self.timeout_ns)
    }

    /// The way that a call takes in an interface with ordered one-way procedures: those that this thread has called return before.
    ///
    /// # Errors
    /// As [`route`](Self::route); and [`CallError::NotSent`] when they have not returned by the call's deadline, or when that is not
    /// known and the procedure is not idempotent.
    #[inline(always)]
    pub fn route_in_order(&self, procedure: u16) -> Result<Route<'_, L>, CallError> {
        let binding = &self.shared.binding;
        let is_marked = binding.order.is_marked();
        let timeout_ns =
            if is_marked { binding.await_order(self.timeout_ns, procedure)? } else { self.timeout_ns };
        self.route_within(procedure, timeout_ns)
    }

    #[inline(always)]
    fn route_within(&self, procedure: u16, timeout_ns: u64) -> Result<Route<'_, L>, CallError> {
        if let Some(carried) = &self.carried {
            return self.route_carrying(procedure, timeout_ns, carried);
        }
        if let Some(here) = self.shared.first.get() {
            return Ok(Route::Local(self.shared.local(here, timeout_ns)));
        }
        match self.shared.binding.transport() {
            Some(transport) => Ok(Route::Remote(Remote::new(transport, timeout_ns))),
            None => self.route_anew(procedure, timeout_ns),
        }
    }

    /// The way of a call that carries metadata: to a server of this process, too, by a message.
    #[cold]
    #[inline(never)]
    fn route_carrying<'a>(
        &'a self,
        procedure: u16,
        timeout_ns: u64,
        carried: &'a Carried,
    ) -> Result<Route<'a, L>, CallError> {
        let (transport, timeout_ns) = self.transport_anew(procedure, timeout_ns)?;
        Ok(Route::Remote(Remote::new(transport, timeout_ns).carrying(carried)))
    }

    /// As [`begin`](Self::begin), for a thread that must not wait: if the client is not bound, the calls wait for that, and another
    /// thread binds.
    #[inline]
    pub fn begin_async(&self) -> Begin<'_> {
        let binding = &self.shared.binding;
        let calls = match binding.calls_at_once() {
            Some(calls) => calls,
            None => self.begin_early(),
        };
        self.carrying(Begin::in_background(calls, self.timeout_ns, binding))
    }

    #[cold]
    fn begin_early(&self) -> Result<AnyCalls, SendError> {
        let shared = Arc::clone(&self.shared);
        self.shared.binding.early_table(|| shared)
    }

    /// The transport of this process for a call of that procedure, bound now if it is not, and the time that is left then.
    fn transport_anew(&self, procedure: u16, timeout_ns: u64) -> Result<(&AnyBinding, u64), CallError> {
        self.try_transport_anew(timeout_ns).map_err(|error| self.shared.binding.name(error, procedure))
    }

    fn try_transport_anew(&self, timeout_ns: u64) -> Result<(&AnyBinding, u64), CallError> {
        if let Some(transport) = self.shared.binding.transport() {
            return Ok((transport, timeout_ns));
        }
        let now_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(now_ns, timeout_ns);
        if deadline_ns <= now_ns {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let transport = self.bind_by(Instant::from_nanos(deadline_ns));
        let transport = transport.map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?;
        Ok((transport, deadline_ns.saturating_sub(clock::now_ns())))
    }

    /// The client is lazy, or its process has been forked.
    #[cold]
    fn route_anew(&self, procedure: u16, timeout_ns: u64) -> Result<Route<'_, L>, CallError> {
        let (transport, timeout_ns) = self.transport_anew(procedure, timeout_ns)?;
        Ok(match self.shared.first.get() {
            Some(here) => Route::Local(self.shared.local(here, timeout_ns)),
            None => Route::Remote(Remote::new(transport, timeout_ns)),
        })
    }
}

impl<L: ?Sized> Client<L> {
    /// The same binding with another time for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout_ns: nanos(timeout), ..self.clone() }
    }

    /// The same binding, whose calls carry these pairs.
    #[must_use]
    pub fn with_metadata(&self, metadata: Metadata) -> Self {
        self.with_carried(Carried::with_metadata(self.carried.as_deref(), metadata))
    }

    /// The same binding, whose results bring their metadata there.
    #[must_use]
    pub fn with_answer_metadata(&self, answer: &AnswerMetadata) -> Self {
        self.with_carried(Carried::with_answer(self.carried.as_deref(), answer))
    }

    /// The same object of a client, whose one-way callbacks take the places of those with this key that have not left.
    #[must_use]
    pub fn with_latest(&self, key: u64) -> Self {
        self.with_carried(Carried::with_latest(self.carried.as_deref(), key))
    }

    fn with_carried(&self, carried: Carried) -> Self {
        Self { carried: Some(Arc::new(carried)), ..self.clone() }
    }

    /// The same binding, whose calls with pipes may take so long as a whole.
    #[must_use]
    pub fn with_total(&self, total: Duration) -> Self {
        Self { total_ns: nanos(total), ..self.clone() }
    }

    /// The same binding, whose receivers of pipes have this window.
    #[must_use]
    pub fn with_window(&self, window: Window) -> Self {
        Self { window, ..self.clone() }
    }

    /// As [`begin`](Self::begin), of a call that starts after this thread's one-way calls have returned.
    pub fn begin_in_order(&self, procedure: u16) -> Begin<'_> {
        let binding = &self.shared.binding;
        if binding.order.is_marked()
            && let Err(CallError::NotSent(why, _)) = binding.await_order(self.timeout_ns, procedure)
        {
            return self.carrying(Begin::new(Err(why), self.timeout_ns, binding));
        }
        self.begin()
    }

    /// The same calls, with the metadata that they carry.
    #[inline]
    fn carrying<'a>(&self, mut begin: Begin<'a>) -> Begin<'a> {
        (begin.window, begin.total_ns) = (self.window, self.total_ns);
        match self.carried.is_some() || goes_on() || begin.is_in_span() {
            true => begin.carrying(|_| self.carried.as_deref().cloned().unwrap_or_default()),
            false => begin,
        }
    }

    /// The binding.
    pub fn binding(&self) -> &Binding {
        &self.shared.binding
    }

    /// Begins calls that no thread waits for yet.
    #[inline]
    pub fn begin(&self) -> Begin<'_> {
        let binding = &self.shared.binding;
        // The first: it binds a lazy client.
        let calls = binding.calls(self.timeout_ns);
        self.carrying(Begin::new(calls, self.timeout_ns, binding))
    }

    /// Sends a one-way call, whose arguments have been written.
    ///
    /// # Errors
    /// It never left, and will not run.
    pub fn tell(&self, call: Beginning<'_>, arguments: Result<usize, EncodeError>) -> Result<(), CallError> {
        call.tell(arguments, None)
    }

    /// As [`tell`](Self::tell); this thread's next call on this binding waits until it has returned.
    ///
    /// # Errors
    /// It never left, and will not run.
    pub fn tell_in_order(
        &self,
        call: Beginning<'_>,
        arguments: Result<usize, EncodeError>,
    ) -> Result<(), CallError> {
        // Marked before: the call may have left though an error is reported.
        self.shared.binding.order.mark();
        call.tell_in_order(arguments)
    }
}
