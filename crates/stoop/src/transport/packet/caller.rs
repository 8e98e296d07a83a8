//! Calls over UDP: each lane has a socket of its own, so that the kernel itself wakes the right thread (F10).

pub(crate) mod lane;
pub(crate) mod large;
pub(crate) mod large_buffers;
pub(crate) mod placement;
pub(crate) mod sending;

use crate::calling::counters::CallCounters;
use crate::calling::lanes;
use crate::calling::lanes::Lanes;
use crate::calling::sessions::Sessions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, SendError, UnknownCause};
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::contract::{Binding, Lane, Target};
use crate::transport::packet::caller::lane::{Ended, PacketLane, RESULT_ROOM};
use crate::transport::packet::checksum;
use crate::transport::packet::options::PacketOptions;
pub(crate) use crate::transport::packet::session::Session;
use crate::transport::packet::session::{Granted, connect, grant};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::caller::{self, Lost};
use stoop_exchange::outcome::{Evidence, Unbound, Verdict};
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::udp::{CallerSocket, resolve};
use stoop_net::waiting::{ActiveWaiters, MachineCosts, Wait};
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, PACKET_DATA};

/// A binding over UDP.
pub(crate) struct PacketBinding {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    pub(crate) server: SocketAddr,
    pub(crate) options: BindOptions,
    pub(crate) own: PacketOptions,
    /// What the server has granted; replaced when it no longer knows it.
    sessions: Sessions<Session>,
    lanes: Lanes<PacketLane>,
}

/// A lane held by a call.
pub(crate) struct HeldLane<'a> {
    binding: &'a PacketBinding,
    place: lanes::LaneGuard<'a, PacketLane>,
}

pub(crate) fn now() -> Instant {
    Instant::from_nanos(stoop_net::clock::now_ns())
}

impl PacketBinding {
    pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self, BindError> {
        let Target { interface, uri, options, .. } = *target;
        let unreachable = |cause| BindError::Unreachable { server: uri.into(), cause };
        let mut last = None;
        for server in resolve(target.address).map_err(unreachable)? {
            match grant(interface, uri, server, deadline, options, 0) {
                Ok((session, socket)) => {
                    let binding = Self {
                        interface,
                        uri: uri.to_owned(),
                        server,
                        options: options.clone(),
                        own: options.own.of(),
                        sessions: Sessions::new(Arc::new(session)),
                        lanes: Lanes::default(),
                    };
                    binding.make_lane(&mut binding.lanes.hold(), socket);
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

    /// The number of the present session.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.sessions.generation()
    }

    pub(crate) fn present(&self) -> Arc<Session> {
        self.sessions.present()
    }

    /// Puts a lane of the present session into a place.
    #[cold]
    fn renew(&self, place: &mut Option<PacketLane>) -> Result<(), CallError> {
        match place {
            Some(lane) => {
                lane.past.add_lane(lane.exchange.counters());
                lane.session = self.present();
                lane.exchange = lane.session.lane(&self.options);
                lane.longest_call = lane.session.longest_call;
                lane.wait.set_placement(lane.session.placement);
                lane.session.prepare(&lane.socket);
            }
            None => {
                let connected = connect(self.server).map_err(|e| CallError::NotSent(SendError::Io(e)))?;
                self.present().prepare(&connected.0);
                self.make_lane(place, connected);
            }
        }
        Ok(())
    }

    fn make_lane(&self, place: &mut Option<PacketLane>, (socket, window): (CallerSocket, u32)) {
        let session = self.present();
        *place = Some(PacketLane {
            exchange: session.lane(&self.options),
            wait: Wait::new(self.options.waiting, MachineCosts::of_this_machine(), session.placement),
            longest_call: session.longest_call,
            longest_result: self.options.max_message,
            plain_end: if session.bound.binding.has_checksum() { 0 } else { PACKET_DATA + 1 },
            session,
            socket,
            window,
            call: vec![0; MAX_DATAGRAM],
            result: vec![0; RESULT_ROOM],
            result_len: 0,
            scattered: None,
            large: None,
            waiters: ActiveWaiters::of_this_process().member(),
            past: CallCounters::default(),
        });
    }

    /// Binds again, unless another thread has done so since `lost` was found to be unknown to the server.
    /// `because` of this refusal.
    pub(crate) fn rebind(
        &self,
        lost: &Session,
        because: Unbound,
        deadline: Instant,
    ) -> Result<Arc<Session>, BindError> {
        self.sessions.replace(lost, &self.uri, deadline, self.options.bind_timeout, |deadline, generation| {
            let (mut session, _) = self.grant_again(deadline, generation)?;
            session.corrupt = Arc::clone(&lost.corrupt);
            Ok(Arc::new(session.because(because)))
        })
    }
}

impl Binding for PacketBinding {
    type Lane<'a> = HeldLane<'a>;

    #[inline]
    fn hold(&self) -> Result<HeldLane<'_>, CallError> {
        let mut place = self.lanes.hold();
        let is_present = |lane: &PacketLane| lane.session.generation == self.generation();
        if !place.as_ref().is_some_and(is_present) {
            self.renew(&mut place)?;
        }
        Ok(HeldLane { binding: self, place })
    }

    fn describe(&self) -> String {
        let session = self.present();
        format!(
            "packet exchange over UDP with {}, {}; one packet each way up to {} bytes{}, \
             and at most {} bytes of arguments and {} of result; waiting {:?}, and both ends {} run at the same time",
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
        let corrupt = self.present().corrupt.load(Ordering::Relaxed);
        CallCounters { corrupt, ..self.lanes.counters() }
    }

    fn offers(&self) -> String {
        self.present().bound.offers.clone()
    }

    fn describe_checksums(&self) -> &'static str {
        // The description says so.
        ""
    }
}

impl PacketBinding {
    fn grant_again(&self, deadline: Instant, generation: u64) -> Result<Granted, BindError> {
        grant(self.interface, &self.uri, self.server, deadline, &self.options, generation)
    }

    /// What is to be done with the latest call of `lane`, first sent on the session `lost` at `sent`, now that there is another
    /// session. `refusal` is that of this call, if it was refused itself because the server does not know the binding.
    pub(crate) fn verdict(
        &self,
        procedure: u16,
        lane: &caller::Lane,
        (sent, refusal): (Instant, Option<Unbound>),
        lost: &Session,
        session: &Session,
    ) -> Verdict {
        // Not later than it was: this machine may have slept since the binding was granted, and before the call.
        let first = sent.after_nanos(lost.asleep_ns);
        // What another call was told counts if it was told so on the same binding.
        let with_others = session.because.filter(|_| session.generation == lost.generation + 1);
        let refused = refusal.or(with_others).unwrap_or(Unbound::ANOTHER_VERSION);
        let call = lane.sent(first, refused, refusal.is_some());
        let evidence = Evidence::new(&call, lost.grant(), session.grant(), &session.own);
        evidence.verdict(self.interface.procedures[usize::from(procedure)].idempotent)
    }
}

/// The error of a call that a server may have run that does not know any more.
pub(crate) fn forgotten(lane: &caller::Lane, waited: Duration) -> CallError {
    let transmissions = lane.last_transmissions();
    CallError::Unknown { transmissions, waited, cause: UnknownCause::ServerRestarted }
}

/// The error of a call that has not run because nobody listens at the server's port: as of a byte stream whose server cannot be
/// connected to any more.
pub(crate) fn nobody_listens(uri: &str) -> CallError {
    let cause = std::io::ErrorKind::ConnectionRefused.into();
    CallError::NotSent(SendError::Bind(Box::new(BindError::Unreachable { server: uri.into(), cause })))
}

/// The error of a call that its lane has given up.
pub(crate) fn given_up(lane: &mut caller::Lane, clock: Instant, lost: Lost) -> CallError {
    let effort = lane.abandon(clock).expect("a call that is given up is outstanding");
    CallError::Unknown {
        transmissions: effort.transmissions,
        waited: effort.waited,
        cause: match lost {
            Lost::DeadlinePassed => UnknownCause::DeadlinePassed,
            Lost::ServerSilent => UnknownCause::ServerSilent,
            Lost::PortClosed => UnknownCause::PortClosed,
        },
    }
}

/// What a server adds to a refusal or a failure.
pub(crate) fn detail(packet: &[u8]) -> String {
    let (_, payload) = Header::parse(packet).expect("the lane has parsed it");
    String::from_utf8_lossy(payload).into_owned()
}

impl Drop for PacketBinding {
    /// Tells the server, so that it need not find out by silence. If the packet is lost, it will.
    fn drop(&mut self) {
        let unbind = Header::bare(Kind::Unbind, self.present().bound.binding, LaneId(0), CallNumber::ZERO);
        if let Some(lane) = self.lanes.any() {
            // The server may be gone already; then there is nobody to tell.
            let _ = checksum::send(&lane.socket, &unbind.to_bytes());
        }
    }
}

impl Lane for HeldLane<'_> {
    const CAN_GATHER: bool = true;

    #[inline]
    fn arguments(&mut self) -> Writer<'_> {
        let lane = self.lane();
        Writer::new(&mut lane.call, HEADER_LEN, lane.longest_call)
    }

    #[inline]
    fn transport(&mut self, procedure: u16, len: usize, timeout_ns: u64) -> Result<(), CallError> {
        let begun = now();
        let deadline = Instant::from_nanos(bounded_deadline(begun.as_nanos(), timeout_ns));
        if deadline <= begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        match self.lane().exchange(begun, deadline, procedure, len) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun, deadline, procedure, len, &mut GatherList::none()),
        }
    }

    fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        timeout_ns: u64,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        let begun = now();
        let deadline = Instant::from_nanos(bounded_deadline(begun.as_nanos(), timeout_ns));
        if deadline <= begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        match self.lane().exchange_large(begun, deadline, procedure, len, pieces) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun, deadline, procedure, len, pieces),
        }
    }

    #[inline]
    fn result(&self) -> &[u8] {
        let lane = self.place.as_ref().expect("a held place has a lane");
        &lane.result[HEADER_LEN..HEADER_LEN + lane.result_len]
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        let scattered = self.place.as_ref().expect("a held place has a lane").scattered?;
        Some(Reader::after(self.result(), scattered))
    }
}

impl HeldLane<'_> {
    #[inline]
    fn lane(&mut self) -> &mut PacketLane {
        self.place.as_mut().expect("a held place has a lane")
    }

    /// The call did not end with a result: binds again where that helps, and explains where it does not.
    #[cold]
    fn recover(
        &mut self,
        mut ended: Ended,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        let mut sent = begun;
        let mut may_have_run = false;
        loop {
            match ended {
                Ended::NobodyListens if may_have_run => return Err(self.forgotten(begun)),
                Ended::NobodyListens => return Err(nobody_listens(&self.binding.uri)),
                Ended::With(error) => {
                    if matches!(error, CallError::Unknown { .. }) {
                        self.retire();
                    }
                    // Not this time; but it is idempotent, and was sent before to a server that has forgotten.
                    let not_run = matches!(error, CallError::NotSent(_) | CallError::Refused(_));
                    return Err(if may_have_run && not_run { self.forgotten(begun) } else { error });
                }
                Ended::Unbound(refusal) => {
                    may_have_run |= !self.rebind(procedure, deadline, begun, (sent, refusal))?;
                    // Parts of the result are where arguments were.
                    if pieces.are_overwritten() {
                        return Err(self.forgotten(begun));
                    }
                }
            }
            sent = now();
            let again = match pieces.is_empty() {
                true => self.lane().exchange(sent, deadline, procedure, len),
                false => self.lane().exchange_large(sent, deadline, procedure, len, pieces),
            };
            match again {
                Ok(()) => return Ok(()),
                Err(again) => ended = again,
            }
        }
    }

    /// Gets a new binding for a call that the server refused because it does not know the old one, if the call may be
    /// sent again. Tells whether it has certainly not run.
    fn rebind(
        &mut self,
        procedure: u16,
        deadline: Instant,
        begun: Instant,
        (sent, refusal): (Instant, Unbound),
    ) -> Result<bool, CallError> {
        let lost = Arc::clone(&self.lane().session);
        let Ok(session) = self.binding.rebind(&lost, refusal, deadline) else {
            return Err(self.forgotten(begun));
        };
        let binding = self.binding;
        let lane = &self.lane().exchange;
        let verdict = binding.verdict(procedure, lane, (sent, Some(refusal)), &lost, &session);
        if verdict == Verdict::Unknown {
            return Err(self.forgotten(begun));
        }
        self.binding.renew(&mut self.place)?;
        Ok(verdict == Verdict::NotRun)
    }

    /// The server may have run the call, and does not know any more.
    fn forgotten(&mut self, begun: Instant) -> CallError {
        forgotten(&self.lane().exchange, now().since(begun))
    }

    /// The server may still be running this lane's call, and would let the next one wait: the thread goes on with
    /// another lane.
    fn retire(&mut self) {
        let binding = self.binding;
        let lane = self.lane();
        lane.past.add_lane(lane.exchange.counters());
        lane.exchange.reset_counters();
        lane.session.give_another(&mut lane.exchange, &binding.options);
    }
}
