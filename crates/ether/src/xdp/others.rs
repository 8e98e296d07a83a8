//! The frames of receive queues that have no AF_XDP socket: the program passes them on, and a packet socket receives them.

use crate::arrival::{Arrival, Arrivals};
use crate::error::OpenError;
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::options::Options;
use crate::packet_ring::{Ring, RingSocket};
use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The packet socket.
#[derive(Debug)]
pub(super) struct OtherQueues {
    socket: RingSocket,
    /// The packet socket is looked at before the AF_XDP socket: they take turns, so that neither waits for an end of the other's frames.
    is_first: AtomicBool,
    /// Frames for which its ring had no room.
    dropped: AtomicU64,
}

impl OtherQueues {
    pub(super) fn open(interface: &Interface, options: &Options, port: u16) -> Result<Self, OpenError> {
        let socket = RingSocket::open(interface, options, port)?;
        Ok(Self { socket, is_first: AtomicBool::new(false), dropped: AtomicU64::new(0) })
    }

    /// Goes on at an interface that has been made again.
    pub(super) fn follow(&self, interface: &Interface, ether_type: EtherType) -> Result<(), OpenError> {
        self.socket.follow(interface, ether_type)
    }

    /// Receives by `own` from the AF_XDP socket, or by `take` from this one: whichever is next in turn and has something.
    pub(super) fn take_turns<L>(
        &self,
        buffer: &mut [u8],
        own: impl Fn(&mut [u8]) -> Arrival<L>,
        take: impl Fn(&mut Arrivals<Ring>, &mut [u8]) -> Arrival<L>,
    ) -> Arrival<L> {
        let here = |buffer: &mut [u8]| {
            self.socket.arrivals.try_use(|arrivals| take(arrivals, buffer)).unwrap_or(Arrival::Nothing)
        };
        // One thread receives; if two do, a turn may be lost.
        let is_first = self.is_first.load(Ordering::Relaxed);
        self.is_first.store(!is_first, Ordering::Relaxed);
        match if is_first { here(buffer) } else { own(buffer) } {
            Arrival::Nothing if is_first => own(buffer),
            Arrival::Nothing => here(buffer),
            arrival => arrival,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Frames for which the ring had no room, so far.
    pub(super) fn dropped(&self) -> u64 {
        let dropped = self.socket.take_drops();
        self.dropped.fetch_add(dropped, Ordering::Relaxed) + dropped
    }
}
