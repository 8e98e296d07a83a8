//! The arguments and results of rpcbind versions 3 and 4 (RFC 1833 §2).

use super::MESSAGE_MAX;
use crate::structure::structure;
use stoop_xdr::{Decode, DecodeError, Encode, EncodeError, Fault, Layout, Opaque, Reader, Writer, Xdr};

structure! {
    /// A registration, or what is asked about one (`rpcb`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    Rpcb<'a> {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// The transport: `udp`, `tcp`, `udp6`, `tcp6`, `local`.
        netid: &'a str,
        /// The [universal address](super::universal) at which it listens.
        address: &'a str,
        /// The user that registered it. rpcbind ignores it in calls, and asks the system for the user of the peer.
        owner: &'a str,
    }
}

structure! {
    /// A call for a program of rpcbind's machine (`rpcb_rmtcallargs`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    RemoteCall<'a> {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// The procedure.
        procedure: u32,
        /// The arguments in XDR.
        arguments: Opaque<&'a [u8]>,
    }
}

structure! {
    /// The result of such a call (`rpcb_rmtcallres`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    RemoteResult<'a> {
        /// The universal address at which the program listens.
        address: &'a str,
        /// The results in XDR.
        results: Opaque<&'a [u8]>,
    }
}

structure! {
    /// An address of a program, with its transport (`rpcb_entry`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Entry<'a> {
        /// The universal address, as the asker can reach it.
        address: &'a str,
        /// The transport: `udp`, `tcp`, …
        netid: &'a str,
        /// The kind of transport: 1 for datagrams, 2 for a byte stream, 3 for one that ends orderly.
        semantics: u32,
        /// The family of protocols: `inet`, `inet6`, `loopback`.
        protocol_family: &'a str,
        /// The protocol: `udp`, `tcp`, or `-`.
        protocol: &'a str,
    }
}

/// An address in the form of the transport (`netbuf`, RFC 1833 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkBuffer<'a> {
    /// Bytes of room that the sender has for an address: at least those of this one, at most [`MESSAGE_MAX`]. libtirpc
    /// enforces both.
    pub room: u32,
    /// The address: a `sockaddr` of rpcbind's machine.
    pub address: &'a [u8],
}

impl Xdr for NetworkBuffer<'_> {
    const LAYOUT: Layout = Layout::variable(8);
}

impl Encode for NetworkBuffer<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        let room = self.room as usize;
        if room > MESSAGE_MAX {
            writer.fail(EncodeError::TooLong { position: writer.position(), len: room, max: MESSAGE_MAX });
        }
        writer.u32(self.room);
        writer.opaque(self.address, room);
    }
}

impl<'a> Decode<'a> for NetworkBuffer<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let position = reader.position();
        let room = reader.u32()?;
        if room as usize > MESSAGE_MAX {
            return Err(DecodeError { position, fault: Fault::TooLong { len: room, max: MESSAGE_MAX } });
        }
        Ok(Self { room, address: reader.opaque(room as usize)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use stoop_xdr::{Chain, from_slice, to_vec};

    #[test]
    fn a_registration_is_read_as_it_was_written() {
        let rpcb = Rpcb { program: 100_003, version: 3, netid: "tcp", address: "0.0.0.0.8.1", owner: "" };
        let form = to_vec(&rpcb).unwrap();
        assert_eq!(form[8..], *b"\0\0\0\x03tcp\0\0\0\0\x0b0.0.0.0.8.1\0\0\0\0\0");
        let list = Chain(vec![rpcb; 3]);
        assert_eq!(from_slice(&to_vec(&list).unwrap()), Ok(list));
    }

    #[test]
    fn an_entry_and_an_address_are_read_as_they_were_written() {
        let entry = Entry {
            address: "::1.0.111",
            netid: "udp6",
            semantics: 1,
            protocol_family: "inet6",
            protocol: "udp",
        };
        assert_eq!(from_slice(&to_vec(&entry).unwrap()), Ok(entry));
        let buffer = NetworkBuffer { room: 16, address: b"sockaddr" };
        assert_eq!(from_slice(&to_vec(&buffer).unwrap()), Ok(buffer));
        assert!(to_vec(&NetworkBuffer { room: 7, ..buffer }).is_err());
        assert!(to_vec(&NetworkBuffer { room: 9001, ..buffer }).is_err());
    }
}
