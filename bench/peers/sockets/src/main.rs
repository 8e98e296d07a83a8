//! The Test interface by hand, over one socket for each caller: `peer-sockets serve udp|tcp|unix`, `peer-sockets call ADDRESS`.
//!
//! A call is its kind and a length, four bytes each, and the bytes of an argument; an answer is the length of its bytes, and these.
//! Over UDP both must fit one packet, and a lost packet is not sent again. Over TCP and Unix sockets each end sends a message by one `write`.

mod packets;
mod streams;

use end::{Procedure, Role, Slice, slices, threads};
use std::io;

/// Bytes before a call's argument: its kind and a length.
const HEADER: usize = 8;

/// The kinds of a call.
const PUT: u32 = 1;
const GET: u32 = 2;

/// Kind and length of a call that has been received.
struct Header {
    kind: u32,
    length: usize,
}

impl Header {
    fn of(bytes: &[u8]) -> Self {
        let word = |at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Header { kind: word(0), length: word(4) as usize }
    }

    fn write(kind: u32, length: usize, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&kind.to_ne_bytes());
        into.extend_from_slice(&(length as u32).to_ne_bytes());
    }
}

/// A call with its argument, and how many bytes its answer has.
fn call_of(slice: Slice) -> (Vec<u8>, usize) {
    let mut call = Vec::new();
    let result = match slice.procedure {
        Procedure::Null => {
            Header::write(PUT, 0, &mut call);
            0
        }
        Procedure::Put(length) => {
            Header::write(PUT, length, &mut call);
            call.extend(slice.bytes());
            0
        }
        Procedure::Get(length) => {
            Header::write(GET, length, &mut call);
            length
        }
    };
    (call, result)
}

fn main() -> io::Result<()> {
    match end::role() {
        (Role::Serve, words) if words[0] == "udp" => end::ready(&packets::serve()?),
        (Role::Serve, words) => end::ready(&streams::serve(&words[0])?),
        (Role::Call(address), _) => match address.split_once(':') {
            Some(("udp", to)) => slices(|slice| threads(slice, || packets::caller(to, slice))),
            Some((kind, to)) => slices(|slice| threads(slice, || streams::caller(kind, to, slice))),
            None => panic!("{address} is not KIND:ADDRESS"),
        },
    }
    Ok(())
}
