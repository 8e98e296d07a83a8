//! Data of pipes on a byte stream, and receipts for it: between the fragments of messages, whose lanes they leave as they are.
//!
//! Data is given out as it arrives, and kept nowhere: the receiver of a pipe has memory for as many bytes as it has granted.

use crate::stream::message::PipeBytes;
use crate::stream::reassembler::{DATA, Fragment, Reassembler};
use crate::stream::terms::Violation;
use alloc::vec::Vec;
use stoop_wire::{BindingId, CallNumber, Data, HEADER_LEN, Header, HeaderError, Kind, LaneId, Receipt};

/// A packet of data that is arriving.
#[derive(Debug)]
pub(super) struct ArrivingData {
    header: Header,
    /// The next byte of the pipe.
    at: u64,
    /// Memory into which much data is received at once, and how many bytes have been.
    room: Vec<u8>,
    filled: usize,
}

/// Which part of a packet of a pipe has arrived.
pub(super) enum OfPipe {
    /// The beginning of a packet of data.
    Data,
    /// A whole receipt.
    Receipt,
    /// A part of a receipt.
    Nothing,
}

impl Default for ArrivingData {
    fn default() -> Self {
        let header = Header::bare(Kind::Data, BindingId::NONE, LaneId(0), CallNumber::ZERO);
        Self { header, at: 0, room: Vec::new(), filled: 0 }
    }
}

impl ArrivingData {
    /// Memory for so many bytes.
    pub(super) fn space(&mut self, left: usize) -> &mut [u8] {
        if self.room.len() < left {
            self.room.resize(Data::LEN_MAX.into(), 0);
        }
        &mut self.room[..left]
    }

    /// Bytes of memory that it holds.
    pub(super) fn bytes_held(&self) -> usize {
        self.room.len()
    }

    /// So many bytes have been put there.
    pub(super) fn received(&mut self, len: usize) {
        self.filled = len;
    }
}

impl Reassembler {
    /// Begins a packet of data, or waits for all of a receipt.
    #[cold]
    pub(super) fn take_of_pipe(&mut self, header: Header, payload_len: usize) -> Result<OfPipe, Violation> {
        if header.kind == Kind::Receipt {
            if payload_len > Receipt::MAX_LEN {
                return Err(Violation::Length(header.kind));
            }
            let is_there = self.buffers.unread().len() >= HEADER_LEN + payload_len;
            return Ok(if is_there { OfPipe::Receipt } else { OfPipe::Nothing });
        }
        let is_data = |data: &Data| payload_len == usize::from(data.len);
        let data = Data::of(&header).filter(is_data).ok_or(Violation::Header(HeaderError::Pipe))?;
        self.buffers.start += HEADER_LEN;
        (self.data.header, self.data.at, self.data.filled) = (header, data.at, 0);
        self.fragment = Some(Fragment { of: DATA, left: payload_len, direct: false });
        Ok(OfPipe::Data)
    }

    /// Gives out the bytes of the present packet of data that have arrived; `None` if more must arrive.
    #[cold]
    pub(super) fn poll_data(&mut self) -> Option<PipeBytes<'_>> {
        let left = self.fragment.as_ref().map_or(0, |fragment| fragment.left);
        let direct = core::mem::take(&mut self.data.filled);
        let there = if direct > 0 { direct } else { left.min(self.buffers.unread().len()) };
        if there == 0 && left > 0 {
            return None;
        }
        let (header, at, start) = (self.data.header, self.data.at, self.buffers.start);
        self.data.at += there as u64;
        let end = Data::of(&header).and_then(|data| data.end).filter(|_| there == left);
        self.fragment = (there < left).then(|| Fragment { of: DATA, left: left - there, direct: false });
        let bytes = match direct {
            0 => {
                self.buffers.start += there;
                &self.buffers.input[start..start + there]
            }
            _ => &self.data.room[..there],
        };
        Some(PipeBytes { header, at, bytes, end })
    }
}
