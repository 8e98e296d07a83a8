//! The contract of pipes between the ends that programs hold and a transport.
//!
//! A transport that carries pipes gives each call the [`Ends`] of its side: a [`SendingEnd`] for the pipe whose items leave here, a
//! [`ReceivingEnd`] for the one whose items arrive here. Above these two traits are types, below them bytes: a pipe is a sequence of bytes,
//! and an item is one [record](super::record) in it. Offsets count the bytes from the beginning of the pipe.
//!
//! # Obligations of a transport
//!
//! - *Begin.* [`BeginsCalls::begin_with_pipes`](crate::calling::begun::BeginsCalls::begin_with_pipes) begins a call and gives the caller's
//!   ends. At the server a call with pipes is open from its beginning: its stub returns
//!   [`Later`](crate::later::deferred::Later), which [says](crate::later::deferred::Later::pipes) that it wants pipes. The transport
//!   [gives](crate::later::deferred::Later::give_ends) it the ends before it lets the call wait for its answer. Without ends the call is
//!   refused: its procedure has not run.
//! - *Room.* A record may be appended while all bytes before it are fewer than the limit; it is then taken as a whole, also beyond the limit.
//!   The limit is absolute. That of the pipe from the procedure is at first what the caller's arguments say
//!   ([`grant`](SendingEnd::grant)), that of the pipe to the procedure [`FIRST_WINDOW`]. It is raised by what the *program* at the
//!   receiving end has [taken](ReceivingEnd::taken), never by what has arrived. A transport that sends bytes in packets sends one if its
//!   first byte is below the limit.
//! - *Order.* The bytes arrive once, in order, without gaps, and only those of this execution of the call.
//! - *Ends.* A pipe to the procedure ends as its caller [closes](SendingEnd::close) it: whole, or aborted. One from the procedure ends when
//!   the call is answered: whole if with a result (also one that is an error of the application), aborted otherwise. What was sent before is
//!   delivered first. The answer itself needs no room.
//! - *Stop.* [`stop`](ReceivingEnd::stop) makes the other end's appends fail with [`PipeError::Stopped`]; bytes that have not been taken are
//!   forgotten. The answer of a call stops its pipe to the procedure: appends fail with [`PipeError::Ended`].
//! - *Cancel and loss.* A call that is cancelled, refused, or lost with its connection or server makes every operation at both ends fail
//!   at once, with that reason, and wakes the threads and tasks that wait.
//! - *Waiting.* The `wait_…` methods return when there is room, or are bytes, when the pipe has ended, or at the given time; they may return
//!   early. The `poll_…` methods register one waker; it is woken, cloned and dropped without a lock held.
//! - *Who waits.* No thread that receives for others waits for a program: bytes below the limit have a place.

use crate::pipes::error::PipeError;
use crate::pipes::record::Record;
use std::sync::Arc;
use std::task::Waker;

/// Which pipes a procedure has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pipes {
    /// One whose items the procedure receives.
    pub to_procedure: bool,
    /// One whose items the procedure sends.
    pub from_procedure: bool,
}

impl Pipes {
    /// How many.
    pub(crate) fn count(self) -> usize {
        usize::from(self.to_procedure) + usize::from(self.from_procedure)
    }
}

/// How long, in nanoseconds, calls with pipes may go on when their server shuts down.
pub(crate) const GRACE_NS: u64 = 5_000_000_000;

/// The least time between two looks at the deadline of a call with pipes.
const LOOK_LEAST_NS: u64 = 5_000_000;

/// When a thread that waits for the result of a call with pipes looks at its deadline again. The program that closes the call's ends sets a
/// deadline a step later, and wakes no thread that waits already: so that looks within a step, at a time that calls have in common.
pub(crate) fn next_look_ns(now_ns: u64, step_ns: u64) -> u64 {
    let step_ns = step_ns.max(LOOK_LEAST_NS);
    let latest_ns = now_ns.saturating_add(step_ns);
    latest_ns - latest_ns % (step_ns / 4 + 1)
}

/// Bytes of the pipe to a procedure that may be sent before its server has said how many.
pub(crate) const FIRST_WINDOW: u64 = 16 * 1024;

/// The ends of the pipes of a call, at one side.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) sending: Option<Arc<dyn SendingEnd>>,
    pub(crate) receiving: Option<Arc<dyn ReceivingEnd>>,
}

/// How a program closes the end at which it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// All items have been sent.
    Whole,
    /// Items are missing.
    Aborted,
}

/// What has come at a receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Bytes,
    /// Nothing, yet.
    Nothing,
    /// All has been taken, and nothing more comes.
    End,
}

/// The end of a pipe at which items are sent. Threads may use it at once.
pub(crate) trait SendingEnd: Send + Sync {
    /// Appends a record. `false`: there is no room now.
    ///
    /// # Errors
    /// The pipe has ended at the other side, or its call has.
    fn append(&self, record: &Record<'_>) -> Result<bool, PipeError>;

    /// As [`append`](Self::append), for a thread that may wait: until there is room for the rest of a record that has been begun.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    fn append_patiently(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        self.append(record)
    }

    /// Appends a record, or keeps it until there is room, in place of a record of that key that is still kept. Never waits.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    fn append_latest(&self, key: u64, record: &Record<'_>) -> Result<(), PipeError>;

    /// Why nothing more can be sent; `None` while that is possible.
    fn over(&self) -> Option<PipeError>;

    /// Whether a record can be appended, or the pipe has ended.
    fn has_room(&self) -> bool;

    /// Waits until [`has_room`](Self::has_room), at most until that time.
    fn wait_for_room(&self, until_ns: u64);

    /// As [`has_room`](Self::has_room); if not, `waker` is woken when there is.
    fn poll_room(&self, waker: &Waker) -> bool;

    /// Has what was appended leave now.
    fn flush(&self);

    /// The receiving program lets the bytes below this limit be sent.
    fn grant(&self, limit: u64);

    /// The program sends no more.
    fn close(&self, how: Close);

    /// How long a program may wait for room, in nanoseconds.
    fn step_ns(&self) -> u64;

    /// Bytes of the longest item.
    fn item_max(&self) -> usize;
}

/// The end of a pipe at which items are received. One thread uses it at a time.
pub(crate) trait ReceivingEnd: Send + Sync {
    /// Moves the bytes that have arrived behind those in `into`.
    ///
    /// # Errors
    /// The pipe has ended before its end.
    fn take(&self, into: &mut Vec<u8>) -> Result<Arrival, PipeError>;

    /// Whether [`take`](Self::take) would find something.
    fn has_arrived(&self) -> bool;

    /// The program has taken the items before that offset, and waits for the one that ends at `wanted`, if it knows. Returns the
    /// offset from which on the program is to say so again, if it does not have to wait before.
    fn taken(&self, up_to: u64, wanted: Option<u64>) -> u64;

    /// Waits until [`take`](Self::take) would find something, at most until that time.
    fn wait_for_bytes(&self, until_ns: u64);

    /// Whether [`take`](Self::take) would find something; if not, `waker` is woken when it would.
    fn poll_bytes(&self, waker: &Waker) -> bool;

    /// As [`poll_bytes`](Self::poll_bytes), with a waker that does nothing but take what has arrived, so that a thread of the transport may
    /// wake it.
    fn poll_bytes_at_once(&self, waker: &Waker) -> bool {
        self.poll_bytes(waker)
    }

    /// Nothing has come for a while: memory that is there for much is given back.
    fn rest(&self) {}

    /// The program wants nothing more.
    fn stop(&self);

    /// Bytes of the longest item.
    fn item_max(&self) -> usize;
}
