//! Frames for packets that leave together.

use crate::transport::packet::link::Room;

/// Frames for packets that leave together.
#[derive(Default)]
pub(crate) struct EtherRoom {
    frames: stoop_ether::Room,
    /// Bytes of the longest packet.
    longest: usize,
}

impl Room for EtherRoom {
    fn packets(&mut self, len: usize, segment: usize) -> impl Iterator<Item = &mut [u8]> {
        self.longest = len.min(segment);
        self.frames.packets(len, segment)
    }
}

impl EtherRoom {
    pub(super) fn frames(&mut self) -> &mut stoop_ether::Room {
        &mut self.frames
    }

    /// Bytes of the longest packet.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}
