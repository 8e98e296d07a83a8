//! A message that is being sent: which bytes come next, and where another message may go between.

use stoop_wire::{HEADER_LEN, Header, STREAM_FRAGMENT};

/// Progress of a message that is being sent. The message itself is a packet with space for the header in front. The
/// sender stores the packet and passes it to each method that needs it.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    header: Header,
    /// Bytes of the present fragment that have been sent, its header included.
    sent: usize,
    done: bool,
}

impl OutgoingMessage {
    /// Begins a message: `header` needs no offset. Writes the header into the front of `packet`.
    ///
    /// # Panics
    /// If the packet is shorter than the header and the message.
    #[inline]
    pub fn new(mut header: Header, packet: &mut [u8]) -> Self {
        header.offset = 0;
        assert!(packet.len() >= HEADER_LEN + header.message_len as usize, "the message is in the packet");
        packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        Self { header, sent: 0, done: false }
    }

    /// The unsent rest of the present fragment: two slices to be sent one after the other, of which the second may be
    /// empty. `header` is memory for a header.
    #[inline]
    pub fn next_slices<'a>(&self, packet: &'a [u8], header: &'a mut [u8; HEADER_LEN]) -> [&'a [u8]; 2] {
        let offset = self.header.offset as usize;
        let end = HEADER_LEN + offset + self.payload_len();
        if offset == 0 {
            return [&packet[self.sent..end], &[]];
        }
        let payload = HEADER_LEN + offset + self.sent.saturating_sub(HEADER_LEN);
        *header = self.header.to_bytes();
        [&header[self.sent.min(HEADER_LEN)..], &packet[payload..end]]
    }

    /// Records that `sent` of these bytes have been sent.
    ///
    /// # Panics
    /// If there were fewer.
    #[inline]
    pub fn advance(&mut self, sent: usize) {
        self.sent += sent;
        let payload_len = self.payload_len();
        assert!(self.sent <= HEADER_LEN + payload_len, "no more is sent than there is");
        if self.sent == HEADER_LEN + payload_len {
            self.sent = 0;
            self.header.offset += payload_len as u32;
            self.done = self.header.offset >= self.header.message_len;
        }
    }

    /// Sets the time word in the headers of the fragments still to come.
    pub fn set_time(&mut self, time: u32) {
        if self.is_between_fragments() {
            self.header.time = time;
        }
    }

    /// Whether the whole message has been sent.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether another message may be sent now.
    #[inline]
    pub fn is_between_fragments(&self) -> bool {
        self.sent == 0
    }

    /// Whether the present fragment is the last.
    pub fn is_at_last_fragment(&self) -> bool {
        self.header.offset as usize + self.payload_len() >= self.header.message_len as usize
    }

    /// Whether no byte of the message has been sent.
    pub fn is_at_start(&self) -> bool {
        self.sent == 0 && self.header.offset == 0 && !self.done
    }

    /// Bytes of the message that have not been sent, without headers.
    pub fn left(&self) -> usize {
        (self.header.message_len - self.header.offset) as usize
    }

    #[inline]
    fn payload_len(&self) -> usize {
        STREAM_FRAGMENT.min((self.header.message_len - self.header.offset) as usize)
    }
}
