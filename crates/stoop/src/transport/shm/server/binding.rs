//! One binding over shared memory: the memory, its caller, and the calls that are under way.

use crate::calling::unbind_notice;
use crate::context::Caller;
use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::error::RefusalCode;
use crate::locked::locked;
use crate::serving::binder::Bound;
use crate::serving::message_memory::{Content, MemoryShare, MessageMemory};
use crate::transport::shm::server::binding_shares::BindingShare;
use crate::transport::shm::server::long_messages::{Incoming, LeavingResults};
use crate::transport::shm::server::pipes::BindingPipes;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use stoop_net::poller::Bell;
use stoop_net::stream::Stream;
use stoop_shm::layout::LANES;
use stoop_shm::{Answer, AnswerKind, Answers, Arena, Requests, Segment, Took};
use stoop_wire::{BindingId, CallNumber, LaneId, UnbindReason};

/// A binding of one caller's process.
pub(super) struct Binding {
    /// Its token in the poller; that of its bell is one more.
    pub(super) token: u64,
    /// The socket over which it was bound. It ends when the caller dies.
    pub(super) stream: Stream,
    pub(super) bell: Bell,
    pub(super) segment: Segment,
    /// For buffers, if the interface has any.
    pub(super) arena: Option<Arc<Arena>>,
    pub(super) caller: Caller,
    pub(super) id: BindingId,
    pub(super) interface: u16,
    /// Both ends can run at the same time, as far as was known when it was bound.
    pub(super) together: bool,
    /// The ticket of the next request. Used by the receiver.
    ticket: AtomicU64,
    /// How many of the requests that were taken were cancels.
    cancels: AtomicU32,
    /// When a request was last taken.
    pub(super) heard_ns: AtomicU64,
    /// Of each lane the number of its last call, doubled; plus one while that is not answered. In private memory: a peer
    /// that writes other numbers is found out.
    lanes: Box<[AtomicU32]>,
    closed: AtomicBool,
    /// Long messages under way, either way, and ends of pipes to which the receiver attends.
    pub(super) transfers: AtomicUsize,
    /// Its part of the memory for long messages.
    pub(super) memory: Arc<MemoryShare>,
    /// Its place among the bindings of its user.
    _share: BindingShare,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<LeavingResults>,
    pub(super) pipes: BindingPipes,
}

const BUSY: u32 = 1;

impl Binding {
    pub(super) fn new(
        token: u64,
        stream: Stream,
        bell: Bell,
        (segment, arena): (Segment, Option<Arc<Arena>>),
        (memory, share, pipes): (&Arc<MessageMemory>, BindingShare, BindingPipes),
        caller: Caller,
        bound: Bound,
    ) -> Self {
        Self {
            token,
            stream,
            bell,
            segment,
            arena,
            caller,
            id: bound.binding,
            interface: bound.interface,
            together: bound.together,
            ticket: AtomicU64::new(0),
            cancels: AtomicU32::new(0),
            heard_ns: AtomicU64::new(0),
            lanes: (0..LANES).map(|_| AtomicU32::new(0)).collect(),
            closed: AtomicBool::new(false),
            transfers: AtomicUsize::new(0),
            memory: memory.share_of(&caller),
            _share: share,
            incoming: Mutex::default(),
            outgoing: Mutex::default(),
            pipes,
        }
    }

    /// Takes the next request. Only one thread at a time receives.
    #[inline(always)]
    pub(super) fn take(&self) -> (Took, u64) {
        let ticket = self.ticket.load(Ordering::Relaxed);
        let took = Requests::take(&self.segment, ticket);
        if took != Took::Nothing {
            // Release: see `is_cancelled`.
            self.ticket.store(ticket + 1, Ordering::Release);
        }
        (took, ticket)
    }

    /// A call has arrived on a lane. `false`: the lane has a call already, or the number is not the next.
    #[inline]
    pub(super) fn begin(&self, lane: u16, number: u32) -> bool {
        let state = &self.lanes[usize::from(lane)];
        let before = state.load(Ordering::Relaxed);
        let is_next = before & BUSY == 0 && Answers::next_number(before >> 1) == number;
        if is_next {
            state.store(number << 1 | BUSY, Ordering::Relaxed);
        }
        is_next
    }

    /// The identity of a call for cancels.
    #[inline]
    pub(super) fn call_id(&self, lane: u16, number: u32) -> CallId {
        CallId::new(self.id, LaneId(lane), CallNumber(number))
    }

    /// Answers the call of a lane, which can have its next from now on.
    #[inline]
    pub(super) fn answer(&self, lane: u16, number: u32, answer: &Answer, message: &[u8]) {
        self.lanes[usize::from(lane)].store(number << 1, Ordering::Relaxed);
        Answers::publish(&self.segment, lane, number, answer, message);
        // Before its end is looked for among those that are cancelled, see `cancel`. (An exchange is a full fence there.)
        #[cfg(not(target_arch = "x86_64"))]
        fence(Ordering::SeqCst);
        cancelled::ended(self.call_id(lane, number));
    }

    /// Counts a cancel that was taken. Its call is known to be cancelled already.
    pub(super) fn count_cancel(&self) {
        self.cancels.fetch_add(1, Ordering::Release);
    }

    /// Whether a call has been cancelled: by a request that was taken, or by one in the ring.
    #[inline]
    pub(super) fn is_cancelled(&self, call: CallId, lane: u16, number: u32) -> bool {
        // In this order, for the receiver may take the cancel at this moment. That is one of three: still there, or the last that
        // was taken; or it is on the list already, for only then is it counted, or another request taken.
        let cancels = self.cancels.load(Ordering::Acquire);
        Requests::cancels(&self.segment) != cancels && self.is_cancelled_in_ring(lane, number)
            || cancelled::is_cancelled(call)
    }

    #[cold]
    fn is_cancelled_in_ring(&self, lane: u16, number: u32) -> bool {
        let last = self.ticket.load(Ordering::Acquire).saturating_sub(1);
        Requests::is_cancelled_after(&self.segment, last, lane, number)
    }

    /// Cancels a call. Nothing happens if it has been answered.
    pub(super) fn cancel(&self, lane: u16, number: u32) {
        let is_open = || self.lanes[usize::from(lane)].load(Ordering::Relaxed) == number << 1 | BUSY;
        if is_open() {
            cancelled::cancel(self.call_id(lane, number));
            // If it is answered at this moment, either that sees the cancel, or this sees that it is answered.
            fence(Ordering::SeqCst);
            if !is_open() {
                cancelled::ended(self.call_id(lane, number));
            }
        }
    }

    /// A call of a binding that is closed has ended, or will not begin.
    #[cold]
    pub(super) fn forget(&self, lane: u16, number: u32) {
        self.lanes[usize::from(lane)].store(number << 1, Ordering::Relaxed);
        // As in `answer`.
        fence(Ordering::SeqCst);
        cancelled::ended(self.call_id(lane, number));
    }

    /// It is closed: procedures that run for it can learn that no caller waits.
    pub(super) fn cancel_all(&self) {
        for lane in 0..LANES as u16 {
            let state = self.lanes[usize::from(lane)].load(Ordering::Relaxed);
            if state & BUSY != 0 {
                self.cancel(lane, state >> 1);
            }
        }
    }

    pub(super) fn incoming(&self) -> MutexGuard<'_, Incoming> {
        locked(&self.incoming)
    }

    /// The arguments of a call that came through a channel are not needed any more.
    #[cold]
    pub(super) fn end_long_arguments(&self, arguments: Vec<u8>) {
        self.memory.give_back(Content::Arguments, arguments.capacity());
        self.incoming().recycle(arguments, &self.memory);
    }

    pub(super) fn outgoing(&self) -> MutexGuard<'_, LeavingResults> {
        locked(&self.outgoing)
    }

    /// Begins to send the results for which there are channels.
    pub(super) fn begin_waiting(&self, outgoing: &mut LeavingResults, cpu: u16) {
        outgoing
            .begin_waiting(&self.segment, cpu, |lane, number, answer| self.answer(lane, number, answer, &[]));
    }

    /// Answers a call that was cancelled. No thread reads the answer: it makes the lane free.
    pub(super) fn answer_cancelled(&self, lane: u16, number: u32) {
        let (kind, word) = (AnswerKind::Failure, RefusalCode::Cancelled.code());
        self.answer(lane, number, &Answer { kind, len: 0, word, cpu: 0, channel: 0, base: 0 }, &[]);
    }

    /// Whether a long message can go on at this moment.
    pub(super) fn can_move(&self) -> bool {
        let can_receive = || self.incoming().can_advance(&self.segment);
        self.has_transfers()
            && (can_receive() || self.outgoing().can_advance(&self.segment) || self.can_advance_pipes())
    }

    /// Whether long messages are under way.
    pub(super) fn has_long_messages(&self) -> bool {
        self.transfers.load(Ordering::Relaxed) > self.pipes.attended()
    }

    /// Whether the last call of a lane has that number, and has been answered.
    pub(super) fn is_answered(&self, lane: u16, number: u32) -> bool {
        self.lanes[usize::from(lane)].load(Ordering::Relaxed) == number << 1
    }

    pub(super) fn has_transfers(&self) -> bool {
        self.transfers.load(Ordering::Relaxed) > 0
    }

    /// Whether there is a request that has not been taken.
    pub(super) fn has_request(&self) -> bool {
        Requests::is_there(&self.segment, self.ticket.load(Ordering::Relaxed))
    }

    /// Requests that have not been taken, about: the next power of two.
    pub(super) fn waiting(&self) -> usize {
        let ticket = self.ticket.load(Ordering::Relaxed);
        let powers = (0..LANES.ilog2()).map(|power| 1_u64 << power);
        let there = powers.take_while(|waiting| Requests::is_there(&self.segment, ticket + waiting - 1));
        there.last().map_or(0, |waiting| 2 * waiting as usize - 1)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Tells its caller that the server refuses calls from now on.
    pub(super) fn announce_end(&self) {
        unbind_notice::announce(&self.stream, self.id);
    }

    /// Ends it. Called by the receiver: nothing of it is taken after its caller has seen the end, and learnt why if there is
    /// something to say. Returns whether it was this that ended it.
    pub(super) fn close(&self, why: Option<UnbindReason>) -> bool {
        let first = !self.closed.swap(true, Ordering::SeqCst);
        if first {
            if let Some(why) = why {
                unbind_notice::send(&self.stream, self.id, why);
            }
            // Only the peer could have been faster. It learns by this that nothing more will be taken.
            let _ = self.stream.shutdown();
        }
        first
    }
}

impl Drop for Binding {
    /// Those that are there when the server has shut down.
    fn drop(&mut self) {
        self.close(Some(UnbindReason::ShuttingDown));
    }
}
