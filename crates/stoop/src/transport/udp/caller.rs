//! A caller's endpoint over UDP: a connected socket. The kernel finds the route once, and drops packets of other senders.

use crate::transport::packet::link::{
    CallerArrival, CallerEndpoint, HandedOver, Segments, SegmentsSending, Sending, Share,
};
use crate::transport::udp::room::{UdpRoom, Written, copied};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_net::udp::{CallerSocket, Source};

/// A socket connected to a server.
pub(crate) struct UdpCaller {
    socket: CallerSocket,
    source: Source,
    window: u32,
    /// The system cannot send packets together (UDP_SEGMENT) on this path.
    one_by_one: AtomicBool,
}

/// Receive buffer of a lane's socket. The kernel doubles it; where it grants less, servers send long results in smaller parts.
const BUFFER_OF_LANE: usize = 1 << 20;
/// Receive buffer of a socket that many lanes share.
const BUFFER_OF_MANY: usize = 4 << 20;

impl UdpCaller {
    #[cfg(test)]
    pub(crate) fn socket(&self) -> &CallerSocket {
        &self.socket
    }

    pub(super) fn connect(server: SocketAddr, share: Share) -> io::Result<Self> {
        let socket = CallerSocket::connect(server)?;
        // The window is smaller than the buffer: the kernel counts the memory that it allocates for packets. For packets that arrive
        // together at a lane's socket, it goes on counting that memory for some time after they were received.
        let (buffer, per_byte) = match share {
            Share::OneLane => (BUFFER_OF_LANE, 3),
            Share::ManyLanes => (BUFFER_OF_MANY, 2),
        };
        let granted = socket.set_receive_buffer(buffer)?;
        let window = u32::try_from(granted / per_byte).unwrap_or(u32::MAX);
        let source = Source::of(server);
        let endpoint = Self { socket, source, window, one_by_one: AtomicBool::new(false) };
        endpoint.expect_many(share == Share::ManyLanes);
        Ok(endpoint)
    }

    pub(super) fn redirect(&self, server: SocketAddr) -> io::Result<()> {
        self.source.redirect(&self.socket, server)
    }

    /// Sends packets together by `send`, or returns why they did not leave.
    fn send_together(
        &self,
        mut send: impl FnMut() -> io::Result<SegmentsSending>,
    ) -> io::Result<SegmentsSending> {
        if self.one_by_one.load(Ordering::Relaxed) {
            return Ok(SegmentsSending::Unsupported);
        }
        let mut sending = send();
        if matches!(sending, Ok(SegmentsSending::TooLong)) && self.source.is_gone(&self.socket) {
            // The kernel says the same (EINVAL) of an address that is gone as of packets that are too long.
            self.source.follow_route(&self.socket);
            sending = send();
        }
        if let Err(error) = sending {
            sending = self.source.renew(&self.socket, error, &mut send);
        }
        if let Ok(SegmentsSending::Refused) = sending {
            // An error of an earlier packet. The second attempt shows whether the port is still closed.
            sending = send();
        }
        if let Ok(SegmentsSending::Unsupported) = sending {
            self.one_by_one.store(true, Ordering::Relaxed);
        }
        sending
    }

    /// As [`send_together`](Self::send_together), for packets of a long message. `None` if they have to leave one by one.
    fn send_message(
        &self,
        is_probe: bool,
        send: impl FnMut() -> io::Result<SegmentsSending>,
    ) -> io::Result<Option<HandedOver>> {
        if is_probe {
            // A packet that the network fragments and reassembles proves nothing.
            self.socket.set_dont_fragment(true)?;
        }
        let sending = self.send_together(send);
        if is_probe {
            self.socket.set_dont_fragment(false)?;
        }
        Ok(match sending? {
            SegmentsSending::Sent | SegmentsSending::Refused => Some(HandedOver::Sent),
            SegmentsSending::TooLong if is_probe => Some(HandedOver::TooLong),
            SegmentsSending::TooLong | SegmentsSending::Unsupported => None,
        })
    }

    /// Sends packets of a long message one by one.
    #[cold]
    fn send_one_by_one(&self, packets: &[u8], segment: usize) -> io::Result<HandedOver> {
        for packet in packets.chunks(segment) {
            self.send(packet)?;
        }
        let is_too_long =
            self.socket.largest_datagram().is_ok_and(|largest| largest < segment.min(packets.len()));
        Ok(if is_too_long { HandedOver::TooLong } else { HandedOver::Sent })
    }

    /// Sends one packet, again if the first attempt only reported an error of an earlier packet.
    fn send_again_if_refused(&self, packet: &[u8]) -> io::Result<Sending> {
        match self.send(packet) {
            Ok(Sending::Refused) => self.send(packet),
            sent => sent,
        }
    }
}

impl CallerEndpoint for UdpCaller {
    type Room = UdpRoom;

    #[inline]
    fn send(&self, packet: &[u8]) -> io::Result<Sending> {
        match self.socket.send(packet) {
            Err(error) => self.source.renew(&self.socket, error, || self.socket.send(packet)),
            sent => sent,
        }
    }

    fn follow_route(&self) {
        self.source.follow_route(&self.socket);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn note_arrivals(&self) {
        self.socket.note_arrivals();
    }

    fn age_of_last_ns(&self) -> Option<u64> {
        self.socket.age_of_last_ns()
    }

    #[inline]
    fn send_many(&self, packets: &[u8], segment: usize, mut failed: impl FnMut(usize, io::Error)) {
        if packets.len() > segment {
            let sending = self.send_together(|| self.socket.send_segments(packets, segment));
            if matches!(sending, Ok(SegmentsSending::Sent)) {
                return;
            }
        }
        for (position, packet) in packets.chunks(segment).enumerate() {
            if let Err(error) = self.send_again_if_refused(packet) {
                failed(position, error);
            }
        }
    }

    fn send_room(&self, room: &mut UdpRoom, is_probe: bool) -> io::Result<HandedOver> {
        let (packets, segment) = match room.written() {
            Written::Copied(packets, segment) => (packets, segment),
            Written::Gathered(parts, segment) => {
                let sent = self.send_gathered(&parts, segment, is_probe);
                room.forget_parts();
                return sent;
            }
        };
        match self.send_message(is_probe, || self.socket.send_segments(packets, segment))? {
            Some(handed_over) => Ok(handed_over),
            None => self.send_one_by_one(packets, segment),
        }
    }

    fn send_gathered(
        &self,
        slices: &[IoSlice<'_>],
        segment: usize,
        is_probe: bool,
    ) -> io::Result<HandedOver> {
        match self.send_message(is_probe, || self.socket.send_gathered(slices, segment))? {
            Some(handed_over) => Ok(handed_over),
            None => self.send_one_by_one(&copied(slices), segment),
        }
    }

    #[inline]
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        self.socket.recv_about(buffer, about_ns, latest_ns)
    }

    #[inline]
    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>> {
        self.socket.recv_segments_about(buffer, about_ns, latest_ns)
    }

    fn expect_many(&self, on: bool) {
        // Without support in the kernel each packet arrives by itself.
        let _ = self.socket.set_gro(on);
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn largest_packet(&self) -> io::Result<usize> {
        self.socket.largest_datagram()
    }

    fn keep_sent_back(&self) {
        // Without support in the kernel there are none.
        let _ = self.socket.keep_sent_back();
    }

    #[cold]
    fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize> {
        self.socket.sent_back(buffer)
    }
}
