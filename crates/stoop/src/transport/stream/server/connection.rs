//! One connection: what arrives on it, what it is bound to, and what goes back.

mod pipes;

use crate::calling::unbind_notice;
use crate::context::Caller;
use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::locked::Turns;
use crate::pipes::error::PipeError;
use crate::serving::binder::Bound;
#[cfg(feature = "seal")]
use crate::serving::binder::Malformed;
use crate::serving::message_memory::{Content, MemoryShare, MessageMemory};
use crate::serving::service::caller_of;
use crate::transport::stream::channel::Channel;
#[cfg(feature = "seal")]
use crate::transport::stream::channel::sealed::SealedStream;
use crate::transport::stream::pipes::PipeTable;
use crate::transport::stream::server::arguments::Arriving;
use crate::transport::stream::server::numbers::Numbers;
#[cfg(feature = "seal")]
use crate::transport::stream::server::sealed::Granted;
use crate::transport::stream::server::unsent_answers::{UnsentAnswers, send_fragment};
use crate::users::Users;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use stoop_exchange::stream::{Bounds, OutgoingMessage, Reassembler};
use stoop_net::Patience;
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::{Stream, StreamArrival};
use stoop_wire::{BindingId, HEADER_LEN, Header, Kind, UnbindReason};

/// A connection to a caller.
pub(super) struct Connection {
    pub(super) stream: Channel,
    /// Its name in the poller.
    pub(super) token: u64,
    pub(super) caller: Caller,
    /// The server serves the user of its caller, or the caller is on a network.
    pub(super) is_allowed: bool,
    incoming: Mutex<Incoming>,
    outgoing: Turns<UnsentAnswers>,
    /// The pipes of its calls.
    pub(super) pipes: PipeTable,
    /// Its part of the memory for long messages.
    pub(super) memory: Arc<MemoryShare>,
    /// Bytes of results that its calls fill at the moment, as far as they are counted.
    reserved: AtomicUsize,
    bound: AtomicU64,
    /// A sealed binding that its caller has not gone over to.
    #[cfg(feature = "seal")]
    granted: Mutex<Option<Granted>>,
    closed: AtomicBool,
    /// Connections of the endpoint that hold answers back.
    holding: Arc<AtomicUsize>,
}

/// The receiving half: used by one thread at a time.
pub(super) struct Incoming {
    pub(super) reassembler: Reassembler,
    pub(super) bound: Option<Bound>,
    /// Calls that have arrived, whole or not.
    pub(super) arrived: Numbers,
    /// The server has ended the binding.
    pub(super) has_ended: bool,
    /// When a receive last found nothing more.
    pub(super) emptied_ns: u64,
}

/// Lanes of one connection: as many as a caller's threads and begun calls use at once.
pub(super) const LANES: u16 = 1024;
/// The number of messages of the greatest length that a peer may have incomplete. As many may be on their way to the peer, or wait
/// until it reads.
const LONG_MESSAGES: usize = 4;

/// Bytes of the longest answer that waits to leave with others, and about the most bytes of answers that leave together.
const SHORT: usize = 4 * 1024;
const TOGETHER_MAX: usize = 32 * 1024;

/// Whether the memory in which a message can wait for its reader has been counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Counted,
    NotCounted,
}

/// How far a message has been sent.
enum Sent {
    Whole,
    /// The rest waits for its reader.
    Kept,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        token: u64,
        message_max: usize,
        allowed: &Users,
        (holding, memory): (Arc<AtomicUsize>, &Arc<MessageMemory>),
    ) -> io::Result<Self> {
        let (caller, is_allowed) = caller_of(&stream, allowed)?;
        let memory = memory.share_of(&caller);
        let bounds = Bounds {
            long: Kind::Call,
            message_max,
            announced_max: message_max.saturating_mul(LONG_MESSAGES),
            lanes: LANES,
            pipes: true,
        };
        Ok(Self {
            stream: Channel::new(stream),
            token,
            caller,
            is_allowed,
            incoming: Mutex::new(Incoming {
                reassembler: Reassembler::with_account(bounds, Box::new(Arriving(Arc::clone(&memory)))),
                bound: None,
                arrived: Numbers::default(),
                has_ended: false,
                emptied_ns: 0,
            }),
            outgoing: Turns::default(),
            pipes: PipeTable::default(),
            memory,
            reserved: AtomicUsize::new(0),
            bound: AtomicU64::new(BindingId::NONE.0),
            #[cfg(feature = "seal")]
            granted: Mutex::default(),
            closed: AtomicBool::new(false),
            holding,
        })
    }

    /// The receiving half, unless another thread has it.
    #[inline]
    pub(super) fn try_incoming(&self) -> Option<MutexGuard<'_, Incoming>> {
        match self.incoming.try_lock() {
            Ok(incoming) => Some(incoming),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn outgoing(&self) -> MutexGuard<'_, UnsentAnswers> {
        self.outgoing.turn()
    }

    /// Whether everything has been sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.outgoing().is_empty()
    }

    /// Bytes of answers that the stream has not taken.
    pub(super) fn unread(&self) -> usize {
        self.outgoing().bytes()
    }

    /// Reserves memory for a result of so many bytes. `false`: with the answers that wait for the reader that would be too much.
    pub(super) fn reserve_result(&self, bytes: usize, message_max: usize) -> bool {
        let most = message_max.saturating_mul(LONG_MESSAGES).saturating_sub(self.outgoing().bytes());
        let more = |reserved: usize| reserved.checked_add(bytes).filter(|&reserved| reserved <= most);
        if self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let taken = self.memory.take(Content::Results, bytes);
        if !taken {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Releases the memory that was reserved for a result: the result has left, or is counted among the answers that wait.
    pub(super) fn release_result(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.give_back(Content::Results, bytes);
    }

    /// The caller no longer waits for a call that has arrived. Nothing happens if that has been answered.
    pub(super) fn cancel(&self, call: &Header) {
        let outgoing = self.outgoing();
        if outgoing.answered.is_before(call) {
            // The lock is held: the thread that answers the call takes it before the call ends.
            cancelled::cancel(CallId::new(call.binding, call.lane, call.number));
        }
    }

    /// A call is about to be answered, or will not be, because its connection is closed.
    pub(super) fn note_answered(&self, call: &Header) {
        self.outgoing().answered.note(call);
    }

    /// The sealed binding that has been granted on it and is not used yet.
    #[cfg(feature = "seal")]
    pub(super) fn granted(&self) -> MutexGuard<'_, Option<Granted>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals it from now on. The calling thread has the receiving half.
    ///
    /// # Errors
    /// There are answers that have not left.
    #[cfg(feature = "seal")]
    pub(super) fn seal_with(&self, sealed: SealedStream) -> Result<(), Malformed> {
        let mut outgoing = self.outgoing();
        if !outgoing.is_empty() {
            return Err(Malformed);
        }
        // Those of the provisional binding.
        outgoing.answered = Numbers::default();
        self.stream.seal(sealed);
        Ok(())
    }

    /// It counts as a binding from now on.
    pub(super) fn set_bound(&self, binding: BindingId) {
        self.bound.store(binding.0, Ordering::Relaxed);
    }

    /// The binding that it is or was, if it ever was one.
    pub(super) fn bound_as(&self) -> Option<BindingId> {
        let binding = BindingId(self.bound.load(Ordering::Relaxed));
        (binding != BindingId::NONE).then_some(binding)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Tells the caller of a binding, behind the answers so far, that the server refuses its next calls. Does not tell a caller that
    /// has not read its answers: it could not read this message in time either.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn announce_end(&self, poller: &Poller) -> io::Result<()> {
        // The thread that has it reads for no longer than a moment.
        let incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let binding = incoming.bound.as_ref().map(|bound| bound.binding);
        drop(incoming);
        // A caller that is about to go over to a sealed binding takes nothing but its answers.
        let Some(binding) = binding.filter(|binding| Some(*binding) == self.bound_as()) else {
            return Ok(());
        };
        if !self.is_flushed() {
            return Ok(());
        }
        self.send(poller, Header::closing_notice(binding), &mut vec![0; HEADER_LEN], HEADER_LEN)
    }

    /// Tells the caller of a binding, behind its last answer, that its other calls have not run and will not. Nothing more is read.
    /// Returns whether there is a binding.
    pub(super) fn end(&self, poller: &Poller) -> bool {
        // The thread that has it reads for no longer than a moment.
        let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bound) = incoming.bound.take() else { return false };
        incoming.has_ended = true;
        // Refusals may be held back since the server last looked. A reader that has not taken its answers does not learn it.
        if matches!(self.flush(poller, &mut Vec::new()), Ok(true)) {
            self.send_notice(bound.binding, UnbindReason::ShuttingDown);
            // The next operation on the connection finds that it is broken.
            let _ = self.stream.finish();
        }
        let _ = poller.remove(&self.stream);
        true
    }

    /// Says why the binding ends, if there is room for it. All that was sent before has left.
    fn send_notice(&self, binding: BindingId, why: UnbindReason) {
        let _ = self.stream.try_send(&[IoSlice::new(&unbind_notice::packet(binding, why))]);
    }

    /// Tells the caller of a connection without a binding why it is closed: others need its place.
    pub(super) fn tell_crowded_out(&self) {
        self.send_notice(BindingId::NONE, UnbindReason::Crowded);
        let _ = self.stream.finish();
        // A TCP socket that is closed with bytes that were not read resets the connection, and the caller may miss the notice. What
        // a caller sends to bind fits in here.
        let _ = self.stream.recv(&mut [0; 4096], Patience::DontWait);
    }

    /// Discards the bytes that have arrived since [`end`](Self::end). Returns whether there were some; `None` if no more can arrive.
    pub(super) fn throw_away(&self) -> Option<bool> {
        if !matches!(self.caller, Caller::Network(_)) {
            // A Unix socket has delivered the end already.
            return None;
        }
        let (mut bytes, mut came) = ([0; 4096], false);
        loop {
            match self.stream.recv(&mut bytes, Patience::DontWait) {
                Ok(StreamArrival::Bytes(_)) => came = true,
                Ok(StreamArrival::Nothing) => return Some(came),
                Ok(StreamArrival::Closed) | Err(_) => return None,
            }
        }
    }

    /// Ends the connection. Returns whether it was open until now.
    pub(super) fn close(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::SeqCst);
        if first {
            // An error: the peer has closed the connection before.
            let _ = self.stream.shutdown();
            self.pipes.lose(&PipeError::Cancelled);
            let mut outgoing = self.outgoing();
            if outgoing.held_back() > 0 {
                outgoing.clear_together();
                self.holding.fetch_sub(1, Ordering::SeqCst);
            }
        }
        first
    }

    /// Sends an answer together with those that follow it soon, or with those that were held back for it. The
    /// thread that holds one back sends another, or calls [`send_held`](Self::send_held).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub(super) fn send_answer(
        &self,
        poller: &Poller,
        header: Header,
        packet: &mut Vec<u8>,
        waiting_max: usize,
        hold: bool,
    ) -> io::Result<()> {
        let is_short = header.message_len as usize <= SHORT;
        if !hold && self.holding.load(Ordering::Relaxed) == 0 || !is_short {
            return self.send(poller, header, packet, waiting_max);
        }
        let mut outgoing = self.outgoing();
        if self.is_closed() {
            // The thread that closed it has counted the answers that were held back.
            return Ok(());
        }
        let others = outgoing.held_back();
        packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        let leaves_alone = !hold && others == 0;
        if leaves_alone || !outgoing.join(&packet[..HEADER_LEN + header.message_len as usize]) {
            drop(outgoing);
            return self.send(poller, header, packet, waiting_max);
        }
        outgoing.answered.note(&header);
        if others == 0 {
            self.holding.fetch_add(1, Ordering::SeqCst);
        }
        if hold && outgoing.held_back() < TOGETHER_MAX {
            return Ok(());
        }
        self.send_together(poller, &mut outgoing)
    }

    /// Sends the answers that were held back, if there are any.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub(super) fn send_held(&self, poller: &Poller) -> io::Result<()> {
        if self.holding.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut outgoing = self.outgoing();
        if outgoing.held_back() == 0 {
            return Ok(());
        }
        self.send_together(poller, &mut outgoing)
    }

    fn send_together(&self, poller: &Poller, outgoing: &mut UnsentAnswers) -> io::Result<()> {
        self.holding.fetch_sub(1, Ordering::SeqCst);
        let sent = outgoing.send_together(&self.stream);
        if sent.is_err() {
            outgoing.clear_together();
        }
        if !sent? {
            poller.modify(&self.stream, self.token, Interest::READ_WRITE)?;
        }
        Ok(())
    }

    /// Sends a message, `packet` with room for its header in front, without ever waiting for the reader: the bytes that the stream
    /// does not take are kept, and sent when there is room.
    ///
    /// # Errors
    /// The connection is broken, or its reader so slow that more than a bound waits for it.
    #[inline]
    pub(super) fn send(
        &self,
        poller: &Poller,
        header: Header,
        packet: &mut Vec<u8>,
        waiting_max: usize,
    ) -> io::Result<()> {
        self.send_or_keep(poller, header, packet, (waiting_max, Memory::NotCounted)).map(drop)
    }

    /// As [`send`](Self::send), a result of several fragments: memory in which it can wait is counted before the first of them leaves.
    /// Returns `false`, and sends nothing, if there is none.
    ///
    /// # Errors
    /// As `send`.
    #[cold]
    pub(super) fn send_long(
        &self,
        poller: &Poller,
        header: Header,
        packet: &mut Vec<u8>,
        waiting_max: usize,
    ) -> io::Result<bool> {
        let bytes = packet.len();
        if !self.memory.take(Content::Results, bytes) {
            return Ok(false);
        }
        let sent = self.send_or_keep(poller, header, packet, (waiting_max, Memory::Counted));
        if !matches!(sent, Ok(Sent::Kept)) {
            self.memory.give_back(Content::Results, bytes);
        }
        sent.map(|_| true)
    }

    #[inline]
    fn send_or_keep(
        &self,
        poller: &Poller,
        header: Header,
        packet: &mut Vec<u8>,
        terms: (usize, Memory),
    ) -> io::Result<Sent> {
        let mut message = OutgoingMessage::new(header, packet);
        let is_answer = matches!(header.kind, Kind::Result | Kind::Refusal | Kind::Failure);
        loop {
            // The lock is released after each fragment: results of other lanes go between them.
            let mut outgoing = self.outgoing();
            if is_answer && message.is_at_start() {
                outgoing.answered.note(&header);
            }
            if outgoing.held_back() > 0 {
                // No bytes are queued behind answers that are held back: no thread would learn when the stream has room for them.
                self.send_together(poller, &mut outgoing)?;
            }
            if outgoing.is_empty() && send_fragment(&self.stream, packet, &mut message)? {
                if message.is_done() {
                    return Ok(Sent::Whole);
                }
                drop(outgoing);
                self.outgoing.let_others_pass();
                continue;
            }
            return self.keep(poller, &mut outgoing, packet, message, terms);
        }
    }

    #[cold]
    fn keep(
        &self,
        poller: &Poller,
        outgoing: &mut UnsentAnswers,
        packet: &mut Vec<u8>,
        message: OutgoingMessage,
        (waiting_max, memory): (usize, Memory),
    ) -> io::Result<Sent> {
        let is_first = outgoing.is_empty();
        if outgoing.bytes() + message.left() > waiting_max.saturating_mul(LONG_MESSAGES)
            || memory == Memory::NotCounted && !self.memory.take(Content::Results, packet.len())
        {
            return Err(io::Error::other("the caller does not read its results"));
        }
        outgoing.keep(packet, message);
        if is_first {
            poller.modify(&self.stream, self.token, Interest::READ_WRITE)?;
        }
        Ok(Sent::Kept)
    }

    /// Sends the bytes that have waited for room. Returns whether all have left; the memory of messages that have left goes to `unused`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&self, poller: &Poller, unused: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        let mut outgoing = self.outgoing();
        if outgoing.held_back() > 0 {
            self.send_together(poller, &mut outgoing)?;
        }
        let counted = outgoing.counted();
        let flushed = outgoing.flush(&self.stream, unused);
        self.memory.give_back(Content::Results, counted - outgoing.counted());
        let is_all = flushed?;
        if is_all {
            poller.modify(&self.stream, self.token, Interest::READ)?;
            if self.pipes.has_ready() {
                drop(outgoing);
                self.send_pipes(poller)?;
                return Ok(self.is_flushed());
            }
        }
        Ok(is_all)
    }
}
