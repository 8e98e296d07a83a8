//! The process at the other end of the bare exchange, which returns a packet for a packet.

use super::endpoint::Endpoint;
use super::{Wait, join_ports, packet_lens, parse_ports};
use crate::args::{EchoArgs, Transport, Waiting};
use crate::child::{answer, next_order};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::thread;

/// Runs until the parent ends it.
pub(crate) fn run(args: &EchoArgs) -> io::Result<()> {
    let wait = if args.serve.waiting == Waiting::Spin { Wait::Spin } else { Wait::Block };
    let (call, result) = packet_lens(args.procedure);
    let endpoint = |socket| Endpoint::new(socket, args.serve.transport, wait.flags(), result, call);
    let endpoints: Vec<Endpoint> = connect(args)?.into_iter().map(endpoint).collect();
    match wait {
        Wait::Spin => drop(thread::spawn(move || echo_in_turn(endpoints))),
        Wait::Block => endpoints.into_iter().for_each(|endpoint| drop(thread::spawn(move || echo(endpoint)))),
    }
    answer("ready")?;
    while next_order()?.is_some() {}
    Ok(())
}

/// Ends with the connection.
fn echo(mut endpoint: Endpoint) {
    while endpoint.receive().and_then(|()| endpoint.transmit()).is_ok() {}
}

/// Spins over all connections; ends with the first that does.
fn echo_in_turn(mut endpoints: Vec<Endpoint>) {
    loop {
        for endpoint in &mut endpoints {
            match endpoint.try_receive() {
                Ok(true) if endpoint.transmit().is_ok() => {}
                Ok(false) => {}
                Ok(true) | Err(_) => return,
            }
        }
    }
}

/// Agrees with the parent on a connected socket for each caller.
fn connect(args: &EchoArgs) -> io::Result<Vec<OwnedFd>> {
    let (serve, number) = (&args.serve, usize::from(args.callers));
    match serve.transport {
        Transport::Udp => connect_udp(args, number),
        Transport::Tcp => {
            let listener = TcpListener::bind((serve.address, 0))?;
            wait_for_callers(&[listener.local_addr()?.port()])?;
            (0..number).map(|_| accept_tcp(&listener)).collect()
        }
        Transport::Unix => {
            let listener = UnixListener::bind(&serve.path)?;
            wait_for_callers(&[])?;
            (0..number).map(|_| Ok(listener.accept()?.0.into())).collect()
        }
        Transport::Local => Err(io::Error::other("a local call has no other end")),
    }
}

fn connect_udp(args: &EchoArgs, number: usize) -> io::Result<Vec<OwnedFd>> {
    let bind = |_| UdpSocket::bind((args.serve.address, 0));
    let sockets: Vec<_> = (0..number).map(bind).collect::<io::Result<_>>()?;
    let ports: Vec<u16> =
        sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect::<io::Result<_>>()?;
    let caller = args.caller_address;
    for (socket, port) in sockets.iter().zip(wait_for_callers(&ports)?) {
        socket.connect((caller, port))?;
    }
    Ok(sockets.into_iter().map(OwnedFd::from).collect())
}

fn accept_tcp(listener: &TcpListener) -> io::Result<OwnedFd> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream.into())
}

/// Tells where we listen, and returns the callers' ports (for UDP) when they have connected.
fn wait_for_callers(ports: &[u16]) -> io::Result<Vec<u16>> {
    answer(&format!("listening {}", join_ports(ports)))?;
    let order = next_order()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    parse_ports(&order)
}
