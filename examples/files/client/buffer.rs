//! Memory for the piece that a thread of a transfer copies.

use stoop::InPlace;
use stoop_examples::files::{FilesClient, piece};

/// Memory of one piece.
pub(crate) enum Buffer {
    /// Only this process has it.
    Private(Vec<u8>),
    /// The server has mapped it too, so that a piece is not copied between the processes.
    Shared {
        memory: InPlace<u8>,
        /// The copy that is written to the file: the server cannot change it.
        copy: Vec<u8>,
    },
}

impl Buffer {
    /// Empty memory.
    pub(crate) fn new() -> Self {
        Self::Private(vec![])
    }

    fn len(&self) -> usize {
        match self {
            Self::Private(bytes) => bytes.len(),
            Self::Shared { memory, .. } => memory.len(),
        }
    }

    /// Makes it as long as the next piece, whose file is of this server.
    pub(crate) fn fit(&mut self, len: usize, files: &FilesClient) {
        if self.len() != len {
            *self = match files.in_place(len) {
                Ok(shared) if shared.is_shared() => Self::Shared { memory: shared, copy: vec![0; len] },
                _ => Self::Private(vec![0; len]),
            };
        }
    }

    /// The bytes that the server has put there, and their checksum.
    pub(crate) fn received(&mut self) -> (&[u8], u32) {
        match self {
            Self::Private(bytes) => (bytes, piece::checksum(bytes)),
            Self::Shared { memory, copy } => {
                let checksum = piece::copy_out(memory, copy);
                (copy, checksum)
            }
        }
    }
}
