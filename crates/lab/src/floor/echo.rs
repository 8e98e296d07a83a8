//! The process at the other end of the bare exchange, which returns a packet for a packet.

use super::connect::{self, Socket};
use super::endpoint::{End, Endpoint};
use super::frames::FrameEnd;
use super::line::Line;
use super::pipe::Patience;
use super::terms::{Serve, Terms};
use super::waits::Wait;
use super::{join_ports, parse_ports};
use crate::args::EchoArgs;
use crate::child::{answer, next_order};
use std::io;
use std::thread;

/// Runs until the parent ends it.
pub(crate) fn run(args: &EchoArgs) -> io::Result<()> {
    let terms = Terms::of_arguments(args);
    let sockets = connect::to_callers(args, wait_for_callers)?;
    if terms.one_by_one() {
        echo_packets(terms, sockets)?
    } else {
        echo_many(terms, sockets)?
    }
    answer("ready")?;
    while next_order()?.is_some() {}
    Ok(())
}

fn echo_packets(terms: Terms, sockets: Vec<Socket>) -> io::Result<()> {
    let (call, result) = terms.packet_lens();
    let patience = Patience::new(terms.waits.server, None);
    let (mut lines, mut endpoints, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for socket in sockets {
        match socket {
            Socket::Memory(memory) => lines.push(Line::of_server(&memory, &terms)?),
            Socket::Frames(end) => frames.push(FrameEnd::new(*end, patience, result)),
            socket => {
                let (fd, flags) = (socket.into_fd()?, terms.waits.server.flags());
                endpoints.push(Endpoint::new(fd, terms.transport, flags, result, call));
            }
        }
    }
    start(terms.waits.server, lines);
    start(terms.waits.server, endpoints);
    start(terms.waits.server, frames);
    Ok(())
}

fn start<E: End + 'static>(wait: Wait, ends: Vec<E>) {
    match wait {
        Wait::Spin if ends.is_empty() => {}
        Wait::Spin => drop(thread::spawn(move || echo_in_turn(ends))),
        Wait::Block => ends.into_iter().for_each(|end| drop(thread::spawn(move || echo(end)))),
    }
}

fn echo_many(terms: Terms, sockets: Vec<Socket>) -> io::Result<()> {
    for socket in sockets {
        let end = terms.server(socket)?;
        thread::spawn(move || serve(end));
    }
    Ok(())
}

/// Ends with the connection.
fn serve(mut end: Box<dyn Serve>) {
    while end.serve().is_ok() {}
}

/// Ends with the connection.
fn echo(mut end: impl End) {
    while end.receive().and_then(|()| end.transmit()).is_ok() {}
}

/// Spins over all connections; ends with the first that does.
fn echo_in_turn(mut ends: Vec<impl End>) {
    loop {
        for end in &mut ends {
            match end.try_receive() {
                Ok(true) if end.transmit().is_ok() => {}
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
