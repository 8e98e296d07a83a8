//! Clients of a server of their own process: which it is now, and a call of it through the trait.

use crate::calling::counters::CallCounters;
use crate::calling::lanes::{Counted, Lanes};
use crate::context::{Caller, begin_cheaply, is_too_late, noting_asked, serving};
use crate::error::{BindError, CallError, Failure, FailureCode, SendError};
use crate::interface::{Interface, Procedure};
use crate::serving::dispatch::panic_message;
use crate::transport::local;
use crate::transport::local::LocalServer;
use crate::uri::Uri;
use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::fingerprint;

/// Where a client looks for a server of its own process.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    /// Whether an exported object has the client's type.
    is_ours: fn(&(dyn Any + Send + Sync)) -> bool,
}

/// A server of this process, whose type was checked when it was found.
#[derive(Clone)]
pub(crate) struct InProcess {
    object: Arc<dyn Any + Send + Sync>,
    listening: Arc<LocalServer>,
}

impl Source {
    pub(crate) fn interface(&self) -> &'static Interface {
        self.interface
    }

    /// For clients whose calls go to an `Arc<L>`.
    pub(crate) fn of<L: ?Sized + 'static>(interface: &'static Interface, uri: &str) -> Self {
        Self { interface, uri: uri.into(), is_ours: |object| object.is::<Arc<L>>() }
    }

    /// The server of that name.
    pub(crate) fn find(&self, name: &str) -> Result<InProcess, BindError> {
        let (interface, server) = (self.interface, self.uri.clone());
        let Some(listening) = local::find(name) else {
            let cause = io::Error::new(io::ErrorKind::NotFound, "no server of this process has that name");
            return Err(BindError::Unreachable { server, cause });
        };
        let Some(export) = listening.export(interface) else {
            let exported = listening.names();
            return Err(BindError::NoSuchInterface { server, interface: interface.name, exported });
        };
        let object: Arc<dyn Any + Send + Sync> = Arc::from(export.local());
        match (self.is_ours)(&*object) {
            true => Ok(InProcess { object, listening }),
            false => Err(mismatch(interface, export.interface(), server)),
        }
    }

    /// The server that has taken the name of one that was shut down.
    pub(crate) fn find_next(&self) -> Result<InProcess, SendError> {
        let (Ok(Uri::Local(name)) | Ok(Uri::Name(name))) = Uri::parse(&self.uri) else {
            unreachable!("only these addresses lead to a server of this process")
        };
        match local::is_taken(&name) {
            true => self.find(&name).map_err(|why| SendError::Bind(Box::new(why))),
            false => Err(SendError::Closed),
        }
    }
}

/// Two traits of one name in one process: says where they differ.
fn mismatch(ours: &'static Interface, theirs: &Interface, server: String) -> BindError {
    let signature = |procedure: &Procedure| (procedure.signature)();
    let of_theirs =
        |name| theirs.procedures.iter().find(|p| p.name == name).map(signature).unwrap_or_default();
    let differs = |p: &&Procedure| fingerprint(&signature(p)) != fingerprint(&of_theirs(p.name));
    match ours.procedures.iter().find(differs) {
        Some(differs) => BindError::Mismatch {
            interface: ours.name,
            procedure: differs.name,
            ours: signature(differs),
            theirs: of_theirs(differs.name),
        },
        None => BindError::Refused {
            server,
            why: "it was built from another trait of the same name; use one trait at both ends",
        },
    }
}

impl InProcess {
    pub(crate) fn listening(&self) -> &Arc<LocalServer> {
        &self.listening
    }

    pub(crate) fn typed<L: ?Sized + 'static>(&self) -> Here<L> {
        let server = self.object.downcast_ref::<Arc<L>>().expect("the type was checked when it was found");
        Here { server: Arc::clone(server), listening: Arc::clone(&self.listening) }
    }
}

/// A server of this process, as calls through its trait need it.
pub(crate) struct Here<L: ?Sized> {
    server: Arc<L>,
    listening: Arc<LocalServer>,
}

/// Such calls are not counted: that would cost more than the call.
impl<L: ?Sized> Counted for Here<L> {
    fn counters(&self) -> CallCounters {
        CallCounters::default()
    }
}

impl<L: ?Sized> Here<L> {
    #[inline]
    fn call<R>(&self, timeout_ns: u64, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
        let Some((_, deadline)) = begin_cheaply(timeout_ns) else {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        };
        let run = AssertUnwindSafe(|| serving(deadline, Caller::Local, || procedure(&self.server)));
        let (ran, asked) = noting_asked(|| catch_unwind(run));
        let returned = ran.map_err(|panic| CallError::Failed(panicked(&*panic)))?;
        if is_too_late(deadline, asked) {
            return Err(CallError::Failed(finished_too_late()));
        }
        Ok(returned)
    }
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    Failure { code: FailureCode::Panicked, detail: panic_message(panic).into() }
}

#[cold]
fn finished_too_late() -> Failure {
    Failure { code: FailureCode::FinishedTooLate, detail: String::new() }
}

/// A call to a server of this process.
pub struct Local<'a, L: ?Sized> {
    source: &'a Source,
    /// The servers that had its name later, as each thread last found them.
    next: &'a Lanes<Here<L>>,
    here: &'a Here<L>,
    timeout_ns: u64,
}

impl<L: ?Sized> fmt::Debug for Local<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("timeout", &Duration::from_nanos(self.timeout_ns))
            .finish_non_exhaustive()
    }
}

impl<'a, L: ?Sized + 'static> Local<'a, L> {
    #[inline]
    pub(crate) fn new(
        source: &'a Source,
        next: &'a Lanes<Here<L>>,
        here: &'a Here<L>,
        timeout_ns: u64,
    ) -> Self {
        Self { source, next, here, timeout_ns }
    }

    /// Calls `procedure` with the server.
    ///
    /// # Errors
    /// The server has been shut down and no other has its name, an inherited deadline has passed, the procedure panicked, or it
    /// returned at or after the deadline.
    #[inline]
    pub fn call<R>(self, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
        match self.here.listening.is_open() {
            true => self.here.call(self.timeout_ns, procedure),
            false => self.call_next(procedure),
        }
    }

    /// The server to which the client was bound first has been shut down: calls the one that has its name now. Each thread keeps
    /// that at a place of its own, so that threads share no lock.
    #[cold]
    fn call_next<R>(self, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
        let source = self.source;
        let find = || source.find_next().map(|server| server.typed()).map_err(CallError::NotSent);
        let Some(mut place) = self.next.try_hold() else {
            return find()?.call(self.timeout_ns, procedure);
        };
        let here = match place.take() {
            Some(here) if here.listening.is_open() => here,
            lost => {
                drop(lost);
                find()?
            }
        };
        place.insert(here).call(self.timeout_ns, procedure)
    }
}
