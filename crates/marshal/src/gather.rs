//! Arguments that stay in the caller's memory: a large call takes them from there, and a large result lands there.
//!
//! A message of many packets is put together from the bytes in its call packet and from *pieces*, which are lent by the
//! stub of a blocking call for as long as the call takes. So are the places of what comes back: a scalar array or slice
//! that a procedure writes in place comes first in a result, so that its place there is known before.

use zerocopy::IntoBytes;

use crate::layout::align_up;
use crate::writer::align_of_wire;
use crate::{Scalar, Writer};

/// Scalars of this many bytes and more are lent where the transport can take them from where they are. More than a
/// packet, so that what fits into one is always all in the call packet. On a big-endian machine none are, for they
/// travel otherwise than they lie.
pub const LENT_MIN: usize = if cfg!(target_endian = "little") { 2048 } else { usize::MAX };

/// An argument of scalars in the caller's memory.
pub struct Piece<'a> {
    memory: Memory<'a>,
    /// Where it lies in the payload of the call, if it travels there and is not in the call packet.
    in_call: Option<usize>,
    /// Where it lies in the payload of the result, if it comes back.
    in_result: Option<usize>,
}

enum Memory<'a> {
    Read(&'a [u8]),
    /// What of it travels with the call must have arrived before anything of the result is here.
    Written(&'a mut [u8]),
}

impl<'a> Piece<'a> {
    /// One that travels with the call.
    #[inline]
    pub fn input<S: Scalar>(values: &'a [S]) -> Self {
        Self { memory: Memory::Read(values.as_bytes()), in_call: None, in_result: None }
    }

    /// One that the result brings, whether or not it travels with the call.
    #[inline]
    pub fn scatter_len<S: Scalar>(values: &'a mut [S]) -> Self {
        Self { memory: Memory::Written(values.as_mut_bytes()), in_call: None, in_result: None }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Read(bytes) => bytes,
            Memory::Written(bytes) => bytes,
        }
    }
}

/// The pieces of one call, in the order of the arguments.
pub struct GatherList<'p, 'a> {
    pieces: &'p mut [Piece<'a>],
    /// Whether they may stay out of the call packet.
    are_lent: bool,
    /// Bytes of the call's payload that are not in its packet.
    lent_len: usize,
    /// Where the places for what comes back end in the payload of the result.
    scatter_end: usize,
    /// Something has scattered where bytes of the call were.
    are_overwritten: bool,
}

impl<'p, 'a> GatherList<'p, 'a> {
    /// Of these arguments. `are_lent` is whether the transport takes them from where they are; otherwise they are
    /// copied into the call packet like all others.
    #[inline]
    pub fn new(pieces: &'p mut [Piece<'a>], are_lent: bool) -> Self {
        Self { pieces, are_lent, lent_len: 0, scatter_end: 0, are_overwritten: false }
    }

    /// Of a call of which everything is in its packet.
    #[inline]
    pub fn none() -> Self {
        Self::new(&mut [], false)
    }

    /// Writes a piece of `S` as a sequence: its count and its elements.
    pub fn sequence<S: Scalar>(&mut self, index: usize, writer: &mut Writer<'_>) {
        self.capacity::<S>(index, writer);
        self.elements::<S>(index, writer);
    }

    /// Writes how many `S` a piece has room for.
    pub fn capacity<S: Scalar>(&self, index: usize, writer: &mut Writer<'_>) {
        writer.count(self.pieces[index].bytes().len() / size_of::<S>());
    }

    /// Writes the elements of a piece of `S`, or the place for them.
    pub fn elements<S: Scalar>(&mut self, index: usize, writer: &mut Writer<'_>) {
        let piece = &mut self.pieces[index];
        let bytes = piece.bytes();
        if self.are_lent && bytes.len() >= LENT_MIN {
            self.lent_len += bytes.len();
            piece.in_call = Some(writer.lent(align_of_wire::<S>(), bytes.len()));
        } else if let Some(chunk) =
            writer.chunk(if bytes.is_empty() { 1 } else { align_of_wire::<S>() }, bytes.len())
        {
            chunk.copy_from_slice(bytes);
        }
    }

    /// Takes the next place in the payload of the result for a piece of `S`.
    pub fn place<S: Scalar>(&mut self, index: usize) {
        let piece = &mut self.pieces[index];
        let len = piece.bytes().len();
        if len > 0 {
            let at = align_up(self.scatter_end, align_of_wire::<S>());
            piece.in_result = Some(at);
            self.scatter_end = at + len;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether parts of a result have scattered where arguments were that are not in the call packet: they cannot be sent
    /// again.
    pub fn are_overwritten(&self) -> bool {
        self.are_overwritten
    }

    /// Bytes of the call's payload that are not in its packet.
    pub fn lent_len(&self) -> usize {
        self.lent_len
    }

    /// Where the places for what comes back end in the payload of the result.
    pub fn scatter_end(&self) -> usize {
        self.scatter_end
    }

    /// Gives `each` the bytes of a call's payload from `offset` to `end` where they lie, one stretch after the other;
    /// `inline` is what is in the call packet.
    #[inline]
    pub fn stretches<'s>(
        &'s self,
        inline: &'s [u8],
        mut offset: usize,
        end: usize,
        mut each: impl FnMut(&'s [u8]),
    ) {
        // Moves on over what `from` has of those wanted, where it begins at `at`.
        let mut take = |at: usize, from: &'s [u8]| {
            let Some(from) = offset.checked_sub(at).and_then(|skipped| from.get(skipped..)) else { return };
            let from = &from[..from.len().min(end - offset)];
            if !from.is_empty() {
                each(from);
                offset += from.len();
            }
        };
        // Where the inline bytes after the pieces so far begin, in the payload and in `inline`.
        let (mut at, mut told) = (0, 0);
        for piece in self.pieces.iter() {
            let Some(begin) = piece.in_call else { continue };
            let between = begin - at;
            take(at, &inline[told..told + between]);
            take(begin, piece.bytes());
            (at, told) = (begin + piece.bytes().len(), told + between);
        }
        take(at, &inline[told..]);
        assert_eq!(offset, end, "the payload is as long as its fragments");
    }

    /// Copies the bytes of a call's payload from `offset` on into `chunk`, where `inline` is what is in its packet.
    ///
    /// # Panics
    /// If the payload ends before.
    #[inline]
    pub fn gather(&self, inline: &[u8], offset: usize, mut chunk: &mut [u8]) {
        self.stretches(inline, offset, offset + chunk.len(), |stretch| {
            let (now, rest) = core::mem::take(&mut chunk).split_at_mut(stretch.len());
            now.copy_from_slice(stretch);
            chunk = rest;
        });
    }

    /// Where bytes `from..to` of a result's payload belong, if all of them belong to one piece; they will be overwritten.
    pub fn memory_at(&mut self, from: usize, to: usize) -> Option<&mut [u8]> {
        for piece in self.pieces.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (piece.in_result, &mut piece.memory) else { continue };
            if at <= from && to <= at + bytes.len() {
                self.are_overwritten |= piece.in_call.is_some();
                return Some(&mut bytes[from - at..to - at]);
            }
        }
        None
    }

    /// Gives `each` the bytes of a result's payload from `offset` to `end`, one stretch after the other: where they belong in the
    /// caller's memory, or, where none of it does, how many bytes that is.
    pub fn places(&mut self, mut offset: usize, end: usize, mut each: impl FnMut(Result<&mut [u8], usize>)) {
        for piece in self.pieces.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (piece.in_result, &mut piece.memory) else { continue };
            let (from, to) = (at.max(offset), end.min(at + bytes.len()));
            if from < to {
                if offset < from {
                    each(Err(from - offset));
                }
                self.are_overwritten |= piece.in_call.is_some();
                each(Ok(&mut bytes[from - at..to - at]));
                offset = to;
            }
        }
        if offset < end {
            each(Err(end - offset));
        }
    }

    /// Copies into their places what of `chunk`, which begins at `offset` of a result's payload, belongs there. What is
    /// beyond [`scatter_end`](Self::scatter_end) belongs elsewhere.
    pub fn scatter(&mut self, offset: usize, chunk: &[u8]) {
        let end = offset + chunk.len();
        for piece in self.pieces.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (piece.in_result, &mut piece.memory) else { continue };
            let (from, to) = (at.max(offset), end.min(at + bytes.len()));
            if from < to {
                self.are_overwritten |= piece.in_call.is_some();
                bytes[from - at..to - at].copy_from_slice(&chunk[from - offset..to - offset]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with inline bytes before, between and after two lent pieces.
    fn call<'p, 'a>(
        pieces: &'p mut [Piece<'a>],
        packet: &mut Vec<u8>,
        are_lent: bool,
    ) -> (GatherList<'p, 'a>, usize) {
        let mut pieces = GatherList::new(pieces, are_lent);
        let mut writer = Writer::new(packet, 0, 1 << 20);
        writer.fixed(&7u8);
        pieces.sequence::<u64>(0, &mut writer);
        writer.text("between");
        pieces.elements::<u8>(1, &mut writer);
        pieces.capacity::<u16>(2, &mut writer);
        let len = writer.finish().unwrap();
        (pieces, len)
    }

    fn arguments() -> (Vec<u64>, Vec<u8>, Vec<u16>) {
        let words = (0..400).map(|i| i * 0x0101_0101_0107).collect();
        let bytes = (0..3000).map(|i| (i % 251) as u8).collect();
        (words, bytes, vec![0; 2000])
    }

    #[test]
    fn what_is_gathered_is_what_would_have_been_written() {
        let (words, bytes, mut out) = arguments();
        let mut whole = Vec::new();
        let mut copied = [Piece::input(&words), Piece::input(&bytes), Piece::scatter_len(&mut out)];
        let (_, whole_len) = call(&mut copied, &mut whole, false);
        whole.truncate(whole_len);

        let mut packet = vec![0xaa; 10_000];
        let mut lent = [Piece::input(&words), Piece::input(&bytes), Piece::scatter_len(&mut out)];
        let (pieces, len) = call(&mut lent, &mut packet, true);
        assert_eq!((len, pieces.lent_len()), (whole.len(), 6200));
        for size in [1, 7, 1440, 2048, len] {
            for offset in (0..len).step_by(size) {
                let mut chunk = vec![0; size.min(len - offset)];
                pieces.gather(&packet[..len - pieces.lent_len()], offset, &mut chunk);
                assert_eq!(chunk, whole[offset..][..chunk.len()], "{size} bytes at {offset}");
            }
        }
    }

    #[test]
    fn what_is_scattered_lands_in_its_place() {
        let (mut words, _, mut halves) = arguments();
        let (mut none, mut odd) = ([0u128; 0], [1u8; 3]);
        let mut pieces = [
            Piece::scatter_len(&mut odd),
            Piece::scatter_len(&mut none),
            Piece::scatter_len(&mut words),
            Piece::scatter_len(&mut halves),
        ];
        let mut pieces = GatherList::new(&mut pieces, true);
        pieces.place::<u8>(0);
        pieces.place::<u128>(1);
        pieces.place::<u64>(2);
        pieces.place::<u16>(3);
        assert_eq!(pieces.scatter_end(), 8 + 3200 + 4000);
        let result: Vec<u8> = (0..7300).map(|i| (i % 241) as u8).collect();
        for (index, chunk) in result.chunks(1000).enumerate() {
            pieces.scatter(1000 * index, chunk);
        }
        assert_eq!(odd, result[..3]);
        assert_eq!(words.as_bytes(), &result[8..3208]);
        assert_eq!(halves.as_bytes(), &result[3208..7208]);
    }

    #[test]
    fn places_are_given_in_order_with_what_lies_between() {
        let (mut odd, mut words) = ([0u8; 3], [0u64; 4]);
        let mut pieces = [Piece::scatter_len(&mut odd), Piece::scatter_len(&mut words)];
        let mut pieces = GatherList::new(&mut pieces, true);
        pieces.place::<u8>(0);
        pieces.place::<u64>(1);
        let mut told = Vec::new();
        for (start, end) in [(0, 2), (2, 20), (20, 50)] {
            pieces.places(start, end, |place| match place {
                Ok(place) => {
                    place.fill(7);
                    told.push((true, place.len()));
                }
                Err(len) => told.push((false, len)),
            });
        }
        let expected = [(true, 2), (true, 1), (false, 5), (true, 12), (true, 20), (false, 10)];
        assert_eq!(told, expected);
        assert_eq!((odd, words), ([7; 3], [0x0707_0707_0707_0707; 4]));
    }

    #[test]
    fn what_lands_on_lent_arguments_overwrites_them() {
        let (mut small, mut large) = ([0u8; 100], [0u8; 5000]);
        let mut out = [0u8; 3000];
        let mut pieces =
            [Piece::scatter_len(&mut small), Piece::scatter_len(&mut large), Piece::scatter_len(&mut out)];
        let mut pieces = GatherList::new(&mut pieces, true);
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 0, 1 << 20);
        pieces.elements::<u8>(0, &mut writer);
        pieces.elements::<u8>(1, &mut writer);
        (0..3).for_each(|index| pieces.place::<u8>(index));
        pieces.scatter(0, &[1; 100]);
        pieces.scatter(5100, &[1; 3000]);
        assert!(!pieces.are_overwritten(), "one was copied, one does not travel");
        pieces.scatter(5000, &[1; 200]);
        assert!(pieces.are_overwritten());
    }

    #[test]
    fn memory_for_a_stretch_is_that_of_the_one_piece_that_has_all_of_it() {
        let (mut one, mut other) = ([0u8; 100], [0u8; 100]);
        let mut pieces = [Piece::scatter_len(&mut one), Piece::scatter_len(&mut other)];
        let mut pieces = GatherList::new(&mut pieces, true);
        (0..2).for_each(|index| pieces.place::<u8>(index));
        pieces.memory_at(90, 100).expect("its last bytes").fill(1);
        pieces.memory_at(100, 200).expect("all of the second").fill(2);
        assert!(pieces.memory_at(90, 101).is_none() && pieces.memory_at(190, 201).is_none());
        assert_eq!((one[89], one[90], one[99], other), (0, 1, 1, [2; 100]));
    }

    #[test]
    fn lent_bytes_count_against_the_limit() {
        let bytes = vec![0u8; 5000];
        let mut pieces = [Piece::input(&bytes)];
        let mut pieces = GatherList::new(&mut pieces, true);
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 32, 5003);
        pieces.sequence::<u8>(0, &mut writer);
        assert!(matches!(
            writer.finish(),
            Err(crate::EncodeError::TooLarge { needed_at_least: 5004, limit: 5003 })
        ));
    }
}
