//! The room: memory that a packet link lends for the packets of a long message.

use stoop_exchange::server::Part;
use stoop_net::packets::{MAX_SEGMENTS, MAX_SEGMENTS_LEN};

/// Memory that a link provides for packets that leave together.
pub(crate) trait Room: Default + Send {
    /// One slice for each packet: `len` bytes in all, `segment` bytes in each packet except the last, which has the rest. Their
    /// content is arbitrary.
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`] packets or [`MAX_SEGMENTS_LEN`] bytes, or `segment` is 0.
    fn packets(&mut self, len: usize, segment: usize) -> impl Iterator<Item = &mut [u8]>;

    /// An empty list to which the parts of packets are added that leave from where they lie, each but the last `segment` bytes long.
    /// `None`: the link copies packets.
    fn gather(&mut self, _segment: usize) -> Option<&mut Vec<Part>> {
        None
    }
}

/// Room in one piece of memory, for a link whose packets are copied when it sends them.
pub(crate) struct ContiguousRoom {
    bytes: Box<[u8]>,
    len: usize,
    segment: usize,
}

impl Default for ContiguousRoom {
    fn default() -> Self {
        Self { bytes: vec![0; MAX_SEGMENTS_LEN].into_boxed_slice(), len: 0, segment: 1 }
    }
}

impl Room for ContiguousRoom {
    #[inline]
    fn packets(&mut self, len: usize, segment: usize) -> impl Iterator<Item = &mut [u8]> {
        assert!(len <= MAX_SEGMENTS.saturating_mul(segment), "packets that can be sent together");
        (self.len, self.segment) = (len, segment);
        self.bytes[..len].chunks_mut(segment)
    }
}

impl ContiguousRoom {
    /// The packets, and how many bytes apart they lie.
    pub(crate) fn written(&self) -> (&[u8], usize) {
        (&self.bytes[..self.len], self.segment)
    }
}
