//! Addresses of this machine.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;

/// Whether a socket with that address of this machine can still send: `false` if the address is certainly not this machine's any more.
///
/// Where the system lets programs bind to addresses that it does not have (`net.ipv4.ip_nonlocal_bind`), this is always `true`.
#[cold]
pub fn is_assigned(mut own: SocketAddr) -> bool {
    own.set_port(0);
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None) else {
        return true;
    };
    rustix::net::bind(&socket, &own) != Err(Errno::ADDRNOTAVAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_not_assigned() {
        // TEST-NET-1 and the documentation prefix: RFC 5737 §3, RFC 3849 §2.
        for (address, assigned) in
            [("127.0.0.1:80", true), ("192.0.2.1:80", false), ("[2001:db8::1]:80", false)]
        {
            assert_eq!(is_assigned(address.parse().unwrap()), assigned, "{address}");
        }
    }
}
