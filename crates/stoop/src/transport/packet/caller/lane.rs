//! A lane over UDP: a call packet there, and a result packet back.

use crate::calling::counters::CallCounters;
use crate::calling::lanes::Counted;
use crate::error::{CallError, Failure, Refusal, SendError};
use crate::transport::packet::caller::large::Large;
use crate::transport::packet::caller::{detail, given_up, now};
use crate::transport::packet::checksum;
use crate::transport::packet::session::Session;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::caller::{self, Due, Heard, Lost};
use stoop_exchange::outcome::Unbound;
use stoop_marshal::GatherList;
use stoop_net::udp::{CallerArrival, CallerSocket, Sending};
use stoop_net::waiting::{Wait, WaiterSlot};
use stoop_wire::HEADER_LEN;

/// A lane with all that a call needs.
pub(crate) struct PacketLane {
    pub(crate) session: Arc<Session>,
    pub(crate) exchange: caller::Lane,
    pub(crate) socket: CallerSocket,
    /// Bytes of a result that may be on their way to it.
    pub(crate) window: u32,
    pub(crate) call: Vec<u8>,
    pub(crate) result: Vec<u8>,
    /// Bytes of the result in it.
    pub(crate) result_len: usize,
    /// Of a result that has scattered in the caller's memory as far as it belongs there: where in the packet the rest begins.
    pub(crate) scattered: Option<usize>,
    /// Bytes of the longest call and the longest result.
    pub(crate) longest_call: usize,
    pub(crate) longest_result: usize,
    /// From this length on a call is not one packet without a checksum; 0 where packets have checksums.
    pub(crate) plain_end: usize,
    /// While there are large calls.
    pub(crate) large: Option<Box<Large>>,
    pub(crate) wait: Wait,
    pub(crate) waiters: WaiterSlot<'static>,
    /// What this thread's lanes of earlier sessions, and retired ones, have seen.
    pub(crate) past: CallCounters,
}

/// Bytes of a lane's result packet: any datagram fits, for a result of many packets may arrive in larger ones.
pub(crate) const RESULT_ROOM: usize = 64 * 1024;

/// Datagrams that are looked at before a call is given up: no peer keeps it from its end.
pub(crate) const LAST_LOOKS: u32 = 64;

/// How waiting for a result ended without one.
pub(crate) enum Ended {
    /// As the caller is to be told.
    With(CallError),
    /// The server does not know the binding.
    Unbound(Unbound),
    /// Nobody listened at the server's port whenever the call was sent: it has not run.
    NobodyListens,
}

/// What a packet means that refuses a call or says that it failed.
pub(crate) fn ended_by(heard: Heard, packet: &[u8]) -> Ended {
    Ended::With(match heard {
        Heard::Unbound(refusal) => return Ended::Unbound(refusal),
        Heard::Refused(code) => CallError::Refused(Refusal { code, detail: detail(packet) }),
        Heard::Failed(code) => CallError::Failed(Failure { code, detail: detail(packet) }),
        _ => unreachable!("the call goes on, or has a result"),
    })
}

impl Counted for PacketLane {
    #[inline]
    fn counters(&self) -> CallCounters {
        let mut counters = self.past;
        counters.add_lane(self.exchange.counters());
        counters.add_waits(self.wait.counts());
        counters
    }
}

impl PacketLane {
    /// Whether packets have checksums.
    #[inline]
    pub(crate) fn has_checksum(&self) -> bool {
        self.session.bound.binding.has_checksum()
    }

    /// One call: the packet there, and the result back.
    #[inline]
    pub(crate) fn exchange(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        if len >= self.plain_end || self.large.is_some() {
            return self.exchange_large(begun, deadline, procedure, len, &mut GatherList::none());
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
    pub(crate) fn not_sent(&mut self, outcome: io::Result<Sending>, len: usize) -> Result<(), Ended> {
        let again = outcome.and_then(|_| checksum::send(&self.socket, &self.call[..HEADER_LEN + len]));
        again.map(|_| ()).map_err(|error| {
            self.exchange.abandon(now());
            Ended::With(CallError::NotSent(SendError::Io(error)))
        })
    }

    #[inline]
    fn await_result(&mut self, begun: Instant, len: usize) -> Result<(), Ended> {
        let _present = self.waiters.wait();
        let mut spins = self.wait.begin(begun.as_nanos(), self.waiters.waiting()) > 0;
        if !spins {
            self.wait.sleeps(begun.as_nanos());
        }
        let mut clock = begun;
        loop {
            let news = if spins {
                self.socket.recv(&mut self.result)
            } else {
                let limit_ns = self.exchange.next_timeout().nanos_since(clock);
                let latest_ns = self.exchange.deadline().nanos_since(clock);
                self.socket.recv_about(&mut self.result, limit_ns, latest_ns)
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
                    if self.on_refused(clock, len)? {
                        return Ok(());
                    }
                }
                // The network's news about an earlier packet (no route just now): the deadline is what counts.
                Err(_) => self.take_sent_back(),
            }
            if clock >= self.exchange.next_timeout() && self.on_timeout(clock, len)? {
                return Ok(());
            }
            if spins && !self.wait.keeps_spinning(clock.as_nanos(), self.waiters.waiting()) {
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
                let packet = &mut self.call[..HEADER_LEN + len];
                self.exchange.stamp_again(clock, packet);
                // Lost or not sent: the server asks again when the call is sent again.
                let _ = self.socket.send(&proof).and_then(|_| self.socket.send(packet));
            }
            Heard::Refused(_) | Heard::Unbound { .. } | Heard::Failed(_) => {
                return Err(ended_by(heard, &self.result[..received]));
            }
            Heard::Result { .. } | Heard::Receipt | Heard::Progress | Heard::Ignored => {}
        }
        Ok(false)
    }

    /// Something is due; `true` when the result is here after all.
    #[cold]
    #[inline(never)]
    fn on_timeout(&mut self, clock: Instant, len: usize) -> Result<bool, Ended> {
        let due = self.exchange.handle_timeout(clock, &mut self.call[..HEADER_LEN + len]);
        self.carry_out(due, clock, len)
    }

    /// The port was found closed; `true` when the result is here after all.
    #[cold]
    #[inline(never)]
    fn on_refused(&mut self, clock: Instant, len: usize) -> Result<bool, Ended> {
        self.take_sent_back();
        let due = self.exchange.handle_unreachable(clock);
        self.carry_out(due, clock, len)
    }

    /// Does what is due; `true` when the result is here after all.
    fn carry_out(&mut self, due: Due, clock: Instant, len: usize) -> Result<bool, Ended> {
        // A packet that is not sent is like one that is lost: the next timeout sees to it.
        match due {
            Due::Nothing => {}
            Due::Retransmit => self.send_again(len),
            Due::Probe(packet) | Due::Cancel(packet) => drop(self.socket.send(&packet)),
            Due::Resume | Due::Receipt => {
                unreachable!("the call and what has come of its result are one packet")
            }
            Due::Abandon(lost) => {
                if self.take_what_is_there(clock, len)? {
                    return Ok(true);
                }
                return Err(self.given_up(clock, lost));
            }
        }
        Ok(false)
    }

    /// Sends the call packet again; once more if that only told of an earlier packet that came back.
    pub(crate) fn send_again(&mut self, len: usize) {
        let packet = &self.call[..HEADER_LEN + len];
        if let Ok(Sending::Refused) = checksum::send(&self.socket, packet) {
            let _ = checksum::send(&self.socket, packet);
        }
    }

    /// Takes note of what has come back from a closed port.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_sent_back(&mut self) {
        let exchange = &mut self.exchange;
        self.session.take_sent_back(&self.socket, |packet| exchange.handle_sent_back(packet));
    }

    /// The call is given up.
    #[cold]
    pub(crate) fn given_up(&mut self, clock: Instant, lost: Lost) -> Ended {
        if self.session.shows_nobody_listened(&self.exchange, lost) {
            self.exchange.abandon(clock);
            return Ended::NobodyListens;
        }
        Ended::With(given_up(&mut self.exchange, clock, lost))
    }

    /// Takes what has arrived before the call is given up: a thread that was kept from running sees late a result that came in
    /// time. `true` when it is here.
    fn take_what_is_there(&mut self, clock: Instant, len: usize) -> Result<bool, Ended> {
        for _ in 0..LAST_LOOKS {
            let received = match self.socket.recv(&mut self.result) {
                Ok(CallerArrival::Datagram(received)) => received,
                Ok(CallerArrival::Nothing) => break,
                _ => continue,
            };
            match self.exchange.handle_packet(clock, &self.result[..received]) {
                Heard::Result { len, .. } => {
                    self.result_len = len;
                    return Ok(true);
                }
                other => {
                    if self.heard(other, clock, received, len)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
