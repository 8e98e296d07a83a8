//! The ring into which a packet socket receives (Documentation/networking/packet_mmap.rst), version 2.
//!
//! The memory is cut into blocks, which the kernel allocates, and each block into frames. A frame begins with
//! a header of the kernel, whose first word says whether the kernel or the process owns the frame. Version 3 would pack frames of
//! any length, but hands them over by blocks: a lone frame then waits until the kernel's timer closes its
//! block. On one machine a round trip over veth took 2.0 µs with version 2, and 1.0 ms with version 3 and the
//! shortest timer.

#![allow(unsafe_code)]

use crate::arrival::FrameQueue;
use crate::frame::ETHERNET_HEADER_LEN;
use crate::memory::Mapping;
use crate::packet_socket;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    frame_len: usize,
    frames_per_block: usize,
    blocks: usize,
}

/// Bytes of a block: a power of two and a multiple of the page.
const BLOCK_LEN: usize = 1 << 16;
/// Bytes before the Ethernet header in a frame of the ring: the kernel's header, and the address of the
/// sender.
const BEFORE_FRAME: usize = 66;

impl Layout {
    /// Room for at least `frames` frames of an interface with this MTU.
    fn of(mtu: usize, frames: usize) -> Result<Self, Errno> {
        let frame_len = (BEFORE_FRAME + ETHERNET_HEADER_LEN + mtu).next_multiple_of(16);
        if frame_len > BLOCK_LEN {
            return Err(Errno::INVAL);
        }
        let frames_per_block = BLOCK_LEN / frame_len;
        Ok(Self { frame_len, frames_per_block, blocks: frames.max(1).div_ceil(frames_per_block) })
    }

    fn frames(self) -> usize {
        self.blocks * self.frames_per_block
    }

    fn request(self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.frame_len as u32,
            tp_frame_nr: self.frames() as u32,
        }
    }
}

/// The ring, and the place of the next frame.
#[derive(Debug)]
pub(crate) struct Ring {
    mapping: Mapping,
    layout: Layout,
    /// Number of the next frame in its block.
    frame: usize,
    /// Where the next frame begins.
    at: usize,
}

impl Ring {
    /// Makes the ring of a socket that is not bound yet.
    pub(super) fn new(socket: BorrowedFd<'_>, mtu: usize, frames: usize) -> Result<Self, Errno> {
        let layout = Layout::of(mtu, frames)?;
        packet_socket::set_ring(socket, &layout.request())?;
        let mapping = Mapping::of_socket(socket, 0, layout.blocks * BLOCK_LEN)?;
        Ok(Self { mapping, layout, frame: 0, at: 0 })
    }

    /// Memory of this process in place of a ring: no frame ever arrives there.
    pub(super) fn without_socket() -> Result<Self, Errno> {
        // The status of the only frame stays 0, TP_STATUS_KERNEL.
        let layout = Layout { frame_len: BLOCK_LEN, frames_per_block: 1, blocks: 1 };
        Ok(Self { mapping: Mapping::of_process(size_of::<u32>())?, layout, frame: 0, at: 0 })
    }

    /// Frames for which the ring has room.
    pub(super) fn frames(&self) -> usize {
        self.layout.frames()
    }

    fn advance(&mut self) {
        self.frame += 1;
        self.at += self.layout.frame_len;
        if self.frame == self.layout.frames_per_block {
            self.frame = 0;
            self.at = self.at.next_multiple_of(BLOCK_LEN) % self.mapping.len();
        }
    }
}

impl FrameQueue for Ring {
    #[inline]
    fn front(&self) -> Option<&[u8]> {
        // Pairs with the kernel's barrier before it sets the status.
        let status = self.mapping.number(self.at).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // struct tpacket2_hdr: status, length, captured length, offset of the Ethernet header in 16 bits, …
        let captured = self.mapping.number(self.at + 8).load(Ordering::Relaxed) as usize;
        let offsets = self.mapping.number(self.at + 12).load(Ordering::Relaxed).to_ne_bytes();
        let begin = usize::from(u16::from_ne_bytes([offsets[0], offsets[1]]));
        // SAFETY: the frame belongs to us until `pop`, which needs `&mut self`, and the kernel does not write
        // to it until then.
        Some(unsafe { self.mapping.bytes(self.at + begin, captured) })
    }

    #[inline]
    fn pop(&mut self) {
        // The frame has been read; pairs with the kernel's barrier behind its look at the status.
        self.mapping.number(self.at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_never_cross_the_end_of_a_block() {
        for (mtu, frames) in [(68, 1), (1500, 64), (1500, 2048), (9000, 100), (65_000, 3)] {
            let layout = Layout::of(mtu, frames).unwrap();
            assert!(layout.frames() >= frames && layout.frame_len >= BEFORE_FRAME + 14 + mtu, "{layout:?}");
            assert!(
                layout.frames_per_block * layout.frame_len <= BLOCK_LEN
                    && layout.frame_len.is_multiple_of(16)
            );
        }
        assert!(Layout::of(65_535, 1).is_err());

        let layout = Layout::of(9000, 14).unwrap();
        let mapping = Mapping::of_process(layout.blocks * BLOCK_LEN).unwrap();
        let mut ring = Ring { mapping, layout, frame: 0, at: 0 };
        let mut places = Vec::new();
        for _ in 0..layout.frames() {
            places.push(ring.at);
            ring.advance();
        }
        assert_eq!((ring.at, ring.frame), (0, 0), "a ring");
        assert_eq!(places[..8].last(), Some(&BLOCK_LEN));
    }
}
