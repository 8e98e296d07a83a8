//! Packets that leave together over UDP: in one piece of memory, or as a list of their parts.

use crate::transport::packet::link::{ContiguousRoom, Room};
use std::io::IoSlice;
use stoop_exchange::server::Part;

/// A room for packets that are copied, and a list of those that are not.
#[derive(Default)]
pub(crate) struct UdpRoom {
    copied: ContiguousRoom,
    /// Parts of packets that leave from where they lie, and the length of each packet but the last.
    parts: Vec<Part>,
    segment: usize,
}

/// The packets that a room has for the system to send.
pub(super) enum Written<'a> {
    /// Packets, and how many bytes apart they lie.
    Copied(&'a [u8], usize),
    /// The parts of packets that are so long, but for the last.
    Gathered(Vec<IoSlice<'a>>, usize),
}

impl Room for UdpRoom {
    #[inline]
    fn packets(&mut self, len: usize, segment: usize) -> impl Iterator<Item = &mut [u8]> {
        self.forget_parts();
        self.copied.packets(len, segment)
    }

    fn gather(&mut self, segment: usize) -> Option<&mut Vec<Part>> {
        self.forget_parts();
        self.segment = segment;
        Some(&mut self.parts)
    }
}

impl UdpRoom {
    pub(super) fn written(&self) -> Written<'_> {
        if self.parts.is_empty() {
            let (packets, segment) = self.copied.written();
            return Written::Copied(packets, segment);
        }
        Written::Gathered(self.parts.iter().map(|part| IoSlice::new(part.bytes())).collect(), self.segment)
    }

    /// The system has taken the parts, or they are not sent.
    pub(super) fn forget_parts(&mut self) {
        self.parts.clear();
    }
}

/// The packets in one piece of memory, for a system that does not send them together.
pub(super) fn copied(parts: &[IoSlice<'_>]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.iter().copied()).collect()
}
