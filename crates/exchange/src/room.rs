//! Memory that the driver provides for packets that the server sends together.

use alloc::vec::Vec;

/// Memory for packets that leave together: a buffer, or the frames of a network.
pub trait PacketRoom {
    /// Has `write` fill one slice for each packet, in order: `len` bytes in all, `segment` bytes in each packet except the last, which
    /// has the rest. Before that, their content is arbitrary.
    fn put(&mut self, len: usize, segment: usize, write: impl FnMut(&mut [u8]));
}

/// The packets lie one behind the other.
impl PacketRoom for Vec<u8> {
    fn put(&mut self, len: usize, segment: usize, write: impl FnMut(&mut [u8])) {
        self.resize(len, 0);
        self.chunks_mut(segment).for_each(write);
    }
}
