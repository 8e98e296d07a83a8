//! A message that a stream has brought, and its bytes.

use crate::stream::buffers::{Buffers, INPUT_LEN};
use alloc::vec::Vec;
use core::mem;
use stoop_wire::{HEADER_LEN, Header, PipeEnd, RefusalCode};

/// An event on the stream.
#[derive(Debug)]
pub enum StreamEvent<'a> {
    /// A whole message.
    Message(Message<'a>),
    /// A message that was not accepted, and why. All its bytes have been skipped.
    NotTaken(Header, RefusalCode),
    /// Bytes of a pipe: all of a packet, or the part that has arrived.
    Data(PipeBytes<'a>),
}

/// Bytes of a pipe that a stream has brought.
#[derive(Debug)]
pub struct PipeBytes<'a> {
    /// Header of their packet.
    pub header: Header,
    /// Offset of the first in the pipe.
    pub at: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the pipe ends behind them.
    pub end: Option<PipeEnd>,
}

impl StreamEvent<'_> {
    /// Header of the message.
    #[inline]
    pub fn header(&self) -> &Header {
        match self {
            Self::Message(Message { header, .. })
            | Self::NotTaken(header, _)
            | Self::Data(PipeBytes { header, .. }) => header,
        }
    }
}

/// A whole message.
#[derive(Debug)]
pub struct Message<'a> {
    /// Header of its last fragment, whose time word is the latest.
    pub header: Header,
    pub(super) body: Body<'a>,
}

#[derive(Debug)]
pub(super) enum Body<'a> {
    /// In the stream's input buffer, from offset `at` on.
    Input { buffers: &'a mut Buffers, at: usize },
    /// Reassembled from fragments.
    Packet { buffers: &'a mut Buffers, packet: Vec<u8> },
}

impl Message<'_> {
    /// The message without its header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let len = self.header.message_len as usize;
        match &self.body {
            Body::Input { buffers, at } => &buffers.input[at + HEADER_LEN..at + HEADER_LEN + len],
            Body::Packet { packet, .. } => &packet[HEADER_LEN..HEADER_LEN + len],
        }
    }

    /// Copies the message with its header into `packet`, whose former contents are lost.
    #[inline]
    pub fn copy_to(&self, packet: &mut Vec<u8>) {
        packet.clear();
        packet.extend_from_slice(self.packet());
    }

    #[inline]
    fn packet(&self) -> &[u8] {
        match &self.body {
            Body::Input { buffers, at } => &buffers.input[*at..buffers.start],
            Body::Packet { packet, .. } => packet,
        }
    }

    /// Puts the message with its header into `packet`: without a copy if it arrived alone and `packet` has
    /// [`BUFFER_LEN`](crate::stream::Reassembler::BUFFER_LEN) bytes, or if it is a long one. The former memory of `packet`
    /// is recycled.
    #[inline]
    pub fn take(mut self, packet: &mut Vec<u8>) {
        match &mut self.body {
            Body::Input { buffers, at } => {
                let (at, end) = (*at, buffers.start);
                if at == 0 && end == buffers.end && packet.len() == INPUT_LEN {
                    mem::swap(&mut buffers.input, packet);
                    (buffers.start, buffers.end) = (0, 0);
                    return;
                }
                if packet.len() < end - at {
                    packet.resize((end - at).max(INPUT_LEN), 0);
                }
                packet[..end - at].copy_from_slice(&buffers.input[at..end]);
            }
            Body::Packet { buffers, packet: message } => {
                let spare = mem::replace(packet, mem::take(message));
                buffers.recycle(spare);
            }
        }
    }
}

impl Drop for Body<'_> {
    /// Uncounts the memory of a message that the caller drops without [taking](Message::take) it.
    #[inline]
    fn drop(&mut self) {
        if let Body::Packet { buffers, packet } = self
            && packet.len() > INPUT_LEN
        {
            buffers.account.give_back(packet.len());
        }
    }
}
