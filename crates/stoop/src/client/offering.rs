//! The object that a client offers to its server, for [callbacks](crate::callbacks): a thread keeps it offered, also after the client was
//! bound again.

use crate::callbacks::session::{Session, SessionEnds};
use crate::callbacks::{Callback, PIPES};
use crate::client::begin::{Begin, Beginning};
use crate::client::offered_object::Offering;
use crate::client::{Client, Shared};
use crate::context::nanos;
use crate::error::{BindError, CallError, RefusalCode, SendError, UnknownCause};
use crate::interface::{Exported, Interface};
use crate::locked::locked;
use crate::options::BindOptions;
use crate::options::callbacks::{AfterBind, CallbackOptions};
use crate::pipes::error::PipeError;
use crate::pipes::receiver::Received;
use crate::pipes::window::Window;
use crate::transports::AnyBinding;
use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use stoop_calls::callbacks::record::{CallHead, CallKind};
use stoop_exchange::Instant;
use stoop_marshal::EncodeError;
use stoop_net::{clock, threads};

/// An emitted client.
pub trait OfClient: Clone + Send + Sync + 'static {
    /// The trait by which threads of the server's process call it.
    type Here: ?Sized + Send + Sync + 'static;

    /// The interface.
    fn interface() -> &'static Interface;

    /// Makes it.
    fn of_client(client: Client<Self::Here>) -> Self;
}

/// Callbacks.
impl BindOptions {
    /// The client offers this object to its server, whose procedures can call it: the server half of the interface that
    /// `#[stoop::interface(callback = …)]` names. It is offered when the client is bound, and again when it was bound again.
    pub fn callback(mut self, offered: impl Exported) -> Self {
        self.callbacks.offered = Some(Arc::new(offered));
        self
    }

    /// So many callbacks run at the same time. One unless set, so that they run in the order in which they were made.
    pub fn callback_threads(mut self, threads: usize) -> Self {
        self.callbacks.threads = Some(threads);
        self
    }

    /// Runs when the client has offered its object ([`callback`](Self::callback)): before binding returns, and whenever the client was
    /// bound again, in another thread. What the server forgets when it is started again can be told it here. If it fails, binding fails,
    /// or is tried again later.
    pub fn after_bind<C: OfClient, E: Debug>(
        mut self,
        run: impl Fn(&C) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.after_bind =
            Some(Arc::new(move |client: &dyn Any| match client.downcast_ref::<Client<C::Here>>() {
                Some(client) => run(&C::of_client(client.clone())).map_err(|why| format!("{why:?}")),
                None => Err("what after_bind runs is for the client of another interface".into()),
            }));
        self
    }
}

/// Whether the options fit to the callbacks of an interface.
pub(super) fn check(
    interface: &'static Interface,
    uri: &str,
    options: &BindOptions,
) -> Result<(), BindError> {
    let CallbackOptions { offered, after_bind, .. } = &options.callbacks;
    let wrong = |why: String| Err(BindError::Callbacks { server: uri.into(), why });
    match (offered, interface.callback) {
        (None, _) if after_bind.is_some() => wrong(
            "BindOptions::after_bind is for clients that offer an object; add BindOptions::callback".into(),
        ),
        (Some(_), None) => wrong(format!(
            "the interface {} has no callbacks; declare it with `#[stoop::interface(callback = …)]`, or leave out BindOptions::callback",
            interface.name
        )),
        (Some(offered), Some(expected)) if !is_same(offered.interface(), expected()) => wrong(format!(
            "BindOptions::callback has an object of the interface {}, and callers of {} offer one of {}",
            offered.interface().name,
            interface.name,
            expected().name
        )),
        _ => Ok(()),
    }
}

fn is_same(one: &'static Interface, other: &'static Interface) -> bool {
    std::ptr::eq(one, other) || one.known_forms() == other.known_forms()
}

/// Between two attempts to offer the object again.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A client that offers an object.
trait Offers: Send + Sync {
    /// Binds again, if the binding was lost: by a call that the server refuses. One with pipes does not.
    fn bind_again(&self) -> Result<(), CallError>;

    /// Begins a call in whose pipes callbacks travel.
    fn open(&self, offering: &Offering) -> Result<Arc<Session>, CallError>;

    fn after_bind(self: Arc<Self>, run: &AfterBind) -> Result<(), String>;
}

impl<L: ?Sized + Send + Sync + 'static> Client<L> {
    /// Offers the client's object, if it has one; of a lazy client in another thread.
    pub(super) fn begin_offering(&self) -> Result<(), BindError> {
        let Some(own) = &self.shared.binding.offering else { return Ok(()) };
        let (offering, client) = (&own.offering, Arc::clone(&self.shared) as Arc<dyn Offers>);
        let failed = |why: String| BindError::Callbacks { server: self.binding().uri().into(), why };
        let first = match self.binding().is_lazy() {
            true => None,
            false => Some(self.open_first(offering).map_err(|why| failed(why.to_string()))?),
        };
        if let Some(session) = &first {
            offering.begins(session);
        }
        let is_offered = first.is_some();
        let (kept, weak) = (Arc::clone(offering), Arc::downgrade(&client));
        let started = threads::start("stoop-callback", move || kept.keep(&weak, first));
        started.map_err(|why| failed(why.to_string()))?;
        match &offering.after_bind {
            Some(run) if is_offered => client.after_bind(run).map_err(failed),
            _ => Ok(()),
        }
    }
}

impl<L: ?Sized + Send + Sync + 'static> Client<L> {
    /// Opens the first session. The server may end when the client has just been bound: one that waits for a server offers its object to
    /// the next.
    fn open_first(&self, offering: &Offering) -> Result<Arc<Session>, CallError> {
        let until = Instant::from_nanos(clock::now_ns()) + self.binding().time_to_bind();
        let mut pause = PAUSE_MIN;
        loop {
            let why = match self.shared.open(offering) {
                Ok(session) => return Ok(session),
                Err(why) => why,
            };
            let may_pass = match &why {
                CallError::Refused(why, ..) => why.code == RefusalCode::ShuttingDown,
                CallError::NotSent(SendError::Bind(why), ..) => why.may_pass(),
                _ => true,
            };
            let is_early = Instant::from_nanos(clock::now_ns()) < until;
            if !(self.binding().waits_for_server() && may_pass && is_early) {
                return Err(why);
            }
            offering.rest(&mut pause);
            // If it fails, so does the next attempt, which says why.
            let _ = self.shared.bind_again();
        }
    }
}

impl<L: ?Sized + Send + Sync + 'static> Shared<L> {
    /// Begins calls that have the time of a bind.
    fn begin_offer(&self) -> Begin<'_> {
        let within = self.binding.time_to_bind();
        let deadline = Instant::from_nanos(clock::now_ns()) + within;
        Begin::new(self.binding.calls_by(deadline), nanos(within), &self.binding)
    }
}

/// Writes the arguments of the procedure that carries callbacks.
fn write(call: &mut Beginning<'_>, client: u64) -> Result<usize, EncodeError> {
    let mut arguments = call.arguments();
    arguments.value(&Callback { client });
    arguments.value::<u64>(&Window::default().size().bytes());
    arguments.finish()
}

impl<L: ?Sized + Send + Sync + 'static> Offers for Shared<L> {
    fn bind_again(&self) -> Result<(), CallError> {
        let begin = self.begin_offer();
        let mut call = begin.start(self.binding.carrying_procedure());
        let written = write(&mut call, 0);
        let refused = call.submit(written, |outcome| outcome.map(|_| ()));
        drop(begin);
        match refused.wait() {
            Ok(()) | Err(CallError::Refused(..)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open(&self, offering: &Offering) -> Result<Arc<Session>, CallError> {
        let (begin, within) = (self.begin_offer(), self.binding.time_to_bind());
        let number = self.binding.carrying_procedure();
        let mut call = begin.start(number);
        let written = write(&mut call, offering.client);
        let (pending, ends) = call.submit_with_pipes(written, PIPES, |outcome| outcome.map(|_| ()));
        drop(begin);
        let ended = || CallError::not_sent(SendError::Closed);
        let mut ends = SessionEnds::of(ends.into_ends()).ok_or_else(ended)?;
        match ends.receiver.recv_timeout(within) {
            Ok(Received::Item(record)) if is_accepted(&record) => {
                let is_here = matches!(self.binding.transport(), Some(AnyBinding::Local(_)));
                let session = (&offering.exports, offering.threads, self.binding.agreed_on(number));
                Ok(Session::new(session, ends, Box::new(pending), is_here.then_some(offering.client)))
            }
            Ok(Received::Nothing) => {
                let (waited, cause) = (within, UnknownCause::DeadlinePassed);
                Err(CallError::Unknown { transmissions: 1, waited, cause, callee: None })
            }
            Err(PipeError::Lost(why)) => Err(*why),
            Ok(_) | Err(_) => Err(pending.wait().err().unwrap_or_else(ended)),
        }
    }

    fn after_bind(self: Arc<Self>, run: &AfterBind) -> Result<(), String> {
        let timeout_ns = nanos(self.binding.timeout());
        run(&Client::of_shared(self, timeout_ns))
    }
}

fn is_accepted(record: &[u8]) -> bool {
    CallHead::split(record).is_ok_and(|(head, _)| head.kind == CallKind::Accepted)
}

impl Offering {
    /// Runs callbacks, and offers the object again when a session has ended, until the client is dropped.
    fn keep(self: &Arc<Self>, client: &Weak<dyn Offers>, first: Option<Arc<Session>>) {
        let (mut session, mut pause) = (first, PAUSE_MIN);
        loop {
            if let Some(session) = session.take() {
                let begun_ns = clock::now_ns();
                let served = session.serve();
                self.ends(&session);
                if served.is_ok() && clock::now_ns() - begun_ns > nanos(PAUSE_MAX) {
                    pause = PAUSE_MIN;
                }
                self.rest(&mut pause);
            }
            let Some(client) = client.upgrade().filter(|_| !self.is_over.load(Ordering::SeqCst)) else {
                return;
            };
            let bound = client.bind_again();
            // The program may have dropped it meanwhile.
            if Arc::strong_count(&client) == 1 {
                return;
            }
            match bound.and_then(|()| client.open(self)) {
                Ok(opened) => {
                    self.begins(&opened);
                    self.run_after_bind(client, &opened);
                    session = Some(opened);
                }
                Err(_) => {
                    drop(client);
                    self.rest(&mut pause);
                }
            }
        }
    }

    /// Runs what is to run after a bind, in another thread: the server may call back meanwhile. If it fails, the object is offered again.
    fn run_after_bind(self: &Arc<Self>, client: Arc<dyn Offers>, session: &Arc<Session>) {
        let Some(run) = self.after_bind.clone() else { return };
        let offered = Arc::clone(session);
        let started = threads::start("stoop-callback", move || {
            if client.after_bind(&run).is_err() {
                offered.end();
            }
        });
        if started.is_err() {
            session.end();
        }
    }

    /// Waits for a while, and longer the next time, or until the client is dropped.
    fn rest(&self, pause: &mut Duration) {
        let session = locked(&self.session);
        if !self.is_over.load(Ordering::SeqCst) {
            let waited = self.ended.wait_timeout(session, *pause);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        *pause = (2 * *pause).min(PAUSE_MAX);
    }
}
