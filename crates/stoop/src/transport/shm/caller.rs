//! Calls through memory that is shared with a server on this machine.
//!
//! A call is one line of a ring, its answer another line. The calling thread waits for that line: it spins while the server can run
//! at the same time, and sleeps otherwise.

pub(crate) mod connect;
pub(crate) mod deadline;
pub(crate) mod death_watch;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod published;
pub(crate) mod result_wait;
pub(crate) mod session;

use crate::buffers::WriteArguments;
use crate::calling::counters::CallCounters;
use crate::calling::handshake::{NotBound, Plan};
use crate::calling::lanes::{Counted, LaneGuard, Lanes};
use crate::calling::recovery::{ATTEMPTS, Attempts, CallTerms, Ended, no_lane, recover};
use crate::calling::sessions::Sessions;
use crate::error::{BindError, CallError, InPlaceError, UnknownCause};
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::contract::{Binding, Lane, Target};
use crate::transport::shm::address::socket_address;
use crate::transport::shm::caller::connect::connect;
use crate::transport::shm::caller::deadline::{Deadline, begin};
use crate::transport::shm::caller::lane::ShmLane;
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::options::ShmOptions;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::clock;
use stoop_net::stream::{Credentials, StreamAddress};
use stoop_shm::{InPlace, Number};

/// A binding over shared memory.
pub(crate) struct ShmBinding {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    pub(crate) server: StreamAddress,
    pub(crate) options: BindOptions,
    own: ShmOptions,
    pub(crate) sessions: Sessions<Session>,
    lanes: Lanes<ShmLane>,
}

/// A lane held by a call.
pub(crate) struct HeldLane<'a> {
    binding: &'a ShmBinding,
    guard: LaneGuard<'a, ShmLane>,
}

impl ShmBinding {
    pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self, NotBound> {
        let Target { interface, uri, options, .. } = *target;
        let own: ShmOptions = options.own.of();
        let server = socket_address(target.address);
        let plan =
            Plan { interface, uri, address: &server, max_message: options.max_message, trusted: &own.users };
        let session = bound(&plan, deadline, 0)?;
        Ok(Self {
            interface,
            uri: uri.into(),
            server,
            options: options.clone(),
            own,
            sessions: Sessions::new(session),
            lanes: Lanes::default(),
        })
    }

    pub(crate) fn present(&self) -> Arc<Session> {
        self.sessions.present()
    }

    #[cold]
    fn lane(&self) -> Result<ShmLane, CallError> {
        ShmLane::new(self.present(), self.options.waiting).ok_or_else(no_lane)
    }

    /// Binds again, unless another thread has done so since `lost` was lost.
    pub(crate) fn rebind(&self, lost: &Session, deadline: Instant) -> Result<Arc<Session>, BindError> {
        let plan = Plan {
            interface: self.interface,
            uri: &self.uri,
            address: &self.server,
            max_message: self.options.max_message,
            trusted: &self.own.users,
        };
        let bind =
            |deadline, generation| bound(&plan, deadline, generation).map_err(|not_bound| not_bound.error);
        self.sessions.replace(lost, &self.uri, deadline, self.options.bind_timeout, bind)
    }
}

impl Binding for ShmBinding {
    type Lane<'a> = HeldLane<'a>;

    #[inline]
    fn hold(&self) -> Result<HeldLane<'_>, CallError> {
        let mut guard = self.lanes.hold();
        match &*guard {
            Some(lane) => lane.session.requests.expect(&lane.session.segment, 0),
            None => *guard = Some(self.lane()?),
        }
        Ok(HeldLane { binding: self, guard })
    }

    fn describe(&self) -> String {
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
            if session.placement.together { "can" } else { "cannot" },
        )
    }

    fn counters(&self) -> CallCounters {
        self.lanes.counters()
    }

    fn incarnation(&self) -> u64 {
        self.present().bound.incarnation
    }

    fn describe_buffers(&self) -> String {
        match &self.present().arena {
            Some(arena) => {
                format!(
                    "; buffers lie in memory of both, {} bytes, of which {} are free",
                    arena.len(),
                    arena.free()
                )
            }
            None => {
                "; buffers are copied, because the server gives no memory for them (`ShmOptions::in_place`)"
                    .into()
            }
        }
    }

    fn describe_checksums(&self) -> &'static str {
        "; no checksums, because nothing lies between the two ends"
    }

    fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        for _ in 0..ATTEMPTS {
            let mut session = self.present();
            if session.is_lost() {
                let deadline = Instant::from_nanos(clock::now_ns()) + self.options.bind_timeout;
                let bound = self.rebind(&session, deadline);
                session = bound.map_err(|why| InPlaceError::Unbound(Box::new(why)))?;
            }
            let Some(arena) = &session.arena else { return Ok(InPlace::private(len)) };
            session.release_withheld();
            let allocated = arena.allocate(len);
            // Asked afterwards: the calls of a session that is lost have given back what their procedures may still use.
            if !session.is_lost() {
                return allocated.map_err(InPlaceError::Full);
            }
        }
        let cause = io::ErrorKind::ConnectionReset.into();
        Err(InPlaceError::Unbound(Box::new(BindError::Unreachable { server: self.uri.clone(), cause })))
    }
}

/// A new session. From now on it is known when its server dies.
fn bound(plan: &Plan<'_>, deadline: Instant, generation: u64) -> Result<Arc<Session>, NotBound> {
    let session = Arc::new(connect(plan, deadline, generation)?);
    death_watch::add(&session).map_err(|cause| BindError::Unreachable { server: plan.uri.into(), cause })?;
    Ok(session)
}

impl Counted for ShmLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters { calls: self.calls, fast: self.fast, ..CallCounters::default() };
        counters.add_waits(self.result_wait.counts());
        counters
    }
}

/// How a call is made once more.
enum Again<'r, 'p, 'a> {
    /// As it was sent: with so many bytes of arguments, some of which may be borrowed.
    Sent(usize, &'r mut GatherList<'p, 'a>),
    /// Written again: its buffers lie nowhere in the memory of another session.
    Written(&'r mut WriteArguments<'a>),
}

impl Lane for HeldLane<'_> {
    const CAN_GATHER: bool = true;

    #[inline]
    fn arguments(&mut self) -> Writer<'_> {
        let limit = self.limit();
        let lane = self.lane();
        lane.trim();
        Writer::new(&mut lane.arguments, 0, limit)
    }

    #[inline]
    fn transport(&mut self, procedure: u16, len: usize, timeout_ns: u64) -> Result<(), CallError> {
        self.transport_gathered(procedure, len, timeout_ns, &mut GatherList::none())
    }

    #[inline]
    fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        timeout_ns: u64,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        let (begun_ns, deadline) = begin(timeout_ns)?;
        match self.lane().exchange(deadline, procedure, len, gathered) {
            Ok(()) => Ok(()),
            Err(ended) => {
                self.recover(ended, begun_ns, deadline.latest_ns, procedure, Again::Sent(len, gathered))
            }
        }
    }

    #[inline]
    fn result(&self) -> &[u8] {
        self.lane_made().result()
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        self.lane_made().scattered()
    }

    fn transport_with_buffers(
        &mut self,
        procedure: u16,
        timeout_ns: u64,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), CallError> {
        let (begun_ns, deadline) = begin(timeout_ns)?;
        let limit = self.limit();
        let lane = self.lane();
        lane.trim();
        let ended = match lane.exchange_in_place(deadline, procedure, limit, write) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun_ns, deadline.latest_ns, procedure, Again::Written(write)),
        };
        self.lane().named.clear();
        ended
    }

    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        self.lane_made().session.arena.as_ref().is_some_and(|arena| buffer.place_in(arena).is_some())
    }
}

impl HeldLane<'_> {
    #[inline]
    fn lane(&mut self) -> &mut ShmLane {
        self.guard.as_mut().expect("a held lane is there")
    }

    fn lane_made(&self) -> &ShmLane {
        self.guard.as_ref().expect("a held lane is there")
    }

    /// Longest arguments, in bytes.
    #[inline]
    fn limit(&self) -> usize {
        // A request has 32 bits for the length of its message.
        self.binding.options.max_message.min(u32::MAX as usize)
    }

    /// The call did not end with a result.
    #[cold]
    fn recover(
        &mut self,
        ended: Ended,
        begun_ns: u64,
        deadline_ns: u64,
        procedure: u16,
        again: Again<'_, '_, '_>,
    ) -> Result<(), CallError> {
        let idempotent = self.binding.interface.procedures[usize::from(procedure)].idempotent;
        let terms = CallTerms { begun_ns, deadline_ns, idempotent };
        recover(&mut Repeated { held: self, procedure, again }, ended, &terms)
    }
}

/// A call that is made once more.
struct Repeated<'h, 'b, 'r, 'p, 'a> {
    held: &'h mut HeldLane<'b>,
    procedure: u16,
    again: Again<'r, 'p, 'a>,
}

impl Attempts for Repeated<'_, '_, '_, '_, '_> {
    fn rebind(&mut self, deadline: Instant) -> Result<bool, BindError> {
        let lost = Arc::clone(&self.held.lane().session);
        let session = self.held.binding.rebind(&lost, deadline)?;
        Ok(self.held.lane().adopt(&session))
    }

    fn attempt(&mut self, _: u64, deadline_ns: u64) -> Result<(), Ended> {
        let limit = self.held.limit();
        let deadline = Deadline::exact(deadline_ns);
        let lane = self.held.lane();
        match &mut self.again {
            Again::Sent(len, gathered) => lane.exchange(deadline, self.procedure, *len, gathered),
            Again::Written(write) => lane.exchange_in_place(deadline, self.procedure, limit, write),
        }
    }

    fn cause_of_loss(&self) -> UnknownCause {
        self.held.lane_made().session.cause_of_loss()
    }

    fn is_overwritten(&self) -> bool {
        match &self.again {
            Again::Sent(_, gathered) => gathered.are_overwritten(),
            Again::Written(_) => self.held.lane_made().named.is_changed,
        }
    }
}
