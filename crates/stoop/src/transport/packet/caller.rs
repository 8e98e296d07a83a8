//! Calls by threads that wait for them: each thread has a lane with an endpoint of its own.

pub(crate) mod lane;
pub(crate) mod large;
pub(crate) mod large_buffers;
pub(crate) mod result_parts;
#[cfg(feature = "seal")]
mod sealing;

use crate::calling::counters::CallCounters;
use crate::calling::deadline::CallTimes;
use crate::calling::fate::{self, Loss};
use crate::calling::handshake::NotBound;
use crate::error::{BindError, CallError, SendError, UnknownCause};
use crate::uri::{split_key, without_key};

use crate::transport::contract::Target;
use crate::transport::packet::bind::bind;
use crate::transport::packet::caller::lane::PacketLane;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, PacketLink, Share};
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::Ended;
use crate::transport::remote::{
    Connected, Observed, Plan, Remote, RemoteBinding, RemoteLane, Replaced, next_generation,
};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_exchange::outcome::{Unbound, Verdict};
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::clock;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId};

/// The packet exchange over the link `L`.
pub(crate) struct PacketTransport<L>(PhantomData<L>);

/// A binding to a server over packets.
pub(crate) type PacketBinding<L> = RemoteBinding<PacketTransport<L>>;

impl<L: PacketLink> Remote for PacketTransport<L> {
    type Address = L::Address;
    type Options = PacketOptions;
    type Session = Session;
    type Lane = PacketLane<Endpoint<L>>;

    /// The description says it.
    const CHECKSUMS: &'static str = "";

    fn resolve(target: &Target<'_>, deadline: Instant) -> io::Result<Vec<L::Address>> {
        L::resolve(without_key(target.address)?, deadline)
    }

    /// An endpoint that other bindings use, too, does not follow.
    fn may_move(target: &Target<'_>, own: &PacketOptions) -> bool {
        L::is_name(split_key(target.address).1) && !own.shares_endpoints
    }

    fn connect(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        replaced: Option<Replaced<'_, Session>>,
    ) -> Result<Connected<Self>, NotBound> {
        let &Plan { interface, uri, address, options, .. } = plan;
        let generation = next_generation(replaced.as_ref());
        let bound = match Self::sealed(plan, deadline, generation) {
            Some(bound) => bound,
            None => bind::<L>(interface, uri, address, deadline, options, generation),
        };
        let (mut session, endpoint) =
            bound.map_err(|error| NotBound { error, offers: L::other_offers(address) })?;
        if let Some(Replaced { session: lost, refusal }) = replaced {
            session.because = refusal;
            session.corrupt = Arc::clone(&lost.corrupt);
        }
        let session = Arc::new(session);
        let lane = PacketLane::of(Arc::clone(&session), endpoint, options);
        Ok((session, Some(lane)))
    }

    fn describe(plan: &Plan<'_, Self>, session: &Session) -> String {
        format!(
            "packet exchange over {}{} with {}, {}; {}one packet each way up to {} bytes{}, \
             and at most {} bytes of arguments and {} of result; waiting {:?}, and both ends {} run at the same time",
            L::NAME,
            session.mechanism,
            plan.address,
            plan.options.reason,
            session.protection.server().map_or(String::new(), |server| format!("sealed, with {server}; ")),
            session.bound.binding.packet_data(),
            if session.bound.binding.has_checksum() { ", each with a checksum (CRC-32C)" } else { "" },
            session.longest_call,
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

    fn incarnation(session: &Session) -> u64 {
        session.bound.incarnation
    }

    fn count(session: &Session, counters: &mut CallCounters) {
        counters.packet.corrupt = session.corrupt.load(Ordering::Relaxed);
    }

    fn note_closing(session: &Session) {
        session.note_closing();
    }

    /// The server would find out by silence otherwise, or if the packet is lost.
    fn unbind(session: &Session, lane: &Self::Lane) {
        let unbind = Header::bare(Kind::Unbind, session.bound.binding, LaneId(0), CallNumber::ZERO);
        // The server may have ended already.
        let _ = session.protection.send(&lane.endpoint, &unbind.to_bytes());
    }
}

impl<L: PacketLink> RemoteLane<PacketTransport<L>> for PacketLane<Endpoint<L>> {
    const CAN_GATHER: bool = true;

    fn new(plan: &Plan<'_, PacketTransport<L>>, session: Arc<Session>, _: u64) -> Result<Self, CallError> {
        let endpoint = Endpoint::connect(plan.address, Share::OneLane, plan.own.shares_endpoints)
            .map_err(|e| CallError::not_sent(SendError::Io(e)))?;
        session.prepare(&endpoint);
        Ok(Self::of(session, endpoint, plan.options))
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    #[inline]
    fn prepare(&self, generation: u64) -> bool {
        self.session.generation == generation
    }

    fn adopt(&mut self, plan: &Plan<'_, PacketTransport<L>>, session: Arc<Session>) -> bool {
        if self.session.server != session.server {
            match Endpoint::connect(plan.address, Share::OneLane, plan.own.shares_endpoints) {
                Ok(there) => self.endpoint = there,
                Err(_) => return false,
            }
        }
        self.move_to(session);
        true
    }

    #[inline]
    fn arguments(&mut self, _: usize) -> Writer<'_> {
        Writer::new(&mut self.call, HEADER_LEN, self.longest_call)
    }

    #[inline(always)]
    fn attempt<const IS_TIMED: bool>(
        &mut self,
        times: CallTimes,
        procedure: u16,
        len: usize,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), fate::Ended> {
        let begun = Instant::from_nanos(times.begun_ns);
        let deadline = Instant::from_nanos(times.deadline.latest_ns);
        let ended = match gather.is_empty() {
            true => self.exchange::<IS_TIMED>(begun, deadline, procedure, len),
            false => self.exchange_large(begun, deadline, procedure, len, gather),
        };
        ended.map_err(|ended| self.explain(ended))
    }

    fn loss(&self) -> Loss {
        let transmissions = self.exchange.last_transmissions();
        self.closed.unwrap_or(Loss { cause: UnknownCause::ServerRestarted, transmissions })
    }

    fn judge(&self, sent_ns: u64, refusal: Unbound, session: &Session, idempotent: bool) -> Verdict {
        self.session.verdict(
            &self.exchange,
            (Instant::from_nanos(sent_ns), Some(refusal)),
            session,
            idempotent,
        )
    }

    #[inline]
    fn result(&self) -> &[u8] {
        &self.result[HEADER_LEN..HEADER_LEN + self.result_len]
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
        // Of a result of many packets, the header that tells it is not kept.
        let is_one_packet = self.result_len <= self.exchange.packet_data() && self.scattered.is_none();
        let server_ns = is_one_packet.then(|| Header::server_ns_of(&self.result)).flatten();
        Observed { ended_ns, server_ns }
    }

    #[cold]
    fn age_of_result_ns(&self) -> Option<u64> {
        self.endpoint.age_of_last_ns()
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        Some(Reader::after(self.result(), self.scattered?))
    }
}

impl<L: PacketLink> PacketLane<Endpoint<L>> {
    /// The call has ended without a result.
    #[cold]
    fn explain(&mut self, ended: Ended) -> fate::Ended {
        self.closed = None;
        match ended {
            Ended::Unbound(refusal) => fate::Ended::Unbound(refusal),
            Ended::With(CallError::NotSent(SendError::Bind(_), ..)) if self.waits_for_restart => {
                fate::Ended::Lost { may_have_run: false }
            }
            // An idempotent call waits for the next server and runs there; any other ends with this cause.
            Ended::With(CallError::Unknown {
                cause: cause @ UnknownCause::PortClosed,
                transmissions,
                ..
            }) if self.waits_for_restart => {
                self.closed = Some(Loss { cause, transmissions });
                self.replace();
                fate::Ended::Lost { may_have_run: true }
            }
            Ended::With(error) => {
                if matches!(error, CallError::Unknown { .. }) {
                    self.replace();
                }
                fate::Ended::With(error)
            }
        }
    }
}

impl<L: PacketLink> PacketTransport<L> {
    /// Makes a sealed binding; `None`: it is not to be sealed.
    #[cfg(feature = "seal")]
    fn sealed(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        generation: u64,
    ) -> Option<Result<(Session, Endpoint<L>), BindError>> {
        sealing::bind(plan, deadline, generation)
    }

    #[cfg(not(feature = "seal"))]
    fn sealed(_: &Plan<'_, Self>, _: Instant, _: u64) -> Option<Result<(Session, Endpoint<L>), BindError>> {
        None
    }
}
