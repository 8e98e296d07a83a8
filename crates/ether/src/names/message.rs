//! Questions for names, and their answers, as frames.

use crate::address::{Address, Mac};
use crate::frame::{Checksum, EtherType, Frame, OVERHEAD, Template, frame_len};
use crate::names::{NAME_MAX, Name, ether_type_of_questions};

/// A question or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) nonce: u64,
    /// Of the server's packets.
    pub(super) ether_type: EtherType,
    pub(super) kind: Kind,
    pub(super) name: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Question = 1,
    Answer = 2,
}

const BROADCAST: Mac = Mac([0xff; 6]);
/// Bytes before the name.
const HEAD: usize = 11;
/// Bytes of the longest frame.
pub(super) const FRAME_MAX: usize = frame_len(HEAD + NAME_MAX);

impl Message {
    /// The frame of a question from the interface with this address.
    pub(super) fn question(&self, from: Mac) -> Vec<u8> {
        self.frame(Address { mac: from, port: 0 }, BROADCAST)
    }

    /// The frame of the answer to `asker`, by the server at this address.
    pub(super) fn answer(self, server: Address, asker: Mac) -> Vec<u8> {
        Self { kind: Kind::Answer, ..self }.frame(server, asker)
    }

    fn frame(&self, from: Address, to: Mac) -> Vec<u8> {
        let packet = [
            &self.nonce.to_le_bytes()[..],
            &self.ether_type.number().to_le_bytes(),
            &[self.kind as u8],
            self.name.as_str().as_bytes(),
        ]
        .concat();
        let (to, ether_type) = (Address { mac: to, port: 0 }, ether_type_of_questions(self.ether_type));
        let mut frame = vec![0; frame_len(packet.len())];
        frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(&packet);
        Template::new(from, to, ether_type, Checksum::Computed).complete(&mut frame, packet.len());
        frame
    }

    /// Reads a frame of the EtherType of questions, and tells its sender. `None` if it is neither question nor answer, or has no
    /// checksum or a wrong one.
    pub(super) fn parse(frame: &[u8], ether_type: EtherType) -> Option<(Self, Address)> {
        let frame = Frame::parse_for_any(frame, ether_type).ok()?;
        if frame.verify() != Ok(Checksum::Computed) || frame.from().mac.is_group() {
            return None;
        }
        let (nonce, rest) = frame.packets().split_first_chunk()?;
        let (&[low, high, kind], name) = rest.split_first_chunk()?;
        let message = Self {
            nonce: u64::from_le_bytes(*nonce),
            ether_type: EtherType::new(u16::from_le_bytes([low, high]))?,
            kind: [Kind::Question, Kind::Answer].into_iter().find(|known| *known as u8 == kind)?,
            name: std::str::from_utf8(name).ok()?.parse().ok()?,
        };
        Some((message, frame.from()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_read_as_they_are_written() {
        let (asker, server) = (Mac([2, 0, 0, 0, 0, 1]), Address { mac: Mac([2, 0, 0, 0, 0, 2]), port: 7400 });
        let ether_type = EtherType::default();
        let of_questions = ether_type_of_questions(ether_type);
        let name = "n".repeat(NAME_MAX).parse().unwrap();
        let question = Message { nonce: 5, ether_type, kind: Kind::Question, name };
        let asked = question.question(asker);
        assert!(asked.len() == FRAME_MAX && asked[..6] == [0xff; 6]);
        assert_eq!(
            Message::parse(&asked, of_questions),
            Some((question.clone(), Address { mac: asker, port: 0 }))
        );
        let answered = question.clone().answer(server, asker);
        assert_eq!(answered.len(), asked.len(), "no more than was asked");
        let answer = Message { kind: Kind::Answer, ..question };
        assert_eq!(Message::parse(&answered, of_questions), Some((answer, server)));
        assert_eq!(Message::parse(&answered, ether_type), None);
    }

    #[test]
    fn damaged_messages_are_none() {
        let ether_type = EtherType::default();
        let of_questions = ether_type_of_questions(ether_type);
        let question =
            Message { nonce: 5, ether_type, kind: Kind::Question, name: "greeter".parse().unwrap() };
        let good = question.question(Mac([2; 6]));
        assert!(Message::parse(&good, of_questions).is_some());
        // All but the addresses, which a bridge may translate, and the padding.
        for at in 12..OVERHEAD + HEAD + 7 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Message::parse(&bad, of_questions), None, "byte {at}");
        }
        for len in 0..OVERHEAD + HEAD + 7 {
            assert_eq!(Message::parse(&good[..len], of_questions), None, "{len} bytes");
        }
        let mut from_a_group = good.clone();
        from_a_group[6] |= 1;
        assert_eq!(Message::parse(&from_a_group, of_questions), None);
        let mut without_checksum = good;
        without_checksum[20..24].fill(0);
        assert_eq!(Message::parse(&without_checksum, of_questions), None);
    }
}
