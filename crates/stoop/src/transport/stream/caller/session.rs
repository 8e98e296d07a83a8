//! A connection with the binding that was made on it, shared by all lanes.

use crate::calling::receive_role::{ReceiveRole, RoleGuard};
use crate::calling::sessions::Generation;
use crate::transport::stream::caller::mailbox::{Answer, Delivery, Mailbox, opened};
use crate::transport::stream::caller::outgoing::Outgoing;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_exchange::binder::Bound;
use stoop_exchange::stream::{Arrival, Message, Reassembler};
use stoop_net::stream::{Stream, StreamArrival};
use stoop_net::waiting::Placement;
use stoop_net::{Patience, clock};
use stoop_wire::{Header, Kind, LaneId};

/// A connection and its binding. Once lost it stays lost; the next call makes another.
pub(crate) struct Session {
    pub(crate) generation: u64,
    pub(crate) bound: Bound,
    pub(crate) placement: Placement,
    pub(crate) stream: Stream,
    pub(crate) outgoing: Outgoing,
    /// The thread that holds it receives for all lanes.
    pub(crate) role: ReceiveRole<Reassembler>,
    lanes: Mutex<SessionLanes>,
    lost: AtomicBool,
    /// When something was last received.
    heard_ns: AtomicU64,
    /// Answers that belonged to no call.
    ignored: AtomicU64,
}

#[derive(Default)]
struct SessionLanes {
    all: Vec<Arc<Mailbox>>,
    /// Lanes that no thread uses, and whose calls have all been answered.
    free: Vec<Arc<Mailbox>>,
}

/// The receive role, held.
pub(crate) type Role<'a> = RoleGuard<'a, Reassembler>;

/// The connection has been lost.
#[derive(Debug)]
pub(crate) struct Lost;

/// Lanes that a server allows a connection.
pub(crate) const MOST_LANES: u16 = 1024;
/// After so long a silence, a look whether the connection is still there costs little in comparison, and spares a call
/// whose outcome would be unknown.
const QUIET_NS: u64 = 1_000_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Generation for Session {
    fn generation(&self) -> u64 {
        self.generation
    }
}

impl Session {
    pub(crate) fn new(
        generation: u64,
        bound: Bound,
        placement: Placement,
        stream: Stream,
        intake: Reassembler,
    ) -> Self {
        Self {
            generation,
            bound,
            placement,
            stream,
            outgoing: Outgoing::default(),
            role: ReceiveRole::new(intake),
            lanes: Mutex::default(),
            lost: AtomicBool::new(false),
            heard_ns: AtomicU64::new(clock::now_ns()),
            ignored: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// The connection is of no more use: everybody who waits learns it.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        // Wakes whoever receives or waits for room. That it is broken already is no error.
        let _ = self.stream.shutdown();
        self.role.notify_all();
    }

    pub(crate) fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// A lane for a thread that has none; `None` when the server allows no more.
    pub(crate) fn lane(&self) -> Option<Arc<Mailbox>> {
        let mut lanes = locked(&self.lanes);
        if let Some(free) = lanes.free.pop() {
            return Some(free);
        }
        let most = self.bound.lanes.min(u32::from(MOST_LANES));
        let number = u16::try_from(lanes.all.len()).ok().filter(|number| u32::from(*number) < most)?;
        let mailbox = Arc::new(Mailbox::new(LaneId(number)));
        lanes.all.push(Arc::clone(&mailbox));
        Some(mailbox)
    }

    /// A lane is free whose call has been answered.
    pub(crate) fn give_back(&self, lane: Arc<Mailbox>) {
        locked(&self.lanes).free.push(lane);
    }

    /// Receives once, waiting up to `limit_ns`. Returns whether something came.
    #[inline]
    pub(crate) fn receive(&self, intake: &mut Reassembler, limit_ns: u64) -> Result<bool, Lost> {
        self.receive_about(intake, limit_ns, limit_ns)
    }

    /// As [`receive`](Self::receive), waiting about `about_ns` and up to `latest_ns`.
    #[inline]
    pub(crate) fn receive_about(
        &self,
        intake: &mut Reassembler,
        about_ns: u64,
        latest_ns: u64,
    ) -> Result<bool, Lost> {
        let arrival = match about_ns {
            0 => self.stream.recv(intake.space(), Patience::DontWait),
            about_ns => self.stream.recv_about(intake.space(), about_ns, latest_ns),
        };
        match arrival {
            Ok(StreamArrival::Bytes(len)) => {
                intake.received(len);
                Ok(true)
            }
            Ok(StreamArrival::Nothing) => Ok(false),
            Ok(StreamArrival::Closed) | Err(_) => Err(Lost),
        }
    }

    /// Something was received just now.
    #[inline]
    pub(crate) fn heard(&self, now_ns: u64) {
        self.heard_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether an answer can be one of this binding's.
    #[inline]
    pub(crate) fn is_answer(&self, arrival: &Arrival<'_>) -> bool {
        let (Arrival::Message(Message { header, .. }) | Arrival::NotTaken(header, _)) = arrival;
        header.binding == self.bound.binding
            && matches!(header.kind, Kind::Result | Kind::Refusal | Kind::Failure)
    }

    /// Gives an answer to the lane for which it came.
    pub(crate) fn deliver(&self, header: Header, answer: Answer, message: Option<Message<'_>>) {
        let mailbox = locked(&self.lanes).all.get(usize::from(header.lane.0)).cloned();
        let delivery = mailbox.as_ref().map(|mailbox| mailbox.deliver(&header, answer, message));
        match (delivery, mailbox) {
            (Some(Delivery::Delivered), _) => {}
            (Some(Delivery::Landed(flights, call, message)), Some(mailbox)) => {
                self.give_back(mailbox);
                flights.arrived(call, answer, message);
            }
            (Some(Delivery::Freed), Some(mailbox)) => {
                self.give_back(mailbox);
                self.ignored.fetch_add(1, Ordering::Relaxed);
            }
            _ => {
                self.ignored.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether something was received after that time.
    pub(crate) fn was_heard_since(&self, then_ns: u64) -> bool {
        self.heard_ns.load(Ordering::Relaxed) > then_ns
    }

    /// Delivers everything that has arrived.
    pub(crate) fn deliver_all(&self, intake: &mut Reassembler) -> Result<(), Lost> {
        while let Some(arrival) = intake.poll().map_err(|_| Lost)? {
            if !self.is_answer(&arrival) {
                return Err(Lost);
            }
            let (header, answer, message) = opened(arrival);
            self.deliver(header, answer, message);
        }
        Ok(())
    }

    /// After a silence: whether the connection is still there.
    #[inline]
    pub(crate) fn is_there(&self, now_ns: u64) -> bool {
        let quiet = now_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed)) >= QUIET_NS;
        !self.is_lost() && (!quiet || self.look())
    }

    /// Delivers what has arrived, if no other thread receives. Returns whether the connection is still there.
    #[cold]
    pub(crate) fn look(&self) -> bool {
        // Whoever has the role will notice.
        let Some(mut role) = self.role.try_take() else { return true };
        let there = loop {
            match self.receive(&mut role, 0) {
                Ok(false) => break true,
                Ok(true) if self.deliver_all(&mut role).is_ok() => {}
                Ok(true) | Err(Lost) => break false,
            }
        };
        drop(role);
        if !there {
            self.lose();
        }
        there
    }
}
