//! A socket of its own for the caller that has a UDP address to itself.
//!
//! The address's own socket hears everybody, and pays for it: with each datagram the kernel tells who sent it, and for
//! each answer it finds the way anew. So when one caller's lane has called often enough with nobody else in between,
//! it gets a second socket at the same address, connected to it, and whoever holds the receive role waits there: the
//! kernel's own direct wake-up (F10). The address's own socket is looked at from time to time; as soon as somebody
//! else has called, or when all is quiet, the dedicated socket is given up, and everything is as before.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stoop_net::udp::{CallerSocket, Peer, ServerSocket};

/// Calls in a row by which a caller shows that it is alone, at first.
const CALLS_IN_A_ROW: u32 = 64;
/// And when others have come in between again and again.
const CALLS_IN_A_ROW_MAX: u32 = 1 << 16;
/// Looks at the dedicated socket between two looks at the address's own.
pub(super) const LOOKS: u32 = 16;

/// The dedicated socket of an address, if it has one at the moment.
#[derive(Debug)]
pub(super) struct Dedication {
    present: Mutex<Option<Arc<Dedicated>>>,
    /// Counts its changes, so that the holder of the receive role sees one without taking the lock. Odd: there is one.
    changes: AtomicU64,
    /// Calls in a row that the next caller must make.
    calls_in_a_row: AtomicU32,
}

/// A dedicated socket and its caller.
#[derive(Debug)]
pub(super) struct Dedicated {
    pub(super) socket: CallerSocket,
    pub(super) peer: Peer,
    /// Datagrams that come together are received together.
    pub(super) together: AtomicBool,
}

/// Why a dedicated socket is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody else has called.
    Others,
    /// Nobody calls.
    Quiet,
}

impl Default for Dedication {
    fn default() -> Self {
        Self {
            present: Mutex::default(),
            changes: AtomicU64::new(0),
            calls_in_a_row: AtomicU32::new(CALLS_IN_A_ROW),
        }
    }
}

impl Dedication {
    /// Differs from what it was before when the dedicated socket is another, or gone.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        // Looked at by the housekeeper before it goes to sleep.
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether there is a dedicated socket.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.changes() % 2 == 1
    }

    /// How many sockets have been dedicated so far.
    pub(super) fn count(&self) -> u64 {
        self.changes().div_ceil(2)
    }

    /// The dedicated socket.
    pub(super) fn present(&self) -> Option<Arc<Dedicated>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether so many calls in a row earn a socket.
    #[inline]
    pub(super) fn is_earned(&self, calls_in_a_row: u32) -> bool {
        calls_in_a_row >= self.calls_in_a_row.load(Ordering::Relaxed)
    }

    /// Gives `peer` a socket, if there is none and the system has one to give. Returns what came in there meanwhile, of
    /// anybody.
    #[cold]
    pub(super) fn dedicate(&self, own: &ServerSocket, peer: Peer) -> Vec<(Vec<u8>, Peer)> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.is_some() {
            return Vec::new();
        }
        let connected = own.connected_to(&peer);
        match connected.and_then(|socket| Ok((own.strays_in(&socket, &peer)?, socket))) {
            Ok((strays, socket)) => {
                *present = Some(Arc::new(Dedicated { socket, peer, together: AtomicBool::new(false) }));
                self.changes.fetch_add(1, Ordering::SeqCst);
                strays
            }
            // It works without; let us not ask again soon.
            Err(_) => {
                self.calls_in_a_row.store(CALLS_IN_A_ROW_MAX, Ordering::Relaxed);
                Vec::new()
            }
        }
    }

    /// Gives the socket up and wakes whoever waits there. Workers away in a procedure may hold it for a while yet; it
    /// hears nobody any more.
    #[cold]
    pub(super) fn give_up(&self, why: Reason) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dedicated) = present.take() else { return };
        self.changes.fetch_add(1, Ordering::SeqCst);
        let calls = match why {
            Reason::Others => (2 * self.calls_in_a_row.load(Ordering::Relaxed)).min(CALLS_IN_A_ROW_MAX),
            Reason::Quiet => CALLS_IN_A_ROW,
        };
        self.calls_in_a_row.store(calls, Ordering::Relaxed);
        // Fails when the address has gone, and then nobody calls there.
        let _ = dedicated.socket.retire();
    }
}
