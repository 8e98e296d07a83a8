//! Beginning calls without waiting for them: their arguments are written into a batch, which leaves as a whole.

use crate::account::spans::{BegunSpan, BegunSpans};
use crate::callbacks::Callback;
use crate::calling::begun::{CallBatch, Outcome, PipeTerms};
use crate::calling::detached::OrderedCall;
use crate::client::binding::Binding;
use crate::client::pending::{BegunCall, Pending};
use crate::client::unable::Unable;
use crate::context::nanos;
use crate::error::{CallError, SendError};
use crate::interface::Interface;
use crate::metadata::Metadata;
use crate::metadata::outgoing::{AnswerMetadata, Carried};
use crate::pipes::contract::{Ends, Pipes};
use crate::pipes::ends::CallerEnds;
use crate::pipes::error::PipeError;
use crate::pipes::window::Window;
use crate::transports::AnyCalls;
use crate::transports::carrying::CarryingCalls;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use stoop_marshal::{EncodeError, Form, Writer};
use stoop_net::fork;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// Begins calls, which travel together: they leave when this is dropped, when they fill as much as one system call sends, or
/// when a thread waits for one of them.
#[must_use = "this begins no call yet: call a procedure on it"]
pub struct Begin<'a> {
    /// The table of the calls; the reason, if none can be begun.
    calls: Result<AnyCalls, Box<Unable>>,
    timeout_ns: u64,
    spans: BegunSpans,
    /// The process that began, see [`fork::generation`].
    generation: u32,
    /// Only the background thread sends long arguments.
    in_background: bool,
    /// The window of pipes from procedures, and the time for a whole call with pipes.
    pub(crate) window: Window,
    pub(crate) total_ns: u64,
    /// The calls that have not left; made for the first call.
    batch: RefCell<Option<CallBatch>>,
    binding: &'a Binding,
}

/// A call being begun: its arguments so far.
pub struct Beginning<'a> {
    group: &'a Begin<'a>,
    batch: RefMut<'a, CallBatch>,
    procedure: u16,
}

impl fmt::Debug for Begin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begin").finish_non_exhaustive()
    }
}

impl<'a> Begin<'a> {
    pub(crate) fn new(calls: Result<AnyCalls, SendError>, timeout_ns: u64, binding: &'a Binding) -> Self {
        let calls = calls.map_err(|why| binding.unable(why));
        let (spans, generation, batch) = (binding.begun_spans(), fork::generation(), RefCell::new(None));
        let (in_background, window, total_ns) = (false, Window::default(), u64::MAX);
        Self { calls, timeout_ns, spans, generation, in_background, window, total_ns, batch, binding }
    }

    /// As [`new`](Self::new), for a thread that must not wait for the system to take long arguments.
    pub(crate) fn in_background(
        calls: Result<AnyCalls, SendError>,
        timeout_ns: u64,
        binding: &'a Binding,
    ) -> Self {
        let mut begin = Self::new(calls, timeout_ns, binding);
        begin.in_background = true;
        begin
    }

    /// Lets the calls that were begun so far leave.
    fn submit(&self) {
        if let (Some(batch), Ok(calls)) = (self.batch.take(), &self.calls) {
            calls.submit(batch);
        }
    }

    /// Gives the calls that are begun from now on another timeout; those begun before leave now.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        if self.generation == fork::generation() {
            self.submit();
        }
        self.timeout_ns = nanos(timeout);
        self
    }

    /// The calls that are begun from now on carry these pairs, and no others of the client; those begun before leave now.
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        self.carrying(|carried| Carried::with_metadata(carried, metadata))
    }

    /// The results of the calls that are begun from now on bring their metadata there; those begun before leave now.
    pub fn with_answer_metadata(self, answer: &AnswerMetadata) -> Self {
        self.carrying(|carried| Carried::with_answer(carried, answer))
    }

    /// Whether the calls carry the identity of a span.
    #[inline]
    pub(crate) fn is_in_span(&self) -> bool {
        self.spans.current_span().is_some()
    }

    #[cold]
    pub(crate) fn carrying(mut self, change: impl FnOnce(Option<&Carried>) -> Carried) -> Self {
        if self.generation != fork::generation() {
            return self;
        }
        self.submit();
        let most = self.binding.metadata_max();
        if let Ok(calls) = &mut self.calls {
            let (table, carried) = match &*calls {
                AnyCalls::Carrying(carrying) => (carrying.table.clone(), Some(&carrying.carried)),
                table => (table.clone(), None),
            };
            let span = self.spans.current_span();
            let carrying = CarryingCalls::new(table, change(carried), span.as_ref(), most);
            *calls = AnyCalls::Carrying(Arc::new(carrying));
        }
        self
    }

    /// The number and form in which calls of a procedure are begun, if the server knows it in an older form only.
    pub fn older_form(&self, interface: &'static Interface, procedure: u16) -> Option<(u16, Form)> {
        let number = self.binding.known()?.transport.form(procedure).filter(|number| *number != procedure)?;
        Some((number, interface.form_of_arguments(number)))
    }

    /// Starter: finds a packet for the arguments.
    #[inline]
    pub fn start(&self, procedure: u16) -> Beginning<'_> {
        let batch =
            RefMut::map(self.batch.borrow_mut(), |batch| batch.get_or_insert_with(|| self.open_batch()));
        Beginning { group: self, batch, procedure }
    }

    /// For stubs: the object that the client offers, as its calls name it.
    pub fn callback(&self) -> Callback {
        self.binding.callback()
    }

    /// For stubs: the bytes that the pipe from a procedure may have at first.
    pub fn window(&self) -> u64 {
        self.window.size().bytes()
    }

    #[cold]
    fn open_batch(&self) -> CallBatch {
        match &self.calls {
            Ok(calls) if self.generation == fork::generation() => {
                let mut batch = calls.open_batch(self.timeout_ns);
                batch.in_background = self.in_background;
                batch
            }
            // Nothing leaves with it. However long the arguments are: the caller learns why the call cannot be begun.
            _ => CallBatch::new(vec![0; MAX_DATAGRAM], HEADER_LEN, u32::MAX as usize, self.timeout_ns),
        }
    }
}

#[cold]
fn forked() -> CallError {
    let why = "this process has been forked since `begin` was called; call that again";
    CallError::not_sent(SendError::Io(io::Error::other(why)))
}

impl Drop for Begin<'_> {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // The parent of this process sends the calls in it.
            let none = Unable { why: SendError::Closed, server: String::new() };
            mem::forget(mem::replace(&mut self.calls, Err(Box::new(none))));
        } else {
            self.submit();
        }
    }
}

impl<'a> Beginning<'a> {
    /// The writer of the arguments.
    #[inline]
    pub fn arguments(&mut self) -> Writer<'_> {
        self.batch.arguments()
    }

    /// Transporter: begins the call, and returns its handle. `decode` makes the handle's value of the outcome.
    #[inline]
    pub fn submit<R: 'static>(
        mut self,
        arguments: Result<usize, EncodeError>,
        decode: fn(Outcome<'_>) -> R,
    ) -> Pending<R> {
        let span = self.group.spans.begin(self.procedure);
        match (span, self.begun(arguments)) {
            (None, Ok(call)) => Pending::outstanding(call, decode),
            (span, begun) => handle(&self.group.calls, span, begun, decode),
        }
    }

    /// As [`submit`](Self::submit), for results that can be decoded only with something that the caller knows: the
    /// lengths of slices.
    pub fn submit_with<R>(
        mut self,
        arguments: Result<usize, EncodeError>,
        decode: impl FnMut(Outcome<'_>) -> R + Send + 'static,
    ) -> Pending<R> {
        let span = self.group.spans.begin(self.procedure);
        let begun = self.begun(arguments);
        handle(&self.group.calls, span, begun, decode)
    }

    /// As [`submit`](Self::submit), of a one-way call: it goes on when its handle is dropped.
    #[inline]
    pub fn submit_one_way<R: 'static>(
        mut self,
        arguments: Result<usize, EncodeError>,
        decode: fn(Outcome<'_>) -> R,
    ) -> Pending<R> {
        let span = self.group.spans.begin(self.procedure);
        match (span, self.begun(arguments).map(BegunCall::one_way)) {
            (None, Ok(call)) => Pending::outstanding(call, decode),
            (span, begun) => handle(&self.group.calls, span, begun, decode),
        }
    }

    /// As [`submit`](Self::submit), of a call with these pipes. Returns their ends, too: they exist also if the call could not be begun, and
    /// say then why.
    #[cold]
    pub fn submit_with_pipes<R>(
        mut self,
        arguments: Result<usize, EncodeError>,
        pipes: Pipes,
        decode: impl FnMut(Outcome<'_>) -> R + Send + 'static,
    ) -> (Pending<R>, CallerEnds) {
        let span = self.group.spans.begin(self.procedure);
        let &Begin { ref calls, window, total_ns, generation, .. } = self.group;
        let terms = PipeTerms { pipes, window, total_ns };
        let begun = self.begin_by(arguments, |calls, batch, procedure, len| {
            calls.begin_with_pipes(batch, procedure, len, terms)
        });
        let (begun, ends) = match begun {
            Ok((calls, (call, ends))) => (Ok(BegunCall::new(calls.clone(), call, generation)), ends),
            Err(error) => {
                let ends = Ends::dead(PipeError::Lost(Box::new(name(calls, error.clone()))));
                (Err(error), ends)
            }
        };
        (handle(&self.group.calls, span, begun, decode), CallerEnds::new(ends))
    }

    /// As [`tell`](Self::tell); this thread's next call waits for this one.
    pub(crate) fn tell_in_order(self, arguments: Result<usize, EncodeError>) -> Result<(), CallError> {
        let ordered = OrderedCall::of_this_thread(self.procedure);
        self.tell(arguments, Some(ordered))
    }

    /// Sends the call, at the latest by its deadline, and lets it go on without a handle. `ordered`: this thread's next call is to wait
    /// for it.
    pub(crate) fn tell(
        mut self,
        arguments: Result<usize, EncodeError>,
        ordered: Option<OrderedCall>,
    ) -> Result<(), CallError> {
        let (calls, call) = self.begin(arguments).map_err(|error| name(&self.group.calls, error))?;
        let Self { group, batch, .. } = self;
        drop(batch);
        group.submit();
        calls.let_go(call, ordered).map_err(|error| calls.name(error))
    }

    #[inline]
    fn begin(&mut self, arguments: Result<usize, EncodeError>) -> Result<(&'a AnyCalls, u32), CallError> {
        self.begin_by(arguments, |calls, batch, procedure, len| calls.begin(batch, procedure, len))
    }

    #[inline(always)]
    fn begin_by<C>(
        &mut self,
        arguments: Result<usize, EncodeError>,
        begin: impl FnOnce(&AnyCalls, &mut CallBatch, u16, usize) -> Result<C, CallError>,
    ) -> Result<(&'a AnyCalls, C), CallError> {
        let len = arguments.map_err(|why| CallError::not_sent(SendError::Arguments(why)))?;
        if self.group.generation != fork::generation() {
            return Err(forked());
        }
        let calls = self.group.calls.as_ref().map_err(|unable| CallError::not_sent(unable.why.clone()))?;
        Ok((calls, begin(calls, &mut self.batch, self.procedure, len)?))
    }

    /// Begins the call, which has these arguments.
    #[inline]
    fn begun(&mut self, arguments: Result<usize, EncodeError>) -> Result<BegunCall, CallError> {
        let (calls, call) = self.begin(arguments)?;
        Ok(BegunCall::new(calls.clone(), call, self.group.generation))
    }
}

/// The error of a call of a [`Begin`], with its server. Its stub adds the procedure.
#[cold]
fn name(calls: &Result<AnyCalls, Box<Unable>>, error: CallError) -> CallError {
    match calls {
        Ok(calls) => calls.name(error),
        Err(unable) => error.at(&unable.server),
    }
}

/// The handle of a call that could be begun or not, and may become a span when its outcome is taken.
// Not a method: where it is called, the `Beginning` would have to be in memory.
#[inline(never)]
fn handle<R>(
    calls: &Result<AnyCalls, Box<Unable>>,
    span: Option<BegunSpan>,
    begun: Result<BegunCall, CallError>,
    mut decode: impl FnMut(Outcome<'_>) -> R + Send + 'static,
) -> Pending<R> {
    let begun = begun.map_err(|error| name(calls, error));
    let mut decode = move |outcome: Outcome<'_>| {
        if let Some(span) = &span {
            span.end(outcome.as_ref().err());
        }
        decode(outcome)
    };
    match begun {
        Ok(call) => Pending::decoding(call, Box::new(decode)),
        Err(error) => Pending::ready(decode(Err(error))),
    }
}
