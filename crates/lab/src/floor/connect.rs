//! How the two ends of the floor find each other: a connected socket for each caller.

use super::frames::{self, Frames, Side};
use super::segment;
use super::terms::Terms;
use crate::args::{EchoArgs, Transport};
use crate::network::Network;
use crate::plan::Cell;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use stoop_net::udp::{CallerSocket, Peer, ServerSocket};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Datagram(CallerSocket),
    Stream(OwnedFd),
    Frames(Box<Frames>),
    /// No socket, but memory that both ends can map.
    Memory(OwnedFd),
}

impl Socket {
    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        match self {
            Socket::Datagram(socket) => socket.as_fd().try_clone_to_owned(),
            Socket::Frames(_) => Err(io::Error::other("frames come by a ring and not by a descriptor")),
            Socket::Stream(socket) | Socket::Memory(socket) => Ok(socket),
        }
    }
}

/// Connects each caller of `cell` to the echo process, which listens at `ports` or `path`; returns the callers' own ports
/// for UDP and frames.
pub(super) fn to_echo(
    cell: &Cell,
    terms: &Terms,
    network: &Network,
    path: &Path,
    ports: &[u16],
) -> io::Result<(Vec<Socket>, Vec<u16>)> {
    let number = usize::from(cell.callers);
    match cell.transport {
        Transport::Udp => connect_udp(network, ports),
        Transport::Tcp => Ok((connect_tcp(network, ports, number)?, Vec::new())),
        Transport::Unix => Ok((connect_unix(path, number)?, Vec::new())),
        Transport::Shm => {
            let streams = connect_unix(path, number)?.into_iter();
            let memory = |stream: Socket| Ok(Socket::Memory(send_memory(&stream.into_fd()?)?));
            Ok((streams.map(memory).collect::<io::Result<_>>()?, Vec::new()))
        }
        Transport::Local => Err(no_other_end()),
        Transport::Ether | Transport::EtherXdp | Transport::EtherXdpGeneric => {
            let endpoints = frames::open(cell.transport, Side::Caller, number, !terms.one_by_one())?;
            let own_ports = endpoints.iter().map(|endpoint| endpoint.address().port).collect();
            Ok((lead_to(endpoints, Side::Caller, ports), own_ports))
        }
    }
}

fn lead_to(endpoints: Vec<stoop_ether::Endpoint>, side: Side, ports: &[u16]) -> Vec<Socket> {
    let leading = endpoints.into_iter().zip(ports);
    leading.map(|(endpoint, port)| Socket::Frames(Box::new(Frames::new(endpoint, side, *port)))).collect()
}

fn connect_udp(network: &Network, ports: &[u16]) -> io::Result<(Vec<Socket>, Vec<u16>)> {
    let mut sockets = Vec::new();
    let mut own_ports = Vec::new();
    for &port in ports {
        let socket = CallerSocket::connect((network.server, port).into())?;
        own_ports.push(socket.local_addr()?.port());
        sockets.push(Socket::Datagram(socket));
    }
    Ok((sockets, own_ports))
}

fn connect_tcp(network: &Network, ports: &[u16], number: usize) -> io::Result<Vec<Socket>> {
    let &[port] = ports else { return Err(io::Error::other("the echo process listens on one port")) };
    let connect = || {
        let stream = TcpStream::connect((network.server, port))?;
        stream.set_nodelay(true)?;
        Ok(Socket::Stream(stream.into()))
    };
    (0..number).map(|_| connect()).collect()
}

fn connect_unix(path: &Path, number: usize) -> io::Result<Vec<Socket>> {
    let connect = |_| Ok(Socket::Stream(UnixStream::connect(path)?.into()));
    let sockets = (0..number).map(connect).collect();
    // Connected sockets need no name, and nothing must be left behind.
    std::fs::remove_file(path)?;
    sockets
}

/// In the echo process: a connected socket for each caller. `agree` tells the parent our ports, and returns the callers'.
pub(super) fn to_callers(
    args: &EchoArgs,
    agree: impl FnOnce(&[u16]) -> io::Result<Vec<u16>>,
) -> io::Result<Vec<Socket>> {
    let (serve, number) = (&args.serve, usize::from(args.callers));
    match serve.transport {
        Transport::Udp => accept_udp(args, number, agree),
        Transport::Tcp => {
            let listener = TcpListener::bind((serve.address, 0))?;
            agree(&[listener.local_addr()?.port()])?;
            (0..number).map(|_| accept_tcp(&listener)).collect()
        }
        Transport::Unix => {
            let listener = UnixListener::bind(&serve.path)?;
            agree(&[])?;
            (0..number).map(|_| Ok(Socket::Stream(listener.accept()?.0.into()))).collect()
        }
        Transport::Shm => {
            let listener = UnixListener::bind(&serve.path)?;
            agree(&[])?;
            (0..number).map(|_| Ok(Socket::Memory(receive_memory(&listener.accept()?.0)?))).collect()
        }
        Transport::Local => Err(no_other_end()),
        Transport::Ether | Transport::EtherXdp | Transport::EtherXdpGeneric => {
            let many = !Terms::of_arguments(args).one_by_one();
            let endpoints = frames::open(serve.transport, Side::Server, number, many)?;
            let ports: Vec<u16> = endpoints.iter().map(|endpoint| endpoint.address().port).collect();
            let callers = agree(&ports)?;
            Ok(lead_to(endpoints, Side::Server, &callers))
        }
    }
}

fn accept_udp(
    args: &EchoArgs,
    number: usize,
    agree: impl FnOnce(&[u16]) -> io::Result<Vec<u16>>,
) -> io::Result<Vec<Socket>> {
    let bind = |_| ServerSocket::bind((args.serve.address, 0).into());
    let sockets: Vec<_> = (0..number).map(bind).collect::<io::Result<_>>()?;
    let ports: Vec<u16> =
        sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect::<io::Result<_>>()?;
    let callers = agree(&ports)?;
    let connect = |(socket, port): (ServerSocket, u16)| {
        let caller = SocketAddr::from((args.caller_address, port));
        Ok(Socket::Datagram(socket.connected_to(&Peer::from(caller))?))
    };
    sockets.into_iter().zip(callers).map(connect).collect()
}

fn accept_tcp(listener: &TcpListener) -> io::Result<Socket> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(Socket::Stream(stream.into()))
}

fn no_other_end() -> io::Error {
    io::Error::other("a local call has no other end")
}

/// Makes memory and gives it to the other end, too.
fn send_memory(stream: &OwnedFd) -> io::Result<OwnedFd> {
    let memory = segment::memory()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [memory.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is room for one descriptor");
    sendmsg(stream, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(memory)
}

fn receive_memory(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(stream, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    received.ok_or_else(|| io::Error::other("the caller gave no memory"))
}

/// Bytes that a sender of datagrams may be ahead of its receiver, where the receiver may have as much room as it likes.
const WINDOW: usize = 1 << 20;

/// The window that a receiver of this user has room for. The kernel counts more than the bytes of a packet: twice as many
/// are enough for full ones.
pub(super) fn window(network: &Network) -> io::Result<usize> {
    let socket = CallerSocket::connect((network.caller, 9).into())?;
    Ok(WINDOW.min(make_room(&socket, WINDOW)? / 2))
}

/// Asks for room for what may come before it is received, and returns what was granted.
pub(super) fn make_room(socket: &CallerSocket, window: usize) -> io::Result<usize> {
    socket.set_receive_buffer(2 * window)
}
