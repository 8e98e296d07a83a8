//! A socket of its own for the caller that has a UDP address to itself.
//!
//! The address's own socket hears everybody, and pays for it: with each datagram the kernel tells who sent it, and for
//! each answer it finds the way anew. So when one caller's lane has called often enough with nobody else in between,
//! it gets a second socket at the same address, connected to it, and whoever holds the receive role waits there: the
//! kernel's own direct wake-up (F10). The address's own socket is looked at from time to time; as soon as somebody
//! else has called, or when all is quiet, the dedicated socket is given up, and everything is as before.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_net::udp::{CallerArrival, CallerSocket, Peer, Segments, ServerSocket};

/// Calls in a row by which a caller shows that it is alone, at first.
const CALLS_IN_A_ROW: u32 = 64;
/// And when others have come in between again and again.
const CALLS_IN_A_ROW_MAX: u32 = 1 << 16;
/// Looks at the dedicated socket between two looks at the address's own.
pub(crate) const LOOKS: u32 = 16;

/// The dedicated socket of an address, if it has one at the moment.
#[derive(Debug)]
pub(crate) struct Dedication {
    present: Mutex<Option<Arc<Dedicated>>>,
    /// Rises with its changes, and when something is left of them, so that the calls of the receive role sees that without
    /// taking the lock.
    changes: AtomicU64,
    is_there: AtomicBool,
    /// There will be none any more. Changes under the lock of the present one.
    closed: AtomicBool,
    /// How many there have been.
    count: AtomicU64,
    /// Calls in a row that the next caller must make.
    calls_in_a_row: AtomicU32,
    /// What had arrived in a socket when it was given up, or before it was connected: for whoever receives next.
    left: Mutex<VecDeque<Left>>,
}

/// Datagrams that came together, or one, and their sender.
pub(crate) type Left = (Vec<u8>, Segments, Peer);

/// A dedicated socket and its caller.
#[derive(Debug)]
pub(crate) struct Dedicated {
    pub(crate) socket: CallerSocket,
    pub(crate) peer: Peer,
    /// Datagrams that come together are received together.
    pub(crate) together: AtomicBool,
}

/// Why a dedicated socket is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
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
            is_there: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            count: AtomicU64::new(0),
            calls_in_a_row: AtomicU32::new(CALLS_IN_A_ROW),
            left: Mutex::default(),
        }
    }
}

impl Dedication {
    /// Differs from what it was before when the dedicated socket is another, or gone. What was sent by a socket that has
    /// been given up by the time it has been sent may have come back to it.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether there is a dedicated socket.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        // Looked at by the background before it goes to sleep.
        self.is_there.load(Ordering::SeqCst)
    }

    /// How many sockets have been dedicated so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The dedicated socket.
    pub(crate) fn present(&self) -> Option<Arc<Dedicated>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether so many calls in a row earn a socket.
    #[inline]
    pub(crate) fn is_earned(&self, calls_in_a_row: u32) -> bool {
        calls_in_a_row >= self.calls_in_a_row.load(Ordering::Relaxed)
    }

    /// The next of what was left when the socket last changed.
    pub(crate) fn next_left(&self) -> Option<Left> {
        self.left().pop_front()
    }

    fn left(&self) -> MutexGuard<'_, VecDeque<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `peer` a socket, if there is none and the system has one to give; `together`: datagrams that come together are
    /// received together there, too.
    #[cold]
    pub(crate) fn dedicate(&self, own: &ServerSocket, peer: Peer, together: bool) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        // A worker that took one while all are woken to leave would wait there for ever.
        if present.is_some() || self.closed.load(Ordering::Relaxed) {
            return;
        }
        let connected = own.connected_to(&peer);
        match connected.and_then(|socket| Ok((own.strays_in(&socket, &peer)?, socket))) {
            Ok((strays, socket)) => {
                // While it was not yet connected, anybody's may have come in there.
                let strays = strays.into_iter().map(|(datagram, peer)| {
                    let len = datagram.len();
                    (datagram, Segments { len, segment: len }, peer)
                });
                self.left().extend(strays);
                let together = AtomicBool::new(together && socket.set_gro(true).is_ok());
                *present = Some(Arc::new(Dedicated { socket, peer, together }));
                self.is_there.store(true, Ordering::SeqCst);
                self.count.fetch_add(1, Ordering::Relaxed);
                self.changes.fetch_add(1, Ordering::SeqCst);
            }
            // It works without; let us not ask again soon.
            Err(_) => self.calls_in_a_row.store(CALLS_IN_A_ROW_MAX, Ordering::Relaxed),
        }
    }

    /// Gives the socket up for good.
    pub(crate) fn close(&self) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Relaxed);
        drop(present);
        self.give_up(Reason::Quiet);
    }

    /// Gives the socket up and wakes whoever waits there. Workers away in a procedure may hold it for a while yet; it
    /// hears nobody any more.
    #[cold]
    pub(crate) fn give_up(&self, why: Reason) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dedicated) = present.take() else { return };
        self.is_there.store(false, Ordering::SeqCst);
        // Before it is retired: whoever sends by it looks here afterwards.
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Fails when the address has gone, and then nobody calls there.
        let _ = dedicated.socket.retire();
        // Whoever receives next may be another than whoever waited there; and may have seen the change already.
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
    /// What has arrived and has not been received.
    fn left(&self) -> Vec<Left> {
        let mut left = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(CallerArrival::Datagram(segments @ Segments { len: 1.., .. })) =
            self.socket.recv_segments(&mut buffer)
        {
            left.push((buffer[..segments.len].to_vec(), segments, self.peer));
        }
        left
    }
}
