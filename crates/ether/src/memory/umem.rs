//! The memory for frames of an AF_XDP socket ("umem"), cut into chunks of equal size.
//!
//! The first half of the chunks receives and belongs to the kernel, which returns each with a frame in it.
//! The other half sends: a chunk is free, or held by a [`Chunk`], or belongs to the kernel until it is in the
//! completion ring.

#![allow(unsafe_code)]

use crate::memory::{Consumer, Mapping, Producer};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory and its chunks for sending.
#[derive(Debug)]
pub(crate) struct Umem {
    mapping: Mapping,
    chunk_len: usize,
    sending: Mutex<Sending>,
}

/// The chunks that send, and the rings by which they go to the kernel and come back.
pub(crate) struct Sending {
    chunk_len: usize,
    free: Vec<Chunk>,
    /// For each chunk, whether the kernel has it to send.
    with_kernel: Vec<bool>,
    rings: Option<(Producer<XdpDesc>, Consumer<u64>)>,
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Thousands of chunks say nothing.
        f.debug_struct("Sending").field("free", &self.free.len()).finish_non_exhaustive()
    }
}

/// A chunk for sending. The holder alone uses it: there is one value for each chunk, and it cannot be copied.
#[derive(Debug)]
pub(crate) struct Chunk(usize);

impl Umem {
    /// Memory for `chunks` chunks to receive, and as many to send.
    pub(crate) fn new(chunk_len: usize, chunks: usize) -> Result<Self, Errno> {
        assert!(chunk_len.is_power_of_two(), "the size of a chunk");
        let mapping = Mapping::of_process(2 * chunks * chunk_len)?;
        let free = (chunks..2 * chunks).map(Chunk).collect();
        let sending = Sending { chunk_len, free, with_kernel: vec![false; 2 * chunks], rings: None };
        Ok(Self { mapping, chunk_len, sending: Mutex::new(sending) })
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    /// From now on chunks go to the kernel by one ring, which has a place for each, and come back by the
    /// other. Chunks that the socket of earlier rings has not given back are free: it is closed.
    pub(crate) fn set_rings(&self, transmit: Producer<XdpDesc>, completed: Consumer<u64>) {
        let mut sending = self.sending();
        sending.reclaim_all();
        sending.rings = Some((transmit, completed));
    }

    /// Chunks that receive, and as many send.
    pub(crate) fn half(&self) -> usize {
        self.mapping.len() / self.chunk_len / 2
    }

    /// The chunks that send.
    #[inline]
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a chunk.
    #[inline]
    pub(crate) fn bytes_mut<'a>(&'a self, chunk: &'a mut Chunk) -> &'a mut [u8] {
        // SAFETY: the only `Chunk` of this number is borrowed mutably as long as the slice lives, and the
        // kernel has nothing to do with a chunk before `Sending::write` has consumed it.
        unsafe { self.mapping.bytes_mut(chunk.0 * self.chunk_len, self.chunk_len) }
    }

    /// The addresses of the chunks that receive.
    pub(crate) fn receiving(&self) -> impl Iterator<Item = u64> {
        (0..self.half()).map(|chunk| (chunk * self.chunk_len) as u64)
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
    /// Takes free chunks until `chunks` has `count`. There may be fewer.
    pub(crate) fn take(&mut self, chunks: &mut Vec<Chunk>, count: usize) {
        self.reclaim();
        let rest = self.free.len().saturating_sub(count.saturating_sub(chunks.len()));
        chunks.extend(self.free.drain(rest..));
    }

    /// Takes a free chunk: the one that was used last, which is most likely in the processor's cache.
    #[inline]
    pub(crate) fn take_one(&mut self) -> Option<Chunk> {
        self.reclaim();
        self.free.pop()
    }

    /// Gives chunks back that have not been sent.
    pub(crate) fn give_back(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        self.free.extend(chunks);
    }

    /// Takes back what the kernel has sent.
    #[inline]
    fn reclaim(&mut self) {
        let Some((_, completed)) = &mut self.rings else { return };
        while let Some(address) = completed.front() {
            completed.pop();
            let chunk = address as usize / self.chunk_len;
            self.with_kernel[chunk] = false;
            self.free.push(Chunk(chunk));
        }
    }

    /// Takes back all that the kernel has, whose socket is closed.
    fn reclaim_all(&mut self) {
        for (chunk, with_kernel) in self.with_kernel.iter_mut().enumerate() {
            if std::mem::take(with_kernel) {
                self.free.push(Chunk(chunk));
            }
        }
    }

    /// Gives the rings up: their socket is to be closed, which they keep open. Nothing can be sent until there are others.
    pub(crate) fn close(&mut self) {
        self.rings = None;
    }

    /// Whether there are rings.
    pub(crate) fn is_open(&self) -> bool {
        self.rings.is_some()
    }

    /// Writes a frame of `len` bytes to the transmit ring. The kernel sees it when it is published.
    ///
    /// # Panics
    ///
    /// If the rings have not been set.
    #[inline]
    pub(crate) fn write(&mut self, chunk: Chunk, len: usize) {
        let (transmit, _) = self.rings.as_mut().expect("a socket that sends has rings");
        self.with_kernel[chunk.0] = true;
        let (addr, len) = ((chunk.0 * self.chunk_len) as u64, len as u32);
        transmit.write(XdpDesc { addr, len, options: XdpDescOptions::empty() });
    }

    /// The transmit ring.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write).
    #[inline]
    pub(crate) fn transmit(&self) -> &Producer<XdpDesc> {
        let (transmit, _) = self.rings.as_ref().expect("a socket that sends has rings");
        transmit
    }
}
