//! Calls to all hosts of a network, by way of their rpcbinds (RFC 1833 §2.1, CALLIT).

use crate::error::{CallError, SendError};
use crate::program::VersionId;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant as Clock};
use stoop_net::host;
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Accepted, Call, Reply, ReplyBody};
use stoop_onc::rpcbind::{RemoteCall, RemoteResult, Version, parse_universal, procedure};
use stoop_onc::{Xid, Xids};
use stoop_xdr::{DecodeOwned, Encode, Opaque, from_slice, to_vec};

/// A reply to a broadcast call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastReply<R> {
    /// The host whose rpcbind replied, and the port from which.
    pub from: SocketAddr,
    /// The port of the program there, as its rpcbind says; `None` if it says nothing that makes sense.
    pub program: Option<SocketAddr>,
    /// The result.
    pub result: R,
}

/// The call is sent again after this time, and then after twice as long each time: 4 s as libtirpc does.
const FIRST_WAIT: Duration = Duration::from_secs(4);

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// Calls a procedure of a program on all hosts that a broadcast address reaches (`255.255.255.255`, or that of a network), and passes
/// each reply to `each`, until it returns `true` or `timeout` has passed. Returns whether it returned `true`.
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
/// # Errors
/// The arguments have no XDR form, or the system refuses to send: no network has broadcast, for example.
pub fn broadcast<A: Encode + ?Sized, R: DecodeOwned>(
    to: Ipv4Addr,
    version: VersionId,
    procedure: u32,
    arguments: &A,
    timeout: Duration,
    each: impl FnMut(BroadcastReply<R>) -> bool,
) -> Result<bool, CallError> {
    let to = SocketAddr::from((to, stoop_onc::rpcbind::PORT));
    let arguments = to_vec(arguments).map_err(|why| CallError::NotSent(SendError::Xdr(why)))?;
    let (xid, call) = callit(version, procedure, &arguments)?;
    collect(to, xid, &call, timeout, each).map_err(|why| CallError::NotSent(SendError::Io(why)))
}

/// The message that asks a rpcbind to make the call.
fn callit(version: VersionId, procedure: u32, arguments: &[u8]) -> Result<(Xid, Vec<u8>), CallError> {
    let xid = Xids::new(host::random_bytes()).draw();
    let VersionId { program, version } = version;
    let remote = RemoteCall { program, version, procedure, arguments: Opaque(arguments) };
    let id = Version::Three.procedure(procedure::CALLIT);
    let header = Call { xid, procedure: id, credential: Auth::NONE, verifier: Auth::NONE };
    let mut call = Vec::new();
    message::append(&header, &remote, &mut call).map_err(|why| CallError::NotSent(SendError::Xdr(why)))?;
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
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_broadcast(true)?;
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
    let program = parse_universal(address).map(|found| match found.ip().is_unspecified() {
        true => SocketAddr::new(from.ip(), found.port()),
        false => found,
    });
    Some(BroadcastReply { from, program, result })
}
