//! Calls by threads that wait for them: each thread has a lane with an endpoint of its own.

pub(crate) mod lane;
pub(crate) mod large;
pub(crate) mod large_buffers;
pub(crate) mod result_parts;

use crate::calling::counters::CallCounters;
use crate::calling::lanes;
use crate::calling::lanes::Lanes;
use crate::calling::sessions::Sessions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, SendError};
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::contract::{Binding, Lane, Target};
use crate::transport::packet::bind::bind;
use crate::transport::packet::caller::lane::{PacketLane, RESULT_LEN};
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, PacketLink, Share};
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::{Ended, after_earlier_attempts, forgotten};
use crate::transport::packet::{checksum, now};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::caller;
use stoop_exchange::outcome::{Evidence, Unbound, Verdict};
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::waiting::Waiter;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, PACKET_DATA};

/// A binding to a server over packets.
pub(crate) struct PacketBinding<L: PacketLink> {
    pub(crate) interface: &'static Interface,
    uri: String,
    pub(crate) server: L::Address,
    pub(crate) options: BindOptions,
    pub(crate) own: PacketOptions,
    /// The present session; replaced when the server does not know it any more.
    sessions: Sessions<Session>,
    lanes: Lanes<PacketLane<Endpoint<L>>>,
}

/// The calling thread's lane, held for a call.
pub(crate) struct HeldLane<'a, L: PacketLink> {
    binding: &'a PacketBinding<L>,
    guard: lanes::LaneGuard<'a, PacketLane<Endpoint<L>>>,
}

/// A call that a thread waits for, as long as it has no result.
struct Attempt {
    procedure: u16,
    /// Bytes of arguments.
    len: usize,
    begun: Instant,
    /// When it was sent on the present session.
    sent: Instant,
    deadline: Instant,
    /// It was sent to a server that does not know it any more, and is idempotent.
    may_have_run: bool,
}

impl<L: PacketLink> PacketBinding<L> {
    /// Binds to a server, by the first of its addresses at which one listens.
    pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self, BindError> {
        let Target { interface, uri, options, .. } = *target;
        let unreachable = |cause| BindError::Unreachable { server: uri.into(), cause };
        let mut last = None;
        for server in L::resolve(target.address).map_err(unreachable)? {
            match bind::<L>(interface, uri, &server, deadline, options, 0) {
                Ok((session, endpoint)) => {
                    let sessions = Sessions::new(Arc::new(session));
                    let (uri, lanes) = (uri.to_owned(), Lanes::default());
                    let (options, own) = (options.clone(), options.own.of());
                    let binding = Self { interface, uri, server, options, own, sessions, lanes };
                    *binding.lanes.hold() = Some(binding.make_lane(endpoint));
                    return Ok(binding);
                }
                // A name may stand for addresses at which nobody listens: ::1 before 127.0.0.1.
                Err(unreachable @ BindError::Unreachable { .. }) => last = Some(unreachable),
                Err(other) => return Err(other),
            }
        }
        Err(last.expect("a resolved name has an address"))
    }

    /// Bytes of a message that fit into one packet.
    pub(crate) fn packet_data(&self) -> usize {
        BindingId::NONE.with_checksum(self.own.checksum).packet_data()
    }

    /// The generation of the present session.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.sessions.generation()
    }

    pub(crate) fn present(&self) -> Arc<Session> {
        self.sessions.present()
    }

    /// Moves a thread's lane to the present session, or makes the thread's first one.
    #[cold]
    fn renew(&self, lane: &mut Option<PacketLane<Endpoint<L>>>) -> Result<(), CallError> {
        let Some(lane) = lane else {
            let endpoint = Endpoint::connect(&self.server, Share::OneLane, self.own.shares_endpoints)
                .map_err(|e| CallError::NotSent(SendError::Io(e)))?;
            self.present().prepare(&endpoint);
            *lane = Some(self.make_lane(endpoint));
            return Ok(());
        };
        lane.past.add_lane(lane.exchange.counters());
        lane.session = self.present();
        lane.exchange = lane.session.lane(&self.options);
        lane.longest_call = lane.session.longest_call;
        lane.waiter.set_placement(lane.session.placement);
        lane.session.prepare(&lane.endpoint);
        lane.serve();
        Ok(())
    }

    fn make_lane(&self, endpoint: Endpoint<L>) -> PacketLane<Endpoint<L>> {
        let session = self.present();
        let lane = PacketLane {
            exchange: session.lane(&self.options),
            waiter: Waiter::new(self.options.waiting, session.placement),
            longest_call: session.longest_call,
            longest_result: self.options.max_message,
            plain_end: if session.bound.binding.has_checksum() { 0 } else { PACKET_DATA + 1 },
            session,
            endpoint,
            call: vec![0; MAX_DATAGRAM],
            result: vec![0; RESULT_LEN],
            result_len: 0,
            scattered: None,
            large: None,
            past: CallCounters::default(),
        };
        lane.serve();
        lane
    }

    /// Binds again, unless another thread has done so since the server refused the session `lost`, as `refusal` says.
    pub(crate) fn rebind(
        &self,
        lost: &Session,
        refusal: Unbound,
        deadline: Instant,
    ) -> Result<Arc<Session>, BindError> {
        self.sessions.replace(lost, &self.uri, deadline, self.options.bind_timeout, |deadline, generation| {
            let (session, _) =
                bind::<L>(self.interface, &self.uri, &self.server, deadline, &self.options, generation)?;
            let (because, corrupt) = (Some(refusal), Arc::clone(&lost.corrupt));
            Ok(Arc::new(Session { because, corrupt, ..session }))
        })
    }

    /// Whether the latest call of `lane`, first sent on the session `lost` at `sent`, is sent again on `session`. `refusal`: how
    /// the server refused this call itself, if it did, because it did not know the session.
    pub(crate) fn verdict(
        &self,
        procedure: u16,
        lane: &caller::Lane,
        (sent, refusal): (Instant, Option<Unbound>),
        lost: &Session,
        session: &Session,
    ) -> Verdict {
        // Not later than the true time: this machine may have slept between the grant and the call.
        let first = sent.after_nanos(lost.asleep_ns);
        // The refusal of another call counts if it was on the same session.
        let of_others = session.because.filter(|_| session.generation == lost.generation + 1);
        let refused = refusal.or(of_others).unwrap_or(Unbound::ANOTHER_VERSION);
        let call = lane.sent(first, refused, refusal.is_some());
        let evidence = Evidence::new(&call, lost.grant(), session.grant(), &session.own);
        evidence.verdict(self.interface.procedures[usize::from(procedure)].idempotent)
    }
}

impl<L: PacketLink> Binding for PacketBinding<L> {
    type Lane<'a> = HeldLane<'a, L>;

    #[inline]
    fn hold(&self) -> Result<HeldLane<'_, L>, CallError> {
        let mut guard = self.lanes.hold();
        let is_present = |lane: &PacketLane<_>| lane.session.generation == self.generation();
        if !guard.as_ref().is_some_and(is_present) {
            self.renew(&mut guard)?;
        }
        Ok(HeldLane { binding: self, guard })
    }

    fn describe(&self) -> String {
        let session = self.present();
        format!(
            "packet exchange over {} with {}, {}; one packet each way up to {} bytes{}, \
             and at most {} bytes of arguments and {} of result; waiting {:?}, and both ends {} run at the same time",
            L::NAME,
            self.server,
            self.options.reason,
            session.bound.binding.packet_data(),
            if session.bound.binding.has_checksum() { ", each with a checksum (CRC-32C)" } else { "" },
            session.longest_call,
            self.options.max_message,
            self.options.waiting,
            if session.placement.together { "can" } else { "cannot" },
        )
    }

    fn counters(&self) -> CallCounters {
        let mut counters = self.lanes.counters();
        counters.packet.corrupt = self.present().corrupt.load(Ordering::Relaxed);
        counters
    }

    fn offers(&self) -> String {
        self.present().bound.offers.clone()
    }

    fn describe_checksums(&self) -> &'static str {
        // The description says so.
        ""
    }
}

impl<L: PacketLink> Drop for PacketBinding<L> {
    /// Tells the server, which would find out by silence otherwise, or if the packet is lost.
    fn drop(&mut self) {
        let unbind = Header::bare(Kind::Unbind, self.present().bound.binding, LaneId(0), CallNumber::ZERO);
        if let Some(lane) = self.lanes.any() {
            // The server may have ended already.
            let _ = checksum::send(&lane.endpoint, &unbind.to_bytes());
        }
    }
}

impl<L: PacketLink> Lane for HeldLane<'_, L> {
    const CAN_GATHER: bool = true;

    #[inline]
    fn arguments(&mut self) -> Writer<'_> {
        let lane = self.lane();
        Writer::new(&mut lane.call, HEADER_LEN, lane.longest_call)
    }

    #[inline]
    fn result(&self) -> &[u8] {
        let lane = self.guard.as_ref().expect("a held place has a lane");
        &lane.result[HEADER_LEN..HEADER_LEN + lane.result_len]
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        let scattered = self.guard.as_ref().expect("a held place has a lane").scattered?;
        Some(Reader::after(self.result(), scattered))
    }

    #[inline]
    fn transport(&mut self, procedure: u16, len: usize, timeout_ns: u64) -> Result<(), CallError> {
        let (begun, deadline) = times(timeout_ns)?;
        match self.lane().exchange(begun, deadline, procedure, len) {
            Ok(()) => Ok(()),
            Err(ended) => {
                let attempt = Attempt::first(procedure, len, (begun, deadline));
                self.recover(ended, attempt, &mut GatherList::none())
            }
        }
    }

    fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        timeout_ns: u64,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        let (begun, deadline) = times(timeout_ns)?;
        match self.lane().exchange_large(begun, deadline, procedure, len, gather) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, Attempt::first(procedure, len, (begun, deadline)), gather),
        }
    }
}

impl<L: PacketLink> HeldLane<'_, L> {
    #[inline]
    fn lane(&mut self) -> &mut PacketLane<Endpoint<L>> {
        self.guard.as_mut().expect("a held place has a lane")
    }

    /// The call has ended without a result: binds again and repeats it where that is right, and explains where it is not.
    #[cold]
    fn recover(
        &mut self,
        mut ended: Ended,
        mut attempt: Attempt,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        loop {
            match ended {
                Ended::With(error) => return Err(self.explain(error, &attempt)),
                Ended::Unbound(refusal) => self.rebind(&mut attempt, refusal)?,
            }
            // Parts of a result may be where arguments were.
            if gather.are_overwritten() {
                return Err(self.forgotten(&attempt));
            }
            attempt.sent = now();
            let Attempt { procedure, len, sent, deadline, .. } = attempt;
            let again = match gather.is_empty() {
                true => self.lane().exchange(sent, deadline, procedure, len),
                false => self.lane().exchange_large(sent, deadline, procedure, len, gather),
            };
            match again {
                Ok(()) => return Ok(()),
                Err(again) => ended = again,
            }
        }
    }

    /// The call ends with this error of its latest attempt.
    fn explain(&mut self, error: CallError, attempt: &Attempt) -> CallError {
        let options = &self.binding.options;
        let PacketLane { session, exchange, endpoint, past, .. } =
            self.guard.as_mut().expect("a held place has a lane");
        let waited = now().since(attempt.begun);
        if matches!(error, CallError::Unknown { .. }) {
            session.replace_lane(exchange, past, options);
            endpoint.serve_lane(session.bound.binding, exchange.id());
        }
        after_earlier_attempts(attempt.may_have_run, error, exchange, waited)
    }

    /// Gets a new session for a call that the server refused because it does not know the old one, if the call may be sent again.
    fn rebind(&mut self, attempt: &mut Attempt, refusal: Unbound) -> Result<(), CallError> {
        let (binding, lost) = (self.binding, Arc::clone(&self.lane().session));
        let Ok(session) = binding.rebind(&lost, refusal, attempt.deadline) else {
            return Err(self.forgotten(attempt));
        };
        let how = (attempt.sent, Some(refusal));
        match binding.verdict(attempt.procedure, &self.lane().exchange, how, &lost, &session) {
            Verdict::Unknown => return Err(self.forgotten(attempt)),
            verdict => attempt.may_have_run |= verdict != Verdict::NotRun,
        }
        binding.renew(&mut self.guard)
    }

    /// The error of a call that the server may have run and does not know any more.
    fn forgotten(&mut self, attempt: &Attempt) -> CallError {
        forgotten(&self.lane().exchange, now().since(attempt.begun))
    }
}

impl Attempt {
    fn first(procedure: u16, len: usize, (begun, deadline): (Instant, Instant)) -> Self {
        Self { procedure, len, begun, sent: begun, deadline, may_have_run: false }
    }
}

/// When a call begins and ends.
///
/// # Errors
/// Its deadline has passed: it inherits that of a call that is being served.
#[inline]
fn times(timeout_ns: u64) -> Result<(Instant, Instant), CallError> {
    let begun = now();
    let deadline = Instant::from_nanos(bounded_deadline(begun.as_nanos(), timeout_ns));
    match deadline > begun {
        true => Ok((begun, deadline)),
        false => Err(CallError::NotSent(SendError::DeadlinePassed)),
    }
}
