//! How a binding follows a name that comes to stand for other addresses.
//!
//! A name is resolved again whenever its client binds again. Packets of a server that has moved away say nothing, so a failed call
//! makes the binding doubt its address; the next call then looks first where the name leads.

use crate::calling::fate::not_bound;
use crate::error::{BindError, CallError, RefusalCode, SendError, UnknownCause};
use crate::intercept::client::ClientChain;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::contract::{IsOurs, Target};
use crate::transport::remote::{Remote, RemoteBinding};
use crate::uri::Scheme;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::threads;

/// The name that a client has bound by.
pub(crate) struct Name<R>(Arc<Owned>, PhantomData<fn() -> R>);

/// A [`Target`] that owns its texts.
struct Owned {
    interface: &'static Interface,
    uri: String,
    scheme: &'static Scheme,
    address: String,
    is_ours: IsOurs,
    options: BindOptions,
}

impl Owned {
    fn target(&self) -> Target<'_> {
        let &Self { interface, ref uri, scheme, ref address, is_ours, ref options } = self;
        Target { interface, uri, scheme, address, is_ours, options }
    }
}

impl<R: Remote> Name<R> {
    pub(crate) fn new(target: &Target<'_>) -> Self {
        let Target { interface, uri, scheme, address, is_ours, options } = *target;
        let (uri, address, options) = (uri.to_owned(), address.to_owned(), options.clone());
        Self(Arc::new(Owned { interface, uri, scheme, address, is_ours, options }), PhantomData)
    }

    /// The addresses for which the name stands now; none if that is not known by `deadline`. The system's resolver knows no deadline,
    /// so that another thread asks it.
    fn resolve(&self, deadline: Instant) -> Vec<R::Address> {
        let (name, (found, addresses)) = (Arc::clone(&self.0), mpsc::sync_channel(1));
        let ask = move || {
            if let Ok(resolved) = R::resolve(&name.target(), deadline) {
                // The thread that wanted to know may have given up.
                let _ = found.send(resolved);
            }
        };
        let asks = threads::start("stoop-resolver", ask);
        let answer = asks.ok().and_then(|_| addresses.recv_timeout(deadline.since(now())).ok());
        answer.unwrap_or_default()
    }
}

/// Why a binding's calls need more care than usual.
pub(crate) struct Care {
    /// The reasons, as bits: one load tells that none is set.
    reasons: AtomicU8,
    pub(crate) interceptors: Option<ClientChain>,
}

const NONE: u8 = 0;
/// The server is perhaps no longer at the address of the present session: a call has had no answer.
const SILENT: u8 = 1;
/// Likewise: no program listens at the server's port.
const CLOSED: u8 = 2;
/// The binding keeps an account of its calls.
const RECORDED: u8 = 4;
/// Its calls go through interceptors.
const INTERCEPTED: u8 = 8;

impl Care {
    /// Of a new binding.
    pub(crate) fn new(is_recorded: bool, interceptors: Option<ClientChain>) -> Self {
        let recorded = if is_recorded { RECORDED } else { NONE };
        let intercepted = if interceptors.is_some() { INTERCEPTED } else { NONE };
        Self { reasons: AtomicU8::new(recorded | intercepted), interceptors }
    }

    /// Whether there is any reason.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) != NONE
    }

    /// Whether each call needs it, and not only those that are recorded.
    #[inline]
    pub(crate) fn is_of_each(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & !RECORDED != NONE
    }

    /// Whether the server's address is doubted.
    #[inline]
    pub(crate) fn is_doubt(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & (SILENT | CLOSED) != NONE
    }

    /// Takes the bits that doubt the server's address.
    fn take_doubt(&self) -> u8 {
        self.reasons.fetch_and(!(SILENT | CLOSED), Ordering::Relaxed) & (SILENT | CLOSED)
    }
}

impl<R: Remote> RemoteBinding<R> {
    /// As [`Sessions::when_replaced`](crate::calling::sessions::Sessions::when_replaced).
    pub(crate) fn when_replaced(&self, then: impl Fn() + Send + Sync + 'static) {
        self.sessions.when_replaced(then);
    }

    /// Whether a call that has ended like this, and so has not run, is made again where the binding's name leads now.
    pub(super) fn may_have_moved(&self, error: &CallError) -> bool {
        self.name.is_some() && matches!(error, CallError::NotSent(why, ..) if is_closed(why))
    }

    /// A call on the session `lost` was refused because its server shuts down, and so has not run: binds by `deadline` to another server,
    /// at another address of the name or, when its sockets have been taken over, at the same.
    ///
    /// # Errors
    /// There is none.
    #[cold]
    pub(crate) fn leave(&self, lost: &R::Session, deadline: Instant) -> Result<(), BindError> {
        R::note_closing(lost);
        let others_first = |before: &R::Address, deadline| {
            let mut addresses = self.addresses(before, deadline);
            let before = before.to_string();
            if let Some(at) = addresses.iter().position(|address| address.to_string() == before) {
                let last = addresses.remove(at);
                addresses.push(last);
            }
            addresses
        };
        self.rebind_at(lost, None, deadline, others_first).map(drop)
    }

    /// A call has waited so long for the binding to be made again, and waits no longer.
    #[cold]
    pub(crate) fn not_bound_within(&self, waited: Duration) -> CallError {
        not_bound(self.sessions.attempts.report(&self.uri, waited))
    }

    /// Notes how a call has failed. Returns whether the reason may be that the server has moved: then
    /// the next call looks first.
    #[cold]
    pub(crate) fn note_failure(&self, error: &CallError) -> bool {
        let doubt = match error {
            CallError::Unknown { cause: UnknownCause::PortClosed, .. } => CLOSED,
            CallError::NotSent(why, ..) if is_closed(why) => CLOSED,
            CallError::Refused(why, ..) if why.code == RefusalCode::ShuttingDown => CLOSED,
            CallError::Unknown {
                cause: UnknownCause::ServerSilent | UnknownCause::DeadlinePassed, ..
            } => SILENT,
            _ => NONE,
        };
        let is_so = doubt != NONE && self.name.is_some();
        if is_so {
            self.care.reasons.fetch_or(doubt, Ordering::Relaxed);
        }
        is_so
    }

    /// If the binding doubts its address: looks where the name leads, and binds there by `deadline` if that is elsewhere.
    #[cold]
    pub(crate) fn look_elsewhere(&self, deadline: Instant) {
        let (doubt, Some(name)) = (self.care.take_doubt(), &self.name) else { return };
        if doubt == NONE {
            return;
        }
        let located = self.located();
        let mut addresses = name.resolve(deadline.min(now() + self.options.bind_timeout));
        let is_here = |address: &R::Address| address.to_string() == located.address.to_string();
        let is_still_there = addresses.iter().any(is_here);
        addresses.retain(|address| !is_here(address));
        // A server that is only silent may be slow: leave it only if the name does.
        if addresses.is_empty() || is_still_there && doubt & CLOSED == 0 {
            return;
        }
        // If that fails, the call is made where the server was.
        let _ = self.rebind_at(&located.session, None, deadline, |_, _| addresses.clone());
    }

    /// Where to bind again after a session at the address `before` was lost: there first, if the name still stands for it, for the
    /// server is probably there again. It is the last resort if the name leads elsewhere.
    pub(super) fn addresses(&self, before: &R::Address, deadline: Instant) -> Vec<R::Address> {
        let mut addresses = self.name.as_ref().map_or_else(Vec::new, |name| name.resolve(deadline));
        let is_before = |address: &R::Address| address.to_string() == before.to_string();
        match addresses.iter().position(is_before) {
            Some(place) => addresses.swap(0, place),
            None => addresses.push(before.clone()),
        }
        addresses
    }
}

/// Whether no program listens at the server's port.
fn is_closed(why: &SendError) -> bool {
    matches!(why, SendError::Bind(why) if matches!(**why, BindError::Unreachable { .. }))
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
