//! Calls in flight: begun by a thread that goes on, and ended whenever somebody asks for their results.
//!
//! What begins calls is a [`Begin`]; what is left of one is a [`Pending`](crate::Pending). Between them is the
//! [`OutstandingCalls`] of the binding, one for each transport.

use crate::calling::counters::CallCounters;
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::calling::short_result::Short;
use crate::calling::submission_queue::Submitter;
use crate::context::{begin_cheaply, bounded_deadline};
use crate::error::{CallError, SendError};
use std::sync::Arc;
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::{Reader, Writer};
use stoop_net::clock;

/// How a call ended: its result, or why there is none.
pub(crate) type Outcome<'a> = Result<Reader<'a>, CallError>;

/// Carries the begun calls of a binding to its server, and their results back.
///
/// Obligations of an implementation:
///
/// - A call is known by the number that [`begin`](Self::begin) gave it. The number is its handle's alone until the
///   handle has given it back, by [`take`](Self::take), [`cancel`](Self::cancel) or [`detach`](Self::detach); each is
///   called once at most, and nothing of that number after it. A handle that was forgotten never gives it back.
/// - Every call ends with its result, or with an error that says whether it ran: with that at its deadline, never earlier by the
///   precise clock, and no more than a few milliseconds later.
/// - Nothing is required of a handle's thread: a call goes on when nobody waits for it, if by a thread of the calls.
/// - No lock is held while code of the user runs: in what `take` calls, and when a waker is woken, cloned or dropped.
/// - All may be called by any thread at any time. What blocks is `wait_any` only, and of the others none for longer
///   than it takes to send.
/// - Whoever has an `Arc` of a calls keeps the binding, and so does a handle; when the last is gone, so is the binding.
pub(crate) trait OutstandingCalls: Send + Sync {
    /// Gives what one [`Begin`] needs. It comes back by [`send`](Self::send).
    fn open_batch(&self, timeout_ns: u64) -> CallBatch;

    /// Begins a call of the procedure of that number in the interface. Its arguments are `len` bytes of
    /// `departure.packet` from `departure.start` on, and are copied from there. The call may be held back until `send`,
    /// but no longer than anybody waits for it, polls it or asks whether it has ended, nor beyond its deadline.
    ///
    /// # Errors
    /// It could not be begun, and will not run.
    fn begin(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError>;

    /// What was begun with this departure is sent now, as far as it has not been yet.
    fn submit(&self, batch: CallBatch);

    /// Whether a call has ended, as far as it can be known without waiting. Asked again and again, it will be known.
    fn is_ready(&self, call: u32) -> bool;

    /// As [`is_ready`](Self::is_ready); if it has not ended, `waker` is woken when it has, in place of any that was
    /// given before.
    fn poll(&self, call: u32, waker: &Waker) -> bool;

    /// Waits until one of the calls has ended, at most until that time. Tells which, by its place in `calls`.
    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize>;

    /// If a call has ended, gives its outcome to `with`, once, and the number back. The payload is that of the result
    /// message. Otherwise tells so, and does nothing.
    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool;

    /// As [`take`](Self::take), of a call that has ended with a result of a few bytes, if those can be had without waiting
    /// for anybody. `None`: `take` knows.
    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        let _ = call;
        None
    }

    /// A call was said to have ended, and could not be [taken](Self::take) then: what its server writes is not believed any more.
    /// When it is next said to have ended, it can be taken.
    #[cold]
    fn distrust(&self, call: u32) {
        let _ = call;
    }

    /// Nobody is interested in a call any more, ended or not; the server is told, so that the procedure can find out.
    fn cancel(&self, call: u32);

    /// The call goes on without its handle. It may be an ordered one-way call of that thread.
    fn detach(&self, call: u32, calling_thread: Option<CallingThread>);

    /// Whether a call is on its way, as far as this end is concerned, or has ended; called when all that was held back has been
    /// [sent](Self::send). `false` while there is no way to send it: no connection, or no lane.
    fn has_left(&self, call: u32) -> bool;

    /// Gives a call that goes on without a handle back to one, and tells whose ordered one-way call it is. `None` when none of
    /// those is left.
    fn reclaim(&self, which: Selection) -> Option<(u32, Option<CallingThread>)>;

    /// How many calls go on without handles.
    fn detached(&self) -> usize;

    /// Looks at the failures of the calls that had no handles.
    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures));

    /// Waits for a call that was [reclaimed](Self::reclaim) to keep the order, at most until that time, or runs it.
    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        self.wait_any(&[call], until);
    }
}

/// The begun calls of a binding: one table after the other, where each server or session has one of its own. It is dropped
/// with the client; calls that have handles or are detached go on.
pub(crate) trait BegunCalls {
    type Table: OutstandingCalls;
    /// What a handle keeps.
    type Ref: TableRef;

    /// The table for calls that are begun now.
    ///
    /// # Errors
    /// Why no call can be begun.
    fn present(&self) -> Result<Arc<Self::Table>, SendError>;

    /// The table that has the last calls, though its server may have ended.
    fn latest(&self) -> Arc<Self::Table>;

    /// A reference for the handle of a call that was begun in this table.
    fn reference(table: &Arc<Self::Table>) -> Self::Ref;

    /// What the begun calls have counted so far.
    fn counters(&self) -> CallCounters;
}

/// A handle's reference to the table of its call. It keeps the table, or the call does.
pub(crate) trait TableRef {
    type Table: OutstandingCalls + ?Sized;

    /// Does something with the table.
    fn with<T>(&self, ask: impl FnOnce(&Self::Table) -> T) -> T;

    /// Whether both are references to the same table.
    fn is_same(&self, other: &Self) -> bool;

    /// As [`OutstandingCalls::is_ready`].
    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.with(|calls| calls.is_ready(call))
    }

    /// As [`OutstandingCalls::take_short`].
    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        self.with(|calls| calls.take_short(call))
    }
}

impl<C: OutstandingCalls> TableRef for Arc<C> {
    type Table = C;

    #[inline]
    fn with<T>(&self, ask: impl FnOnce(&C) -> T) -> T {
        ask(self)
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

/// What the calls of one [`Begin`] have in common.
pub(crate) struct CallBatch {
    /// Where arguments are written.
    pub(crate) packet: Vec<u8>,
    /// Where they begin in it.
    pub(crate) start: usize,
    /// Bytes of the longest arguments.
    pub(crate) limit: usize,
    /// How long each call may take.
    timeout_ns: u64,
    /// When the calls that are begun now were begun: the clock is read once for many.
    pub(crate) begun: Instant,
    /// Theirs.
    pub(crate) deadline: Instant,
    /// For the calls's own use: a batch that is held back, and whether the clock has been read for another.
    pub(crate) batch: u32,
    pub(crate) is_used: bool,
    /// Likewise: a set of places for calls, and those of calls that are held back.
    pub(crate) reserved: u64,
    pub(crate) held: u64,
    /// Likewise: a list of calls.
    pub(crate) submitter: Option<Submitter>,
}

impl CallBatch {
    /// A departure now, with an empty batch.
    pub(crate) fn new(packet: Vec<u8>, start: usize, limit: usize, timeout_ns: u64) -> Self {
        let mut departure = Self::unclocked(packet, start, limit, timeout_ns);
        departure.read_clock();
        departure
    }

    /// The same, for a calls that reads a clock for each call.
    pub(crate) fn unclocked(packet: Vec<u8>, start: usize, limit: usize, timeout_ns: u64) -> Self {
        let (begun, deadline) = (Instant::default(), Instant::default());
        let (batch, is_used, reserved, held, submitter) = (u32::MAX, false, 0, 0, None);
        Self { packet, start, limit, timeout_ns, begun, deadline, batch, is_used, reserved, held, submitter }
    }

    /// Calls begun from now on are begun now.
    pub(crate) fn read_clock(&mut self) {
        let now_ns = clock::now_ns();
        self.begin_at((now_ns, bounded_deadline(now_ns, self.timeout_ns)));
    }

    /// A call is begun now: reads the cheapest clock that will do. `false`: the deadline that it inherits has passed.
    #[inline]
    pub(crate) fn read_cheap_clock(&mut self) -> bool {
        begin_cheaply(self.timeout_ns).map(|times| self.begin_at(times)).is_some()
    }

    #[inline]
    fn begin_at(&mut self, (begun_ns, deadline_ns): (u64, u64)) {
        self.begun = Instant::from_nanos(begun_ns);
        self.deadline = Instant::from_nanos(deadline_ns);
    }

    #[inline]
    pub(crate) fn arguments(&mut self) -> Writer<'_> {
        Writer::new(&mut self.packet, self.start, self.limit)
    }
}
