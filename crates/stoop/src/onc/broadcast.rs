//! Calls to all hosts of a network, by way of their rpcbinds (RFC 1833 §2.1, CALLIT): by broadcast over IPv4, by multicast over IPv6.

use crate::error::{CallError, SendError};
use crate::program::VersionId;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant as Clock};
use stoop_net::host;
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Accepted, Call, Reply, ReplyBody};
use stoop_onc::rpcbind::{PORT, RemoteCall, RemoteResult, Version, parse_universal, procedure};
use stoop_onc::{Xid, Xids};
use stoop_xdr::{DecodeOwned, Encode, Opaque, from_slice, to_vec};

/// The hosts to which a broadcast call goes: those of an IPv4 network, or those of an IPv6 group on one interface.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use stoop::onc::BroadcastAddress;
///
/// let network: BroadcastAddress = "192.168.1.255".parse()?;
/// let link: BroadcastAddress = "ff02::1%eth0".parse()?;
/// assert_eq!(link, BroadcastAddress::on_link("eth0")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastAddress(SocketAddr);

impl BroadcastAddress {
    /// All hosts on the link of an interface, over IPv6 (`ff02::1`).
    ///
    /// IANA has a group for this call, `ff02::202`, which libtirpc's `rpc_broadcast` uses: parse `ff02::202%INTERFACE` for hosts that have
    /// joined it. Debian's rpcbind 1.2.6 does not.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn on_link(interface: &str) -> io::Result<Self> {
        format!("ff02::1%{interface}").parse()
    }
}

impl From<Ipv4Addr> for BroadcastAddress {
    /// The broadcast address of a network, or `255.255.255.255`.
    fn from(network: Ipv4Addr) -> Self {
        Self(SocketAddr::from((network, PORT)))
    }
}

impl FromStr for BroadcastAddress {
    type Err = io::Error;

    /// Parses `192.168.1.255` or `ff02::1%INTERFACE`.
    fn from_str(text: &str) -> io::Result<Self> {
        if let Ok(network) = text.parse::<Ipv4Addr>() {
            return Ok(network.into());
        }
        let (group, interface) = text.split_once('%').unwrap_or((text, ""));
        let why = match group.parse::<Ipv6Addr>() {
            Ok(group) if !group.is_multicast() => "over IPv6 a call goes to a group, such as ff02::1",
            // Their bits say that they reach no further than an interface or its link (RFC 4291 §2.7).
            Ok(group) if group.octets()[1] & 0xf <= 2 && interface.is_empty() => {
                "a group on a link needs an interface: write ff02::1%INTERFACE"
            }
            // The system looks up the interface.
            Ok(_) => match (text, PORT).to_socket_addrs()?.find(SocketAddr::is_ipv6) {
                Some(group) => return Ok(Self(group)),
                None => "there is no such interface",
            },
            Err(_) => "write the broadcast address of an IPv4 network, or an IPv6 group: ff02::1%INTERFACE",
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is no broadcast address: {why}")))
    }
}

/// A reply to a broadcast call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastReply<R> {
    /// The host whose rpcbind replied, and the port from which.
    pub from: SocketAddr,
    /// The port of the program there, as its rpcbind says; `None` if it says nothing that makes sense, or names another host.
    pub program: Option<SocketAddr>,
    /// The result.
    pub result: R,
}

/// The call is sent again after this time, and then after twice as long each time: 4 s as libtirpc does.
const FIRST_WAIT: Duration = Duration::from_secs(4);

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// Calls a procedure of a program on all hosts that a broadcast address reaches, and passes each reply to `each`, until it returns `true`
/// or `timeout` has passed. Returns whether it returned `true`.
///
/// Each host's rpcbind makes the call there, over UDP. Hosts that do not have the program, or whose rpcbind does not forward calls
/// (Debian's does so with `-r` only), are silent. A host may reply several times. Nothing proves where a reply comes from: any host
/// that sees the call can send one.
///
/// ```no_run
/// use std::time::Duration;
/// use stoop::onc::{VersionId, broadcast};
///
/// let rusers = VersionId { program: 100_002, version: 2 };
/// broadcast("192.168.1.255".parse()?, rusers, 1, &(), Duration::from_secs(2), |reply| {
///     let users: u32 = reply.result;
///     println!("{users} users at {}", reply.from.ip());
///     false
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// For a program that the compiler of interface files has made, its constants name the procedure, and its types are the arguments and
/// the result. Several arguments follow each other like the fields of a struct ([`stub::Arguments`](crate::onc::stub::Arguments)):
///
/// ```no_run
/// mod rusers {
///     stoop::x! {
///         program RUSERSPROG {
///             version RUSERSVERS_2 {
///                 int RUSERSPROC_NUM(void) = 1;
///             } = 2;
///         } = 100002;
///     }
/// }
/// use rusers::{RUSERSPROC_NUM, RUSERSPROG, RUSERSVERS_2};
/// use std::time::Duration;
/// use stoop::onc::{BroadcastAddress, VersionId, broadcast};
///
/// let version = VersionId { program: RUSERSPROG, version: RUSERSVERS_2 };
/// broadcast(BroadcastAddress::on_link("eth0")?, version, RUSERSPROC_NUM, &(), Duration::from_secs(2), |reply| {
///     let users: i32 = reply.result;
///     println!("{users} users at {}", reply.from.ip());
///     // A client of the program at that host.
///     let client = reply.program.map(|at| rusers::Rusersvers2Client::bind(&format!("onc+udp://{at}")));
///     client.is_some_and(|client| client.is_ok())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The arguments have no XDR form, or the system refuses to send: no network has broadcast, for example.
pub fn broadcast<A: Encode + ?Sized, R: DecodeOwned>(
    to: BroadcastAddress,
    version: VersionId,
    procedure: u32,
    arguments: &A,
    timeout: Duration,
    each: impl FnMut(BroadcastReply<R>) -> bool,
) -> Result<bool, CallError> {
    let arguments = to_vec(arguments).map_err(|why| CallError::not_sent(SendError::Xdr(why)))?;
    let (xid, call) = callit(version, procedure, &arguments)?;
    collect(to.0, xid, &call, timeout, each).map_err(|why| CallError::not_sent(SendError::Io(why)))
}

/// The message that asks a rpcbind to make the call.
fn callit(version: VersionId, procedure: u32, arguments: &[u8]) -> Result<(Xid, Vec<u8>), CallError> {
    let xid = Xids::new(host::random_bytes()).draw();
    let VersionId { program, version } = version;
    let remote = RemoteCall { program, version, procedure, arguments: Opaque(arguments) };
    let id = Version::Three.procedure(procedure::CALLIT);
    let header = Call { xid, procedure: id, credential: Auth::NONE, verifier: Auth::NONE };
    let mut call = Vec::new();
    message::append(&header, &remote, &mut call).map_err(|why| CallError::not_sent(SendError::Xdr(why)))?;
    Ok((xid, call))
}

fn collect<R: DecodeOwned>(
    to: SocketAddr,
    xid: Xid,
    call: &[u8],
    timeout: Duration,
    mut each: impl FnMut(BroadcastReply<R>) -> bool,
) -> io::Result<bool> {
    // Not connected: replies come from other addresses, and from other ports of rpcbind.
    let own = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((own, 0))?;
    if to.is_ipv4() {
        socket.set_broadcast(true)?;
    }
    let (begun, mut wait, mut send_at) = (Clock::now(), FIRST_WAIT, Duration::ZERO);
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        let elapsed = begun.elapsed();
        let Some(left) = timeout.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
            return Ok(false);
        };
        if elapsed >= send_at {
            socket.send_to(call, to)?;
            send_at = elapsed + wait;
            wait *= 2;
        }
        // A timeout of zero would be none.
        let limit = left.min(send_at.saturating_sub(elapsed)).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(limit))?;
        // Otherwise no reply in time, or an ICMP error of one host.
        if let Ok((len, from)) = socket.recv_from(&mut buffer)
            && let Some(reply) = reply(&buffer[..len], xid, from)
            && each(reply)
        {
            return Ok(true);
        }
    }
}

/// The result in a datagram, if that is a reply with one.
fn reply<R: DecodeOwned>(datagram: &[u8], xid: Xid, from: SocketAddr) -> Option<BroadcastReply<R>> {
    let (reply, mut results) = Reply::parse(datagram).ok().filter(|(reply, _)| reply.xid == xid)?;
    let ReplyBody::Accepted { status: Accepted::Success, .. } = reply.body else { return None };
    let RemoteResult { address, results: Opaque(bytes) } = results.value().ok()?;
    let result = from_slice(bytes).ok()?;
    let program =
        parse_universal(address).filter(|found| found.ip().is_unspecified() || found.ip() == from.ip());
    // With the interface of a link-local address.
    let program = program.map(|found| {
        let mut program = from;
        program.set_port(found.port());
        program
    });
    Some(BroadcastReply { from, program, result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ipv4_networks_or_ipv6_groups_with_an_interface() {
        let parsed = |text: &str| text.parse::<BroadcastAddress>().map(|to| to.0.to_string());
        assert_eq!(parsed("192.0.2.255").unwrap(), "192.0.2.255:111");
        assert_eq!(parsed("ff02::1%1").unwrap(), "[ff02::1%1]:111");
        assert_eq!(parsed("ff02::202%lo").unwrap(), "[ff02::202%1]:111");
        assert_eq!(parsed("ff05::202").unwrap(), "[ff05::202]:111", "the hosts of a site");
        assert_eq!(BroadcastAddress::on_link("lo").unwrap().0.to_string(), "[ff02::1%1]:111");
        for (text, why) in [
            ("ff02::1", "needs an interface"),
            ("fe80::1%lo", "goes to a group"),
            ("localhost", "write the broadcast address"),
            ("", "write the broadcast address"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(parsed("ff02::1%no-such-interface").is_err());
    }
}
