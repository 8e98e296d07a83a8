//! Outcomes of sending and receiving packets, shared by all kinds of packet sockets.

/// Most packets in one send.
pub const MAX_SEGMENTS: usize = 64;

/// Most bytes in one send: the data of one datagram over IPv4.
pub const MAX_SEGMENTS_LEN: usize = 65_507;

/// Packets that were received together: one behind the other, all of the same length except the last, which may be
/// shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of all packets.
    pub len: usize,
    /// Bytes of each packet; equal to `len` when there is one.
    pub segment: usize,
}

impl Segments {
    /// Number of packets.
    pub fn count(&self) -> usize {
        self.len.div_ceil(self.segment.max(1)).max(1)
    }

    /// The packets one by one. An empty packet yields nothing.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than the one that received them.
    pub fn split<'a>(&self, buffer: &'a [u8]) -> std::slice::Chunks<'a, u8> {
        buffer[..self.len].chunks(self.segment.max(1))
    }
}

/// The outcome of a receive from one server: `L` is a number of bytes, or [`Segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerArrival<L = usize> {
    /// The buffer begins with a packet of this many bytes, or with several packets.
    Datagram(L),
    /// A packet of this many bytes did not fit. The buffer holds its beginning; the rest is lost.
    TooLarge(usize),
    /// Nothing is there. After a wait: the limit has passed, or a signal ended the wait early; look at the clock.
    Nothing,
    /// A packet sent earlier found the server's port closed (ECONNREFUSED). This is reported once; the socket stays
    /// usable.
    Refused,
}

impl<L> CallerArrival<L> {
    /// The same outcome, with another description of the packets.
    #[inline]
    pub fn map<M>(self, describe: impl FnOnce(L) -> M) -> CallerArrival<M> {
        match self {
            Self::Datagram(packets) => CallerArrival::Datagram(describe(packets)),
            Self::TooLarge(len) => CallerArrival::TooLarge(len),
            Self::Nothing => CallerArrival::Nothing,
            Self::Refused => CallerArrival::Refused,
        }
    }
}

/// The outcome of sending one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The packet is on its way.
    Sent,
    /// The packet was not sent: an earlier one found the server's port closed (ECONNREFUSED). This is reported once; the
    /// socket stays usable.
    Refused,
}

/// The outcome of sending packets together: either all of them left or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentsSending {
    /// The packets are on their way.
    Sent,
    /// None was sent: an earlier packet found the peer's port closed (ECONNREFUSED). Only a connected socket reports
    /// this, once, and stays usable.
    Refused,
    /// None was sent: each is longer than the path to the peer is known to carry (EMSGSIZE; older kernels say EINVAL).
    /// Send shorter packets, or send these one by one: then the network layer fragments them or says why it cannot.
    TooLong,
    /// None was sent: this kernel or this interface cannot cut them apart (EIO, EOPNOTSUPP and the like). Send packets
    /// one by one from now on.
    Unsupported,
}
