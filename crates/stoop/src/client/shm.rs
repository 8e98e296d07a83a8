//! Calls through memory that is shared with a server on this machine.
//!
//! A call is a line of a ring, its answer another line, on which the calling thread waits: spinning while the server can run at
//! the same time, asleep otherwise.

mod answer;
mod connect;
mod flight;
mod in_place;
mod lane;
mod session;
mod watch;
mod watcher;

use super::counters::CallCounters;
use super::handshake::{NotBound, Plan};
use super::lanes::{self, Counted, Lanes};
use super::turns::Turns;
use crate::bind::BindOptions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, SendError, UnknownCause};
use crate::stub::Interface;
use connect::connect;
pub(crate) use flight::ShmFlights;
use lane::{Ended, ShmLane, WriteArguments};
use session::Session;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::{Pieces, Writer};
use stoop_net::clock;
use stoop_net::stream::{Credentials, StreamAddress};

/// A binding over shared memory.
pub(crate) struct ShmBinding {
    interface: &'static Interface,
    uri: String,
    server: StreamAddress,
    options: BindOptions,
    /// The present memory, or the last if that is lost.
    session: Mutex<Arc<Session>>,
    /// For replacing it.
    rebinding: Turns,
    lanes: Lanes<ShmLane>,
}

/// A lane held by a call.
pub(super) struct Held<'a> {
    binding: &'a ShmBinding,
    place: lanes::Held<'a, ShmLane>,
}

/// Bindings that one call tries.
const ATTEMPTS: u32 = 3;
/// Below this, the tick of the coarse clock would be felt in a deadline.
const COARSE_ENOUGH_NS: u64 = 1_000_000_000;

impl ShmBinding {
    pub(super) fn bind(
        interface: &'static Interface,
        uri: &str,
        name: &str,
        options: &BindOptions,
    ) -> Result<Self, NotBound> {
        let server = crate::shm_address(name);
        let deadline = Instant::from_nanos(clock::now_ns()) + options.bind_timeout;
        let plan = Plan { interface, uri, address: &server, max_message: options.max_message };
        let session = bound(&plan, deadline, 0)?;
        Ok(Self {
            interface,
            uri: uri.into(),
            server,
            options: options.clone(),
            session: Mutex::new(session),
            rebinding: Turns::default(),
            lanes: Lanes::default(),
        })
    }

    /// Tells this start of the server from others.
    pub(super) fn incarnation(&self) -> u64 {
        self.present().bound.incarnation
    }

    pub(super) fn describe(&self) -> String {
        let session = self.present();
        let server = match session.server {
            Some(Credentials { pid: Some(pid), uid, .. }) => format!("process {pid} of user {uid}"),
            Some(Credentials { uid, .. }) => {
                format!("a process of user {uid} (in a process namespace that is not seen here)")
            }
            None => "a server".into(),
        };
        format!(
            "shared memory with {server}, {}; at most {} bytes of arguments or result; waiting {:?}, \
             and both ends {} run at the same time",
            self.options.reason,
            self.options.max_message,
            self.options.waiting,
            if session.company.together { "can" } else { "cannot" },
        )
    }

    pub(super) fn counters(&self) -> CallCounters {
        self.lanes.counters()
    }

    fn present(&self) -> Arc<Session> {
        Arc::clone(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The calling thread's lane.
    #[inline]
    pub(super) fn hold(&self) -> Result<Held<'_>, CallError> {
        let mut place = self.lanes.hold();
        match &*place {
            Some(lane) => lane.session.requests.expect(&lane.session.segment, 0),
            None => *place = Some(self.lane()?),
        }
        Ok(Held { binding: self, place })
    }

    #[cold]
    fn lane(&self) -> Result<ShmLane, CallError> {
        ShmLane::new(self.present(), self.options.waiting).ok_or_else(no_lane)
    }

    /// Binds again, unless another thread has done so since `lost` was lost.
    fn rebind(&self, lost: &Session, deadline: Instant) -> Result<Arc<Session>, BindError> {
        let now = || Instant::from_nanos(clock::now_ns());
        let begun = now();
        let Some(_turn) = self.rebinding.take(deadline.since(begun)) else {
            return Err(BindError::NoAnswer { server: self.uri.clone(), waited: now().since(begun) });
        };
        let present = self.present();
        if present.generation != lost.generation {
            return Ok(present);
        }
        let plan = Plan {
            interface: self.interface,
            uri: &self.uri,
            address: &self.server,
            max_message: self.options.max_message,
        };
        let deadline = deadline.min(now() + self.options.bind_timeout);
        let session = bound(&plan, deadline, lost.generation + 1).map_err(|not_bound| not_bound.error)?;
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&session);
        Ok(session)
    }
}

/// A new session, watched over.
fn bound(plan: &Plan<'_>, deadline: Instant, generation: u64) -> Result<Arc<Session>, NotBound> {
    let session = Arc::new(connect(plan, deadline, generation)?);
    watch::over(&session).map_err(|cause| BindError::Unreachable { server: plan.uri.into(), cause })?;
    Ok(session)
}

impl Counted for ShmLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters { calls: self.calls, fast: self.fast, ..CallCounters::default() };
        counters.add_waits(self.watcher.counts());
        counters
    }
}

/// The call may have run before its server was lost.
fn unknown(transmissions: u32, begun_ns: u64, cause: UnknownCause) -> CallError {
    let waited = Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns));
    CallError::Unknown { transmissions, waited, cause }
}

fn no_lane() -> CallError {
    let why = "the server owes answers on all lanes of the binding";
    CallError::NotSent(SendError::Io(io::Error::other(why)))
}

/// When a call begins, and its deadline.
///
/// # Errors
/// The deadline that it inherits has passed.
#[inline]
fn begin(timeout_ns: u64) -> Result<(u64, u64), CallError> {
    // The clock is read again when the call is on its way, and that takes no time of it.
    let is_coarse = timeout_ns >= COARSE_ENOUGH_NS;
    let begun_ns = if is_coarse { clock::coarse_now_ns() } else { clock::now_ns() };
    let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
    if deadline_ns <= begun_ns {
        return Err(CallError::NotSent(SendError::DeadlinePassed));
    }
    Ok((begun_ns, deadline_ns))
}

/// How a call is made once more.
enum Again<'r, 'p, 'a> {
    /// As it was sent: so many bytes, and these pieces.
    Sent(usize, &'r mut Pieces<'p, 'a>),
    /// Written anew: its buffers lie nowhere in the memory of another session.
    Written(&'r mut WriteArguments<'a>),
}

impl Again<'_, '_, '_> {
    fn exchange(
        &mut self,
        lane: &mut ShmLane,
        deadline_ns: u64,
        procedure: u16,
        limit: usize,
    ) -> Result<(), Ended> {
        match self {
            Self::Sent(len, pieces) => lane.exchange(deadline_ns, procedure, *len, pieces),
            Self::Written(write) => lane.exchange_in_place(deadline_ns, procedure, limit, write),
        }
    }

    /// Whether some of the arguments may be gone.
    fn is_overwritten(&self, lane: &ShmLane) -> bool {
        match self {
            Self::Sent(_, pieces) => pieces.are_overwritten(),
            Self::Written(_) => lane.lent.is_changed,
        }
    }
}

impl Held<'_> {
    #[inline]
    fn lane(&mut self) -> &mut ShmLane {
        self.place.as_mut().expect("a held place has a lane")
    }

    /// Bytes of the longest arguments.
    #[inline]
    fn limit(&self) -> usize {
        // What travels has 32 bits for its length.
        self.binding.options.max_message.min(u32::MAX as usize)
    }

    #[inline]
    pub(super) fn arguments(&mut self) -> Writer<'_> {
        let limit = self.limit();
        let lane = self.lane();
        lane.trim();
        Writer::new(&mut lane.call, 0, limit)
    }

    #[inline]
    pub(super) fn result(&self) -> &[u8] {
        self.place.as_ref().expect("a held place has a lane").result()
    }

    /// Where the result goes on that did not land in the caller's memory, if some of it did.
    pub(super) fn landed(&self) -> Option<stoop_marshal::Reader<'_>> {
        self.place.as_ref().expect("a held place has a lane").landed()
    }

    /// Sends the call, which has `len` bytes of arguments, and waits for the result.
    #[inline]
    pub(super) fn transport(
        &mut self,
        procedure: u16,
        len: usize,
        timeout_ns: u64,
        pieces: &mut Pieces<'_, '_>,
    ) -> Result<(), CallError> {
        let (begun_ns, deadline_ns) = begin(timeout_ns)?;
        match self.lane().exchange(deadline_ns, procedure, len, pieces) {
            Ok(()) => Ok(()),
            Err(ended) => {
                let again = &mut Again::Sent(len, pieces);
                self.recover(ended, begun_ns, deadline_ns, procedure, again)
            }
        }
    }

    /// The call did not end with a result: binds again where that helps, and explains where it does not.
    #[cold]
    fn recover(
        &mut self,
        mut ended: Ended,
        begun_ns: u64,
        deadline_ns: u64,
        procedure: u16,
        again: &mut Again<'_, '_, '_>,
    ) -> Result<(), CallError> {
        let idempotent = self.binding.interface.procedures[usize::from(procedure)].idempotent;
        let mut transmissions = 0;
        let mut cause = UnknownCause::ConnectionLost;
        for attempt in 1.. {
            match ended {
                // Not this time; but it is idempotent, and may have run with a binding that was lost.
                Ended::With(CallError::NotSent(_) | CallError::Refused(_)) if transmissions > 0 => {
                    return Err(unknown(transmissions, begun_ns, cause));
                }
                Ended::With(error) => return Err(error),
                Ended::Late if transmissions == 0 => {
                    return Err(CallError::Unknown {
                        transmissions: 1,
                        waited: Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns)),
                        cause: UnknownCause::DeadlinePassed,
                    });
                }
                Ended::Late => return Err(unknown(transmissions, begun_ns, cause)),
                Ended::Lost { taken: false } => {}
                Ended::Lost { taken: true } => {
                    transmissions += 1;
                    cause = self.lane().session.cause_of_loss();
                }
            }
            let unknown = unknown(transmissions, begun_ns, cause);
            if transmissions > 0 && (!idempotent || attempt == ATTEMPTS || again.is_overwritten(self.lane()))
            {
                return Err(unknown);
            }
            if attempt == ATTEMPTS {
                let why = io::ErrorKind::ConnectionReset;
                return Err(CallError::NotSent(SendError::Io(why.into())));
            }
            let lost = Arc::clone(&self.lane().session);
            match self.binding.rebind(&lost, Instant::from_nanos(deadline_ns)) {
                Ok(session) if self.lane().adopt(&session) => {}
                _ if transmissions > 0 => return Err(unknown),
                Ok(_) => return Err(no_lane()),
                Err(why) => return Err(CallError::NotSent(SendError::Bind(Box::new(why)))),
            }
            if clock::now_ns() >= deadline_ns {
                return Err(if transmissions > 0 {
                    unknown
                } else {
                    CallError::NotSent(SendError::DeadlinePassed)
                });
            }
            let limit = self.limit();
            match again.exchange(self.lane(), deadline_ns, procedure, limit) {
                Ok(()) => return Ok(()),
                Err(once_more) => ended = once_more,
            }
        }
        unreachable!("attempts are bounded")
    }
}
