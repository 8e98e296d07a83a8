//! A socket of its own for the only caller of a UDP address.
//!
//! The address's own socket receives from every peer, which costs time: for each packet the kernel reports the sender, and for
//! each answer it looks for the route. When one peer has called often enough with no other peer in between, it gets a second
//! socket at the same address, connected to it, and the worker that holds the receive role waits there. The
//! address's own socket is looked at from time to time. As soon as another peer has called there, or when no calls come,
//! the dedicated socket is given up.

use crate::transport::packet::link::PACKETS_ROOM;
use crate::transport::udp::peer::UdpPeer;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_net::udp::{CallerArrival, CallerSocket, Segments, ServerSocket};

/// First number of calls in a row that earn a peer the dedicated socket. It doubles each time that another peer interferes.
const CALLS_IN_A_ROW: u32 = 64;
/// Last such number.
const CALLS_IN_A_ROW_MAX: u32 = 1 << 16;
/// Looks at the dedicated socket between two looks at the address's own.
pub(super) const LOOKS: u32 = 16;

/// The dedicated socket of an address, if it has one at the moment.
#[derive(Debug)]
pub(super) struct DedicatedSocket {
    present: Mutex<Option<Arc<Dedicated>>>,
    /// Number of changes, so that workers notice a change without taking the lock. It also rises when packets have been left behind.
    changes: AtomicU64,
    is_there: AtomicBool,
    /// No peer gets a dedicated socket any more. Written while `present` is locked.
    closed: AtomicBool,
    /// Dedicated sockets so far.
    count: AtomicU64,
    /// Calls in a row that earn the next peer the socket.
    calls_in_a_row: AtomicU32,
    /// Packets that arrived in a socket before it was connected, or before it was given up. The next worker that receives takes them.
    left: Mutex<VecDeque<Left>>,
}

/// Packets that came together, and their sender.
pub(super) type Left = (Vec<u8>, Segments, UdpPeer);

/// A dedicated socket and its caller.
#[derive(Debug)]
pub(super) struct Dedicated {
    pub(super) socket: CallerSocket,
    pub(super) peer: UdpPeer,
    /// It receives packets together.
    pub(super) together: AtomicBool,
}

/// Why a dedicated socket is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Another peer has called.
    Others,
    /// The peer has stopped to call.
    Quiet,
}

impl Default for DedicatedSocket {
    fn default() -> Self {
        Self {
            present: Mutex::default(),
            changes: AtomicU64::new(0),
            is_there: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            count: AtomicU64::new(0),
            calls_in_a_row: AtomicU32::new(CALLS_IN_A_ROW),
            left: Mutex::default(),
        }
    }
}

impl DedicatedSocket {
    /// The number of changes so far. If it changes while a worker sends by the dedicated socket, the socket may have sent the packet to
    /// itself.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether there is a dedicated socket.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        // The background thread reads it before it goes to sleep.
        self.is_there.load(Ordering::SeqCst)
    }

    /// Dedicated sockets so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The dedicated socket.
    pub(super) fn present(&self) -> Option<Arc<Dedicated>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a peer that has made this many calls in a row gets the socket.
    #[inline]
    pub(super) fn is_earned(&self, calls_in_a_row: u32) -> bool {
        calls_in_a_row >= self.calls_in_a_row.load(Ordering::Relaxed)
    }

    /// Takes the next packets that were left behind when the socket changed.
    pub(super) fn next_left(&self) -> Option<Left> {
        self.left().pop_front()
    }

    fn left(&self) -> MutexGuard<'_, VecDeque<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `peer` the socket, unless there is one already or the system has none to give. With `together` it receives packets
    /// together.
    #[cold]
    pub(super) fn dedicate(&self, own: &ServerSocket, peer: UdpPeer, together: bool) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        // A worker that found a new socket after all workers were woken to leave would wait there for ever.
        if present.is_some() || self.closed.load(Ordering::Relaxed) {
            return;
        }
        let connected = own.connected_to(&peer.0);
        match connected.and_then(|socket| Ok((own.strays_in(&socket, &peer.0)?, socket))) {
            Ok((strays, socket)) => {
                // Before the socket was connected, it may have received packets of other peers.
                let strays = strays.into_iter().map(|(datagram, peer)| {
                    let len = datagram.len();
                    (datagram, Segments { len, segment: len }, UdpPeer(peer))
                });
                self.left().extend(strays);
                let together = AtomicBool::new(together && socket.set_gro(true).is_ok());
                *present = Some(Arc::new(Dedicated { socket, peer, together }));
                self.is_there.store(true, Ordering::SeqCst);
                self.count.fetch_add(1, Ordering::Relaxed);
                self.changes.fetch_add(1, Ordering::SeqCst);
            }
            // Calls work without it. Do not try again soon.
            Err(_) => self.calls_in_a_row.store(CALLS_IN_A_ROW_MAX, Ordering::Relaxed),
        }
    }

    /// Gives up the socket for good.
    pub(super) fn close(&self) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Relaxed);
        drop(present);
        self.give_up(Reason::Quiet);
    }

    /// Gives up the socket and wakes the worker that waits there. Workers that run a procedure may keep it open for a while; it
    /// receives nothing any more.
    #[cold]
    pub(super) fn give_up(&self, why: Reason) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dedicated) = present.take() else { return };
        self.is_there.store(false, Ordering::SeqCst);
        // Before it is retired: a worker that sends by it reads the number afterwards.
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Fails when the address has gone, and then no caller can reach it.
        let _ = dedicated.socket.retire();
        // The next worker that receives may be another one, and may have noticed the change already.
        self.left().extend(dedicated.left());
        self.changes.fetch_add(1, Ordering::SeqCst);
        let calls = match why {
            Reason::Others => (2 * self.calls_in_a_row.load(Ordering::Relaxed)).min(CALLS_IN_A_ROW_MAX),
            Reason::Quiet => CALLS_IN_A_ROW,
        };
        self.calls_in_a_row.store(calls, Ordering::Relaxed);
    }
}

impl Dedicated {
    /// Takes the packets that have arrived and have not been received.
    fn left(&self) -> Vec<Left> {
        let mut left = Vec::new();
        let mut buffer = vec![0; PACKETS_ROOM];
        while let Ok(CallerArrival::Datagram(segments)) = self.socket.recv_segments(&mut buffer) {
            left.push((buffer[..segments.len].to_vec(), segments, self.peer));
        }
        left
    }
}
