//! Bytes of a pipe that have not arrived yet, in the pieces in which they were added.

use super::bytes::Bytes;
use crate::room::Piece;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes that are added to a pipe.
#[derive(Clone, Copy, Debug)]
pub enum Added<'a> {
    /// The pipe copies them.
    Copied(&'a [u8]),
    /// The pipe shares them until they have arrived.
    Shared(&'a Piece),
}

impl Added<'_> {
    /// How many they are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Shared(piece) => piece.len(),
        }
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Added<'a> {
    fn from(bytes: &'a B) -> Self {
        Self::Copied(bytes.as_ref())
    }
}

/// Bytes from an offset on, one behind the other: pieces that are shared, and behind them bytes that were copied.
#[derive(Debug)]
pub(super) struct Chunks {
    /// Offset of the first byte. Of the first piece bytes before it may be left.
    at: u64,
    /// Each with the offset of its first byte. Most pipes have none, and an empty queue is larger than a pointer.
    #[allow(clippy::box_collection)]
    pieces: Option<Box<VecDeque<(u64, Piece)>>>,
    tail: Bytes,
}

impl Chunks {
    pub(super) fn new(at: u64) -> Self {
        Self { at, pieces: None, tail: Bytes::new(at) }
    }

    pub(super) fn len(&self) -> usize {
        (self.tail.end() - self.at) as usize
    }

    /// Bytes of memory in use.
    pub(super) fn capacity(&self) -> usize {
        self.tail.capacity()
            + self.pieces.iter().flat_map(|all| all.iter()).map(|(_, piece)| piece.len()).sum::<usize>()
    }

    /// Adds the first `len` of these bytes to the end. Returns whether there was memory for them.
    pub(super) fn append(&mut self, bytes: Added<'_>, len: usize) -> bool {
        match bytes {
            Added::Copied(bytes) => self.tail.append(&bytes[..len]),
            Added::Shared(piece) => {
                self.share_tail();
                let end = self.tail.end();
                // A receiver that raises its limit byte by byte makes no piece of each.
                let pieces = self.pieces.get_or_insert_default();
                let is_continued = pieces.back_mut().is_some_and(|(_, last)| last.continue_with(piece, len));
                if !is_continued {
                    pieces.push_back((end, piece.part(0, len)));
                }
                self.tail = Bytes::new(end + len as u64);
                true
            }
        }
    }

    /// The bytes that were copied become a piece.
    fn share_tail(&mut self) {
        if self.tail.len() > 0 {
            let (at, end, mut bytes) = (self.tail.at(), self.tail.end(), Vec::new());
            self.tail.move_to(end, &mut bytes);
            self.pieces.get_or_insert_default().push_back((at, Piece::new(bytes)));
        }
    }

    /// The pieces that have bytes from `offset` on, before `end`, and which of their bytes those are: from where on, and how many.
    fn pieces_in(&self, offset: u64, end: u64) -> impl Iterator<Item = (&Piece, usize, usize)> {
        let end = end.min(self.tail.at());
        let behind = self.pieces.iter().flat_map(move |pieces| {
            let first = pieces.partition_point(|(at, piece)| at + piece.len() as u64 <= offset);
            pieces.range(first..)
        });
        behind.take_while(move |(at, _)| *at < end).map(move |(at, piece)| {
            let from = offset.saturating_sub(*at) as usize;
            let to = piece.len().min((end - at) as usize);
            (piece, from, to - from)
        })
    }

    /// Copies the bytes from `offset` on.
    pub(super) fn copy_to(&self, offset: u64, mut out: &mut [u8]) {
        let end = offset + out.len() as u64;
        let mut put = |bytes: &[u8]| {
            let (here, behind) = core::mem::take(&mut out).split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            out = behind;
        };
        self.pieces_in(offset, end).for_each(|(piece, from, len)| put(&piece.bytes()[from..from + len]));
        let from = offset.max(self.tail.at());
        if from < end {
            put(self.tail.slice(from, (end - from) as usize));
        }
    }

    /// Whether the `len` bytes from `offset` on lie in pieces.
    pub(super) fn is_shared(&self, offset: u64, len: usize) -> bool {
        offset + len as u64 <= self.tail.at()
    }

    /// These pieces.
    pub(super) fn shared(&self, offset: u64, len: usize) -> impl Iterator<Item = Piece> {
        let parts = self.pieces_in(offset, offset + len as u64);
        parts.map(|(piece, from, len)| piece.part(from, len))
    }

    /// Frees the bytes before `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        self.at = self.at.max(offset);
        if let Some(pieces) = &mut self.pieces {
            while pieces.front().is_some_and(|(at, piece)| at + piece.len() as u64 <= offset) {
                pieces.pop_front();
            }
            self.pieces.take_if(|pieces| pieces.is_empty());
        }
        self.tail.release(offset);
    }

    /// All bytes.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; self.len()];
        self.copy_to(self.at, &mut bytes);
        bytes
    }
}
