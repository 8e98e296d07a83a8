//! The memory for frames of an AF_XDP socket ("umem"), cut into chunks of equal size.
//!
//! The first half of the chunks receives and belongs to the kernel, which returns each with a frame in it.
//! The other half sends: a chunk is free, or held by a [`Chunk`], or belongs to the kernel until it is in the
//! completion ring.

#![allow(unsafe_code)]

use crate::memory::{Consumer, Mapping};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory and its chunks for sending.
#[derive(Debug)]
pub(crate) struct Umem {
    mapping: Mapping,
    chunk_len: usize,
    sending: Mutex<Sending>,
}

#[derive(Debug)]
struct Sending {
    free: Vec<Chunk>,
    /// Chunks that the kernel has sent.
    completed: Option<Consumer<u64>>,
}

/// A chunk for sending. The holder alone uses it: there is one value for each chunk, and it cannot be copied.
#[derive(Debug)]
pub(crate) struct Chunk(usize);

impl Umem {
    /// Memory for `chunks` chunks to receive, and as many to send.
    pub(crate) fn new(chunk_len: usize, chunks: usize) -> Result<Self, rustix::io::Errno> {
        assert!(chunk_len.is_power_of_two(), "the size of a chunk");
        let mapping = Mapping::of_process(2 * chunks * chunk_len)?;
        let free = (chunks..2 * chunks).map(Chunk).collect();
        Ok(Self { mapping, chunk_len, sending: Mutex::new(Sending { free, completed: None }) })
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    /// From now on the kernel returns chunks in this ring.
    pub(crate) fn set_completed(&self, completed: Consumer<u64>) {
        self.sending().completed = Some(completed);
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes free chunks until `chunks` has `count`. There may be fewer.
    pub(crate) fn take(&self, chunks: &mut Vec<Chunk>, count: usize) {
        let mut sending = self.sending();
        sending.reclaim(self.chunk_len);
        let rest = sending.free.len().saturating_sub(count.saturating_sub(chunks.len()));
        chunks.extend(sending.free.drain(rest..));
    }

    /// Takes a free chunk.
    #[inline]
    pub(crate) fn take_one(&self) -> Option<Chunk> {
        let mut sending = self.sending();
        // The chunk that was used last is most likely in the processor's cache.
        sending.reclaim(self.chunk_len);
        sending.free.pop()
    }

    /// Gives chunks back that have not been sent.
    pub(crate) fn give_back(&self, chunks: impl IntoIterator<Item = Chunk>) {
        self.sending().free.extend(chunks);
    }

    /// The bytes of a chunk.
    #[inline]
    pub(crate) fn bytes_mut<'a>(&'a self, chunk: &'a mut Chunk) -> &'a mut [u8] {
        // SAFETY: the only `Chunk` of this number is borrowed mutably as long as the slice lives, and the
        // kernel has nothing to do with a chunk before `address_of` has consumed it.
        unsafe { self.mapping.bytes_mut(chunk.0 * self.chunk_len, self.chunk_len) }
    }

    /// Gives a chunk to the kernel: its address, for a descriptor of the transmit ring.
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "the chunk no longer belongs to the caller")]
    pub(crate) fn address_of(&self, chunk: Chunk) -> u64 {
        (chunk.0 * self.chunk_len) as u64
    }

    /// The addresses of the chunks that receive.
    pub(crate) fn receiving(&self) -> impl Iterator<Item = u64> {
        let chunks: Range<usize> = 0..self.mapping.len() / self.chunk_len / 2;
        chunks.map(|chunk| (chunk * self.chunk_len) as u64)
    }

    /// A frame that the kernel has received.
    ///
    /// # Safety
    ///
    /// The kernel has named these bytes in a descriptor of the receive ring, and gets the chunk back only
    /// after the slice has ended.
    #[inline]
    pub(crate) unsafe fn received(&self, address: u64, len: u32) -> &[u8] {
        // SAFETY: as the caller vouches; no `Chunk` exists for a chunk that receives.
        unsafe { self.mapping.bytes(address as usize, len as usize) }
    }
}

impl Sending {
    /// Takes back what the kernel has sent.
    fn reclaim(&mut self, chunk_len: usize) {
        let Some(completed) = &mut self.completed else { return };
        while let Some(address) = completed.front() {
            completed.pop();
            self.free.push(Chunk(address as usize / chunk_len));
        }
    }
}
