//! Finds where a program listens: by its address, or by asking rpcbind.

use crate::calling::deadline::CallTimes;
use crate::error::{BindError, CallError, SunFault};
use crate::onc::address::{Address, Transport};
use crate::onc::caller::carrier::Carrier;
use crate::onc::caller::link::Place;
use crate::onc::caller::request::Request;
use crate::onc::options::ClientOptions;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::stream::StreamAddress;
use stoop_net::udp::resolve;
use stoop_onc::Retransmission;
use stoop_onc::message::ProcedureId;
use stoop_onc::rpcbind::{self, IPPROTO_TCP, IPPROTO_UDP, Mapping, Rpcb, Version, procedure};
use stoop_xdr::{DecodeError, Encode, Reader};

/// Time between two questions to a rpcbind that does not answer over UDP.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The places at which a program may listen, the one to try first first. There is at least one.
///
/// # Errors
/// The host is unknown, its rpcbind does not answer, or it does not know the program.
pub(crate) fn places(address: &Address, deadline_ns: u64) -> Result<Vec<Place>, BindError> {
    if address.transport == Transport::Unix {
        return Ok(vec![Place::Stream(StreamAddress::unix(&address.host))]);
    }
    let port = address.port.unwrap_or(rpcbind::PORT);
    let hosts = resolve(&format!("{}:{port}", address.host))
        .map_err(|cause| BindError::Unreachable { server: address.to_string(), cause })?;
    if address.port.is_some() {
        return Ok(hosts.into_iter().map(|host| place(address.transport, host)).collect());
    }
    let mut last = None;
    for &host in &hosts {
        match ask(address, host, &hosts, deadline_ns) {
            Ok(found) => return Ok(vec![place(address.transport, found)]),
            Err(why) => last = Some(why),
        }
    }
    Err(last.unwrap_or_else(|| BindError::NotRegistered { server: address.to_string() }))
}

fn place(transport: Transport, address: SocketAddr) -> Place {
    match transport {
        Transport::Udp => Place::Datagrams(address),
        _ => Place::Stream(StreamAddress::Tcp(address)),
    }
}

/// Asks the rpcbind at `host` over the transport that the program is wanted for: it answers for that one.
///
/// Another host than the one that was asked is refused: its program would get calls, and credentials, that are not meant for it. The host
/// has the addresses `all`.
fn ask(
    address: &Address,
    host: SocketAddr,
    all: &[SocketAddr],
    deadline_ns: u64,
) -> Result<SocketAddr, BindError> {
    let server = || address.to_string();
    let asked = match versions_address(address, host, deadline_ns) {
        Ok(None) => port(address, host, deadline_ns),
        Ok(Some(found)) => Ok(found),
        Err(why) => Err(why),
    };
    let found = asked.map_err(|why| BindError::Rpcbind { server: server(), why: Box::new(why) })?;
    let found = found.ok_or_else(|| BindError::NotRegistered { server: server() })?;
    let known = all.iter().find(|known| known.ip().to_canonical() == found.ip().to_canonical());
    match known {
        // With the scope of its IPv6 address, which a universal address does not have.
        Some(&(mut known)) => {
            known.set_port(found.port());
            Ok(known)
        }
        None if host.ip().to_canonical().is_loopback() && is_of_this_host(found.ip()) => Ok(found),
        None => Err(BindError::OtherHost { server: server(), named: found }),
    }
}

/// Whether an interface of this host has that address.
fn is_of_this_host(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// By version 4, which answers for just this version of the program. `None`: only older versions are spoken there.
fn versions_address(
    address: &Address,
    host: SocketAddr,
    deadline_ns: u64,
) -> Result<Option<Option<SocketAddr>>, CallError> {
    let netid = netid(address.transport, host);
    // For a program that listens at all addresses of a host with several, rpcbind then names the one by which it was asked.
    let asked_at = rpcbind::universal(host);
    let question = Rpcb {
        program: address.version.program,
        version: address.version.version,
        netid,
        address: &asked_at,
        owner: "",
    };
    let id = Version::Four.procedure(procedure::GETVERSADDR);
    let answer = call(address.transport, host, deadline_ns, id, &question, |reader| {
        reader.value::<&str>().map(rpcbind::parse_universal)
    });
    match answer {
        // A wildcard address is that of the rpcbind which answered.
        Ok(found) => Ok(Some(found.map(|found| match found.ip().is_unspecified() {
            true => SocketAddr::new(host.ip(), found.port()),
            false => found,
        }))),
        Err(CallError::Sun(why, ..))
            if matches!(why.fault, SunFault::VersionUnavailable { .. } | SunFault::ProcedureUnavailable) =>
        {
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

/// By version 2. It answers for another version of the program if it does not know this one.
fn port(address: &Address, host: SocketAddr, deadline_ns: u64) -> Result<Option<SocketAddr>, CallError> {
    let protocol = if address.transport == Transport::Udp { IPPROTO_UDP } else { IPPROTO_TCP };
    let question =
        Mapping { program: address.version.program, version: address.version.version, protocol, port: 0 };
    let id = Version::PortMapper.procedure(procedure::GETPORT);
    let port = call(address.transport, host, deadline_ns, id, &question, |reader| reader.value::<u32>())?;
    Ok(u16::try_from(port).ok().filter(|port| *port != 0).map(|port| SocketAddr::new(host.ip(), port)))
}

/// The name of a transport in rpcbind.
pub(crate) fn netid(transport: Transport, address: SocketAddr) -> &'static str {
    match (transport, address.is_ipv6()) {
        (Transport::Unix, _) => "local",
        (Transport::Udp, false) => "udp",
        (Transport::Udp, true) => "udp6",
        (Transport::Tcp, false) => "tcp",
        (Transport::Tcp, true) => "tcp6",
    }
}

fn call<A: Encode, R>(
    transport: Transport,
    host: SocketAddr,
    deadline_ns: u64,
    procedure: ProcedureId,
    arguments: &A,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
) -> Result<R, CallError> {
    let options = ClientOptions::new().retransmission(Retransmission::Every(ASK_AGAIN)).max_message(1 << 20);
    let times = CallTimes::exact(clock::now_ns(), deadline_ns);
    Carrier::new(place(transport, host), &options, None).call(Request { procedure, times, arguments }, decode)
}
