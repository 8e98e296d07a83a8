//! The name, host or user by which a caller has its share of a server.

use crate::context::peer::Peer;
use crate::context::{Caller, served_call, serving_caller};
use std::net::IpAddr;
use stoop_exchange::shares::Owner;
use stoop_net::host;
use stoop_wire::BindingId;

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

/// The same of the caller of a binding: its name, if it has proved one.
pub(crate) fn owner_on(binding: BindingId, caller: &Caller) -> Owner {
    Peer::owner_on(binding).unwrap_or_else(|| owner_of(caller))
}

/// The same of the call that this thread serves.
pub(crate) fn serving_owner() -> Owner {
    owner_on(served_call().id().binding(), &serving_caller())
}
