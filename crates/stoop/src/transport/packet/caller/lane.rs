//! A calling thread's lane, and calls of one packet each way.

use crate::calling::counters::CallCounters;
use crate::calling::fate::Loss;
use crate::calling::lanes::Counted;
use crate::calling::recovery::lacks_form;
use crate::error::{CallError, SendError};
use crate::options::BindOptions;
use crate::transport::packet::caller::large_buffers::{LargeBuffers, RESULT_LEN};
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, Sending};
use crate::transport::packet::now;
use crate::transport::packet::session::Session;
use crate::transport::packet::steps::{Ended, Steps, Way};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::Instant;
use stoop_exchange::caller::{self, Heard};
use stoop_marshal::GatherList;
use stoop_net::waiting::Waiter;
use stoop_probe::{Point, stamp};
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM, PACKET_DATA};

/// A lane, its endpoint and its buffers.
pub(crate) struct PacketLane<E: CallerEndpoint> {
    pub(crate) session: Arc<Session>,
    pub(crate) exchange: caller::Lane,
    pub(crate) endpoint: E,
    pub(crate) call: Vec<u8>,
    pub(crate) result: Vec<u8>,
    /// Bytes of the result in it.
    pub(crate) result_len: usize,
    /// Offset in the result buffer of the bytes behind those that were copied to the caller's memory; `None` if none were.
    pub(crate) scattered: Option<usize>,
    /// Bytes of the longest arguments and of the longest result.
    pub(crate) longest_call: usize,
    pub(crate) longest_result: usize,
    /// Arguments of this length or more are not one packet without a trailer; 0 where packets have trailers.
    pub(crate) plain_end: usize,
    /// When the last call that [notes its end](Self::exchange) had its result, in nanoseconds.
    pub(crate) ended_ns: Option<u64>,
    /// Buffers for large calls, while the lane makes some.
    pub(crate) large: Option<Box<LargeBuffers<E>>>,
    pub(crate) waiter: Waiter,
    /// Whether a call that meets a closed port waits for the next server.
    pub(crate) waits_for_restart: bool,
    /// How the last attempt was lost, if it met a closed port.
    pub(crate) closed: Option<Loss>,
}

impl<E: CallerEndpoint> Counted for PacketLane<E> {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = CallCounters::default();
        counters.add_lane(self.exchange.counters());
        counters.add_waits(self.waiter.counts());
        counters
    }
}

impl<E: CallerEndpoint> PacketLane<E> {
    /// A lane of `session`.
    pub(crate) fn of(session: Arc<Session>, endpoint: E, options: &BindOptions) -> Self {
        if options.account.as_ref().is_some_and(|account| account.notes_arrivals) {
            endpoint.note_arrivals();
        }
        let lane = Self {
            exchange: session.lane(),
            waiter: Waiter::new(options.waiting, session.placement),
            waits_for_restart: options.wait_for_restart.is_some() || options.waits_for_server(),
            closed: None,
            longest_call: session.longest_call,
            longest_result: options.max_message,
            plain_end: if session.bound.binding.has_trailer() { 0 } else { PACKET_DATA + 1 },
            session,
            endpoint,
            call: vec![0; MAX_DATAGRAM],
            result: vec![0; RESULT_LEN],
            result_len: 0,
            scattered: None,
            ended_ns: None,
            large: None,
        };
        lane.serve();
        lane
    }

    /// Goes over to another session.
    pub(crate) fn move_to(&mut self, session: Arc<Session>) {
        let counted = self.exchange.counters();
        self.exchange = session.lane();
        self.exchange.go_on_counting(counted);
        self.longest_call = session.longest_call;
        self.waiter.set_placement(session.placement);
        session.prepare(&self.endpoint);
        self.session = session;
        self.serve();
    }

    /// Goes over to another lane of the session: the server may still be running the call that was given up.
    #[cold]
    pub(crate) fn replace(&mut self) {
        let counted = self.exchange.counters();
        self.session.replace_lane(&mut self.exchange);
        self.exchange.go_on_counting(counted);
        self.serve();
    }

    /// Has packets for the lane come to its endpoint, after the lane has changed.
    pub(crate) fn serve(&self) {
        self.endpoint.serve_lane(self.session.bound.binding, self.exchange.id());
    }

    /// Makes one call whose arguments, `len` bytes, are in the call packet: sends it and waits for the result. `NOTES_END`: the time of
    /// the result, which is read anyway, is kept for an account.
    #[inline]
    pub(crate) fn exchange<const NOTES_END: bool>(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        self.endpoint.settle();
        if len >= self.plain_end || self.large.is_some() {
            return self.exchange_otherwise::<NOTES_END>(begun, deadline, procedure, len);
        }
        self.exchange_one::<NOTES_END, false>(begun, deadline, procedure, len)
    }

    /// As [`exchange`](Self::exchange), of a call with trailers or of many packets.
    #[inline(never)]
    fn exchange_otherwise<const NOTES_END: bool>(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        if len > self.exchange.packet_data() || self.large.is_some() {
            return self.exchange_large(begun, deadline, procedure, len, &mut GatherList::none());
        }
        self.exchange_one::<NOTES_END, true>(begun, deadline, procedure, len)
    }

    /// Makes one call of one packet.
    #[inline(always)]
    fn exchange_one<const NOTES_END: bool, const HAS_TRAILERS: bool>(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        let Some(procedure) = self.session.bound.known(procedure) else {
            return Err(Ended::With(lacks_form()));
        };
        let packet = &mut self.call[..HEADER_LEN + len];
        self.exchange.start(begun, deadline, procedure, packet);
        stamp(Point::CallLeaves);
        let sent = match HAS_TRAILERS {
            true => self.session.protection.send(&self.endpoint, packet),
            false => self.endpoint.send(packet),
        };
        match sent {
            Ok(Sending::Sent) => {}
            outcome => self.not_sent(outcome, len)?,
        }
        stamp(Point::CallLeft);
        self.await_result::<NOTES_END, HAS_TRAILERS>(begun, len)
    }

    /// The first transmission has failed. An error about an earlier packet does not end the call: the packet is sent once more.
    #[cold]
    pub(crate) fn not_sent(&mut self, outcome: io::Result<Sending>, len: usize) -> Result<(), Ended> {
        let again = outcome
            .and_then(|_| self.session.protection.send(&self.endpoint, &self.call[..HEADER_LEN + len]));
        again.map(|_| ()).map_err(|error| self.not_sent_because(error))
    }

    #[cold]
    pub(crate) fn not_sent_because(&mut self, error: io::Error) -> Ended {
        self.exchange.abandon(now());
        Ended::With(CallError::not_sent(SendError::Io(error)))
    }

    #[inline(always)]
    fn await_result<const NOTES_END: bool, const HAS_TRAILERS: bool>(
        &mut self,
        begun: Instant,
        len: usize,
    ) -> Result<(), Ended> {
        let mut wait = self.waiter.begin(begun.as_nanos());
        let mut clock = begun;
        loop {
            let arrival = if wait.sleeps() {
                let limit_ns = self.exchange.next_timeout().nanos_since(clock);
                let latest_ns = self.exchange.deadline().nanos_since(clock);
                self.endpoint.receive_about(&mut self.result, limit_ns, latest_ns)
            } else {
                self.endpoint.receive(&mut self.result)
            };
            clock = now();
            match arrival {
                Ok(CallerArrival::Datagram(received)) if HAS_TRAILERS && !self.opens(received) => {}
                Ok(CallerArrival::Datagram(received)) => {
                    stamp(Point::ResultSeen);
                    match self.exchange.handle_packet(clock, &self.result[..received]) {
                        Heard::Result { len, .. } => {
                            self.waiter.arrived(&wait, clock.as_nanos());
                            self.result_len = len;
                            if NOTES_END {
                                self.ended_ns = Some(clock.as_nanos());
                            }
                            stamp(Point::ResultFound);
                            return Ok(());
                        }
                        other => {
                            if self.hear(other, clock, received, len)? {
                                return Ok(());
                            }
                        }
                    }
                }
                Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {}
                other => {
                    if self.on_error(other, clock, len)? {
                        return Ok(());
                    }
                }
            }
            if clock >= self.exchange.next_timeout() && self.on_timeout(clock, len)? {
                return Ok(());
            }
            self.waiter.go_on(&mut wait, clock.as_nanos());
        }
    }

    /// Opens the packet that was received. If it does not open, it is counted, and must be dropped.
    fn opens(&mut self, received: usize) -> bool {
        let opens = self.session.protection.open(&mut self.result[..received]);
        if !opens {
            self.session.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        opens
    }

    /// The call of `len` bytes of arguments, for a step; and the buffer with what was received.
    pub(crate) fn steps(&mut self, len: usize) -> (Steps<'_, E>, &mut Vec<u8>) {
        let Self { exchange: lane, session, endpoint, call, result, .. } = self;
        let is_large = len > lane.packet_data();
        // A long call may be longer than its buffer: some of its arguments are in the caller's memory.
        let packet = &mut call[..HEADER_LEN + if is_large { 0 } else { len }];
        let way = Way { session, endpoint };
        (Steps { lane, way, packet, is_large, window: endpoint.window() }, result)
    }

    /// Handles a packet that is not a result of one packet. Returns whether the result has arrived.
    #[cold]
    fn hear(&mut self, heard: Heard, clock: Instant, received: usize, len: usize) -> Result<bool, Ended> {
        let (mut steps, result) = self.steps(len);
        let packet = &result[..received];
        match steps.hear(clock, heard, packet).map_err(|answer| Ended::by(answer, packet))? {
            Some(part) => self.go_on_large(clock, part, received, len).map(|()| true),
            None => Ok(false),
        }
    }

    #[cold]
    #[inline(never)]
    fn on_timeout(&mut self, clock: Instant, len: usize) -> Result<bool, Ended> {
        let lost = self.steps(len).0.on_timeout(clock);
        lost.map_or(Ok(false), |lost| self.end_lost(lost, clock, len))
    }

    /// Handles a failed receive: the port is closed, or there is an error of an earlier packet, which does not end the call.
    #[cold]
    #[inline(never)]
    fn on_error(
        &mut self,
        arrival: io::Result<CallerArrival>,
        clock: Instant,
        len: usize,
    ) -> Result<bool, Ended> {
        self.take_sent_back();
        match arrival {
            Ok(CallerArrival::Refused) => {
                let lost = self.steps(len).0.on_unreachable(clock);
                lost.map_or(Ok(false), |lost| self.end_lost(lost, clock, len))
            }
            _ => Ok(false),
        }
    }

    /// Notes the packets that a closed port has sent back.
    #[cold]
    pub(crate) fn take_sent_back(&mut self) {
        let exchange = &mut self.exchange;
        self.session.take_sent_back(&self.endpoint, |packet| exchange.handle_sent_back(packet));
    }
}
