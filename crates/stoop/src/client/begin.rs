//! What begins calls: their arguments are written here, and leave together.

use crate::calling::begun::Outcome;
use crate::calling::begun::{CallBatch, OutstandingCalls};
use crate::calling::completion_table::CompletionTable;
use crate::calling::detached::CallingThread;
use crate::calling::unavailable::unavailable;
use crate::client::calls_ref::CallsRef;
use crate::client::pending::{BegunCall, Pending};
use crate::context::nanos;
use crate::error::{CallError, SendError};
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use stoop_marshal::{EncodeError, Writer};
use stoop_net::fork;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM, PACKET_DATA};

/// Begins calls, which travel together: they leave when this is dropped, when they fill what one system call sends, or
/// when one of them is waited for.
pub struct Begin<'a> {
    calls: Arc<dyn OutstandingCalls>,
    completions: Option<&'static CompletionTable>,
    timeout_ns: u64,
    /// The process that the calls is in, see [`fork::generation`].
    generation: u32,
    /// Made for the first call.
    departure: RefCell<Option<CallBatch>>,
    client: PhantomData<&'a ()>,
}

/// A call being begun: its arguments so far.
pub struct Beginning<'a> {
    calls: &'a Arc<dyn OutstandingCalls>,
    completions: Option<&'static CompletionTable>,
    departure: RefMut<'a, CallBatch>,
    /// What `departure` is part of.
    departing: &'a RefCell<Option<CallBatch>>,
    procedure: u16,
    generation: u32,
}

impl fmt::Debug for Begin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begin").finish_non_exhaustive()
    }
}

impl Begin<'_> {
    pub(crate) fn new(calls: Arc<dyn OutstandingCalls>, timeout_ns: u64) -> Self {
        let (generation, completions) = (fork::generation(), calls.completions());
        Self {
            calls,
            completions,
            timeout_ns,
            generation,
            departure: RefCell::new(None),
            client: PhantomData,
        }
    }

    /// Gives the calls that are begun from now on another time; those begun before leave now.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        if self.generation == fork::generation()
            && let Some(departure) = self.departure.take()
        {
            self.calls.send(departure);
        }
        self.timeout_ns = nanos(timeout);
        self
    }

    /// Starter: finds a packet for the arguments.
    #[inline]
    pub fn start(&self, procedure: u16) -> Beginning<'_> {
        let Self { calls, completions, .. } = self;
        let departure = RefMut::map(self.departure.borrow_mut(), |departure| {
            departure.get_or_insert_with(|| match self.generation == fork::generation() {
                true => calls.open_batch(self.timeout_ns),
                // Nothing will leave with it.
                false => CallBatch::new(vec![0; MAX_DATAGRAM], HEADER_LEN, PACKET_DATA, self.timeout_ns),
            })
        });
        let departing = &self.departure;
        Beginning {
            calls,
            completions: *completions,
            departure,
            departing,
            procedure,
            generation: self.generation,
        }
    }
}

#[cold]
fn forked() -> CallError {
    let why = "this process has been forked since `begin` was called; call that again";
    CallError::NotSent(SendError::Io(io::Error::other(why)))
}

impl Drop for Begin<'_> {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // What is in it, the parent of this process sends.
            mem::forget(mem::replace(&mut self.calls, unavailable(SendError::Closed)));
        } else if let Some(departure) = self.departure.take() {
            self.calls.send(departure);
        }
    }
}

impl Beginning<'_> {
    /// Where the arguments go.
    #[inline]
    pub fn arguments(&mut self) -> Writer<'_> {
        self.departure.arguments()
    }

    /// Transporter: lets the call go, and gives the handle of it. `decode` makes of its outcome what the handle gives.
    #[inline]
    pub fn launch<R>(
        mut self,
        arguments: Result<usize, EncodeError>,
        decode: fn(Outcome<'_>) -> R,
    ) -> Pending<R> {
        match self.begin(arguments) {
            Ok(call) => Pending::in_flight(self.flight(call), decode),
            Err(error) => Pending::ready(decode(Err(error))),
        }
    }

    /// As [`launch`](Self::launch), for results that are no results without something that only the caller knows: the
    /// lengths of slices.
    pub fn launch_with<R>(
        mut self,
        arguments: Result<usize, EncodeError>,
        mut decode: impl FnMut(Outcome<'_>) -> R + Send + 'static,
    ) -> Pending<R> {
        match self.begin(arguments) {
            Ok(call) => Pending::decoding(self.flight(call), Box::new(decode)),
            Err(error) => Pending::ready(decode(Err(error))),
        }
    }

    /// As [`launch`](Self::launch), of a one-way call: to drop the handle lets it go on.
    #[inline]
    pub fn launch_one_way<R>(
        mut self,
        arguments: Result<usize, EncodeError>,
        decode: fn(Outcome<'_>) -> R,
    ) -> Pending<R> {
        match self.begin(arguments) {
            Ok(call) => Pending::in_flight(self.flight(call).one_way(), decode),
            Err(error) => Pending::ready(decode(Err(error))),
        }
    }

    /// Sends the call, at the latest by its deadline, and lets it go on without a handle. `calling_thread` is the calling thread, if its
    /// next call is to wait for this one.
    pub(crate) fn tell(
        mut self,
        arguments: Result<usize, EncodeError>,
        calling_thread: Option<CallingThread>,
    ) -> Result<(), CallError> {
        let call = self.begin(arguments)?;
        let Self { calls, departure, departing, .. } = self;
        drop(departure);
        if let Some(departure) = departing.take() {
            calls.send(departure);
        }
        calls.let_go(call, calling_thread)
    }

    #[inline]
    fn begin(&mut self, arguments: Result<usize, EncodeError>) -> Result<u32, CallError> {
        let len = arguments.map_err(|why| CallError::NotSent(SendError::Arguments(why)))?;
        if self.generation != fork::generation() {
            return Err(forked());
        }
        self.calls.begin(&mut self.departure, self.procedure, len)
    }

    /// That of a call that has been begun.
    #[inline]
    fn flight(&self, call: u32) -> BegunCall {
        let calls = CallsRef::of(self.calls, self.completions);
        BegunCall::new(calls, call, self.generation)
    }
}
