//! Tables of outstanding calls: the contract between a client that begins calls, the handles of these calls, and a transport.
//!
//! A client begins calls in a [`CallBatch`]; a [`Pending`](crate::Pending) is the handle of one call.

use crate::calling::counters::CallCounters;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::short_result::Short;
use crate::calling::submission_queue::SubmissionQueue;
use crate::context::bounded_deadline;
use crate::error::{CallError, Callee, SendError};
use crate::pipes::contract::{Ends, Pipes};
use crate::pipes::window::Window;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::{Reader, Writer};
use stoop_net::clock;

/// How a call ended: its result, or why there is none.
pub(crate) type Outcome<'a> = Result<Reader<'a>, CallError>;

/// A table of outstanding calls, as their handles see it.
///
/// Obligations of an implementation:
///
/// - Each call that is begun has a number. The number belongs to the call's handle until the
///   handle gives it back, by [`take`](Self::take), [`cancel`](Self::cancel) or [`detach`](Self::detach). The handle calls each of these
///   at most once, and nothing with that number afterwards. A forgotten handle never gives its number back.
/// - Every call ends with its result, or with an error that says whether it ran. The error of the deadline comes no earlier than the
///   deadline by the precise clock, and no more than a few milliseconds later.
/// - A call needs no thread of the user: a thread of the table drives it while no handle is waited for.
/// - No lock is held while code of the user runs: in the closure of `take`, and when a waker is woken, cloned or dropped.
/// - Any thread may call any method at any time. Only `wait_any` waits; the others take no longer than sending does.
/// - An `Arc` of the table keeps the binding, and so does a handle. The binding ends with the last of them.
pub(crate) trait OutstandingCalls: Send + Sync {
    /// The address of their server, for errors.
    fn server(&self) -> String;

    /// The error of one of the calls, with its server.
    #[cold]
    #[inline(never)]
    fn name(&self, mut error: CallError) -> CallError {
        error.note(Callee::at(&self.server()));
        error
    }

    /// Whether a call has ended, as far as the table knows without waiting. A caller that repeats the question learns it in the end.
    fn is_ready(&self, call: u32) -> bool;

    /// As [`is_ready`](Self::is_ready). If the call has not ended, its end will wake `waker` instead of any earlier one.
    fn poll(&self, call: u32, waker: &Waker) -> bool;

    /// Waits until one of the calls has ended, at most until that time. Returns its index in `calls`.
    fn wait_any(&self, calls: &[u32], until: Instant) -> Option<usize>;

    /// If a call has ended, passes its outcome to `with`, once, and takes the number back. Returns whether it has ended. An error
    /// names the server.
    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool;

    /// As [`take`](Self::take), of a call that has ended with a result of a few bytes, if the table can give them without waiting
    /// for a lock. On `None`, ask `take`.
    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        let _ = call;
        None
    }

    /// Handles a call that had ended by [`is_ready`](Self::is_ready), and could not be [taken](Self::take) then: the server
    /// has changed shared memory meanwhile. When the call ends next, it can be taken.
    #[cold]
    fn distrust(&self, call: u32) {
        let _ = call;
    }

    /// Cancels a call, finished or not, and tells the server, so that the procedure can find out.
    fn cancel(&self, call: u32);

    /// Lets a call go on without its handle. It may be this ordered one-way call.
    fn detach(&self, call: u32, ordered: Option<OrderedCall>);

    /// Whether a call has been handed to the system, or has ended; for calls of batches that were [submitted](BeginsCalls::submit).
    /// `false` while there is no connection or no lane for it.
    fn has_left(&self, call: u32) -> bool;

    /// Gives a detached call to a handle again.
    fn reclaim(&self, which: Selection) -> Reclaimed;

    /// The number of detached calls that have not ended.
    fn detached(&self) -> usize;

    /// Passes the failures of detached calls to `look`.
    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures));

    /// Waits for a call that was [reclaimed](Self::reclaim) because of the order, at most until that time, or runs it.
    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        self.wait_any(&[call], until);
    }
}

/// A table of outstanding calls that carries the begun calls of a binding to the server, and their results back.
pub(crate) trait BeginsCalls: OutstandingCalls {
    /// Opens a batch of calls, for [`submit`](Self::submit).
    fn open_batch(&self, timeout_ns: u64) -> CallBatch;

    /// Begins a call of the procedure of that number in the interface, and copies its arguments: the `len` bytes of `batch.packet`
    /// from `batch.start` on. The table may hold the call back until `submit`, but only until a thread waits for the call, polls it
    /// or asks whether it has ended. The time of a call runs from when it leaves: one reading of the clock for all that leave together.
    ///
    /// # Errors
    /// The call could not be begun, and will not run.
    fn begin(&self, batch: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError>;

    /// As [`begin`](Self::begin), of a call with these pipes. Returns their ends, too. The timeout of the batch bounds each
    /// [step](PipeTerms) of the call.
    ///
    /// # Errors
    /// The call could not be begun, and will not run; `None`: no call by this transport has pipes.
    fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let _ = (batch, procedure, len, terms);
        Err(None)
    }

    /// Sends the calls of a batch that are still held back.
    fn submit(&self, batch: CallBatch);
}

/// The pipes of a call, and their terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipeTerms {
    pub(crate) pipes: Pipes,
    /// That of the pipe from the procedure.
    pub(crate) window: Window,
    /// How long the whole call may take, in nanoseconds. Each *step* of it may take the timeout of its batch: until the server has taken
    /// the call, each wait for room, and from the ends of its pipes to its result.
    pub(crate) total_ns: u64,
}

/// The begun calls of a binding: one table after the other, where each server or session has one of its own. It is dropped
/// with the client; calls that have handles or are detached go on.
pub(crate) trait BegunCalls {
    type Table: BeginsCalls;

    /// The table for calls that are begun now.
    ///
    /// # Errors
    /// Why no call can be begun.
    fn present(&self) -> Result<Arc<Self::Table>, SendError>;

    /// The table that has the last calls, though its server may have ended.
    fn latest(&self) -> Arc<Self::Table>;

    /// The counters of the begun calls.
    fn counters(&self) -> CallCounters;
}

/// Calls that are begun together.
pub(crate) struct CallBatch {
    /// The buffer for arguments.
    pub(crate) packet: Vec<u8>,
    /// Offset of the arguments in it.
    pub(crate) start: usize,
    /// Bytes of the longest arguments.
    pub(crate) limit: usize,
    /// How long each call may take.
    pub(crate) timeout_ns: u64,
    /// Only the background thread sends arguments of many packets.
    pub(crate) in_background: bool,
    /// When the next calls begin: the clock is read once for several.
    pub(crate) begun: Instant,
    /// The deadline of these calls.
    pub(crate) deadline: Instant,
    /// For the table: the number of a batch that is held back.
    pub(crate) batch: u32,
    /// For the table: a set of reserved slots, and the set and number of slots with calls that are held back.
    pub(crate) reserved: u64,
    pub(crate) held: u64,
    pub(crate) held_count: u32,
    /// For the table: a submission queue.
    pub(crate) queue: Option<Arc<Mutex<SubmissionQueue>>>,
}

impl CallBatch {
    /// A batch whose calls begin now.
    pub(crate) fn new(packet: Vec<u8>, start: usize, limit: usize, timeout_ns: u64) -> Self {
        let mut batch = Self::unclocked(packet, start, limit, timeout_ns);
        batch.read_clock();
        batch
    }

    /// A batch for a table that reads a clock when it needs one.
    pub(crate) fn unclocked(packet: Vec<u8>, start: usize, limit: usize, timeout_ns: u64) -> Self {
        let (begun, deadline) = (Instant::default(), Instant::default());
        let (batch, reserved, held, held_count, queue) = (u32::MAX, 0, 0, 0, None);
        let in_background = false;
        Self {
            packet,
            start,
            limit,
            timeout_ns,
            in_background,
            begun,
            deadline,
            batch,
            reserved,
            held,
            held_count,
            queue,
        }
    }

    /// The next calls begin now.
    pub(crate) fn read_clock(&mut self) {
        let now_ns = clock::now_ns();
        self.begun = Instant::from_nanos(now_ns);
        self.deadline = Instant::from_nanos(bounded_deadline(now_ns, self.timeout_ns));
    }

    #[inline]
    pub(crate) fn arguments(&mut self) -> Writer<'_> {
        Writer::new(&mut self.packet, self.start, self.limit)
    }
}
