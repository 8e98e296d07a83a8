//! A connection with the binding that was made on it, shared by all lanes.

use crate::calling::receive_role::{ReceiveRole, RoleGuard};
use crate::calling::sessions::Generation;
use crate::error::UnknownCause;
use crate::pipes::error::PipeError;
use crate::pipes::helper::{self, SendsPipes};
use crate::pipes::queue::Disorder;
use crate::transport::stream::caller::lane_table::{Answered, LaneTable};
use crate::transport::stream::caller::mailbox::Mailbox;
use crate::transport::stream::caller::sending_half::SendingHalf;
use crate::transport::stream::channel::Channel;
use crate::transport::stream::pipes::PipeTable;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use stoop_exchange::binder::Bound;
use stoop_exchange::stream::{Reassembler, StreamEvent};
use stoop_net::poller::Waker;
use stoop_net::stream::StreamArrival;
use stoop_net::waiting::Placement;
use stoop_net::{Patience, clock};
use stoop_wire::{Header, Kind, UnbindReason};

/// A connection and its binding. Once lost it stays lost; the next call makes another.
pub(crate) struct Session {
    pub(crate) generation: u64,
    pub(crate) bound: Bound,
    pub(crate) placement: Placement,
    pub(crate) stream: Channel,
    pub(crate) outgoing: SendingHalf,
    /// The thread that holds it receives for all lanes.
    pub(crate) role: ReceiveRole<Receiver>,
    lanes: Mutex<LaneTable>,
    /// The pipes of begun calls.
    pub(crate) pipes: PipeTable,
    /// The begun calls of the binding, once there are any.
    begun: OnceLock<Weak<dyn TakesAnswers>>,
    /// [`LOST`] and [`CLOSING`].
    state: AtomicU8,
    /// The server has ended the connection, and said so behind its last answer: it has run no call that it has not answered.
    ended: AtomicBool,
    /// When something was last received.
    heard_ns: AtomicU64,
    /// When a thread last looked whether the connection's address is still this machine's.
    looked_ns: AtomicU64,
    /// The longest sleep until such a look; `u64::MAX` for a connection within this machine, whose address does not go.
    longest_sleep_ns: u64,
    /// Answers that belonged to no call, on this connection and those before it.
    ignored: AtomicU64,
}

/// The memory into which the thread with the receive role receives.
pub(crate) struct Receiver {
    reassembler: Reassembler,
    /// Begun calls that are answered by what has just arrived.
    answered: Vec<Answered>,
    /// The thread that has the role sends what receipts let be sent of pipes.
    pub(crate) sends_pipes: bool,
}

impl Receiver {
    /// Whether part of a message has been received, and the rest has not.
    #[inline]
    pub(crate) fn has_part(&self) -> bool {
        !self.reassembler.is_at_rest()
    }
}

/// The receive role, held.
pub(crate) type Role<'a> = RoleGuard<'a, Receiver>;

/// Begun calls, as a session sees them.
pub(crate) trait TakesAnswers: Send + Sync {
    /// Ends calls that have been answered. The calling thread may have the receive role.
    fn end_answered(&self, answered: &mut Vec<Answered>);

    /// Bytes have been left over, which the background thread sends if no other thread does.
    fn note_rest(&self);
}

/// The connection has been lost.
#[derive(Debug)]
pub(crate) struct Lost;

/// The connection is of no more use.
const LOST: u8 = 1;
/// The server shuts down: it finishes the calls that it has, and refuses others.
const CLOSING: u8 = 2;

/// Lanes that a server allows a connection.
pub(crate) const MOST_LANES: u16 = 1024;
/// After a silence of this length, a thread looks whether the connection is still there before it sends a call. That costs little
/// in comparison, and spares a call whose outcome would be unknown.
const QUIET_NS: u64 = 1_000_000;
/// After a silence of this length, and again and again while it lasts, a thread looks whether the connection's address is still this
/// machine's. That takes four system calls.
const QUIET_ADDRESS_NS: u64 = 50_000_000;
/// The longest sleep until such a look, on a connection to another machine.
const LONGEST_SLEEP_NS: u64 = 250_000_000;

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
        (stream, reassembler): (Channel, Reassembler),
        ignored: u64,
    ) -> Self {
        let is_within_machine =
            stream.local_addr().is_ok_and(|own| own.is_none_or(|own| own.ip().is_loopback()));
        let most = u16::try_from(bound.lanes).unwrap_or(MOST_LANES).min(MOST_LANES);
        Self {
            generation,
            bound,
            placement,
            stream,
            outgoing: SendingHalf::default(),
            role: ReceiveRole::new(Receiver { reassembler, answered: Vec::new(), sends_pipes: false }),
            lanes: Mutex::new(LaneTable::new(most)),
            pipes: PipeTable::default(),
            begun: OnceLock::new(),
            state: AtomicU8::new(0),
            ended: AtomicBool::new(false),
            heard_ns: AtomicU64::new(clock::now_ns()),
            looked_ns: AtomicU64::new(0),
            longest_sleep_ns: if is_within_machine { u64::MAX } else { LONGEST_SLEEP_NS },
            ignored: AtomicU64::new(ignored),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(Ordering::SeqCst) & LOST != 0
    }

    /// The connection is of no more use: every thread that waits learns it.
    pub(crate) fn lose(&self) {
        self.state.fetch_or(LOST, Ordering::SeqCst);
        // Wakes threads that receive or wait for room. That the connection is broken already is no error.
        let _ = self.stream.shutdown();
        self.role.notify_all();
        self.pipes.lose(&PipeError::lost(UnknownCause::ConnectionLost));
    }

    /// The server has said that it shuts down, or has refused a call for that reason.
    #[cold]
    pub(crate) fn note_closing(&self) {
        self.state.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// Whether the server finishes the calls that it has, and refuses others.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSING != 0
    }

    /// Of a connection that is lost: whether the server may have run calls that it has not answered. Delivers the answers that have
    /// arrived before.
    #[cold]
    pub(crate) fn may_have_run_more(&self) -> bool {
        debug_assert!(self.is_lost(), "nothing more can arrive");
        // A thread that has the role finds the end of the connection at once, and gives the role back.
        let role = loop {
            match self.role.try_take() {
                Some(role) => break Some(role),
                None if self.ended.load(Ordering::SeqCst) => break None,
                None => std::thread::yield_now(),
            }
        };
        if let Some(mut role) = role {
            while matches!(self.receive(&mut role, 0), Ok(true)) && self.deliver(&mut role).is_ok() {}
        }
        !self.ended.load(Ordering::SeqCst)
    }

    pub(crate) fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    pub(crate) fn lanes(&self) -> MutexGuard<'_, LaneTable> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane for a thread that has none; `None` while the server owes answers on all.
    pub(crate) fn lane(&self) -> Option<Arc<Mailbox>> {
        self.lanes().take_for_thread()
    }

    /// Answers to begun calls go there from now on.
    #[inline]
    pub(crate) fn set_begun(&self, begun: impl FnOnce() -> Weak<dyn TakesAnswers>) {
        self.begun.get_or_init(begun);
    }

    /// Receives once, waiting up to `limit_ns`. Returns whether something came.
    #[inline]
    pub(crate) fn receive(&self, receiver: &mut Receiver, limit_ns: u64) -> Result<bool, Lost> {
        self.receive_about(receiver, limit_ns, limit_ns)
    }

    /// As [`receive`](Self::receive), waiting about `about_ns` and up to `latest_ns`.
    #[inline]
    pub(crate) fn receive_about(
        &self,
        receiver: &mut Receiver,
        about_ns: u64,
        latest_ns: u64,
    ) -> Result<bool, Lost> {
        let space = receiver.reassembler.space();
        let arrival = match about_ns {
            0 => self.stream.recv(space, Patience::DontWait),
            about_ns => {
                let most = self.longest_sleep_ns;
                self.stream.recv_about(space, about_ns.min(most), latest_ns.min(most))
            }
        };
        match arrival {
            Ok(StreamArrival::Bytes(len)) => {
                receiver.reassembler.received(len);
                Ok(true)
            }
            Ok(StreamArrival::Nothing) if about_ns > 0 && self.is_stranded() => Err(Lost),
            Ok(StreamArrival::Nothing) => Ok(false),
            Ok(StreamArrival::Closed) | Err(_) => Err(Lost),
        }
    }

    /// Sleeps until something arrives, the connection has ended, or the waker is woken; until that time at most, and no longer than until a
    /// look at the connection's address is due. Returns whether there is something to receive.
    pub(crate) fn sleep(&self, waker: &Waker, until_ns: u64) -> bool {
        let limit_ns = until_ns.saturating_sub(clock::now_ns()).min(self.longest_sleep_ns);
        waker.sleep_beside(&self.stream, limit_ns).unwrap_or(true)
    }

    /// Something was received at that time.
    #[inline]
    pub(crate) fn heard(&self, now_ns: u64) {
        self.heard_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether something was received after that time.
    pub(crate) fn was_heard_since(&self, then_ns: u64) -> bool {
        self.heard_ns.load(Ordering::Relaxed) > then_ns
    }

    /// As [`deliver`](Self::deliver), for a thread that waits for an answer: `own` sees each first, and takes that one.
    #[inline]
    pub(crate) fn deliver_but_own(
        &self,
        receiver: &mut Receiver,
        mut own: impl for<'m> FnMut(StreamEvent<'m>) -> Option<StreamEvent<'m>>,
    ) -> Result<(), Lost> {
        loop {
            self.deliver_received(receiver, &mut own)?;
            match self.stream.take_held(&mut receiver.reassembler) {
                Ok(false) => return Ok(()),
                Ok(true) => {}
                Err(_) => return Err(Lost),
            }
        }
    }

    #[inline]
    fn deliver_received(
        &self,
        receiver: &mut Receiver,
        own: &mut impl for<'m> FnMut(StreamEvent<'m>) -> Option<StreamEvent<'m>>,
    ) -> Result<(), Lost> {
        let Receiver { reassembler, answered, sends_pipes } = receiver;
        let mut lanes = None;
        let delivered = loop {
            match reassembler.poll() {
                Ok(None) => break Ok(()),
                Ok(Some(arrival)) => {
                    if !self.is_answer(arrival.header()) {
                        if self.take_of_pipe(&arrival, *sends_pipes) {
                            continue;
                        }
                        self.note_end(arrival.header());
                        break Err(Lost);
                    }
                    let Some(others) = own(arrival) else { continue };
                    let header = *others.header();
                    if !lanes.get_or_insert_with(|| self.lanes()).deliver(others.into(), answered) {
                        self.take_unasked(&header);
                    }
                }
                Err(_) => break Err(Lost),
            }
        };
        drop(lanes);
        if !answered.is_empty() {
            self.end_answered(answered);
        }
        delivered
    }

    /// Takes an answer that belongs to no call: it may say that the server shuts down.
    #[cold]
    fn take_unasked(&self, header: &Header) {
        match header.is_closing_notice() {
            true => self.note_closing(),
            false => drop(self.ignored.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Gives each answer that has been received to the call or thread that waits for it.
    pub(crate) fn deliver(&self, receiver: &mut Receiver) -> Result<(), Lost> {
        fn not_own(arrival: StreamEvent<'_>) -> Option<StreamEvent<'_>> {
            Some(arrival)
        }
        self.deliver_but_own(receiver, not_own)
    }

    fn end_answered(&self, answered: &mut Vec<Answered>) {
        match self.begun.get().and_then(Weak::upgrade) {
            Some(begun) => begun.end_answered(answered),
            None => answered.clear(),
        }
    }

    /// Whether an answer can be one of this binding's.
    #[inline]
    fn is_answer(&self, header: &Header) -> bool {
        header.binding == self.bound.binding
            && matches!(header.kind, Kind::Result | Kind::Refusal | Kind::Failure)
    }

    /// Takes data of a pipe, or a receipt for some. Returns whether it is one.
    #[cold]
    fn take_of_pipe(&self, arrival: &StreamEvent<'_>, sends_pipes: bool) -> bool {
        let header = arrival.header();
        let is_of_pipe = matches!(header.kind, Kind::Data | Kind::Receipt);
        if !is_of_pipe || header.binding != self.bound.binding {
            return false;
        }
        // That of a call which has ended.
        let Some(call) = self.pipes.find(header) else { return true };
        let taken = match arrival {
            StreamEvent::Data(data) => self.pipes.take_data(&call, data),
            StreamEvent::Message(message) => self.pipes.take_receipt(&call, header, message.payload()),
            StreamEvent::NotTaken(..) => Err(Disorder),
        };
        if header.kind == Kind::Receipt && !sends_pipes && self.pipes.has_ready() {
            call.send_soon();
        }
        // The calling thread has the receive role.
        taken.map(helper::wake).is_ok()
    }

    /// A message has come that answers nothing. That breaks the protocol, as bytes do that are no message, unless it is the end.
    #[cold]
    fn note_end(&self, header: &Header) {
        let is_end = header.kind == Kind::Unbind
            && header.binding == self.bound.binding
            && UnbindReason::from_code(header.time) == UnbindReason::ShuttingDown;
        self.ended.fetch_or(is_end, Ordering::SeqCst);
    }

    /// Sends what is due of the pipes, as far as the connection takes it.
    #[inline]
    pub(crate) fn send_due_of_pipes(&self) {
        if self.pipes.has_ready() {
            self.send_ready_pipes();
        }
    }

    #[cold]
    fn send_ready_pipes(&self) {
        let _sending = self.pipes.gathering.begin();
        if self.is_lost() {
            return;
        }
        if self.outgoing.send_pipes(&self.stream, &self.pipes, self.bound.binding).is_err() {
            return self.lose();
        }
        if self.outgoing.has_rest()
            && let Some(begun) = self.begun.get().and_then(Weak::upgrade)
        {
            begun.note_rest();
        }
    }

    /// Whether a call can leave. After a silence it looks whether the connection is still there, and whether the server shuts down.
    #[inline]
    pub(crate) fn takes_calls(&self, now_ns: u64) -> bool {
        let quiet = now_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed)) >= QUIET_NS;
        self.state.load(Ordering::SeqCst) == 0 && (!quiet || self.receive_all() && !self.is_closing())
    }

    /// After a silence: whether the connection's address is not this machine's any more.
    #[cold]
    fn is_stranded(&self) -> bool {
        if self.longest_sleep_ns == u64::MAX {
            return false;
        }
        let now_ns = clock::now_ns();
        let last_ns = self.heard_ns.load(Ordering::Relaxed).max(self.looked_ns.load(Ordering::Relaxed));
        if now_ns.saturating_sub(last_ns) < QUIET_ADDRESS_NS {
            return false;
        }
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        self.stream.is_stranded()
    }

    /// Receives and delivers what has arrived, unless another thread does. Returns whether the connection is still there.
    #[cold]
    pub(crate) fn receive_all(&self) -> bool {
        // The thread that has the role will notice a loss.
        let Some(mut role) = self.role.try_take() else { return true };
        role.sends_pipes = true;
        let is_there = loop {
            match self.receive(&mut role, 0) {
                Ok(false) => break !self.is_stranded(),
                Ok(true) if self.deliver(&mut role).is_ok() => self.heard(clock::now_ns()),
                Ok(true) | Err(Lost) => break false,
            }
        };
        role.sends_pipes = false;
        drop(role);
        self.send_due_of_pipes();
        if !is_there {
            self.lose();
        }
        is_there
    }
}

impl SendsPipes for Session {
    fn send_pipes(&self) {
        self.send_ready_pipes();
    }
}
