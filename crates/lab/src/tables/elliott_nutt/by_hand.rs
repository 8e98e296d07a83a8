//! Programs Three and Four: a protocol made by hand, over UDP and over TCP, which blocks in the receive or waits by `select`.
//!
//! A call is the number of the procedure and the argument, without any conversion; the server dispatches by a `match`. The answer
//! is an integer. A lost packet is not sent again; any error ends the program.

use super::select::until_readable;
use crate::args::ProgramArgs;
use crate::child::answer;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// The three procedures, by their numbers in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Procedure {
    Nothing = 0,
    TwoBytes = 1,
    FourBytes = 2,
}

impl Procedure {
    pub(super) const ALL: [Procedure; 3] = [Procedure::Nothing, Procedure::TwoBytes, Procedure::FourBytes];

    /// Bytes of the whole call.
    fn call_len(number: u8) -> io::Result<usize> {
        match number {
            0 => Ok(1),
            1 => Ok(3),
            2 => Ok(5),
            _ => Err(io::Error::other("no procedure has this number")),
        }
    }
}

const ANSWER_LEN: usize = 4;
const CALL_LEN_MAX: usize = 5;

/// Runs the procedure of a call, and returns the answer.
fn run(call: &[u8]) -> io::Result<[u8; ANSWER_LEN]> {
    match *call {
        [0] => black_box(()),
        [1, a, b] => drop(black_box(i16::from_ne_bytes([a, b]))),
        [2, a, b, c, d] => drop(black_box(i32::from_ne_bytes([a, b, c, d]))),
        _ => return Err(io::Error::other("this is no call")),
    }
    Ok(1_i32.to_ne_bytes())
}

/// The server of Program Three. Each datagram is a call.
pub(in crate::tables) fn serve_udp(args: &ProgramArgs) -> io::Result<()> {
    let socket = UdpSocket::bind((args.address.as_str(), 0))?;
    answer(&format!("listening {}", socket.local_addr()?))?;
    let mut call = [0; CALL_LEN_MAX];
    loop {
        if args.select && until_readable(&socket).is_err() {
            continue;
        }
        let (len, from) = socket.recv_from(&mut call)?;
        socket.send_to(&run(&call[..len])?, from)?;
    }
}

/// The server of Program Four: a thread for each connection.
pub(in crate::tables) fn serve_tcp(args: &ProgramArgs) -> io::Result<()> {
    let listener = TcpListener::bind((args.address.as_str(), 0))?;
    answer(&format!("listening {}", listener.local_addr()?))?;
    let select = args.select;
    loop {
        let (stream, _) = listener.accept()?;
        thread::spawn(move || serve_connection(stream, select));
    }
}

/// Serves one connection until its client closes it.
fn serve_connection(mut stream: TcpStream, select: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut call = [0; CALL_LEN_MAX];
    loop {
        if select {
            while until_readable(&stream).is_err() {}
        }
        // A client sends each call by one system call and has one call outstanding: one read mostly returns the whole call.
        let mut len = stream.read(&mut call)?;
        if len == 0 {
            return Ok(());
        }
        while len < Procedure::call_len(call[0])? {
            len += stream.read(&mut call[len..])?;
        }
        stream.write_all(&run(&call[..len])?)?;
    }
}

/// An observer that runs each system call of a client: it may measure the call's time.
pub(super) trait Watch {
    fn around<T>(&mut self, call: SystemCall, make: impl FnOnce() -> T) -> T;
}

/// The system calls of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemCall {
    Send,
    Select,
    Receive,
}

impl Watch for () {
    #[inline(always)]
    fn around<T>(&mut self, _call: SystemCall, make: impl FnOnce() -> T) -> T {
        make()
    }
}

/// A client of either program.
pub(super) struct Client {
    socket: Socket,
    select: bool,
}

enum Socket {
    Datagram(UdpSocket),
    Stream(TcpStream),
}

/// An answer that takes longer is lost: nothing here sends a call again.
const LIMIT: Duration = Duration::from_secs(5);

impl Client {
    pub(super) fn by_udp(server: SocketAddr, select: bool) -> io::Result<Self> {
        let unspecified = "0.0.0.0:0".parse::<SocketAddr>().map_err(io::Error::other)?;
        let socket = UdpSocket::bind(unspecified)?;
        socket.connect(server)?;
        Ok(Self { socket: Socket::Datagram(socket), select })
    }

    pub(super) fn by_tcp(server: SocketAddr, select: bool) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, LIMIT)?;
        stream.set_nodelay(true)?;
        Ok(Self { socket: Socket::Stream(stream), select })
    }

    /// Calls a procedure, and waits for the answer.
    #[inline(always)]
    pub(super) fn call(&mut self, procedure: Procedure, watch: &mut impl Watch) -> io::Result<()> {
        let call: &[u8] = match procedure {
            Procedure::Nothing => &[0],
            Procedure::TwoBytes => &[1, 7, 0],
            Procedure::FourBytes => &[2, 7, 0, 0, 0],
        };
        let mut answer = [0; ANSWER_LEN];
        let sent = match &mut self.socket {
            Socket::Datagram(socket) => exchange(
                socket,
                self.select,
                watch,
                |socket| socket.send(call),
                |socket| socket.recv(&mut answer),
            ),
            Socket::Stream(stream) => exchange(
                stream,
                self.select,
                watch,
                |mut stream| stream.write(call),
                |mut stream| stream.read(&mut answer),
            ),
        }?;
        if sent == (call.len(), ANSWER_LEN) {
            Ok(())
        } else {
            Err(io::Error::other("a message came in part"))
        }
    }
}

#[inline(always)]
fn exchange<S: AsFd>(
    socket: &S,
    select: bool,
    watch: &mut impl Watch,
    send: impl FnOnce(&S) -> io::Result<usize>,
    receive: impl FnOnce(&S) -> io::Result<usize>,
) -> io::Result<(usize, usize)> {
    let sent = watch.around(SystemCall::Send, || send(socket))?;
    if select {
        watch.around(SystemCall::Select, || until_readable(socket))?;
    }
    let received = watch.around(SystemCall::Receive, || receive(socket))?;
    Ok((sent, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_no_procedure_has_is_refused() {
        assert_eq!(run(&[1, 7, 0]).expect("it is a call"), 1_i32.to_ne_bytes());
        assert!(run(&[1]).is_err() && run(&[9]).is_err() && run(&[]).is_err());
    }

    #[test]
    fn server_and_client_agree_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        for select in [false, true] {
            let mut client = Client::by_tcp(address, select).expect("the listener has room");
            let (stream, _) = listener.accept().expect("it has connected");
            let server = thread::spawn(move || serve_connection(stream, select));
            for procedure in Procedure::ALL {
                client.call(procedure, &mut ()).expect("it is answered");
            }
            drop(client);
            server.join().expect("it does not panic").expect("the connection has ended");
        }
    }
}
