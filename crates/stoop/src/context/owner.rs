//! The host or user that a caller belongs to.

use crate::context::Caller;
use std::net::IpAddr;
use stoop_exchange::shares::Owner;
use stoop_net::host;

/// The host or user that a caller belongs to.
pub(crate) fn owner_of(caller: &Caller) -> Owner {
    match caller {
        Caller::Local => Owner::user(host::effective_user()),
        Caller::Network(address) => Owner::host(match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }),
        Caller::Station(station) => Owner::host(station.host()),
        Caller::Process(process) => Owner::user(process.uid),
    }
}
