//! Room for packets that leave together, each with space for its frame's header before it.

use crate::frame::{OVERHEAD, Template, content_len, frame_len, together};
use crate::memory::{Chunk, Umem};
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use stoop_net::packets::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, Segments};

/// Room for packets that leave together: frames that an AF_XDP socket lends, or memory of its own.
#[derive(Debug, Default)]
pub struct Room {
    /// Frames one behind the other. Used unless there are chunks.
    own: Vec<u8>,
    umem: Option<Arc<Umem>>,
    chunks: Vec<Chunk>,
    len: usize,
    /// Bytes of packets in each frame.
    in_frame: usize,
    /// Bytes of each packet.
    segment: usize,
}

/// The positions of packets, by their frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    packets: usize,
    in_frame: usize,
}

impl Positions {
    /// The positions of the packets in the frame of this number.
    pub(crate) fn of_frame(self, number: usize) -> Range<usize> {
        let first = number * self.in_frame;
        first..(first + self.in_frame).min(self.packets)
    }
}

impl Room {
    /// Room in frames of this socket.
    pub(crate) fn lent_by(umem: &Arc<Umem>) -> Self {
        let mut room = Self::default();
        room.umem = Some(Arc::clone(umem));
        room
    }

    /// The memory whose frames it uses.
    pub(crate) fn lender(&self) -> Option<&Arc<Umem>> {
        self.umem.as_ref()
    }

    /// One slice for each packet: `len` bytes in all, `segment` bytes in each packet except the last, which
    /// has the rest. Their content is arbitrary.
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`] packets or [`MAX_SEGMENTS_LEN`] bytes, or `segment` is 0.
    pub fn packets(&mut self, len: usize, segment: usize) -> impl Iterator<Item = &mut [u8]> {
        assert!(
            len <= MAX_SEGMENTS_LEN.min(MAX_SEGMENTS.saturating_mul(segment)),
            "packets that can be sent together"
        );
        (self.len, self.in_frame, self.segment) = (len, segment, segment);
        self.make_frames();
        self.contents()
    }

    /// The packets of each frame.
    fn contents(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let lens = lens(self.len, self.in_frame);
        self.frames().zip(lens).map(|(frame, len)| &mut frame[OVERHEAD..OVERHEAD + len])
    }

    /// Bytes between the beginnings of two frames of our own memory.
    fn stride(&self) -> usize {
        self.frame_len_max().next_multiple_of(8)
    }

    fn frame_len_max(&self) -> usize {
        frame_len(content_len(self.packets_of_frame(self.in_frame)))
    }

    /// `len` bytes of packets.
    fn packets_of_frame(&self, len: usize) -> Segments {
        Segments { len, segment: self.segment }
    }

    fn make_frames(&mut self) {
        let count = self.len.div_ceil(self.in_frame.max(1));
        if let Some(umem) = &self.umem {
            if self.frame_len_max() <= umem.chunk_len() {
                umem.sending().take(&mut self.chunks, count);
                if self.chunks.len() >= count {
                    return;
                }
            }
            umem.sending().give_back(self.chunks.drain(..));
        }
        let needed = count * self.stride();
        if self.own.len() < needed {
            self.own.resize(needed, 0);
        }
    }

    fn frames(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let stride = self.stride();
        let own = if self.chunks.is_empty() { &mut self.own[..] } else { &mut [] };
        let umem = &self.umem;
        let lent = self.chunks.iter_mut().filter_map(|chunk| umem.as_ref().map(|umem| umem.bytes_mut(chunk)));
        own.chunks_exact_mut(stride).chain(lent)
    }

    /// Completes the frames by `template`: one slice for each.
    pub(crate) fn complete(&mut self, template: &Template) -> impl Iterator<Item = &mut [u8]> {
        let (lens, segment) = (lens(self.len, self.in_frame), self.segment);
        self.frames().zip(lens).map(move |(frame, len)| {
            let frame_len = template.complete_several(frame, Segments { len, segment });
            &mut frame[..frame_len]
        })
    }

    /// The chunks in which the packets lie, and the length of each frame. Empty if they lie in memory of our
    /// own. The packets then belong to the caller, and the room is empty.
    pub(crate) fn take_chunks(&mut self) -> impl Iterator<Item = (Chunk, usize)> {
        let segment = self.segment;
        let lens = lens(self.len, self.in_frame);
        let lens = lens.map(move |len| frame_len(content_len(Segments { len, segment })));
        // Chunks beyond the packets are kept for next time.
        let count = self.len.div_ceil(self.in_frame.max(1)).min(self.chunks.len());
        self.chunks.drain(..count).zip(lens)
    }

    /// The positions of the packets.
    pub(crate) fn positions(&self) -> Positions {
        let segment = self.segment.max(1);
        Positions { packets: self.len.div_ceil(segment), in_frame: self.in_frame / segment }
    }

    /// Bytes of the longest packet.
    pub(crate) fn longest(&self) -> usize {
        self.segment.min(self.len)
    }

    /// Whether the packets lie in chunks.
    pub(crate) fn is_lent(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Copies packets into the room: `pieces` one behind the other, cut every `segment` bytes. Several go into a
    /// frame if it has room for them, which has `largest` bytes.
    ///
    /// # Panics
    ///
    /// As [`packets`](Self::packets).
    pub(crate) fn gather<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        segment: usize,
        largest: usize,
    ) {
        let len = pieces.clone().map(<[u8]>::len).sum();
        assert!(
            len <= MAX_SEGMENTS_LEN.min(MAX_SEGMENTS.saturating_mul(segment)),
            "packets that can be sent together"
        );
        (self.len, self.in_frame, self.segment) = (len, segment * together(segment, largest), segment);
        self.make_frames();
        let mut pieces = pieces.filter(|piece| !piece.is_empty());
        let mut piece: &[u8] = &[];
        for content in self.contents() {
            let mut rest = content;
            while !rest.is_empty() {
                if piece.is_empty() {
                    piece = pieces.next().expect("the pieces have as many bytes as the packets");
                }
                let copied = piece.len().min(rest.len());
                rest[..copied].copy_from_slice(&piece[..copied]);
                (piece, rest) = (&piece[copied..], &mut rest[copied..]);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(umem) = &self.umem {
            umem.sending().give_back(self.chunks.drain(..));
        }
    }
}

/// The lengths of packets of `len` bytes in all, `segment` bytes each.
fn lens(len: usize, segment: usize) -> impl Iterator<Item = usize> {
    let mut rest = len;
    iter::from_fn(move || {
        let next = rest.min(segment);
        rest -= next;
        (next > 0).then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::frame::{Checksum, EtherType, Frame};

    fn packets_of(room: &mut Room) -> Vec<Vec<u8>> {
        let template = Template::new(
            Address { port: 1, ..Address::default() },
            Address { port: 2, ..Address::default() },
            EtherType::default(),
            Checksum::Computed,
        );
        let frames = room.complete(&template);
        frames.map(|frame| Frame::parse(frame, EtherType::default()).unwrap().packets().to_vec()).collect()
    }

    fn rooms() -> [(&'static str, Room); 3] {
        let [umem, scarce] = [64, 2].map(|chunks| Arc::new(Umem::new(2048, chunks).unwrap()));
        [("own", Room::default()), ("lent", Room::lent_by(&umem)), ("scarce", Room::lent_by(&scarce))]
    }

    #[test]
    fn packets_lie_in_frames_with_their_bytes() {
        for (kind, mut room) in rooms() {
            for (len, segment) in [(1, 1), (100, 1440), (4 * 1440 + 7, 1440), (64 * 9, 9), (65_507, 1100)] {
                let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
                for (packet, from) in room.packets(len, segment).zip(bytes.chunks(segment)) {
                    packet.copy_from_slice(from);
                }
                assert!(packets_of(&mut room).iter().eq(bytes.chunks(segment)), "{kind} {len} {segment}");
            }
        }
    }

    #[test]
    fn pieces_are_gathered_and_cut() {
        for (kind, mut room) in rooms() {
            let pieces = [&[1; 5][..], &[], &[2; 10], &[3; 1]];
            room.gather(pieces.into_iter(), 6, 11);
            assert_eq!(
                packets_of(&mut room),
                [[1, 1, 1, 1, 1, 2].to_vec(), vec![2; 6], vec![2, 2, 2, 3]],
                "{kind}"
            );
        }
    }

    #[test]
    fn small_packets_share_frames() {
        for (kind, mut room) in rooms() {
            let bytes: Vec<u8> = (0..75).collect();
            room.gather([&bytes[..40], &bytes[40..]].into_iter(), 10, 32);
            let positions = room.positions();
            assert_eq!(packets_of(&mut room), [&bytes[..30], &bytes[30..60], &bytes[60..]], "{kind}");
            assert_eq!([0, 1, 2].map(|frame| positions.of_frame(frame)), [0..3, 3..6, 6..8], "{kind}");
        }
    }

    #[test]
    fn room_gives_its_chunks_back() {
        let umem = Arc::new(Umem::new(2048, 4).unwrap());
        let mut room = Room::lent_by(&umem);
        assert_eq!(room.packets(4, 1).count(), 4);
        assert!(umem.sending().take_one().is_none());
        assert_eq!(room.packets(1, 1).count(), 1, "a smaller message keeps the chunks");
        assert_eq!(room.take_chunks().count(), 1);
        drop(room);
        let mut free = Vec::new();
        umem.sending().take(&mut free, 9);
        assert_eq!(free.len(), 3, "one belongs to the kernel");
    }
}
