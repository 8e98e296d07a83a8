//! The process at the other end of the bare exchange, which returns a packet for a packet.

use super::connect::{self, Socket};
use super::endpoint::Endpoint;
use super::{Serve, Terms, Wait, join_ports, parse_ports};
use crate::args::{EchoArgs, Waiting};
use crate::child::{answer, next_order};
use std::io;
use std::thread;

/// Runs until the parent ends it.
pub(crate) fn run(args: &EchoArgs) -> io::Result<()> {
    let wait = if args.serve.waiting == Waiting::Spin { Wait::Spin } else { Wait::Block };
    let terms = Terms::of_arguments(args);
    let sockets = connect::to_callers(args, wait_for_callers)?;
    if terms.one_by_one() {
        echo_packets(terms, sockets, wait)?
    } else {
        echo_many(terms, sockets, wait)?
    }
    answer("ready")?;
    while next_order()?.is_some() {}
    Ok(())
}

fn echo_packets(terms: Terms, sockets: Vec<Socket>, wait: Wait) -> io::Result<()> {
    let (call, result) = terms.packet_lens();
    let endpoint =
        |socket: Socket| Ok(Endpoint::new(socket.into_fd()?, terms.transport, wait.flags(), result, call));
    let endpoints: Vec<Endpoint> = sockets.into_iter().map(endpoint).collect::<io::Result<_>>()?;
    match wait {
        Wait::Spin => drop(thread::spawn(move || echo_in_turn(endpoints))),
        Wait::Block => endpoints.into_iter().for_each(|endpoint| drop(thread::spawn(move || echo(endpoint)))),
    }
    Ok(())
}

fn echo_many(terms: Terms, sockets: Vec<Socket>, wait: Wait) -> io::Result<()> {
    for socket in sockets {
        let end = terms.server(socket, wait)?;
        thread::spawn(move || serve(end));
    }
    Ok(())
}

/// Ends with the connection.
fn serve(mut end: Box<dyn Serve>) {
    while end.serve().is_ok() {}
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

/// Tells where we listen, and returns the callers' ports (for UDP) when they have connected.
fn wait_for_callers(ports: &[u16]) -> io::Result<Vec<u16>> {
    answer(&format!("listening {}", join_ports(ports)))?;
    let order = next_order()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    parse_ports(&order)
}
