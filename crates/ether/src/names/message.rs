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
    pub(super) subject: Subject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Question,
    Answer,
}

/// The server that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The one that has this name.
    Name(Name),
    /// The one that was at this address.
    At(Address),
}

/// What the message says of itself in its eleventh byte.
fn code(kind: Kind, subject: &Subject) -> u8 {
    match (kind, subject) {
        (Kind::Question, Subject::Name(_)) => 1,
        (Kind::Answer, Subject::Name(_)) => 2,
        (Kind::Question, Subject::At(_)) => 3,
        (Kind::Answer, Subject::At(_)) => 4,
    }
}

impl Subject {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Name(name) => name.as_str().into(),
            Self::At(Address { mac, port }) => [&mac.0[..], &port.to_le_bytes()].concat(),
        }
    }

    fn parse(code: u8, bytes: &[u8]) -> Option<(Kind, Self)> {
        let kind = if code % 2 == 1 { Kind::Question } else { Kind::Answer };
        let subject = match (code, bytes) {
            (1 | 2, name) => Self::Name(std::str::from_utf8(name).ok()?.parse().ok()?),
            (3 | 4, &[a, b, c, d, e, f, low, high]) => {
                Self::At(Address { mac: Mac([a, b, c, d, e, f]), port: u16::from_le_bytes([low, high]) })
            }
            _ => return None,
        };
        Some((kind, subject))
    }
}

const BROADCAST: Mac = Mac([0xff; 6]);
/// Bytes before the subject.
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
            &[code(self.kind, &self.subject)],
            &self.subject.to_bytes(),
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
        let (&[low, high, code], subject) = rest.split_first_chunk()?;
        let ether_type = EtherType::new(u16::from_le_bytes([low, high]))?;
        let (kind, subject) = Subject::parse(code, subject)?;
        Some((Self { nonce: u64::from_le_bytes(*nonce), ether_type, kind, subject }, frame.from()))
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
        let subject = Subject::Name("n".repeat(NAME_MAX).parse().unwrap());
        let question = Message { nonce: 5, ether_type, kind: Kind::Question, subject };
        let asked = question.question(asker);
        assert!(asked.len() == FRAME_MAX && asked[..6] == [0xff; 6]);
        let of_address = Message { subject: Subject::At(server), ..question.clone() };
        let frame = of_address.question(asker);
        assert_eq!(Message::parse(&frame, of_questions).unwrap().0, of_address);
        let frame = of_address.clone().answer(server, asker);
        let answer = Message { kind: Kind::Answer, ..of_address };
        assert_eq!(Message::parse(&frame, of_questions), Some((answer, server)));
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
        let subject = Subject::Name("greeter".parse().unwrap());
        let question = Message { nonce: 5, ether_type, kind: Kind::Question, subject };
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
