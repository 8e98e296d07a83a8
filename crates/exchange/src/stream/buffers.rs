//! The memory of a stream's receiver: its input buffer, and the memory that it keeps for the next long message.

use crate::stream::terms::Account;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use stoop_wire::HEADER_LEN;

#[derive(Debug)]
pub(super) struct Buffers {
    /// Of [`INPUT_LEN`] bytes, or empty.
    pub(super) input: Vec<u8>,
    /// The unread bytes are `input[start..end]`.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Memory for the next long message.
    spare: Vec<u8>,
    pub(super) account: Box<dyn Account>,
}

/// Most bytes that one receive takes. A buffer for [`Message::take`](crate::stream::Message::take) has this length, too.
pub(super) const INPUT_LEN: usize = 16 * 1024;
/// Most memory that is kept for the next long message.
const SPARE_MAX: usize = 4 << 20;

impl Buffers {
    /// Without an input buffer.
    pub(super) fn new(account: Box<dyn Account>) -> Self {
        Self { input: Vec::new(), start: 0, end: 0, spare: Vec::new(), account }
    }

    /// As [`Reassembler::lend_input`](crate::stream::Reassembler::lend_input).
    pub(super) fn lend_input(&mut self, spare: &mut Vec<u8>) {
        self.input = mem::take(spare);
        self.input.resize(INPUT_LEN, 0);
    }

    /// As [`Reassembler::give_input_back`](crate::stream::Reassembler::give_input_back).
    pub(super) fn give_input_back(&mut self, spare: &mut Vec<u8>) {
        if self.is_empty() {
            *spare = mem::take(&mut self.input);
            (self.start, self.end) = (0, 0);
        }
    }

    /// Whether no byte is unread.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Takes the unread bytes.
    pub(super) fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.unread().to_vec();
        (self.start, self.end) = (0, 0);
        unread
    }

    /// The input buffer behind the unread bytes, which move to its beginning.
    #[inline]
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            if self.start < self.end {
                self.input.copy_within(self.start..self.end, 0);
            }
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.input[self.end..]
    }

    pub(super) fn bytes_held(&self) -> usize {
        self.input.len() + self.spare.len()
    }

    /// Recycles `spare` as memory for a long message, if it is larger than the present one.
    pub(super) fn recycle(&mut self, spare: Vec<u8>) {
        if spare.len() <= self.spare.len() || spare.len() > SPARE_MAX + HEADER_LEN {
            return;
        }
        drop(self.take_spare());
        if self.account.keep_spare(spare.len()) {
            self.spare = spare;
        }
    }

    pub(super) fn take_spare(&mut self) -> Vec<u8> {
        if !self.spare.is_empty() {
            self.account.uncount_spare(self.spare.len());
        }
        mem::take(&mut self.spare)
    }

    /// Subtracts a message that ends now from the memory in use, unless it stays counted.
    pub(super) fn uncount(&mut self, packet: &[u8]) {
        if packet.len() <= INPUT_LEN {
            self.account.give_back(packet.len());
        }
    }
}
