//! Calls and results of many packets, at their caller.
//!
//! Packets are framed behind each other in one buffer that stays in the processor's cache, and the kernel takes as many of
//! them at once as it can; those of a result come in the same way. So each byte is copied once at each side, or not at the
//! sender where packets are large enough to be gathered: from where
//! the caller has it, and to where it belongs.

use crate::error::{CallError, SendError};
use crate::transport::packet::caller::lane::{Ended, LAST_LOOKS, PacketLane};
pub(crate) use crate::transport::packet::caller::large_buffers::Large;
use crate::transport::packet::caller::now;
use crate::transport::packet::checksum;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_exchange::Instant;
use stoop_exchange::bulk::{Path, RECEIPT_WAITS_NANOS};
use stoop_exchange::caller::{Due, Part};
use stoop_marshal::{EncodeError, GatherList};
use stoop_net::udp::CallerArrival;
use stoop_wire::{HEADER_LEN, Receipt};

/// How long a thread with more to send sleeps at most: another thread's message may have left some of the window they share.
const LOOK_AT_WINDOW_NS: u64 = 1_000_000;

/// A call that has many packets, or whose result may have.
pub(crate) struct LargeCall<'l, 'c, 'p, 'a> {
    pub(crate) lane: &'l mut PacketLane,
    pub(crate) large: &'l mut Large,
    /// What the calls of a session share.
    pub(crate) path: &'l Mutex<Path>,
    pub(crate) pieces: &'c mut GatherList<'p, 'a>,
    /// Bytes of arguments.
    pub(crate) len: usize,
    /// Nothing of it has left yet.
    pub(crate) unsent: bool,
    /// Bytes of the result that land in the caller's memory; known when the first part of it is here.
    pub(crate) scatter_len: Option<usize>,
}

impl PacketLane {
    /// One call that may have many packets, or that comes after such.
    #[cold]
    pub(crate) fn exchange_large(
        &mut self,
        begun: Instant,
        deadline: Instant,
        procedure: u16,
        len: usize,
        pieces: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended> {
        self.scattered = None;
        if len > self.longest_call {
            // Written for a server that has been replaced by one that takes less.
            let why = EncodeError::TooLarge { needed_at_least: len, limit: self.longest_call };
            return Err(Ended::With(CallError::NotSent(SendError::Arguments(why))));
        }
        let one_packet = self.exchange.packet_data();
        let (is_large, expects_large) = (len > one_packet, pieces.scatter_end() > one_packet);
        let mut large = self.large.take().unwrap_or_default();
        if !is_large && !expects_large && large.has_rested() && !self.has_checksum() {
            large.give_back(&self.socket, &mut self.call, &mut self.result);
            return self.exchange(begun, deadline, procedure, len);
        }
        if expects_large {
            large.expect_result(&self.socket);
        }
        let session = Arc::clone(&self.session);
        let procedure = session.bound.procedures[usize::from(procedure)];
        if is_large {
            let len = u32::try_from(len).expect("a message is shorter than 4 GiB");
            self.exchange.start_large(begun, deadline, procedure, len, session.bound.window);
        } else {
            self.exchange.start(begun, deadline, procedure, &mut self.call[..HEADER_LEN + len]);
        }
        let path = session.path_there(&self.socket, self.exchange.path());
        let mut call =
            LargeCall { lane: self, large: &mut large, path, pieces, len, unsent: true, scatter_len: None };
        let outcome = call.send_first(begun).and_then(|()| call.go_on(begun));
        let was_large = is_large || call.scatter_len.is_some();
        if is_large {
            self.exchange.settle(&mut locked(path));
        }
        large.note(was_large);
        self.large = Some(large);
        outcome
    }

    /// The result turns out to have many packets, of which the one in the result packet has arrived first.
    #[cold]
    pub(crate) fn go_on_large(
        &mut self,
        clock: Instant,
        part: Part,
        received: usize,
        len: usize,
    ) -> Result<(), Ended> {
        self.scattered = None;
        let mut large = Box::<Large>::default();
        large.expect_result(&self.socket);
        let session = Arc::clone(&self.session);
        let path = session.path_there(&self.socket, self.exchange.path());
        let first = self.result[..received].to_vec();
        let pieces = &mut GatherList::none();
        let mut call =
            LargeCall { lane: self, large: &mut large, path, pieces, len, unsent: false, scatter_len: None };
        let outcome = call.place(&part, &first).and_then(|()| match part.complete {
            true => call.has_ended(clock, &part),
            false => call.go_on(clock),
        });
        large.note(true);
        self.large = Some(large);
        outcome
    }
}

impl LargeCall<'_, '_, '_, '_> {
    /// Sends what is left to send, and receives the result.
    fn go_on(&mut self, begun: Instant) -> Result<(), Ended> {
        let _present = self.lane.waiters.wait();
        let mut clock = begun;
        // Each wait for packets is one by itself; `None` while there is something to send.
        let mut spins = None;
        let mut heard = begun;
        loop {
            let sent = self.send_run(clock)?;
            if sent {
                spins = None;
            } else if spins.is_none() {
                spins = Some(self.begin_waiting(clock));
            }
            let sleeps = spins == Some(false) && !self.lane.exchange.owes_receipt(true);
            let limit_ns = if sleeps { self.limit_ns(clock) } else { 0 };
            let news = match sleeps {
                true => {
                    let latest_ns = self.lane.exchange.deadline().nanos_since(clock);
                    self.lane.socket.recv_segments_about(&mut self.large.datagrams, limit_ns, latest_ns)
                }
                false => self.lane.socket.recv_segments(&mut self.large.datagrams),
            };
            clock = now();
            match news {
                Ok(CallerArrival::Datagram(segments)) => {
                    if spins.take().is_some() {
                        self.lane.wait.arrived(clock.as_nanos());
                    }
                    if self.take(clock, segments)? {
                        return Ok(());
                    }
                    heard = clock;
                    self.tell(clock, false);
                }
                Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {
                    let lingers = spins == Some(true) && clock.nanos_since(heard) < RECEIPT_WAITS_NANOS;
                    self.tell(clock, !lingers);
                }
                Ok(CallerArrival::Refused) => {
                    self.lane.take_sent_back();
                    let due = self.lane.exchange.handle_unreachable(clock);
                    if self.carry_out(due, clock)? {
                        return Ok(());
                    }
                }
                // The network's news about an earlier packet (no route just now): the deadline is what counts.
                Err(_) => self.lane.take_sent_back(),
            }
            if self.look_at_time(clock)? {
                return Ok(());
            }
            let lane = &mut *self.lane;
            if spins == Some(true) && !lane.wait.keeps_spinning(clock.as_nanos(), lane.waiters.waiting()) {
                lane.wait.sleeps(clock.as_nanos());
                spins = Some(false);
            }
        }
    }

    /// A wait begins: whether by spinning.
    fn begin_waiting(&mut self, clock: Instant) -> bool {
        let lane = &mut *self.lane;
        let spins = lane.wait.begin(clock.as_nanos(), lane.waiters.waiting()) > 0;
        if !spins {
            lane.wait.sleeps(clock.as_nanos());
        }
        spins
    }

    /// How long to sleep at most.
    fn limit_ns(&self, clock: Instant) -> u64 {
        let limit = self.lane.exchange.next_timeout().nanos_since(clock);
        if self.is_sending() { limit.min(LOOK_AT_WINDOW_NS) } else { limit }
    }

    /// Does what is due; `true` when the result is here after all.
    fn look_at_time(&mut self, clock: Instant) -> Result<bool, Ended> {
        if clock < self.lane.exchange.next_timeout() {
            return Ok(false);
        }
        // The packet of a small call; a large one is framed anew.
        let packet = if self.is_large() { HEADER_LEN } else { HEADER_LEN + self.len };
        let due = self.lane.exchange.handle_timeout(clock, &mut self.lane.call[..packet]);
        self.carry_out(due, clock)
    }

    fn carry_out(&mut self, due: Due, clock: Instant) -> Result<bool, Ended> {
        let lane = &mut *self.lane;
        // A packet that is not sent is like one that is lost: the next timeout sees to it.
        match due {
            Due::Nothing => {}
            Due::Retransmit => lane.send_again(self.len),
            Due::Resume => lane.exchange.resume(clock, &mut locked(self.path)),
            Due::Probe(packet) | Due::Cancel(packet) => drop(checksum::send(&lane.socket, &packet)),
            Due::Receipt => self.send_receipt(clock),
            Due::Abandon(lost) => {
                if self.take_what_is_there(clock)? {
                    return Ok(true);
                }
                return Err(self.lane.given_up(clock, lost));
            }
        }
        Ok(false)
    }

    /// Takes what has arrived before the call is given up; `true` when the result is here.
    fn take_what_is_there(&mut self, clock: Instant) -> Result<bool, Ended> {
        for _ in 0..LAST_LOOKS {
            let segments = match self.lane.socket.recv_segments(&mut self.large.datagrams) {
                Ok(CallerArrival::Datagram(segments)) => segments,
                Ok(CallerArrival::Nothing) => break,
                _ => continue,
            };
            if self.take(clock, segments)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells the server which parts of the result are here, if that is called for.
    fn tell(&mut self, clock: Instant, drained: bool) {
        if self.lane.exchange.owes_receipt(drained) {
            self.send_receipt(clock);
        }
    }

    pub(crate) fn send_receipt(&mut self, clock: Instant) {
        let mut packet = [0; Receipt::MAX_PACKET];
        let len = self.lane.exchange.receipt(clock, self.lane.window, &mut packet);
        if len > 0 {
            drop(checksum::send(&self.lane.socket, &packet[..len]));
        }
    }
}

pub(crate) fn locked(path: &Mutex<Path>) -> MutexGuard<'_, Path> {
    path.lock().unwrap_or_else(PoisonError::into_inner)
}
