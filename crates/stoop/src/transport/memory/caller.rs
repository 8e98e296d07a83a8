//! A caller's endpoint in memory.

use crate::transport::memory::MemoryAddress;
use crate::transport::memory::queue::{Directory, Port, Queue};
use crate::transport::packet::link::{
    CallerArrival, CallerEndpoint, ContiguousRoom, HandedOver, MAX_SEGMENTS, Segments, Sending, Share,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue for results, and the name of the server.
pub(crate) struct MemoryCaller {
    port: Port,
    queue: Arc<Queue>,
    server: String,
    /// A packet found no server. The next operation reports it.
    is_refused: AtomicBool,
    /// Beginnings of packets that found no server, as an ICMP error returns them.
    returned: Mutex<VecDeque<Vec<u8>>>,
}

/// Bytes of each packet that are returned.
const RETURNED_LEN: usize = 64;

/// Bytes of the longest packet.
const LARGEST: usize = 8192;

/// Bytes of a long message that may be in a queue.
pub(super) const WINDOW: u32 = 1 << 20;

impl MemoryCaller {
    pub(super) fn new(server: &MemoryAddress, _: Share) -> Self {
        let (port, queue) = Directory::get().enter_caller(&server.faults);
        Self {
            port,
            queue,
            server: server.text.clone(),
            is_refused: AtomicBool::new(false),
            returned: Mutex::default(),
        }
    }

    fn returned(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, packet: &[u8]) {
        let server = Directory::get().server(&self.server);
        match server.filter(|queue| !queue.is_closed()) {
            Some(queue) => queue.push(self.port, packet),
            None => {
                self.returned().push_back(packet[..packet.len().min(RETURNED_LEN)].to_vec());
                self.is_refused.store(true, Ordering::Relaxed);
            }
        }
    }

    fn deliver_all(&self, packets: &[u8], segment: usize, is_probe: bool) -> HandedOver {
        let is_too_long = packets.len().min(segment) > LARGEST;
        if !(is_too_long && is_probe) {
            packets.chunks(segment).for_each(|packet| self.deliver(packet));
        }
        if is_too_long { HandedOver::TooLong } else { HandedOver::Sent }
    }

    fn pop(&self, buffer: &mut [u8], most: usize, limit_ns: u64) -> CallerArrival<Segments> {
        if self.is_refused.swap(false, Ordering::Relaxed) {
            return CallerArrival::Refused;
        }
        match self.queue.pop(buffer, most, Duration::from_nanos(limit_ns)) {
            Some((_, segments)) => CallerArrival::Datagram(segments),
            None => CallerArrival::Nothing,
        }
    }
}

impl CallerEndpoint for MemoryCaller {
    type Room = ContiguousRoom;

    fn send(&self, packet: &[u8]) -> io::Result<Sending> {
        if self.is_refused.swap(false, Ordering::Relaxed) {
            return Ok(Sending::Refused);
        }
        self.deliver(packet);
        Ok(Sending::Sent)
    }

    fn send_many(&self, packets: &[u8], segment: usize, _: impl FnMut(usize, io::Error)) {
        self.deliver_all(packets, segment, false);
    }

    fn send_room(&self, room: &mut ContiguousRoom, is_probe: bool) -> io::Result<HandedOver> {
        let (packets, segment) = room.written();
        Ok(self.deliver_all(packets, segment, is_probe))
    }

    fn send_gathered(
        &self,
        pieces: &[IoSlice<'_>],
        segment: usize,
        is_probe: bool,
    ) -> io::Result<HandedOver> {
        let packets: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        Ok(self.deliver_all(&packets, segment, is_probe))
    }

    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        Ok(self.pop(buffer, 1, about_ns.min(latest_ns)).map(|segments| segments.len))
    }

    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>> {
        Ok(self.pop(buffer, MAX_SEGMENTS, about_ns.min(latest_ns)))
    }

    fn expect_many(&self, _: bool) {}

    fn window(&self) -> u32 {
        WINDOW
    }

    fn largest_packet(&self) -> io::Result<usize> {
        Ok(LARGEST)
    }

    fn keep_sent_back(&self) {}

    fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize> {
        let packet = self.returned().pop_front()?;
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        Some(len)
    }
}
