//! Calls and replies (RFC 5531 §9).
//!
//! A message is a header and, in a call, the arguments; in a successful reply, the results. [`Call::parse`] and
//! [`Reply::parse`] split a message into the header and a reader of the rest.

mod call;
mod reply;

pub use call::{BadCall, Call, ProcedureId};
pub use reply::{Accepted, BadReply, Denied, Reply, ReplyBody, VersionRange};

use alloc::vec::Vec;
use stoop_xdr::{Encode, EncodeError, Layout, Writer, Xdr};

/// The version of the message protocol (RFC 5531 §9).
pub const RPC_VERSION: u32 = 2;

/// Bytes of the longest datagram that libtirpc sends, and takes whole; it cuts longer ones without a word. RFC 5531 §5
/// leaves the length to the transport.
pub const LIBTIRPC_DATAGRAM_MAX: usize = 8800;

/// The kind of a message that is a call (RFC 5531 §9).
const CALL: u32 = 0;

/// The kind of a message that is a reply (RFC 5531 §9).
const REPLY: u32 = 1;

/// A header, and arguments or results.
struct Message<'a, H, B: ?Sized> {
    header: &'a H,
    body: &'a B,
}

impl<H, B: ?Sized> Xdr for Message<'_, H, B> {
    const LAYOUT: Layout = Layout::variable(0);
}

impl<H: Encode, B: Encode + ?Sized> Encode for Message<'_, H, B> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(self.header);
        writer.value(self.body);
    }
}

/// Appends a message to `bytes`: a [`Call`] with its arguments, or a [`Reply`] with its results, which are `()` unless it
/// is a success. On failure, nothing is appended.
///
/// # Errors
/// When the arguments or results have no XDR form, or the body of a credential is too long.
pub fn append<H: Encode, B: Encode + ?Sized>(
    header: &H,
    body: &B,
    bytes: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    stoop_xdr::append(&Message { header, body }, bytes)
}

/// Writes a message into `room` behind its first `start` bytes, and returns where it ends. `room` grows as it must, and stays
/// as long as it was at the longest message: a buffer for one message after the other, which are encoded once.
///
/// # Errors
/// As [`append`].
#[inline]
pub fn write<H: Encode, B: Encode + ?Sized>(
    header: &H,
    body: &B,
    room: &mut Vec<u8>,
    start: usize,
) -> Result<usize, EncodeError> {
    if room.len() < start {
        room.resize(start, 0);
    }
    loop {
        let mut writer = Writer::new(&mut room[start..]);
        writer.value(header);
        writer.value(body);
        match writer.finish() {
            Ok(len) => return Ok(start + len),
            Err(EncodeError::NoRoom { needed, .. }) => room.resize(start + needed, 0),
            Err(error) => return Err(error),
        }
    }
}

/// As [`append`], as a record of a byte stream: [`record::mark`](crate::record::mark) and message.
///
/// # Errors
/// As [`append`], and when the message is longer than a record can be in one fragment.
pub fn append_record<H: Encode, B: Encode + ?Sized>(
    header: &H,
    body: &B,
    bytes: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = bytes.len();
    bytes.extend([0; 4]);
    let result = append(header, body, bytes).and_then(|()| {
        let len = bytes.len() - start - 4;
        let mark = crate::record::mark(len);
        mark.ok_or(EncodeError::NoRoom { needed: len, room: crate::record::FRAGMENT_MAX })
    });
    match result {
        Ok(mark) => bytes[start..start + 4].copy_from_slice(&mark),
        Err(_) => bytes.truncate(start),
    }
    result.map(drop)
}
