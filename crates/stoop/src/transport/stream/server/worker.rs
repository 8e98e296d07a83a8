//! The state that a worker keeps from one call to the next.

use crate::options::Waiting;
use crate::transport::stream::server::call::{ReceivedCall, StreamCall};
use crate::transport::stream::server::connection::Connection;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Weak};
use stoop_exchange::stream::Reassembler;
use stoop_net::clock;
use stoop_net::owner_lock::Key;
use stoop_net::waiting::{Placement, Waiter};
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// A worker's buffers and way of waiting.
pub(crate) struct WorkerState {
    /// Memory for the next call that this worker runs, and for the next ones that wait.
    pub(super) unused_call: Option<Box<ReceivedCall>>,
    #[expect(clippy::vec_box, reason = "a box goes on with its call, and comes back")]
    pub(super) unused_short: Vec<Box<ReceivedCall>>,
    pub(super) result: Vec<u8>,
    /// The header of a refusal.
    pub(super) refusal: Vec<u8>,
    /// The connection whose results the result packet has held so far.
    pub(super) result_of: u64,
    /// The connection that was last active. Not held: one that is closed must go, for only then is its peer told that
    /// no thread will read what it still sends.
    pub(super) last_active: Weak<Connection>,
    /// The input buffer of the connection that was active before, for the next; empty if there is none.
    pub(super) unused_input: Vec<u8>,
    /// The first call that was found.
    pub(super) found: Option<StreamCall>,
    /// Calls that arrived behind it.
    pub(super) others: VecDeque<StreamCall>,
    /// For the pending calls.
    pub(super) key: Key,
    /// The call that is run next, by this worker, and how many it has run so in a row.
    pub(super) next: Option<StreamCall>,
    pub(super) in_a_row: usize,
    /// Answers that it holds back.
    pub(super) held_back: usize,
    /// Looks at the last active connection alone since the poller was last asked, and when that was.
    pub(super) looks: u32,
    pub(super) asked_ns: u64,
    pub(super) waiter: Waiter,
    /// Part of a message has arrived since the wait for a call began.
    pub(super) has_part: bool,
    /// It waits in this receive, and so will come back for what is pending.
    pub(super) patient: bool,
    /// When this worker last looked at the clock, and when what it received then had come.
    pub(super) clock_ns: u64,
    pub(super) came_ns: u64,
}

/// Calls that waited whose memory a worker keeps, and the most bytes of the packet of one.
const SHORT_CALLS: usize = 64;
pub(super) const SHORT_MAX: usize = 2 * 1024;

impl WorkerState {
    pub(super) fn new(waiting: Waiting, waiting_max: u32, key: Key) -> Self {
        let placement = Placement { together: true, waiting_max };
        Self {
            unused_call: Some(ReceivedCall::blank(vec![0; Reassembler::BUFFER_LEN])),
            unused_short: Vec::new(),
            result: vec![0; MAX_DATAGRAM],
            refusal: vec![0; HEADER_LEN],
            result_of: 0,
            last_active: Weak::new(),
            unused_input: Vec::new(),
            found: None,
            others: VecDeque::new(),
            key,
            next: None,
            in_a_row: 0,
            held_back: 0,
            looks: u32::MAX,
            asked_ns: 0,
            waiter: Waiter::new(waiting, placement),
            has_part: false,
            patient: false,
            clock_ns: clock::now_ns(),
            came_ns: 0,
        }
    }

    /// This connection is now the last active one. The one before it gives up its input buffer, so that an idle connection
    /// holds none.
    pub(super) fn follow(&mut self, connection: &Arc<Connection>) {
        if self.last_active.as_ptr() == Arc::as_ptr(connection) {
            return;
        }
        let former = mem::replace(&mut self.last_active, Arc::downgrade(connection)).upgrade();
        if let Some(former) = former
            && let Some(mut incoming) = former.try_incoming()
        {
            incoming.reassembler.give_input_back(&mut self.unused_input);
            former.stream.release_memory();
        }
    }

    /// Keeps the memory of a call that has waited for another such call.
    #[inline]
    pub(super) fn keep_short(&mut self, call: Box<ReceivedCall>) {
        if self.unused_short.len() < SHORT_CALLS {
            self.unused_short.push(call);
        }
    }

    /// A call has arrived. This worker runs the first; any worker may run the others.
    #[inline]
    pub(super) fn take(&mut self, call: StreamCall) {
        if self.found.is_none() {
            self.waiter.set_together(call.together);
            self.found = Some(call);
        } else {
            self.others.push_back(call);
        }
    }
}
