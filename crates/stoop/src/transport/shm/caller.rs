//! Calls through memory that is shared with a server on this machine.
//!
//! A call is one line of a ring, its answer another line. The calling thread waits for that line: it spins while the server can run
//! at the same time, and sleeps otherwise.

pub(crate) mod connect;
pub(crate) mod death_watch;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod published;
pub(crate) mod result_wait;
pub(crate) mod session;

use crate::buffers::WriteArguments;
use crate::calling::counters::CallCounters;
use crate::calling::deadline::CallTimes;
use crate::calling::handshake::NotBound;
use crate::calling::lanes::Counted;
use crate::calling::recovery::{Ended, Loss, no_lane};
use crate::error::{BindError, CallError, InPlaceError};
use crate::transport::contract::Target;
use crate::transport::remote::{
    Connected, Plan, Remote, RemoteBinding, RemoteLane, Replaced, next_generation,
};
use crate::transport::shm::ShmTransport;
use crate::transport::shm::address::socket_address;
use crate::transport::shm::caller::connect::connect;
use crate::transport::shm::caller::lane::ShmLane;
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::options::ShmOptions;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::outcome::ATTEMPTS_MAX;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::clock;
use stoop_net::stream::{Credentials, StreamAddress};
use stoop_shm::{InPlace, Number};

/// A binding over shared memory.
pub(crate) type ShmBinding = RemoteBinding<ShmTransport>;

impl Remote for ShmTransport {
    type Address = StreamAddress;
    type Options = ShmOptions;
    type Session = Session;
    type Lane = ShmLane;

    const CHECKSUMS: &'static str = "; no checksums, because nothing lies between the two ends";

    fn resolve(target: &Target<'_>) -> io::Result<Vec<StreamAddress>> {
        Ok(vec![socket_address(target.address)])
    }

    fn connect(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        replaced: Option<Replaced<'_, Session>>,
    ) -> Result<Connected<Self>, NotBound> {
        let session = Arc::new(connect(plan, deadline, next_generation(replaced.as_ref()))?);
        let unreachable = |cause| BindError::Unreachable { server: plan.uri.into(), cause };
        death_watch::add(&session).map_err(unreachable)?;
        Ok((session, None))
    }

    fn describe(plan: &Plan<'_, Self>, session: &Session) -> String {
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
            plan.options.reason,
            plan.options.max_message,
            plan.options.waiting,
            if session.placement.together { "can" } else { "cannot" },
        )
    }

    fn describe_buffers(session: &Session) -> String {
        match &session.arena {
            Some(arena) => {
                let (len, free) = (arena.len(), arena.free());
                format!("; buffers lie in memory of both, {len} bytes, of which {free} are free")
            }
            None => {
                "; buffers are copied, because the server gives no memory for them (`ShmOptions::in_place`)"
                    .into()
            }
        }
    }

    fn incarnation(session: &Session) -> u64 {
        session.bound.incarnation
    }

    fn in_place<T: Number>(binding: &ShmBinding, len: usize) -> Result<InPlace<T>, InPlaceError> {
        for _ in 0..ATTEMPTS_MAX {
            let mut session = binding.present();
            if session.is_lost() {
                let deadline = Instant::from_nanos(clock::now_ns()) + binding.options.bind_timeout;
                let bound = binding.rebind(&session, None, deadline);
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
        Err(InPlaceError::Unbound(Box::new(BindError::Unreachable { server: binding.uri.clone(), cause })))
    }
}

impl Counted for ShmLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters { calls: self.calls, fast: self.fast, ..CallCounters::default() };
        counters.add_waits(self.result_wait.counts());
        counters
    }
}

impl RemoteLane<ShmTransport> for ShmLane {
    const CAN_GATHER: bool = true;

    #[cold]
    fn new(plan: &Plan<'_, ShmTransport>, session: Arc<Session>) -> Result<Self, CallError> {
        Self::of(session, plan.options.waiting).ok_or_else(no_lane)
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A call finds out by itself that its session is lost.
    #[inline]
    fn prepare(&self, _: u64) -> bool {
        self.session.requests.expect(&self.session.segment, 0);
        true
    }

    fn adopt(&mut self, session: Arc<Session>) -> bool {
        self.move_to(session)
    }

    #[inline]
    fn arguments(&mut self, limit: usize) -> Writer<'_> {
        self.trim();
        Writer::new(&mut self.arguments, 0, limit)
    }

    #[inline(always)]
    fn begin(timeout_ns: u64) -> Option<CallTimes> {
        CallTimes::begin_cheaply(timeout_ns)
    }

    #[inline(always)]
    fn attempt(
        &mut self,
        times: CallTimes,
        procedure: u16,
        len: usize,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.exchange(times.deadline, procedure, len, gathered)
    }

    fn attempt_with_buffers(
        &mut self,
        times: CallTimes,
        procedure: u16,
        limit: usize,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), Ended> {
        self.trim();
        self.exchange_in_place(times.deadline, procedure, limit, write)
    }

    fn loss(&self) -> Loss {
        self.session.cause_of_loss().into()
    }

    #[inline]
    fn result(&self) -> &[u8] {
        self.received()
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        self.rest_of_scattered()
    }

    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        self.session.arena.as_ref().is_some_and(|arena| buffer.place_in(arena).is_some())
    }

    fn are_buffers_changed(&self) -> bool {
        self.named.is_changed
    }

    fn release_buffers(&mut self) {
        self.named.clear();
    }
}
