//! The caller's end of a binding over a byte stream: all lanes of a binding share one connection.
//!
//! A thread sends its call and then takes the [receive role](crate::calling::receive_role) of the connection, if it is free. It
//! receives until its own answer is there, and puts answers to other threads into their mailboxes.

pub(crate) mod answer;
pub(crate) mod connect;
pub(crate) mod lane;
pub(crate) mod lane_table;
pub(crate) mod mailbox;
pub(crate) mod outgoing;
pub(crate) mod session;

use crate::calling::counters::CallCounters;
use crate::calling::handshake::Plan;
use crate::calling::lanes;
use crate::calling::lanes::{Counted, Lanes};
use crate::calling::recovery::{Attempts, CallTerms, Ended, recover};
use crate::calling::sessions::Sessions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, SendError, UnknownCause};
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::contract::{Binding, Lane, Target};
use crate::transport::stream::address::addresses;
use crate::transport::stream::caller::connect::connect;
use crate::transport::stream::caller::lane::StreamLane;
use crate::transport::stream::caller::session::Session;
use crate::transport::stream::options::UnixOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_exchange::Instant;
use stoop_marshal::Writer;
use stoop_net::clock;
use stoop_net::stream::StreamAddress;
use stoop_wire::HEADER_LEN;

/// A binding over a byte stream.
pub(crate) struct StreamBinding {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    pub(crate) server: StreamAddress,
    pub(crate) options: BindOptions,
    own: UnixOptions,
    pub(crate) sessions: Sessions<Session>,
    /// Messages ignored on connections before the present one.
    ignored_before: AtomicU64,
    lanes: Lanes<StreamLane>,
}

/// A lane held by a call.
pub(crate) struct HeldLane<'a> {
    binding: &'a StreamBinding,
    place: lanes::LaneGuard<'a, StreamLane>,
}

impl StreamBinding {
    pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self, BindError> {
        let Target { interface, uri, options, .. } = *target;
        let own: UnixOptions = options.own.of();
        let unreachable = |cause| BindError::Unreachable { server: uri.into(), cause };
        let servers = addresses(target.scheme, target.address).map_err(unreachable)?;
        let mut last = None;
        for server in servers {
            let plan = Plan {
                interface,
                uri,
                address: &server,
                max_message: options.max_message,
                trusted: &own.users,
            };
            match connect(&plan, deadline, 0) {
                Ok(session) => {
                    return Ok(Self {
                        interface,
                        uri: uri.into(),
                        server,
                        options: options.clone(),
                        own,
                        sessions: Sessions::new(Arc::new(session)),
                        ignored_before: AtomicU64::new(0),
                        lanes: Lanes::default(),
                    });
                }
                // A name may stand for addresses at which nobody listens: ::1 before 127.0.0.1.
                Err(unreachable @ BindError::Unreachable { .. }) => last = Some(unreachable),
                Err(other) => return Err(other),
            }
        }
        Err(last.expect("a resolved name has an address"))
    }

    pub(crate) fn present(&self) -> Arc<Session> {
        self.sessions.present()
    }

    #[cold]
    fn lane(&self) -> StreamLane {
        StreamLane::new(self.present(), self.options.waiting)
    }

    /// Connects and binds again, unless another thread has done so since `lost` was lost.
    pub(crate) fn rebind(&self, lost: &Session, deadline: Instant) -> Result<Arc<Session>, BindError> {
        let plan = Plan {
            interface: self.interface,
            uri: &self.uri,
            address: &self.server,
            max_message: self.options.max_message,
            trusted: &self.own.users,
        };
        self.sessions.replace(lost, &self.uri, deadline, self.options.bind_timeout, |deadline, generation| {
            let session = connect(&plan, deadline, generation)?;
            self.ignored_before.fetch_add(lost.ignored(), Ordering::Relaxed);
            Ok(Arc::new(session))
        })
    }
}

impl Binding for StreamBinding {
    type Lane<'a> = HeldLane<'a>;

    #[inline]
    fn hold(&self) -> Result<HeldLane<'_>, CallError> {
        let mut place = self.lanes.hold();
        if place.is_none() {
            *place = Some(self.lane());
        }
        Ok(HeldLane { binding: self, place })
    }

    fn describe(&self) -> String {
        let kind = match self.server {
            StreamAddress::Tcp(_) => "TCP",
            StreamAddress::UnixPath(_) | StreamAddress::UnixAbstract(_) => "a Unix socket",
        };
        format!(
            "a byte stream over {kind} with {}, {}; one connection for all threads, at most {} \
             bytes of arguments or result; waiting {:?}, and both ends {} run at the same time",
            self.server,
            self.options.reason,
            self.options.max_message,
            self.options.waiting,
            if self.present().placement.together { "can" } else { "cannot" },
        )
    }

    fn counters(&self) -> CallCounters {
        let mut sum = self.lanes.counters();
        sum.ignored += self.ignored_before.load(Ordering::Relaxed) + self.present().ignored();
        sum
    }

    fn offers(&self) -> String {
        self.present().bound.offers.clone()
    }

    fn describe_checksums(&self) -> &'static str {
        "; no checksums but those of TCP, and none over a Unix socket"
    }
}

impl Counted for StreamLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters { calls: self.calls, fast: self.fast, ..CallCounters::default() };
        counters.add_waits(self.waiter.counts());
        counters.slept += self.followed;
        counters
    }
}

impl Lane for HeldLane<'_> {
    #[inline]
    fn arguments(&mut self) -> Writer<'_> {
        // What travels has 32 bits for its length.
        let limit = self.binding.options.max_message.min(u32::MAX as usize);
        let lane = self.lane();
        lane.trim();
        Writer::new(&mut lane.call, HEADER_LEN, limit)
    }

    #[inline]
    fn transport(&mut self, procedure: u16, len: usize, timeout_ns: u64) -> Result<(), CallError> {
        let begun_ns = clock::now_ns();
        let deadline_ns = bounded_deadline(begun_ns, timeout_ns);
        if deadline_ns <= begun_ns {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        match self.lane().exchange(begun_ns, deadline_ns, procedure, len) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun_ns, deadline_ns, procedure, len),
        }
    }

    #[inline]
    fn result(&self) -> &[u8] {
        self.place.as_ref().expect("a held place has a lane").result()
    }
}

impl HeldLane<'_> {
    #[inline]
    fn lane(&mut self) -> &mut StreamLane {
        self.place.as_mut().expect("a held place has a lane")
    }

    /// The call did not end with a result.
    #[cold]
    fn recover(
        &mut self,
        ended: Ended,
        begun_ns: u64,
        deadline_ns: u64,
        procedure: u16,
        len: usize,
    ) -> Result<(), CallError> {
        let idempotent = self.binding.interface.procedures[usize::from(procedure)].idempotent;
        let terms = CallTerms { begun_ns, deadline_ns, idempotent };
        recover(&mut Repeated { held: self, procedure, len }, ended, &terms)
    }
}

/// A call that is made once more: its lane still has the arguments.
struct Repeated<'h, 'b> {
    held: &'h mut HeldLane<'b>,
    procedure: u16,
    len: usize,
}

impl Attempts for Repeated<'_, '_> {
    fn rebind(&mut self, deadline: Instant) -> Result<bool, BindError> {
        let lost = Arc::clone(&self.held.lane().session);
        let session = self.held.binding.rebind(&lost, deadline)?;
        self.held.lane().adopt(&session);
        Ok(true)
    }

    fn attempt(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Ended> {
        self.held.lane().exchange(now_ns, deadline_ns, self.procedure, self.len)
    }

    fn cause_of_loss(&self) -> UnknownCause {
        UnknownCause::ConnectionLost
    }

    fn is_overwritten(&self) -> bool {
        false
    }
}
