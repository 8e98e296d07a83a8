//! Who is at the other end, as the exchange sees it.

use std::net::IpAddr;
use stoop_exchange::server::Peer;
use stoop_net::udp;

/// A peer as the exchange sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct From(pub(super) udp::Peer);

impl From {
    /// Stands where there is none yet.
    pub(super) const NOBODY: Self = Self(udp::Peer::NOBODY);
}

impl Peer for From {
    #[inline]
    fn host(&self) -> [u8; 16] {
        match self.0.addr().ip() {
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
            // As two words, for it is asked of each call.
            IpAddr::V4(ip) => {
                let mapped = 0xffff_u64 << 32 | u64::from(u32::from(ip));
                u128::from_be_bytes(*host) == u128::from(mapped)
            }
            IpAddr::V6(ip) => ip.octets() == *host,
        }
    }
}
