//! A server's endpoint over UDP: the address's own socket, and a dedicated one for a caller that is alone.
//!
//! The kernel hands over packets that arrived together in one piece only on request (UDP_GRO), and the request makes the
//! receipt of a single packet slower. A socket requests it when one peer has made calls in a row on different lanes, or when a packet
//! of a long message has come, and stops when packets have come by themselves for a while.

use crate::transport::packet::link::{
    LinkCounters, MAX_SEGMENTS, ReceiveBuffers, Received, Segments, SegmentsSending, ServerEndpoint,
    UNKNOWN_AGE, is_single,
};
use crate::transport::udp::dedicated::{Dedicated, DedicatedSocket, LOOKS, Reason};
use crate::transport::udp::peer::UdpPeer;
use crate::transport::udp::room::{UdpRoom, Written, copied};
use crate::transport::udp::stamps::TimeStamps;
use crate::transport::udp::worker::UdpWorker;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stoop_net::udp::{CallerArrival, CallerSocket, Patience, ServerArrival, ServerSocket};
use stoop_wire::{LaneId, MAX_DATAGRAM};

/// The sockets of an address.
pub(crate) struct UdpServer {
    socket: ServerSocket,
    /// The address's own socket receives packets together.
    together: AtomicBool,
    /// The kernel notes when packets come.
    stamps: TimeStamps,
    dedicated: DedicatedSocket,
    /// Packets dropped because they were longer than any buffer.
    too_large: AtomicU64,
}

/// Receive buffer of a server's socket, so that a burst of calls is not lost. The system may grant less.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Bytes that the kernel may count for each byte of a long call.
const BUFFER_PER_BYTE: usize = 4;

/// Bytes that the kernel counts for a packet of up to 1472 bytes: 2048 and a header (`SKB_TRUESIZE`).
const PACKET_IN_BUFFER: usize = 2304;

/// Least window, however little the system grants.
const WINDOW_MIN: u32 = 32 << 10;

impl UdpServer {
    pub(super) fn listen(address: SocketAddr) -> io::Result<Self> {
        let socket = ServerSocket::bind(address)?;
        let _ = socket.set_receive_buffer(RECEIVE_BUFFER);
        Ok(Self {
            socket,
            together: AtomicBool::new(false),
            stamps: TimeStamps::default(),
            dedicated: DedicatedSocket::default(),
            too_large: AtomicU64::new(0),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    #[inline]
    fn receive_by_own(
        &self,
        worker: &mut UdpWorker,
        buffers: &mut ReceiveBuffers,
        patience: Patience,
    ) -> Received {
        if self.together.load(Ordering::Relaxed) | self.stamps.are_on() {
            return self.receive_together(worker, buffers, patience, false);
        }
        worker.age_ns = 0;
        let arrival = self.socket.recv(&mut buffers.one[..], patience);
        self.take_by_own(worker, arrival).map_or(Received::Nothing, Received::Packet)
    }

    #[inline(always)]
    fn receive_by_dedicated(
        &self,
        worker: &mut UdpWorker,
        buffers: &mut ReceiveBuffers,
        patience: Patience,
    ) -> Received {
        let Some(dedicated) = &worker.dedicated else { return Received::Nothing };
        if dedicated.together.load(Ordering::Relaxed) {
            return self.receive_together(worker, buffers, patience, true);
        }
        worker.age_ns = 0;
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv(&mut buffers.one[..]),
            Patience::Block => dedicated.socket.recv_blocking(&mut buffers.one[..]),
        };
        // A retired socket seems to receive an empty packet.
        let len = self.take_by_dedicated(worker, arrival).filter(|len| *len > 0);
        len.map_or(Received::Nothing, Received::Packet)
    }

    /// The packets that the address's own socket has received. Notes their sender.
    #[inline(always)]
    fn take_by_own<L>(&self, worker: &mut UdpWorker, arrival: io::Result<ServerArrival<L>>) -> Option<L> {
        match arrival {
            Ok(ServerArrival::Datagram { len, peer }) => {
                (worker.own_peer, worker.by_dedicated) = (UdpPeer(peer), false);
                return Some(len);
            }
            Ok(ServerArrival::TooLarge { .. }) => self.count_too_large(),
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => {}
        }
        None
    }

    /// The packets that the dedicated socket has received.
    #[inline(always)]
    fn take_by_dedicated<L>(
        &self,
        worker: &mut UdpWorker,
        arrival: io::Result<CallerArrival<L>>,
    ) -> Option<L> {
        match arrival {
            Ok(CallerArrival::Datagram(len)) => {
                worker.by_dedicated = true;
                return Some(len);
            }
            Ok(CallerArrival::TooLarge(_)) => self.count_too_large(),
            Ok(CallerArrival::Nothing) => {}
            // Its caller has closed the port.
            Ok(CallerArrival::Refused) | Err(_) => self.dedicated.give_up(Reason::Quiet),
        }
        None
    }

    /// Receives by a socket that hands over packets together.
    fn receive_together(
        &self,
        worker: &mut UdpWorker,
        buffers: &mut ReceiveBuffers,
        patience: Patience,
        by_dedicated: bool,
    ) -> Received {
        let ends = worker.pattern.is_over() && self.is_together_at(worker, by_dedicated);
        let patience = if ends { Patience::DontWait } else { patience };
        worker.age_ns = 0;
        let segments = match &worker.dedicated {
            Some(dedicated) if by_dedicated => {
                let arrival = match patience {
                    Patience::DontWait => dedicated.socket.recv_segments(buffers.many()),
                    Patience::Block => dedicated.socket.recv_segments_blocking(buffers.many()),
                };
                self.take_by_dedicated(worker, arrival).filter(|segments| segments.len > 0)
            }
            _ if self.stamps.are_on() => {
                let stamped = self.socket.recv_segments_stamped(buffers.many(), patience);
                let arrival = stamped.map(|(arrival, age_ns)| {
                    let came = !matches!(arrival, ServerArrival::Nothing);
                    worker.age_ns = self.stamps.age_ns(came.then_some(age_ns));
                    arrival
                });
                self.take_by_own(worker, arrival)
            }
            _ => self.take_by_own(worker, self.socket.recv_segments(buffers.many(), patience)),
        };
        if segments.is_none() && ends {
            self.set_together(worker, by_dedicated, false);
            worker.pattern.end();
        }
        segments.map_or(Received::Nothing, |segments| received(worker, buffers, segments))
    }

    /// Has a socket receive packets together, or one by one. Packets that come together while it stops are lost, and their
    /// senders repeat them.
    #[cold]
    fn set_together(&self, worker: &mut UdpWorker, by_dedicated: bool, on: bool) {
        worker.pattern.begin();
        let (set, together) = match &worker.dedicated {
            Some(dedicated) if by_dedicated => (dedicated.socket.set_gro(on), &dedicated.together),
            _ => (self.socket.set_gro(on), &self.together),
        };
        together.store(set.is_ok() == on, Ordering::Relaxed);
    }

    fn is_together(&self, worker: &UdpWorker) -> bool {
        self.is_together_at(worker, worker.by_dedicated)
    }

    fn is_together_at(&self, worker: &UdpWorker, by_dedicated: bool) -> bool {
        match &worker.dedicated {
            Some(dedicated) if by_dedicated => dedicated.together.load(Ordering::Relaxed),
            _ => self.together.load(Ordering::Relaxed),
        }
    }

    /// Gives up the dedicated socket if its caller is not the sender of what the address's own socket has received. (A caller may have
    /// sent packets before it had a dedicated socket.)
    #[cold]
    fn note_others(&self, worker: &UdpWorker) {
        if worker.dedicated.as_ref().is_none_or(|dedicated| dedicated.peer != worker.own_peer) {
            self.dedicated.give_up(Reason::Others);
        }
    }

    #[cold]
    fn count_too_large(&self) {
        self.too_large.fetch_add(1, Ordering::Relaxed);
    }

    /// The dedicated socket has changed: hands over what arrived in the one that is gone, then takes note of the new one.
    #[cold]
    fn change_sockets(&self, worker: &mut UdpWorker, buffers: &mut ReceiveBuffers) -> Option<Received> {
        worker.by_dedicated = false;
        if let Some((packets, segments, peer)) = self.dedicated.next_left() {
            buffers.many()[..segments.len].copy_from_slice(&packets);
            worker.own_peer = peer;
            worker.age_ns = if self.stamps.are_on() { UNKNOWN_AGE } else { 0 };
            return Some(received(worker, buffers, segments));
        }
        worker.changes = self.dedicated.changes();
        worker.dedicated = self.dedicated.present();
        (worker.looks, worker.calls_in_a_row) = (0, 0);
        None
    }

    /// Counts calls in a row of one peer at the address's own socket. Returns whether that has earned it a dedicated socket.
    #[inline]
    fn count_in_a_row(&self, worker: &mut UdpWorker, calls: u32) -> bool {
        let peer = worker.own_peer;
        if worker.latest != Some(peer.0.addr()) {
            (worker.latest, worker.calls_in_a_row) = (Some(peer.0.addr()), 0);
        }
        worker.calls_in_a_row += calls;
        let is_earned = self.dedicated.is_earned(worker.calls_in_a_row) && !self.stamps.are_on();
        if is_earned {
            worker.calls_in_a_row = 0;
            self.dedicated.dedicate(&self.socket, peer, self.together.load(Ordering::Relaxed));
        }
        is_earned
    }

    /// Sends by the dedicated socket, if the peer is its peer and the worker knows the present one. Returns whether the packets have
    /// left.
    #[inline]
    fn send_by_dedicated<T>(
        &self,
        worker: &UdpWorker,
        is_its_peer: impl FnOnce(&Dedicated) -> bool,
        send: impl FnOnce(&CallerSocket) -> io::Result<T>,
    ) -> bool {
        match &worker.dedicated {
            Some(dedicated) if is_its_peer(dedicated) && worker.changes == self.dedicated.changes() => {
                // A socket that another worker has given up meanwhile may have sent to itself.
                send(&dedicated.socket).is_ok() && worker.changes == self.dedicated.changes()
            }
            _ => false,
        }
    }

    /// Sends by the address's own socket. A packet that is not sent is like one that is lost.
    fn send_many_by_own(&self, packets: &[u8], segment: usize, peer: &UdpPeer) {
        use SegmentsSending::{Refused, Sent};
        if !matches!(self.socket.send_segments(packets, segment, &peer.0), Ok(Sent | Refused)) {
            packets.chunks(segment).for_each(|packet| self.send(packet, peer));
        }
    }

    /// Sends packets whose parts lie apart: as few as one system call takes.
    fn send_gathered(&self, worker: &UdpWorker, parts: &[IoSlice<'_>], segment: usize, peer: &UdpPeer) {
        let by_dedicated = |socket: &CallerSocket| match socket.send_gathered(parts, segment)? {
            SegmentsSending::Sent | SegmentsSending::Refused => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        if self.send_by_dedicated(worker, |dedicated| dedicated.peer == *peer, by_dedicated) {
            return;
        }
        use SegmentsSending::{Refused, Sent};
        if !matches!(self.socket.send_gathered(parts, segment, &peer.0), Ok(Sent | Refused)) {
            copied(parts).chunks(segment).for_each(|packet| self.send(packet, peer));
        }
    }
}

impl ServerEndpoint for UdpServer {
    type Peer = UdpPeer;
    type Worker = UdpWorker;
    type Room = UdpRoom;

    fn is_reached_by_others(&self) -> bool {
        self.address().is_ok_and(|address| !address.ip().to_canonical().is_loopback())
    }

    fn claim(&self) -> bool {
        self.socket.claim()
    }

    fn worker(&self) -> UdpWorker {
        UdpWorker::default()
    }

    fn window(&self) -> u32 {
        let granted = self.socket.receive_buffer().unwrap_or(0);
        u32::try_from(granted / BUFFER_PER_BYTE).unwrap_or(u32::MAX).max(WINDOW_MIN)
    }

    fn packets(&self) -> u32 {
        let granted = self.socket.receive_buffer().unwrap_or(0);
        u32::try_from(granted / PACKET_IN_BUFFER).unwrap_or(u32::MAX - 1)
    }

    fn sleep(&self, worker: &UdpWorker, limit_ns: u64) -> bool {
        let dedicated = worker.dedicated.as_ref().map(|dedicated| &dedicated.socket);
        // What it has left behind may be there, and the next receive finds it.
        worker.changes == self.dedicated.changes() && self.socket.sleep_beside(dedicated, limit_ns).is_ok()
    }

    #[inline(always)]
    fn receive(&self, worker: &mut UdpWorker, buffers: &mut ReceiveBuffers, patience: Patience) -> Received {
        if worker.changes != self.dedicated.changes()
            && let Some(received) = self.change_sockets(worker, buffers)
        {
            return received;
        }
        if worker.dedicated.is_none() {
            return self.receive_by_own(worker, buffers, patience);
        }
        worker.looks += 1;
        if worker.looks >= LOOKS {
            worker.looks = 0;
            let received = self.receive_by_own(worker, buffers, Patience::DontWait);
            if !matches!(received, Received::Nothing) {
                self.note_others(worker);
                return received;
            }
        }
        self.receive_by_dedicated(worker, buffers, patience)
    }

    #[inline]
    fn peer<'a>(&'a self, worker: &'a UdpWorker) -> &'a UdpPeer {
        match &worker.dedicated {
            Some(dedicated) if worker.by_dedicated => &dedicated.peer,
            _ => &worker.own_peer,
        }
    }

    #[inline(always)]
    fn note_calls(&self, worker: &mut UdpWorker, calls: u32, lane: Option<LaneId>) -> bool {
        let is_earned = !worker.by_dedicated && self.count_in_a_row(worker, calls);
        if let Some(lane) = lane {
            let is_same_peer = worker.by_dedicated || worker.calls_in_a_row > 1;
            if worker.pattern.note_call(lane, is_same_peer) && !self.is_together(worker) {
                self.set_together(worker, worker.by_dedicated, true);
            }
        }
        is_earned
    }

    #[inline]
    fn age_ns(&self, worker: &UdpWorker) -> u64 {
        worker.age_ns
    }

    fn note_backlog(&self, is_there: bool) {
        if !self.stamps.switch(is_there) {
            return;
        }
        // If the kernel does not note them, packets seem to have come just now.
        let _ = self.socket.set_time_stamps(is_there);
        if is_there {
            // The background thread receives now, and looks at one socket.
            self.dedicated.give_up(Reason::Others);
        }
    }

    fn waiting(&self, worker: &UdpWorker) -> usize {
        let dedicated = worker.dedicated.as_ref().map_or(Ok(0), |dedicated| dedicated.socket.waiting());
        self.socket.waiting().unwrap_or(0) + dedicated.unwrap_or(0)
    }

    #[cold]
    fn expect_more(&self, worker: &mut UdpWorker, len: usize) {
        worker.pattern.note_received(false);
        if len >= MAX_DATAGRAM && !self.is_together(worker) {
            self.set_together(worker, worker.by_dedicated, true);
        }
    }

    #[inline(always)]
    fn answer(&self, worker: &UdpWorker, packet: &[u8], peer: &UdpPeer) {
        if !self.send_by_dedicated(worker, |_| worker.by_dedicated, |socket| socket.send(packet)) {
            self.send(packet, peer);
        }
    }

    #[inline]
    fn send(&self, packet: &[u8], peer: &UdpPeer) {
        let _ = self.socket.send(packet, &peer.0);
    }

    fn send_many(&self, worker: &UdpWorker, packets: &[u8], segment: usize, peer: &UdpPeer) {
        for packets in packets.chunks(segment * MAX_SEGMENTS) {
            let send = |socket: &CallerSocket| match socket.send_segments(packets, segment)? {
                SegmentsSending::Sent | SegmentsSending::Refused => Ok(()),
                _ => Err(io::ErrorKind::Unsupported.into()),
            };
            if !self.send_by_dedicated(worker, |dedicated| dedicated.peer == *peer, send) {
                self.send_many_by_own(packets, segment, peer);
            }
        }
    }

    fn send_room(&self, worker: &UdpWorker, room: &mut UdpRoom, peer: &UdpPeer) {
        match room.written() {
            Written::Copied(packets, segment) => self.send_many(worker, packets, segment, peer),
            Written::Gathered(parts, segment) => {
                self.send_gathered(worker, &parts, segment, peer);
                room.forget_parts();
            }
        }
    }

    fn look_after(&self, is_quiet: bool) -> bool {
        // A worker that waits at the dedicated socket does not notice other peers.
        if self.dedicated.is_there() {
            if self.socket.has_waiting().unwrap_or(true) {
                self.dedicated.give_up(Reason::Others);
            } else if is_quiet {
                self.dedicated.give_up(Reason::Quiet);
            }
        }
        self.dedicated.is_there()
    }

    fn notify(&self) {
        // A worker sleeps at the address's own socket then: the dedicated one is given up before the background thread sleeps.
        self.socket.notify_receiver();
    }

    fn wake(&self) {
        // Cannot fail on a bound socket. A worker that it did not wake would leave with its next call.
        let _ = self.socket.wake_receivers();
        self.dedicated.close();
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters {
            malformed: self.too_large.load(Ordering::Relaxed),
            dedicated: self.dedicated.count(),
            ..LinkCounters::default()
        }
    }
}

/// Tells what was received into the buffer for many packets.
fn received(worker: &mut UdpWorker, buffers: &mut ReceiveBuffers, segments: Segments) -> Received {
    worker.pattern.note_received(is_single(segments));
    buffers.arrived(segments)
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::link::{ReceiveBuffers, Received, ServerEndpoint};
    use crate::transport::udp::server::UdpServer;
    use std::net::Ipv4Addr;
    use stoop_net::Patience;
    use stoop_net::udp::CallerSocket;

    #[test]
    fn socket_for_single_packets_receives_packets_of_up_to_64_kib() {
        let server = UdpServer::listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let address = server.address().unwrap();
        let caller = CallerSocket::connect(address).expect("loopback is there");
        let (mut worker, mut buffers) = (server.worker(), ReceiveBuffers::default());
        for len in [1472, 1473, 20_000, 65_507] {
            let packet = vec![0x5a; len];
            caller.send(&packet).expect("loopback carries it");
            let received = server.receive(&mut worker, &mut buffers, Patience::Block);
            assert_eq!(received, Received::Packet(len));
            assert!(buffers.one[..len] == packet);
        }
    }
}
