//! A mailbox: the packets that another thread has received for one user of a shared endpoint.

use crate::calling::waiting_thread::WaitingThread;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_net::packets::{CallerArrival, Segments};

/// Packets for one user of a shared endpoint.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// How many packets there are, to be read without the lock.
    count: AtomicUsize,
    arrivals: Mutex<Arrivals>,
}

#[derive(Default)]
pub(crate) struct Arrivals {
    /// A packet, or `None` for a report that the server's port is closed.
    packets: VecDeque<Option<Vec<u8>>>,
    /// Headers of packets that the closed port has sent back.
    pub(crate) sent_back: VecDeque<Vec<u8>>,
    /// Memory for packets.
    unused: Vec<Vec<u8>>,
    /// The thread that waits for them while another receives.
    pub(crate) thread: Option<Arc<WaitingThread>>,
}

/// Packets that a mailbox holds at most; further ones are dropped, as by a socket whose buffer is full.
const MAILBOX_MAX: usize = 4096;

/// Packets whose memory a mailbox keeps for later ones.
const UNUSED_MAX: usize = 64;

impl Mailbox {
    pub(crate) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Puts a packet, or the report of a closed port, into the mailbox and notifies the thread that waits for it.
    pub(crate) fn put(&self, packet: Option<&[u8]>) {
        let mut arrivals = self.arrivals();
        if arrivals.packets.len() < MAILBOX_MAX {
            let packet = packet.map(|packet| {
                let mut memory = arrivals.unused.pop().unwrap_or_default();
                memory.clear();
                memory.extend_from_slice(packet);
                memory
            });
            arrivals.packets.push_back(packet);
            self.count.store(arrivals.packets.len(), Ordering::Release);
        }
        if let Some(thread) = &arrivals.thread {
            thread.notify();
        }
    }

    /// Takes packets of equal length, as many as have arrived and fit into `buffer`; at most `most`.
    pub(crate) fn take(&self, buffer: &mut [u8], most: usize) -> Option<CallerArrival<Segments>> {
        if self.is_empty() {
            return None;
        }
        let mut arrivals = self.arrivals();
        let (mut len, mut segment, mut taken) = (0, 0, 0);
        let arrival = loop {
            match arrivals.packets.front() {
                None => break CallerArrival::Datagram(Segments { len, segment }),
                Some(None) if taken == 0 => {
                    arrivals.packets.pop_front();
                    break CallerArrival::Refused;
                }
                Some(Some(packet))
                    if taken < most
                        && len + packet.len() <= buffer.len()
                        && (taken == 0 || packet.len() == segment) =>
                {
                    segment = packet.len();
                    buffer[len..len + segment].copy_from_slice(packet);
                    (len, taken) = (len + segment, taken + 1);
                    let memory = arrivals.packets.pop_front().flatten();
                    if arrivals.unused.len() < UNUSED_MAX {
                        arrivals.unused.extend(memory);
                    }
                }
                Some(_) => break CallerArrival::Datagram(Segments { len, segment }),
            }
        };
        self.count.store(arrivals.packets.len(), Ordering::Release);
        Some(arrival).filter(|arrival| *arrival != CallerArrival::Datagram(Segments { len: 0, segment: 0 }))
    }
}
