//! Answers gathered to leave together, by as few system calls as their sizes and receivers allow.
//!
//! Packets that leave together are of one length, except the last. So answers of similar length to the same peer are filled up with zeros
//! to the longest of them; their receiver ignores the padding. Other answers begin a new group.

use crate::transport::packet::link::{MAX_SEGMENTS, MAX_SEGMENTS_LEN};
use crate::transport::packet::protection::{self, Protection};
use stoop_wire::HEADER_LEN;

/// Most zeros that an answer is filled up with. So few cost less than another system call.
const PADDING_MAX: usize = 128;

/// Lengths of answers in a group are multiples of this, so that answers lie aligned and slightly different lengths become equal.
const ALIGNMENT: usize = 8;

/// Answers in the order in which they were given.
#[derive(Debug)]
pub(super) struct Answers<P> {
    bytes: Vec<u8>,
    groups: Vec<Group<P>>,
}

impl<P> Default for Answers<P> {
    fn default() -> Self {
        Self { bytes: Vec::new(), groups: Vec::new() }
    }
}

/// Answers that leave by one system call.
#[derive(Debug)]
struct Group<P> {
    peer: P,
    /// Where the first begins.
    start: usize,
    /// From the beginning of one to that of the next.
    segment: usize,
    count: usize,
}

impl<P: PartialEq> Group<P> {
    /// The length of its packets, if an answer to `peer` of `len` bytes joins them.
    #[inline]
    fn joined(&self, peer: &P, len: usize) -> Option<usize> {
        let segment = if self.count == 1 { self.segment.max(len) } else { self.segment };
        let fits = self.count < MAX_SEGMENTS && (self.count + 1) * segment <= MAX_SEGMENTS_LEN;
        let similar = len <= segment && segment - len.min(self.segment) <= PADDING_MAX;
        (fits && similar && self.peer == *peer).then_some(segment)
    }
}

impl<P: Copy + PartialEq> Answers<P> {
    /// Adds an answer.
    #[inline]
    pub(super) fn push(&mut self, peer: &P, answer: &[u8], protection: &Protection) {
        // Most answers are a bare header, like the one before them: that takes a few instructions and no function call.
        if let (Ok(bare), Some(group)) = (<&[u8; HEADER_LEN]>::try_from(answer), self.groups.last_mut())
            && group.segment == HEADER_LEN
            && group.count < MAX_SEGMENTS
            && self.bytes.len() == group.start + group.count * HEADER_LEN
            && group.peer == *peer
            && !protection::says_so(bare)
        {
            group.count += 1;
            return self.bytes.extend_from_slice(bare);
        }
        self.push_any(peer, answer, protection);
    }

    // A function of its own, so that the registers that it needs are not saved for bare headers.
    #[inline(never)]
    fn push_any(&mut self, peer: &P, answer: &[u8], protection: &Protection) {
        self.make_room(peer, answer.len() + protection.room_for(answer), |_| true);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(answer);
        protection.append(&mut self.bytes, start);
    }

    /// Adds an answer to be put into a [bundle](stoop_wire::Bundle) with others of its binding. It is not protected.
    pub(super) fn push_to_bundle(&mut self, peer: &P, answer: &[u8]) {
        self.make_room(peer, answer.len(), |first| first.get(8..16) == answer.get(8..16));
        self.bytes.extend_from_slice(answer);
    }

    /// Has the next answer to `peer`, of `whole` bytes, begin at the end of the bytes: in the last group, if it may join the answer with
    /// which that begins, or in a new one.
    fn make_room(&mut self, peer: &P, whole: usize, joins: impl FnOnce(&[u8]) -> bool) {
        let len = whole.next_multiple_of(ALIGNMENT);
        let joined = self.groups.last_mut().and_then(|group| Some((group.joined(peer, len)?, group)));
        let joined = joined.filter(|(_, group)| joins(&self.bytes[group.start..]));
        if let Some((segment, group)) = joined {
            group.segment = segment;
            let start = group.start + group.count * segment;
            if self.bytes.len() != start {
                self.bytes.resize(start, 0);
            }
            group.count += 1;
        } else {
            let start = self.bytes.len();
            self.groups.push(Group { peer: *peer, start, segment: len.max(ALIGNMENT), count: 1 });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups: peer, packets one behind the other, and the length of each packet except the last.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&P, &[u8], usize)> {
        self.groups.iter().enumerate().map(|(at, group)| {
            let end = self.groups.get(at + 1).map_or(self.bytes.len(), |next| next.start);
            (&group.peer, &self.bytes[group.start..end], group.segment)
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::packet::server::answers::*;

    static PLAIN: std::sync::LazyLock<Protection> = std::sync::LazyLock::new(Protection::default);

    /// Groups, each as the lengths of its packets.
    fn lengths(answers: &Answers<u16>) -> Vec<Vec<usize>> {
        answers.groups().map(|(_, bytes, segment)| bytes.chunks(segment).map(<[u8]>::len).collect()).collect()
    }

    fn with(lens: &[usize]) -> Answers<u16> {
        let mut answers = Answers::default();
        for (at, len) in lens.iter().enumerate() {
            answers.push(&1, &vec![at as u8 + 1; *len], &PLAIN);
        }
        // However they are grouped, each is there in its place, and nothing but zeros behind it.
        let datagrams: Vec<_> =
            answers.groups().flat_map(|(_, bytes, segment)| bytes.chunks(segment)).collect();
        assert_eq!(datagrams.len(), lens.len());
        for (at, (datagram, len)) in datagrams.iter().zip(lens).enumerate() {
            assert!(datagram[..*len].iter().all(|byte| *byte == at as u8 + 1));
            assert!(datagram[*len..].iter().all(|byte| *byte == 0));
        }
        answers
    }

    #[test]
    fn equal_answers_leave_together_and_the_last_is_not_padded() {
        assert_eq!(lengths(&with(&[32, 32, 32])), [[32, 32, 32]]);
        assert_eq!(lengths(&with(&[36, 36, 36])), [[40, 40, 36]]);
        assert_eq!(lengths(&with(&[1439])), [[1439]]);
    }

    #[test]
    fn similar_answers_leave_together_and_others_do_not() {
        assert_eq!(lengths(&with(&[32, 160, 40, 160])), [[160, 160, 160, 160]]);
        assert_eq!(lengths(&with(&[100, 36, 100])), [[104, 104, 100]]);
        assert_eq!(lengths(&with(&[32, 32, 40])), [vec![32, 32], vec![40]]);
        assert_eq!(lengths(&with(&[1472, 32, 1472])), [[1472], [32], [1472]]);
        assert_eq!(lengths(&with(&[32, 161])), [[32], [161]]);
    }

    #[test]
    fn answers_to_different_peers_leave_apart() {
        let mut answers = Answers::default();
        for port in [1, 1, 2, 1] {
            answers.push(&port, &[0; 32], &PLAIN);
        }
        assert_eq!(lengths(&answers), [vec![32, 32], vec![32], vec![32]]);
        let peers: Vec<_> = answers.groups().map(|(to, ..)| *to).collect();
        assert_eq!(peers, [1, 2, 1]);
    }

    #[test]
    fn no_group_is_longer_than_what_can_be_sent_together() {
        for len in [32, 1024, 1472] {
            let mut answers = Answers::default();
            for _ in 0..100 {
                answers.push(&1, &vec![1; len], &PLAIN);
            }
            for (_, bytes, segment) in answers.groups() {
                assert!(bytes.len() <= MAX_SEGMENTS_LEN && bytes.len() <= MAX_SEGMENTS * segment);
            }
        }
    }

    #[test]
    fn cleared_answers_are_none() {
        let mut answers = with(&[32, 36]);
        answers.clear();
        assert!(answers.groups().next().is_none());
    }
}
