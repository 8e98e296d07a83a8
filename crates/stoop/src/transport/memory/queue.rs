//! A queue of packets, and the directory in which servers and callers are found.

use crate::transport::memory::faults::{Fate, Faults};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use stoop_net::packets::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, Segments};

/// Number of a caller's queue, which is its address.
pub(super) type Port = u16;

/// Packets on their way to one endpoint.
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    /// With their senders.
    packets: VecDeque<(Port, Vec<u8>)>,
    /// The next packet overtakes this one.
    overtaken: Option<(Port, Vec<u8>)>,
    faults: Faults,
    /// The endpoint ends: threads that sleep here return.
    closed: bool,
}

/// More packets than this are lost, as in a socket.
const PACKETS_MAX: usize = 8192;

impl Queue {
    pub(super) fn new(faults: Faults) -> Self {
        let state = State { packets: VecDeque::new(), overtaken: None, faults, closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a packet at the end, unless it meets with a fault.
    pub(super) fn push(&self, from: Port, packet: &[u8]) {
        let mut state = self.state();
        let packet = (from, packet.to_vec());
        match state.faults.next() {
            Fate::Arrives => state.packets.push_back(packet),
            Fate::IsLost => return,
            Fate::ArrivesTwice => state.packets.extend([packet.clone(), packet]),
            Fate::IsOvertaken => {
                let earlier = state.overtaken.replace(packet);
                state.packets.extend(earlier);
                return;
            }
        }
        let overtaken = state.overtaken.take();
        state.packets.extend(overtaken);
        state.packets.truncate(PACKETS_MAX);
        self.arrived.notify_one();
    }

    /// Takes the first packets of one sender that are of one length, as many as `most` and the buffer allow; the last may be shorter.
    /// Sleeps at most `limit` until there is one.
    pub(super) fn pop(&self, buffer: &mut [u8], most: usize, limit: Duration) -> Option<(Port, Segments)> {
        let is_empty = |state: &mut State| state.packets.is_empty() && !state.closed;
        let (mut state, _) = match limit {
            Duration::ZERO => (self.state(), true),
            limit => {
                let waited = self.arrived.wait_timeout_while(self.state(), limit, is_empty);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            }
        };
        let (from, first) = state.packets.pop_front()?;
        let mut segments = Segments { len: first.len(), segment: first.len() };
        buffer[..first.len()].copy_from_slice(&first);
        while segments.count() < most.min(MAX_SEGMENTS)
            && segments.len.is_multiple_of(segments.segment.max(1))
            && let Some((sender, next)) = state.packets.front()
            && *sender == from
            && next.len() <= segments.segment
            && segments.len + next.len() <= MAX_SEGMENTS_LEN
        {
            buffer[segments.len..][..next.len()].copy_from_slice(next);
            segments.len += next.len();
            state.packets.pop_front();
        }
        Some((from, segments))
    }

    /// From now on no thread sleeps here.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }
}

/// The endpoints of this process.
#[derive(Default)]
pub(super) struct Directory {
    servers: HashMap<String, Arc<Queue>>,
    callers: HashMap<Port, Weak<Queue>>,
    next: Port,
}

static DIRECTORY: LazyLock<Mutex<Directory>> = LazyLock::new(Mutex::default);

impl Directory {
    pub(super) fn get() -> MutexGuard<'static, Self> {
        DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a server's queue. Returns whether the name was free.
    pub(super) fn enter_server(&mut self, name: &str, queue: &Arc<Queue>) -> bool {
        let is_free = !self.servers.contains_key(name);
        if is_free {
            self.servers.insert(name.into(), Arc::clone(queue));
        }
        is_free
    }

    /// A server has ended: its name is free, unless another has it already.
    pub(super) fn leave_server(&mut self, name: &str, queue: &Arc<Queue>) {
        if self.servers.get(name).is_some_and(|known| Arc::ptr_eq(known, queue)) {
            self.servers.remove(name);
        }
    }

    /// Enters a caller's queue with faults like these.
    pub(super) fn enter_caller(&mut self, faults: &Faults) -> (Port, Arc<Queue>) {
        self.callers.retain(|_, queue| queue.strong_count() > 0);
        while self.next == 0 || self.callers.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let queue = Arc::new(Queue::new(faults.of_queue(self.next.into())));
        self.callers.insert(self.next, Arc::downgrade(&queue));
        (self.next, queue)
    }

    pub(super) fn server(&self, name: &str) -> Option<Arc<Queue>> {
        self.servers.get(name).cloned()
    }

    pub(super) fn caller(&self, port: Port) -> Option<Arc<Queue>> {
        self.callers.get(&port).and_then(Weak::upgrade)
    }
}
