//! The caller's end of a binding over a byte stream: all lanes of a binding share one connection.
//!
//! A thread sends its call and then takes the [receive role](crate::calling::receive_role) of the connection, if it is free. It
//! receives until its own answer is there, and puts answers to other threads into their mailboxes.

pub(crate) mod answer;
pub(crate) mod connect;
pub(crate) mod lane;
pub(crate) mod lane_table;
pub(crate) mod mailbox;
#[cfg(feature = "seal")]
pub(crate) mod sealing;
pub(crate) mod sending_half;
pub(crate) mod session;

use crate::calling::counters::CallCounters;
use crate::calling::deadline::CallTimes;
use crate::calling::fate::{Ended, Loss};
use crate::calling::handshake::NotBound;
use crate::calling::lanes::Counted;
use crate::error::{CallError, UnknownCause};
use crate::transport::contract::Target;
use crate::transport::remote::{Connected, Observed, Plan, Remote, RemoteBinding, RemoteLane, Replaced};
use crate::transport::stream::address::addresses;
use crate::transport::stream::caller::connect::connect;
use crate::transport::stream::caller::lane::StreamLane;
use crate::transport::stream::caller::session::Session;
use crate::transport::stream::options::UnixOptions;
use crate::uri::split_key;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_marshal::{GatherList, Writer};
use stoop_net::clock;
use stoop_net::stream::StreamAddress;
use stoop_net::udp::is_name;
use stoop_wire::HEADER_LEN;

/// `tcp:` and `unix:`
pub(crate) struct StreamTransport;

/// A binding over a byte stream.
pub(crate) type StreamBinding = RemoteBinding<StreamTransport>;

impl Remote for StreamTransport {
    type Address = StreamAddress;
    type Options = UnixOptions;
    type Session = Session;
    type Lane = StreamLane;

    const CHECKSUMS: &'static str = "; no checksums but those of TCP, and none over a Unix socket";

    fn resolve(target: &Target<'_>, _: Instant) -> io::Result<Vec<StreamAddress>> {
        addresses(target.scheme, target.address)
    }

    fn may_move(target: &Target<'_>, _: &UnixOptions) -> bool {
        target.scheme.name == "tcp" && is_name(split_key(target.address).1)
    }

    fn connect(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        replaced: Option<Replaced<'_, Session>>,
    ) -> Result<Connected<Self>, NotBound> {
        Ok((Arc::new(connect(plan, deadline, replaced)?), None))
    }

    fn describe(plan: &Plan<'_, Self>, session: &Session) -> String {
        let kind = match plan.address {
            StreamAddress::Tcp(_) => "TCP",
            StreamAddress::UnixPath(_) | StreamAddress::UnixAbstract(_) => "a Unix socket",
        };
        format!(
            "a byte stream over {kind} with {}, {}; {}one connection for all threads, at most {} \
             bytes of arguments or result; waiting {:?}, and both ends {} run at the same time",
            plan.address,
            plan.options.reason,
            session.stream.sealed_with().map_or(String::new(), |server| format!("sealed, with {server}; ")),
            plan.options.max_message,
            plan.options.waiting,
            if session.placement.together { "can" } else { "cannot" },
        )
    }

    fn bound(session: &Session) -> &Bound {
        &session.bound
    }

    fn offers(session: &Session) -> String {
        session.bound.offers.clone()
    }

    fn note_closing(session: &Session) {
        session.note_closing();
    }

    fn close(session: &Session) {
        session.lose();
    }

    fn count(session: &Session, counters: &mut CallCounters) {
        counters.ignored += session.ignored();
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

impl RemoteLane<StreamTransport> for StreamLane {
    fn new(plan: &Plan<'_, StreamTransport>, session: Arc<Session>, _: u64) -> Result<Self, CallError> {
        Ok(Self::of(session, plan.options.waiting))
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A call finds out by itself that its session is lost.
    #[inline]
    fn prepare(&self, _: u64) -> bool {
        true
    }

    fn adopt(&mut self, _: &Plan<'_, StreamTransport>, session: Arc<Session>) -> bool {
        self.move_to(session);
        true
    }

    #[inline]
    fn arguments(&mut self, limit: usize) -> Writer<'_> {
        self.trim();
        Writer::new(&mut self.call, HEADER_LEN, limit)
    }

    #[inline]
    fn attempt<const IS_TIMED: bool>(
        &mut self,
        times: CallTimes,
        procedure: u16,
        len: usize,
        _: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        let ended = self.exchange::<IS_TIMED>(times.begun_ns, times.deadline.latest_ns, procedure, len);
        if IS_TIMED && ended.is_err() {
            // A refusal has noted its time, too.
            self.ended_ns = None;
        }
        ended
    }

    fn age_of_result_ns(&self) -> Option<u64> {
        self.session.stream.age_of_last_ns()
    }

    fn loss(&self) -> Loss {
        UnknownCause::ConnectionLost.into()
    }

    #[inline]
    fn result(&self) -> &[u8] {
        self.received()
    }

    fn call_packet(&mut self) -> (&mut Vec<u8>, usize) {
        (&mut self.call, HEADER_LEN)
    }

    fn shorten_result(&mut self, by: usize) {
        self.result_len -= by;
    }

    #[inline]
    fn observed(&mut self) -> Observed {
        let ended_ns = self.ended_ns.take().unwrap_or_else(clock::now_ns);
        Observed { ended_ns, server_ns: self.server_ns() }
    }
}
