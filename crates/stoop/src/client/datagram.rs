//! Calls over UDP: each lane has a socket of its own, so that the kernel itself wakes the right thread (F10).

mod large;

use super::counters::CallCounters;
use super::lanes::{self, Counted, Lanes};
use super::turns::Turns;
use crate::bind::BindOptions;
use crate::context::bounded_deadline;
use crate::error::{BindError, CallError, Failure, Refusal, RefusalCode, SendError, UnknownCause};
use crate::stub::Interface;
use large::Large;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{self, Due, Heard, Lost};
use stoop_exchange::{Instant, RoundTrip};
use stoop_marshal::{Pieces, Reader, Writer};
use stoop_net::host;
use stoop_net::udp::{CallerArrival, CallerSocket, Sending, resolve};
use stoop_net::waiting::{Company, Crowd, MachineCosts, Member, Wait};
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, PACKET_DATA};

/// A binding over UDP.
pub(crate) struct DatagramBinding {
    pub(super) interface: &'static Interface,
    uri: String,
    pub(super) server: SocketAddr,
    pub(super) options: BindOptions,
    /// What the server has granted; replaced when it no longer knows it.
    session: Mutex<Arc<Session>>,
    /// For replacing it.
    rebinding: Turns,
    /// The present session's number: lanes of an earlier one renew themselves.
    generation: AtomicU64,
    lanes: Lanes<DatagramLane>,
}

/// A binding as the server has granted it once.
pub(super) struct Session {
    pub(super) generation: u64,
    pub(super) bound: Bound,
    path: RoundTrip,
    pub(super) company: Company,
    /// How long this machine had been asleep when the binding was granted.
    asleep_ns: u64,
    /// Bytes of the longest call.
    pub(super) longest_call: usize,
    /// The way to the server, which long calls of all threads share; known from the first one on.
    path_there: OnceLock<Mutex<Path>>,
    numbers: Mutex<LaneNumbers>,
}

/// Which of a session's lanes can be given out.
#[derive(Default)]
struct LaneNumbers {
    next: u16,
    /// Lanes whose last call was given up: the server may still be running it, and would let the next one wait.
    resting: VecDeque<(Instant, caller::Lane)>,
}

/// How long a lane rests after a call that was given up.
const REST: Duration = Duration::from_secs(60);
/// Lanes that a server allows a binding.
const MOST_LANES: u16 = 16_384;
/// Of these, those that only threads that wait for their calls are given.
const FOR_THREADS: u16 = 1024;
/// Bytes of a lane's result packet: any datagram fits, for a result of many packets may arrive in larger ones.
const RESULT_ROOM: usize = 64 * 1024;

/// Room asked for in a lane's socket, which the kernel doubles; where it grants less, long results come in smaller parts.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Bytes of it that a byte of a result may take: the kernel counts what it allocates, and some of that for longer than it
/// is there.
const BUFFER_FOR_A_BYTE: usize = 3;
/// Bytes of a result that a server may send at most before it has heard how much there is room for.
const UNASKED_MAX: u32 = 256 << 10;

/// A lane with all that a call needs.
pub(crate) struct DatagramLane {
    session: Arc<Session>,
    exchange: caller::Lane,
    socket: CallerSocket,
    /// Bytes of a result that may be on their way to it.
    window: u32,
    call: Vec<u8>,
    result: Vec<u8>,
    /// Bytes of the result in it.
    result_len: usize,
    /// Of a result that has landed in the caller's memory as far as it belongs there: where in the packet the rest begins.
    landed: Option<usize>,
    /// Bytes of the longest call and the longest result.
    longest_call: usize,
    longest_result: usize,
    /// While there are large calls.
    large: Option<Box<Large>>,
    wait: Wait,
    crowd: Member<'static>,
    /// What this thread's lanes of earlier sessions, and retired ones, have seen.
    past: CallCounters,
}

/// A lane held by a call.
pub(super) struct Held<'a> {
    binding: &'a DatagramBinding,
    place: lanes::Held<'a, DatagramLane>,
}

/// How waiting for a result ended without one.
enum Ended {
    /// As the caller is to be told.
    With(CallError),
    /// The server does not know the binding.
    Unbound,
}

fn now() -> Instant {
    Instant::from_nanos(stoop_net::clock::now_ns())
}

impl DatagramBinding {
    pub(super) fn bind(
        interface: &'static Interface,
        uri: &str,
        host_and_port: &str,
        options: &BindOptions,
    ) -> Result<Self, BindError> {
        let unreachable = |cause| BindError::Unreachable { server: uri.into(), cause };
        let deadline = now() + options.bind_timeout;
        let mut last = None;
        for server in resolve(host_and_port).map_err(unreachable)? {
            match grant(interface, uri, server, deadline, options.max_message, 0) {
                Ok((session, socket)) => {
                    let binding = Self {
                        interface,
                        uri: uri.into(),
                        server,
                        options: options.clone(),
                        generation: AtomicU64::new(session.generation),
                        session: Mutex::new(Arc::new(session)),
                        rebinding: Turns::default(),
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

    pub(super) fn describe(&self) -> String {
        let session = self.present();
        format!(
            "packet exchange over UDP with {}, because the address says so; one packet each way up to {PACKET_DATA} bytes, \
             and at most {} bytes of arguments and {} of result; waiting {:?}, and both ends {} run at the same time",
            self.server,
            session.longest_call,
            self.options.max_message,
            self.options.waiting,
            if session.company.together { "can" } else { "cannot" },
        )
    }

    pub(super) fn counters(&self) -> CallCounters {
        self.lanes.counters()
    }

    /// The number of the present session.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(super) fn present(&self) -> Arc<Session> {
        Arc::clone(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The calling thread's lane.
    #[inline]
    pub(super) fn hold(&self) -> Result<Held<'_>, CallError> {
        let mut place = self.lanes.hold();
        let is_present =
            |lane: &DatagramLane| lane.session.generation == self.generation.load(Ordering::Relaxed);
        if !place.as_ref().is_some_and(is_present) {
            self.renew(&mut place)?;
        }
        Ok(Held { binding: self, place })
    }

    /// Puts a lane of the present session into a place.
    #[cold]
    fn renew(&self, place: &mut Option<DatagramLane>) -> Result<(), CallError> {
        match place {
            Some(lane) => {
                lane.past.add_lane(lane.exchange.counters());
                lane.session = self.present();
                lane.exchange = lane.session.lane(&self.options);
                lane.longest_call = lane.session.longest_call;
                lane.wait.set_company(lane.session.company);
            }
            None => {
                let connected = connect(self.server).map_err(|e| CallError::NotSent(SendError::Io(e)))?;
                self.make_lane(place, connected);
            }
        }
        Ok(())
    }

    fn make_lane(&self, place: &mut Option<DatagramLane>, (socket, window): (CallerSocket, u32)) {
        let session = self.present();
        *place = Some(DatagramLane {
            exchange: session.lane(&self.options),
            wait: Wait::new(self.options.waiting, MachineCosts::of_this_machine(), session.company),
            longest_call: session.longest_call,
            longest_result: self.options.max_message,
            session,
            socket,
            window,
            call: vec![0; MAX_DATAGRAM],
            result: vec![0; RESULT_ROOM],
            result_len: 0,
            landed: None,
            large: None,
            crowd: Crowd::of_this_process().member(),
            past: CallCounters::default(),
        });
    }

    /// Binds again, unless another thread has done so since `lost` was found to be unknown to the server.
    pub(super) fn rebind(&self, lost: &Session, deadline: Instant) -> Result<Arc<Session>, BindError> {
        let begun = now();
        let Some(_turn) = self.rebinding.take(deadline.since(begun)) else {
            return Err(BindError::NoAnswer { server: self.uri.clone(), waited: now().since(begun) });
        };
        let present = self.present();
        if present.generation != lost.generation {
            return Ok(present);
        }
        let deadline = deadline.min(now() + self.options.bind_timeout);
        let (session, _) = self.grant_again(deadline, lost.generation + 1)?;
        let session = Arc::new(session);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&session);
        self.generation.store(session.generation, Ordering::Relaxed);
        Ok(session)
    }
}

impl DatagramBinding {
    fn grant_again(&self, deadline: Instant, generation: u64) -> Result<Granted, BindError> {
        let max_message = self.options.max_message;
        grant(self.interface, &self.uri, self.server, deadline, max_message, generation)
    }

    /// Whether the latest call of `lane`, first sent on the session `lost` at `sent` and refused because the server does
    /// not know that any more, may be sent again on `session`. If so, whether it has certainly not run.
    pub(super) fn sends_again(
        &self,
        procedure: u16,
        lane: &caller::Lane,
        sent: Instant,
        lost: &Session,
        session: &Session,
    ) -> Option<bool> {
        // A call that needed a retransmission may have been out while this machine slept and its server did not.
        let slept = match lane.last_transmissions() {
            1 => 0,
            _ => stoop_net::clock::asleep_ns().saturating_sub(lost.asleep_ns),
        };
        let since = now() + Duration::from_nanos(slept);
        let not_run = session.bound.shows_not_run(&lost.bound, sent, since, lane.last_was_acknowledged());
        (not_run || self.interface.procedures[usize::from(procedure)].idempotent).then_some(not_run)
    }
}

/// The error of a call that a server may have run that does not know any more.
pub(super) fn forgotten(lane: &caller::Lane, waited: Duration) -> CallError {
    let transmissions = lane.last_transmissions();
    CallError::Unknown { transmissions, waited, cause: UnknownCause::ServerRestarted }
}

/// The error of a call that its lane has given up.
pub(super) fn given_up(lane: &mut caller::Lane, clock: Instant, lost: Lost) -> CallError {
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

/// What a packet means that refuses a call or says that it failed.
fn ended_by(heard: Heard, packet: &[u8]) -> Ended {
    Ended::With(match heard {
        Heard::Refused(RefusalCode::UnknownBinding) => return Ended::Unbound,
        Heard::Refused(code) => CallError::Refused(Refusal { code, detail: detail(packet) }),
        Heard::Failed(code) => CallError::Failed(Failure { code, detail: detail(packet) }),
        _ => unreachable!("the call goes on, or has a result"),
    })
}

/// What a server adds to a refusal or a failure.
pub(super) fn detail(packet: &[u8]) -> String {
    let (_, payload) = Header::parse(packet).expect("the lane has parsed it");
    String::from_utf8_lossy(payload).into_owned()
}

impl Drop for DatagramBinding {
    /// Tells the server, so that it need not find out by silence. If the packet is lost, it will.
    fn drop(&mut self) {
        let unbind = Header::bare(Kind::Unbind, self.present().bound.binding, LaneId(0), CallNumber::ZERO);
        if let Some(lane) = self.lanes.any() {
            // The server may be gone already; then there is nobody to tell.
            let _ = lane.socket.send(&unbind.to_bytes());
        }
    }
}

impl Session {
    /// The way to the server, for calls of many packets; `socket` is one that leads there.
    /// The same, if a large call has asked for it.
    pub(super) fn known_path(&self) -> Option<&Mutex<Path>> {
        self.path_there.get()
    }

    pub(super) fn path_there(&self, socket: &CallerSocket, round_trip: RoundTrip) -> &Mutex<Path> {
        self.path_there.get_or_init(|| {
            let largest = socket.largest_datagram().unwrap_or(MAX_DATAGRAM).saturating_sub(HEADER_LEN);
            let seed = u64::from_le_bytes(host::random_bytes());
            Mutex::new(Path::new(u32::try_from(largest).unwrap_or(u32::MAX), round_trip, seed))
        })
    }

    /// A lane that no thread uses: new, or well rested.
    pub(super) fn lane(&self, options: &BindOptions) -> caller::Lane {
        self.lane_of(&mut self.numbers(), options)
    }

    /// As [`lane`](Self::lane), for a call that no thread need wait for: none when there are so many already that threads
    /// would find none.
    pub(super) fn another_lane(&self, options: &BindOptions) -> Option<caller::Lane> {
        let mut numbers = self.numbers();
        let rested = numbers.resting.front().is_some_and(|(since, _)| now().since(*since) >= REST);
        let available = rested || numbers.next < MOST_LANES - FOR_THREADS;
        available.then(|| self.lane_of(&mut numbers, options))
    }

    /// Lets a lane rest, and gives its thread another.
    pub(super) fn give_another(&self, lane: &mut caller::Lane, options: &BindOptions) {
        let mut numbers = self.numbers();
        // The server allows no more, and all are in use: it stays with this one.
        if numbers.next >= MOST_LANES && numbers.resting.is_empty() {
            return;
        }
        let other = self.lane_of(&mut numbers, options);
        numbers.resting.push_back((now(), std::mem::replace(lane, other)));
    }

    fn numbers(&self) -> MutexGuard<'_, LaneNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane_of(&self, numbers: &mut LaneNumbers, options: &BindOptions) -> caller::Lane {
        let rested = numbers.resting.front().is_some_and(|(since, _)| now().since(*since) >= REST);
        if (rested || numbers.next >= MOST_LANES)
            && let Some((_, lane)) = numbers.resting.pop_front()
        {
            return lane;
        }
        let number = LaneId(numbers.next);
        numbers.next = numbers.next.saturating_add(1);
        let seed = u64::from_le_bytes(host::random_bytes());
        let mut lane = caller::Lane::new(self.bound.binding, number, self.path, seed);
        lane.set_silence_limit(options.silence_limit);
        lane
    }
}

/// A socket to the server, and how many bytes of a result may be on their way to it.
fn connect(server: SocketAddr) -> io::Result<(CallerSocket, u32)> {
    let socket = CallerSocket::connect(server)?;
    let granted = socket.set_receive_buffer(RECEIVE_BUFFER)?;
    Ok((socket, u32::try_from(granted / BUFFER_FOR_A_BYTE).unwrap_or(u32::MAX)))
}

/// A session, and a socket for its first lane.
type Granted = (Session, (CallerSocket, u32));

/// Gets a binding from the server at that address.
fn grant(
    interface: &'static Interface,
    uri: &str,
    server: SocketAddr,
    deadline: Instant,
    max_message: usize,
    generation: u64,
) -> Result<Granted, BindError> {
    let unreachable = |cause: io::Error| BindError::Unreachable { server: uri.into(), cause };
    let (socket, window) = connect(server).map_err(unreachable)?;
    let own = host::HostFacts::gather();
    let nonce = u64::from_le_bytes(host::random_bytes());
    let begun = now();
    // What travels has 32 bits for its length.
    let max_message = u32::try_from(max_message).unwrap_or(u32::MAX);
    let mut binder =
        Binder::new(begun, deadline, crate::bound_interface(interface), crate::to_wire(&own), nonce)
            .accepting(max_message, window.min(UNASKED_MAX));
    let mut packet = vec![0; MAX_DATAGRAM];
    let mut refused = 0;
    let bound = loop {
        let mut news = CallerArrival::Nothing;
        if let Some(question) = binder.transmit(now())
            && socket.send(&question).map_err(unreachable)? == Sending::Refused
        {
            news = CallerArrival::Refused;
        }
        if news == CallerArrival::Nothing {
            let wait = binder.next_timeout().since(now());
            news = socket.recv_within(&mut packet, wait.as_nanos() as u64).map_err(unreachable)?;
        }
        match news {
            CallerArrival::Datagram(len) => match binder.handle_packet(now(), &packet[..len]) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(crate::not_bound(step, interface, uri)),
            },
            // Asked twice, for the first news may be of a packet that another binding sent.
            CallerArrival::Refused if refused == 1 => {
                return Err(unreachable(io::ErrorKind::ConnectionRefused.into()));
            }
            CallerArrival::Refused => refused += 1,
            CallerArrival::Nothing | CallerArrival::TooLarge(_) => {}
        }
        if binder.has_expired(now()) {
            return Err(BindError::NoAnswer { server: uri.into(), waited: now().since(begun) });
        }
    };
    let company = Company::of(&own, &crate::from_wire(&bound.host));
    let path = binder.path();
    let asleep_ns = stoop_net::clock::asleep_ns();
    let longest_call = bound.max_message.min(max_message) as usize;
    let path_there = OnceLock::new();
    let numbers = Mutex::default();
    let session = Session { generation, bound, path, company, asleep_ns, longest_call, path_there, numbers };
    Ok((session, (socket, window)))
}

impl Held<'_> {
    #[inline]
    fn lane(&mut self) -> &mut DatagramLane {
        self.place.as_mut().expect("a held place has a lane")
    }

    #[inline]
    pub(super) fn arguments(&mut self) -> Writer<'_> {
        let lane = self.lane();
        Writer::new(&mut lane.call, HEADER_LEN, lane.longest_call)
    }

    #[inline]
    pub(super) fn result(&self) -> &[u8] {
        let lane = self.place.as_ref().expect("a held place has a lane");
        &lane.result[HEADER_LEN..HEADER_LEN + lane.result_len]
    }

    /// What is left to read of a result that has landed in the caller's memory, if it has.
    pub(super) fn landed(&self) -> Option<Reader<'_>> {
        let landed = self.place.as_ref().expect("a held place has a lane").landed?;
        Some(Reader::after(self.result(), landed))
    }

    /// Sends the call packet, which has `len` bytes of arguments, and waits for the result.
    #[inline]
    pub(super) fn transport(&mut self, procedure: u16, len: usize, timeout_ns: u64) -> Result<(), CallError> {
        let begun = now();
        let deadline = Instant::from_nanos(bounded_deadline(begun.as_nanos(), timeout_ns));
        if deadline <= begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        match self.lane().exchange(begun, deadline, procedure, len) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun, deadline, procedure, len, &mut Pieces::none()),
        }
    }

    /// The same, with arguments and results that are in the caller's memory.
    pub(super) fn transport_pieces(
        &mut self,
        procedure: u16,
        len: usize,
        timeout_ns: u64,
        pieces: &mut Pieces<'_, '_>,
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

    /// The call did not end with a result: binds again where that helps, and explains where it does not.
    #[cold]
    fn recover(
        &mut self,
        mut ended: Ended,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
        pieces: &mut Pieces<'_, '_>,
    ) -> Result<(), CallError> {
        let mut sent = begun;
        let mut may_have_run = false;
        loop {
            match ended {
                Ended::With(error) => {
                    if matches!(error, CallError::Unknown { .. }) {
                        self.retire();
                    }
                    // Not this time; but it is idempotent, and was sent before to a server that has forgotten.
                    let not_run = matches!(error, CallError::NotSent(_) | CallError::Refused(_));
                    return Err(if may_have_run && not_run { self.forgotten(begun) } else { error });
                }
                Ended::Unbound => {
                    may_have_run |= !self.rebind(procedure, deadline, begun, sent)?;
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
        sent: Instant,
    ) -> Result<bool, CallError> {
        let lost = Arc::clone(&self.lane().session);
        let Ok(session) = self.binding.rebind(&lost, deadline) else { return Err(self.forgotten(begun)) };
        let again = self.binding.sends_again(procedure, &self.lane().exchange, sent, &lost, &session);
        let Some(not_run) = again else { return Err(self.forgotten(begun)) };
        self.binding.renew(&mut self.place)?;
        Ok(not_run)
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
        lane.exchange.forget_counters();
        lane.session.give_another(&mut lane.exchange, &binding.options);
    }
}

impl Counted for DatagramLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = self.past;
        counters.add_lane(self.exchange.counters());
        counters.add_waits(self.wait.counts());
        counters
    }
}

impl DatagramLane {
    /// One call: the packet there, and the result back.
    #[inline]
    fn exchange(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        if len > PACKET_DATA || self.large.is_some() {
            return self.exchange_large(begun, deadline, procedure, len, &mut Pieces::none());
        }
        let procedure = self.session.bound.procedures[usize::from(procedure)];
        let packet = &mut self.call[..HEADER_LEN + len];
        self.exchange.start(begun, deadline, procedure, packet);
        match self.socket.send(packet) {
            Ok(Sending::Sent) => {}
            outcome => self.not_sent(outcome, len)?,
        }
        self.await_result(begun, len)
    }

    /// The first transmission did not leave. Stale news of a closed port is no reason yet: asked again, the system says
    /// whether it still is.
    #[cold]
    fn not_sent(&mut self, outcome: io::Result<Sending>, len: usize) -> Result<(), Ended> {
        let again = outcome.and_then(|_| self.socket.send(&self.call[..HEADER_LEN + len]));
        again.map(|_| ()).map_err(|error| {
            self.exchange.abandon(now());
            Ended::With(CallError::NotSent(SendError::Io(error)))
        })
    }

    #[inline]
    fn await_result(&mut self, begun: Instant, len: usize) -> Result<(), Ended> {
        let _present = self.crowd.wait();
        let mut spins = self.wait.begin(begun.as_nanos(), self.crowd.waiting()) > 0;
        if !spins {
            self.wait.sleeps(begun.as_nanos());
        }
        let mut clock = begun;
        loop {
            let news = if spins {
                self.socket.recv(&mut self.result)
            } else {
                let limit = self.exchange.next_timeout().nanos_since(clock);
                self.socket.recv_within(&mut self.result, limit)
            };
            clock = now();
            match news {
                Ok(CallerArrival::Datagram(received)) => {
                    match self.exchange.handle_packet(clock, &self.result[..received]) {
                        Heard::Result { len, .. } => {
                            self.wait.arrived(clock.as_nanos());
                            self.result_len = len;
                            return Ok(());
                        }
                        other => {
                            if self.heard(other, clock, received, len)? {
                                return Ok(());
                            }
                        }
                    }
                }
                Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {}
                Ok(CallerArrival::Refused) => {
                    let due = self.exchange.handle_unreachable(clock);
                    self.carry_out(due, clock, len)?;
                }
                // The network's news about an earlier packet (no route just now): the deadline is what counts.
                Err(_) => {}
            }
            if clock >= self.exchange.next_timeout() {
                let due = self.exchange.handle_timeout(clock, &mut self.call[..HEADER_LEN + len]);
                self.carry_out(due, clock, len)?;
            }
            if spins && !self.wait.keeps_spinning(clock.as_nanos(), self.crowd.waiting()) {
                spins = false;
                self.wait.sleeps(clock.as_nanos());
            }
        }
    }

    /// Anything but a result of one packet; `true` when the result is here all the same.
    #[cold]
    fn heard(&mut self, heard: Heard, clock: Instant, received: usize, len: usize) -> Result<bool, Ended> {
        match heard {
            Heard::Part(part) => return self.go_on_large(clock, part, received, len).map(|()| true),
            Heard::Prove(proof) => {
                // Lost or not sent: the server asks again when the call is sent again.
                let _ =
                    self.socket.send(&proof).and_then(|_| self.socket.send(&self.call[..HEADER_LEN + len]));
            }
            Heard::Refused(_) | Heard::Failed(_) => return Err(ended_by(heard, &self.result[..received])),
            Heard::Result { .. } | Heard::Receipt | Heard::Progress | Heard::Ignored => {}
        }
        Ok(false)
    }

    #[cold]
    fn carry_out(&mut self, due: Due, clock: Instant, len: usize) -> Result<(), Ended> {
        // A packet that is not sent is like one that is lost: the next timeout sees to it.
        match due {
            Due::Nothing => {}
            Due::Retransmit => drop(self.socket.send(&self.call[..HEADER_LEN + len])),
            Due::Probe(packet) | Due::Cancel(packet) => drop(self.socket.send(&packet)),
            Due::Resume | Due::Receipt => {
                unreachable!("the call and what has come of its result are one packet")
            }
            Due::GiveUp(lost) => {
                return Err(Ended::With(given_up(&mut self.exchange, clock, lost)));
            }
        }
        Ok(())
    }
}
