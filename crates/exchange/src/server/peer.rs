//! The sender of a packet, as the exchange sees it.

/// The sender of a packet, to which the answer goes.
pub trait Peer: Copy {
    /// The network address without the port; IPv4 as mapped IPv6.
    fn host(&self) -> [u8; 16];
    /// The port.
    fn port(&self) -> u16;
    /// Whether the peer is at that address. The server asks this for each call.
    #[inline]
    fn is_at(&self, host: &[u8; 16]) -> bool {
        self.host() == *host
    }
}
