//! The numbers that match replies to calls.

use core::fmt;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use stoop_xdr::{Decode, DecodeError, Encode, Layout, Reader, Writer, Xdr};

/// Matches a reply to its call, and lets a server notice a retransmission (RFC 5531 §9). It is not a sequence number:
/// xids have no order that means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub u32);

impl Xid {
    /// The xid of a message, call or reply; `None` if it is too short to have one.
    #[inline]
    pub fn of(message: &[u8]) -> Option<Self> {
        message.first_chunk().map(|bytes| Self(u32::from_be_bytes(*bytes)))
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl Xdr for Xid {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for Xid {
    #[inline(always)]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.0);
    }
}

impl Decode<'_> for Xid {
    #[inline(always)]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32().map(Self)
    }
}

/// Makes xids that others cannot predict, so that an answer cannot be forged by a sender that does not see the call.
#[derive(Clone, Debug)]
pub struct Xids {
    key: [u8; 16],
    drawn: u64,
}

impl Xids {
    /// Xids by a secret key, which the driver draws at random.
    pub const fn new(key: [u8; 16]) -> Self {
        Xids { key, drawn: 0 }
    }

    /// The next one. It may have been drawn before, since there are only 2³² of them.
    pub fn draw(&mut self) -> Xid {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u64(self.drawn);
        self.drawn += 1;
        Xid(hasher.finish() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn drawn_xids_depend_on_the_key_and_hardly_repeat() {
        let (mut first, mut second) = (Xids::new([1; 16]), Xids::new([2; 16]));
        let drawn: BTreeSet<Xid> = (0..500).flat_map(|_| [first.draw(), second.draw()]).collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(first.clone().draw(), first.draw());
    }

    #[test]
    fn the_xid_of_a_message_is_its_first_word() {
        assert_eq!(Xid::of(&[0, 0, 1, 2, 9]), Some(Xid(258)));
        assert_eq!(Xid::of(&[0, 0, 1]), None);
    }
}
