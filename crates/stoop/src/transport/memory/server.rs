//! A server's endpoint in memory.

use crate::transport::memory::MemoryAddress;
use crate::transport::memory::caller::WINDOW;
use crate::transport::memory::queue::{Directory, Port, Queue};
use crate::transport::packet::link::{
    ContiguousRoom, MAX_SEGMENTS, Peer, ReceiveBuffers, Received, ServerEndpoint,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use stoop_exchange::server;
use stoop_net::Patience;

/// A queue for calls.
pub(crate) struct MemoryServer {
    address: String,
    queue: Arc<Queue>,
}

/// A caller's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPeer(Port);

impl Peer for MemoryPeer {}

impl server::Peer for MemoryPeer {
    /// All callers are in this process: one host.
    fn host(&self) -> [u8; 16] {
        *b"memory of tests\0"
    }

    fn port(&self) -> u16 {
        self.0
    }
}

/// Longest sleep of a thread before it looks whether the server ends.
const SLEEP: Duration = Duration::from_secs(1);

impl MemoryServer {
    pub(super) fn listen(address: &MemoryAddress) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(address.faults.of_queue(0)));
        match Directory::get().enter_server(&address.text, &queue) {
            true => Ok(Self { address: address.text.clone(), queue }),
            false => Err(io::ErrorKind::AddrInUse.into()),
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for MemoryServer {
    fn drop(&mut self) {
        Directory::get().leave_server(&self.address, &self.queue);
    }
}

impl ServerEndpoint for MemoryServer {
    type Peer = MemoryPeer;
    /// The sender of what was received last.
    type Worker = MemoryPeer;
    type Room = ContiguousRoom;

    fn is_reached_by_others(&self) -> bool {
        false
    }

    fn worker(&self) -> MemoryPeer {
        MemoryPeer(0)
    }

    fn window(&self) -> u32 {
        WINDOW
    }

    fn receive(&self, worker: &mut MemoryPeer, buffers: &mut ReceiveBuffers, patience: Patience) -> Received {
        let limit = if patience == Patience::Block { SLEEP } else { Duration::ZERO };
        let Some((from, segments)) = self.queue.pop(buffers.many(), MAX_SEGMENTS, limit) else {
            return Received::Nothing;
        };
        *worker = MemoryPeer(from);
        buffers.arrived(segments)
    }

    fn peer<'a>(&'a self, worker: &'a MemoryPeer) -> &'a MemoryPeer {
        worker
    }

    fn send(&self, packet: &[u8], peer: &MemoryPeer) {
        let caller = Directory::get().caller(peer.0);
        if let Some(queue) = caller {
            queue.push(0, packet);
        }
    }

    fn send_many(&self, _: &MemoryPeer, packets: &[u8], segment: usize, peer: &MemoryPeer) {
        packets.chunks(segment).for_each(|packet| self.send(packet, peer));
    }

    fn send_room(&self, worker: &MemoryPeer, room: &mut ContiguousRoom, peer: &MemoryPeer) {
        let (packets, segment) = room.written();
        self.send_many(worker, packets, segment, peer);
    }

    fn wake(&self) {
        self.queue.close();
        // A thread that leaves later holds the endpoint for a moment more.
        Directory::get().leave_server(&self.address, &self.queue);
    }
}
