//! A packet there and a packet back, between connected UDP sockets that block.

use crate::{GET, HEADER, Header, call_of};
use end::{MARK, Slice};
use std::io;
use std::net::UdpSocket;
use std::thread;

/// The longest packet of UDP over IPv4.
const PACKET: usize = 65_507;

pub(crate) fn serve() -> io::Result<String> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = format!("udp:{}", socket.local_addr()?);
    thread::spawn(move || answer(&socket));
    Ok(address)
}

fn answer(socket: &UdpSocket) -> io::Result<()> {
    let (mut call, mut result) = (vec![0; PACKET], vec![MARK; PACKET]);
    loop {
        let (length, caller) = socket.recv_from(&mut call)?;
        if length < HEADER {
            continue;
        }
        let header = Header::of(&call);
        let length = if header.kind == GET { header.length.min(PACKET - 4) } else { 0 };
        result[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        socket.send_to(&result[..4 + length], caller)?;
    }
}

pub(crate) fn caller(to: &str, slice: Slice) -> impl FnMut() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(to).expect("the server's address");
    let (call, result) = call_of(slice);
    let mut answer = vec![0; PACKET];
    move || {
        socket.send(&call).expect("the call fits a packet");
        let length = socket.recv(&mut answer).expect("the server answers");
        assert_eq!(length, 4 + result);
    }
}
