//! A process between a client and a server that has the memory that they share, without their knowledge.

use super::{Peer, connect, receive};
use std::io::Write;
use std::os::unix::net::UnixStream;
use stoop_shm::descriptors;
use stoop_wire::{HEADER_LEN, Header, Kind};

/// A process between a client and a server.
pub(crate) struct Between {
    pub(crate) client: UnixStream,
    pub(crate) server: Peer,
}

impl Between {
    /// Hands on what a client and the server behind say to each other until the client has its memory; `None` if that comes to
    /// nothing.
    pub(crate) fn hand_on(mut client: UnixStream, behind: &str) -> Option<Self> {
        let mut server = connect(behind);
        loop {
            let question = receive(&mut client)?;
            server.write_all(&question).ok()?;
            if Header::parse(&question).unwrap().0.kind == Kind::Attach {
                break;
            }
            client.write_all(&receive(&mut server)?).ok()?;
        }
        let mut packet = [0; HEADER_LEN];
        let (len, received) = descriptors::receive(&server, &mut packet).unwrap();
        let mut received = received.into_iter();
        let (memory, bell) = (received.next()?, received.next()?);
        descriptors::send(&client, &packet[..len], &memory, &bell).ok()?;
        Some(Self { client, server: Peer::between(server, memory, bell) })
    }

    /// Hands on the last word of one end to the other, and then its end.
    pub(crate) fn hand_on_farewell(mut self, to_client: bool) -> Option<Vec<u8>> {
        let (from, to) = match to_client {
            true => (&mut self.server.socket, &mut self.client),
            false => (&mut self.client, &mut self.server.socket),
        };
        let farewell = receive(from);
        if let Some(farewell) = &farewell {
            to.write_all(farewell).unwrap();
        }
        farewell
    }
}
