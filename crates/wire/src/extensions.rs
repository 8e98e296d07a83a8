//! Extensions: the optional fields behind the other fields of bind and bind reply. Each has a type (two bytes), the
//! length of its value (two bytes) and the value. A reader ignores those that it does not know, so that a later version
//! can add some.

use crate::cursor::Cursor;
use alloc::vec::Vec;

/// Padding of any length; its value has no meaning.
pub(crate) const PADDING: u16 = 0;
/// In a reply, two numbers of eight bytes: [`ServerClock`](crate::bind::ServerClock).
pub(crate) const SERVER_CLOCK: u16 = 1;
/// Four bytes: bytes of data in a packet of the binding.
pub(crate) const PACKET_DATA: u16 = 2;
/// Four bytes: lanes of the binding.
pub(crate) const LANES: u16 = 3;
/// In a reply, four bytes: calls that the caller may have outstanding at first.
pub(crate) const CREDIT: u16 = 4;
/// In a reply, four bytes: bytes of the longest block of metadata that the server takes.
pub(crate) const METADATA: u16 = 5;

/// Bytes of an extension before its value.
const HEAD: usize = 4;

/// Appends an extension.
///
/// # Panics
/// If the value is longer than 65,535 bytes.
pub(crate) fn put(out: &mut Vec<u8>, of_type: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("values of extensions are short");
    out.extend_from_slice(&of_type.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(value);
}

/// Appends an extension with a number of four bytes, if there is one.
pub(crate) fn put_u32(out: &mut Vec<u8>, of_type: u16, value: Option<u32>) {
    if let Some(value) = value {
        put(out, of_type, &value.to_le_bytes());
    }
}

/// Appends padding until `out` has at least `len` bytes; at most three more, because padding has a header of four
/// bytes.
pub(crate) fn pad(out: &mut Vec<u8>, len: usize) {
    if let Some(missing) = len.checked_sub(out.len()).filter(|missing| *missing > 0) {
        let zeros = missing.saturating_sub(HEAD);
        out.extend_from_slice(&PADDING.to_le_bytes());
        out.extend_from_slice(&(zeros as u16).to_le_bytes());
        out.resize(out.len() + zeros, 0);
    }
}

/// The extensions of a message.
#[derive(Clone, Copy)]
pub(crate) struct Extensions<'a>(&'a [u8]);

impl<'a> Extensions<'a> {
    /// The extensions behind a message's other fields; `None` if the last extension is truncated.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let cursor = &mut Cursor(bytes);
        while !cursor.0.is_empty() {
            next(cursor)?;
        }
        Some(Self(bytes))
    }

    /// The value of an extension of that type, if it has exactly `N` bytes. Of several extensions the first counts.
    pub(crate) fn get<const N: usize>(self, wanted: u16) -> Option<[u8; N]> {
        let cursor = &mut Cursor(self.0);
        loop {
            let (of_type, value) = next(cursor)?;
            if of_type == wanted {
                return value.try_into().ok();
            }
        }
    }

    /// The number of four bytes of that type.
    pub(crate) fn u32(self, wanted: u16) -> Option<u32> {
        self.get(wanted).map(u32::from_le_bytes)
    }
}

fn next<'a>(cursor: &mut Cursor<'a>) -> Option<(u16, &'a [u8])> {
    let of_type = cursor.u16()?;
    Some((of_type, cursor.bytes()?))
}
