//! Ports below 1024, which a program of root takes for its end of a connection.

use crate::host::random_bytes;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The ports: those from 512 to 1023, as `bindresvport` takes them, since lower ones belong to known services.
const FIRST: u16 = 512;
const COUNT: u16 = 512;

/// Binds a socket to a free one of these ports, beginning at random.
///
/// # Errors
/// `PermissionDenied` without the right to them; `AddrInUse` when all are taken.
pub(crate) fn bind(socket: &OwnedFd, is_ipv6: bool) -> io::Result<()> {
    let ip: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let begin = u16::from_le_bytes(random_bytes()) % COUNT;
    for offset in 0..COUNT {
        let port = FIRST + (begin + offset) % COUNT;
        match rustix::net::bind(socket, &SocketAddr::new(ip, port)) {
            Err(Errno::ADDRINUSE) => {}
            bound => return Ok(bound?),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use crate::stream::{Stream, StreamAddress};
    use crate::udp::CallerSocket;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn a_reserved_port_is_below_1024_or_not_permitted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        match CallerSocket::connect_reserved(server) {
            Ok(socket) => assert!((512..1024).contains(&socket.local_addr().unwrap().port())),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
        match Stream::connect_reserved(&StreamAddress::Tcp(server), Duration::from_secs(5)) {
            Ok(stream) => assert!((512..1024).contains(&stream.local_addr().unwrap().unwrap().port())),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
    }
}
