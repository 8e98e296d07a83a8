//! Memory that the driver provides for packets that the server sends together.

use alloc::sync::Arc;
use alloc::vec::Vec;
use stoop_wire::HEADER_LEN;

/// Memory for packets that leave together: a buffer, or the frames of a network.
pub trait PacketRoom {
    /// Has `write` fill one slice for each packet, in order: `len` bytes in all, `segment` bytes in each packet except the last, which
    /// has the rest. Before that, their content is arbitrary.
    fn put(&mut self, len: usize, segment: usize, write: impl FnMut(&mut [u8]));

    /// The list to which the parts of such packets are added, if they can leave from where they lie: then nothing is put. `None`: they
    /// are put.
    fn gather(&mut self, _len: usize, _segment: usize) -> Option<&mut Vec<Part>> {
        None
    }
}

/// Bytes in memory that a driver shares with a pipe, and with its packets while they are being sent.
#[derive(Clone, Debug)]
pub struct Piece {
    memory: Arc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl Piece {
    /// All of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { start: 0, end: bytes.len(), memory: Arc::new(bytes) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// The `len` bytes from `from` on.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn part(&self, from: usize, len: usize) -> Self {
        let (start, end) = (self.start + from, self.start + from + len);
        assert!(end <= self.end, "a part of the piece");
        Self { memory: Arc::clone(&self.memory), start, end }
    }

    /// Adds the first `len` bytes of `next`, if they lie behind these in the same memory. Returns whether they do.
    pub(crate) fn continue_with(&mut self, next: &Self, len: usize) -> bool {
        let continues = Arc::ptr_eq(&self.memory, &next.memory) && self.end == next.start;
        if continues {
            self.end += len;
        }
        continues
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// A part of packets whose parts are gathered when they are sent.
#[derive(Clone, Debug)]
pub enum Part {
    /// The header of the next packet.
    Header([u8; HEADER_LEN]),
    /// Bytes of that packet, behind its header and those before.
    Bytes(Piece),
}

impl Part {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(header) => header,
            Self::Bytes(piece) => piece.bytes(),
        }
    }
}

/// The packets lie one behind the other.
impl PacketRoom for Vec<u8> {
    fn put(&mut self, len: usize, segment: usize, write: impl FnMut(&mut [u8])) {
        self.resize(len, 0);
        self.chunks_mut(segment).for_each(write);
    }
}
