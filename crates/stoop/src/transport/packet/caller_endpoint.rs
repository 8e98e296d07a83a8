//! A caller's endpoint of a packet link: one queue of arriving packets, a way to sleep on it, and a way to send to one server.

use crate::transport::packet::room::Room;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use stoop_net::packets::{CallerArrival, Segments, Sending};
use stoop_wire::{BindingId, LaneId};

/// The lanes that share an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// One lane, which has at most one call outstanding.
    OneLane,
    /// Many lanes: thousands of results may arrive together.
    ManyLanes,
}

/// The outcome of handing over packets of a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOver {
    /// The packets are on their way.
    Sent,
    /// The packets are longer than the path carries: [`largest_packet`](CallerEndpoint::largest_packet) says what it does carry. A probe was not
    /// sent; other packets left all the same, in fragments of the network layer.
    TooLong,
}

/// An endpoint at a caller, which leads to one server.
pub(crate) trait CallerEndpoint: Send + Sync + 'static {
    /// Memory for packets of long messages.
    type Room: Room;

    /// Sends one packet.
    ///
    /// # Errors
    ///
    /// The network layer refuses it at once: no route, a filter, or a packet beyond the size of the path.
    fn send(&self, packet: &[u8]) -> io::Result<Sending>;

    /// Hint: nothing was heard for longer than usual, and a packet is about to be repeated. If packets would now leave from another
    /// address of this machine than the endpoint's, the link may change it.
    fn follow_route(&self) {}

    /// The thread that uses this endpoint alone is between two calls: the link may close sockets that it has replaced.
    #[inline]
    fn settle(&mut self) {}

    /// Whether nothing can be sent or received now, because the endpoint's interface is down or gone. A link that cannot know it says no.
    fn is_cut_off(&self) -> bool {
        false
    }

    /// Hint: [`age_of_last_ns`](Self::age_of_last_ns) will be asked.
    fn note_arrivals(&self) {}

    /// How long ago the kernel received the packet that was taken last, in nanoseconds; `None` if that is not known.
    fn age_of_last_ns(&self) -> Option<u64> {
        None
    }

    /// Sends `packets`, which lie `segment` bytes apart; the last may be shorter. Calls `failed` with the position of each
    /// packet that the system refused to send.
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`] packets or [`MAX_SEGMENTS_LEN`] bytes, or `segment` is 0.
    fn send_many(&self, packets: &[u8], segment: usize, failed: impl FnMut(usize, io::Error));

    /// Has the room provide frames of this endpoint, if it has any: the packets are then written where they leave from.
    fn lend(&self, _room: &mut Self::Room) {}

    /// Sends the packets that have been written to the room. A *probe* must not be fragmented: it shows whether the path
    /// carries packets of its length.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    fn send_room(&self, room: &mut Self::Room, is_probe: bool) -> io::Result<HandedOver>;

    /// Sends the packets that result when the bytes of `pieces` are put one behind the other and cut every `segment` bytes.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// As [`send_many`](Self::send_many).
    fn send_gathered(&self, pieces: &[IoSlice<'_>], segment: usize, is_probe: bool)
    -> io::Result<HandedOver>;

    /// Takes a packet if one has arrived.
    ///
    /// # Errors
    ///
    /// The network reports an error of an earlier packet, other than a closed port.
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        self.receive_about(buffer, 0, 0)
    }

    /// Sleeps for about `about_ns` nanoseconds until a packet arrives, and never longer than `latest_ns`; not at all if `about_ns` is 0.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival>;

    /// Sleeps at most `limit_ns` nanoseconds until a packet arrives.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_within(&self, buffer: &mut [u8], limit_ns: u64) -> io::Result<CallerArrival> {
        self.receive_about(buffer, limit_ns, limit_ns)
    }

    /// Takes all packets that have arrived together, if any. `buffer` has room for 64 KiB.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    #[inline]
    fn receive_many(&self, buffer: &mut [u8]) -> io::Result<CallerArrival<Segments>> {
        self.receive_many_about(buffer, 0, 0)
    }

    /// As [`receive_many`](Self::receive_many), with the wait of [`receive_about`](Self::receive_about).
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>>;

    /// A descriptor that is readable while packets are there. `None`: the endpoint has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// From now on packets for this lane of a binding are to arrive here. A link whose endpoints are not shared ignores it.
    fn serve_lane(&self, _binding: BindingId, _lane: LaneId) {}

    /// Says whether packets are expected to arrive together. While they are, only [`receive_many`](Self::receive_many) and
    /// [`receive_many_about`](Self::receive_many_about) may be used. Before they no longer are, the caller has to receive until nothing is there. The link
    /// may ignore it: then packets arrive one by one.
    fn expect_many(&self, on: bool);

    /// Bytes of long results that may be on their way to this endpoint.
    fn window(&self) -> u32;

    /// The mechanism of the endpoint, in descriptions of a binding: text behind the link's name.
    fn describe(&self) -> String {
        String::new()
    }

    /// Bytes of the longest packet that the path to the server carries unfragmented, as far as is known.
    ///
    /// # Errors
    ///
    /// The link cannot know it.
    fn largest_packet(&self) -> io::Result<usize>;

    /// Asks the link to keep the beginnings of packets that the server's machine returns because the port is closed, for
    /// [`next_sent_back`](Self::next_sent_back). The link may ignore it.
    fn keep_sent_back(&self);

    /// Takes the next packet that the server's machine returned; its beginning is in the first bytes of `buffer`, whose number this returns.
    /// Call it until it returns `None` whenever something reports [`CallerArrival::Refused`] or an error.
    fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize>;
}
