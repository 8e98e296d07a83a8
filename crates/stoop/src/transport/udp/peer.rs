//! The address of a peer, as the exchange and procedures see it.

use crate::context::Caller;
use crate::transport::packet::link::Peer;
use std::net::IpAddr;
use stoop_exchange::server;
use stoop_net::udp;

/// Address and port of a peer, and the address that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpPeer(pub(super) udp::Peer);

impl UdpPeer {
    /// Stands where nothing has arrived yet.
    pub(super) const NONE: Self = Self(udp::Peer::NONE);
}

impl Peer for UdpPeer {
    fn caller(&self) -> Caller {
        Caller::Network(self.0.addr())
    }
}

impl server::Peer for UdpPeer {
    /// The IP address; IPv4 as a mapped IPv6 address.
    #[inline]
    fn host(&self) -> [u8; 16] {
        match self.0.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }

    fn port(&self) -> u16 {
        self.0.addr().port()
    }

    #[inline]
    fn is_at(&self, host: &[u8; 16]) -> bool {
        match self.0.ip() {
            // The exchange asks this of every call: two words are faster to compare than 16 bytes.
            IpAddr::V4(ip) => {
                let mapped = 0xffff_u64 << 32 | u64::from(u32::from(ip));
                u128::from_be_bytes(*host) == u128::from(mapped)
            }
            IpAddr::V6(ip) => ip.octets() == *host,
        }
    }
}
