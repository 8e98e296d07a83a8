//! The state that the workers of an endpoint share for calls that came together.

use crate::transport::packet::link::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, ReceiveBuffers};
use crate::transport::packet::server::call::{CallPacket, PacketCall};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_exchange::server::Assignment;
use stoop_net::owner_lock::{Key, OwnerGuard, OwnerLock};
use stoop_wire::MAX_DATAGRAM;

/// Calls that came together and have not begun, and the answers of those that have ended.
pub(super) struct Batch<P> {
    /// The worker that has the receive role locks it for each call; other workers hardly ever do.
    pub(super) shared: OwnerLock<Shared<P>>,
    /// False: nothing is there, and each worker that runs a call from here will look again.
    pub(super) pending: AtomicBool,
}

pub(super) struct Shared<P> {
    pub(super) calls: VecDeque<PacketCall<P>>,
    /// The packets that brought the calls.
    pub(super) packets: Option<Arc<[u8]>>,
    /// Calls that have ended. Their answers leave together; then the calls are given back to the exchange.
    pub(super) finished: Vec<Finished<P>>,
    /// Bytes of their answers.
    pub(super) answers_len: usize,
}

/// A call that has ended.
pub(super) struct Finished<P> {
    pub(super) assignment: Assignment<P>,
    /// Its answer is a result that has only been noted: how long the call was here is known when the answer leaves.
    pub(super) is_noted: bool,
    #[cfg(feature = "seal")]
    is_bundled: bool,
}

impl<P> Finished<P> {
    /// `packet`: the one that brought it.
    #[inline(always)]
    pub(super) fn new(assignment: Assignment<P>, is_noted: bool, packet: CallPacket) -> Self {
        #[cfg(not(feature = "seal"))]
        let _ = packet;
        Self {
            assignment,
            is_noted,
            #[cfg(feature = "seal")]
            is_bundled: packet.is_bundled(),
        }
    }

    /// Whether its answer may leave in a bundle: its call came in one.
    #[inline(always)]
    pub(super) fn is_bundled(&self) -> bool {
        #[cfg(feature = "seal")]
        {
            self.is_bundled
        }
        #[cfg(not(feature = "seal"))]
        {
            false
        }
    }
}

impl<P> Shared<P> {
    /// Adds a call that has ended with an answer of `len` bytes. Returns whether the answers fill a system call.
    #[inline]
    pub(super) fn push(&mut self, finished: Finished<P>, len: usize) -> bool {
        self.finished.push(finished);
        self.answers_len += len;
        self.finished.len() >= MAX_SEGMENTS || self.answers_len + MAX_DATAGRAM > MAX_SEGMENTS_LEN
    }

    /// Takes the first of the calls and a reference to its packets: another worker may have received others while this worker ran a
    /// procedure.
    #[inline]
    pub(super) fn take_first(&mut self, buffers: &mut ReceiveBuffers) -> Option<PacketCall<P>> {
        let call = self.calls.pop_front()?;
        let of_calls = &mut buffers.of_calls;
        let is_same =
            matches!((&*of_calls, &self.packets), (Some(own), Some(here)) if Arc::ptr_eq(own, here));
        if !is_same {
            of_calls.clone_from(&self.packets);
        }
        Some(call)
    }
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        let (calls, packets, finished) = (VecDeque::new(), None, Vec::new());
        let shared = Shared { calls, packets, finished, answers_len: 0 };
        Self { shared: OwnerLock::new(shared), pending: AtomicBool::new(false) }
    }
}

impl<P> Batch<P> {
    #[inline]
    pub(super) fn shared<'a>(&'a self, key: &'a mut Key) -> OwnerGuard<'a, Shared<P>> {
        self.shared.lock(key)
    }

    /// For one more worker that takes calls from here.
    pub(super) fn key(&self) -> Key {
        self.shared.key()
    }

    /// Whether the worker that receives should look here first.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        // Calls and answers are read under the lock; and a worker that gets the receive role sees what its predecessor did.
        self.pending.load(Ordering::Relaxed)
    }
}
