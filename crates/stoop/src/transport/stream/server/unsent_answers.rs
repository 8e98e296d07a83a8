//! Answers of a connection that have not been sent yet.

use crate::transport::stream::channel::Channel;
use crate::transport::stream::server::numbers::Numbers;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use stoop_exchange::stream::OutgoingMessage;
use stoop_wire::HEADER_LEN;

/// The messages to be sent on one connection, in the order in which the reader gets it: first those that were held back to
/// leave together, then fragment by fragment, each message in turn. Only the first message may have been interrupted
/// within a fragment.
#[derive(Default)]
pub(super) struct UnsentAnswers {
    /// Short messages that leave by one write.
    together: Vec<u8>,
    /// How much of them the stream has taken, and that it would take no more.
    taken: usize,
    blocked: bool,
    queue: VecDeque<(Vec<u8>, OutgoingMessage)>,
    /// Bytes of the messages in it that have not been sent.
    bytes: usize,
    /// Bytes of their packets: the memory that they take.
    counted: usize,
    /// Calls whose answers have begun to leave, or will never.
    pub(super) answered: Numbers,
}

impl UnsentAnswers {
    /// Whether a message can be sent at once.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.together.is_empty()
    }

    /// Bytes held for the reader.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.together.len()
    }

    /// Bytes of memory that the queued messages take.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// Puts a short message, header and all, to others that leave with it. `false`: it must wait for those that the
    /// stream did not take.
    pub(super) fn join(&mut self, message: &[u8]) -> bool {
        let joins = self.queue.is_empty() && !self.blocked;
        if joins {
            self.together.extend_from_slice(message);
        }
        joins
    }

    /// Bytes of messages that are held back and could leave.
    pub(super) fn held_back(&self) -> usize {
        if self.blocked { 0 } else { self.together.len() }
    }

    /// Sends what was held back. Returns whether the stream has taken all of it.
    pub(super) fn send_together(&mut self, stream: &Channel) -> io::Result<bool> {
        while self.taken < self.together.len() {
            match stream.try_send(&[IoSlice::new(&self.together[self.taken..])])? {
                0 => {
                    self.blocked = true;
                    return Ok(false);
                }
                sent => self.taken += sent,
            }
        }
        self.clear_together();
        Ok(true)
    }

    /// The answers that were held back have been sent, or the connection is closed.
    pub(super) fn clear_together(&mut self) {
        self.together.clear();
        (self.taken, self.blocked) = (0, false);
    }

    /// The bytes of a packet of a pipe that the stream has not taken. Nothing else waits.
    pub(super) fn rest_of_packet(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_empty(), "what waits leaves first");
        &mut self.together
    }

    /// They are to leave before anything else.
    pub(super) fn keep_rest_of_packet(&mut self) {
        self.blocked = true;
    }

    /// Keeps what the stream has not taken of a message. `packet` is taken away.
    pub(super) fn keep(&mut self, packet: &mut Vec<u8>, message: OutgoingMessage) {
        debug_assert!(message.is_between_fragments() || self.queue.is_empty(), "one fragment at a time");
        self.bytes += message.left();
        self.counted += packet.len();
        self.queue.push_back((std::mem::take(packet), message));
    }

    /// Sends as much as the stream takes. Returns whether that is all; messages that have left go to `unused`.
    pub(super) fn flush(&mut self, stream: &Channel, unused: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        if !self.send_together(stream)? {
            return Ok(false);
        }
        while let Some((packet, message)) = self.queue.front_mut() {
            let before = message.left();
            let complete = send_fragment(stream, packet, message)?;
            self.bytes -= before - message.left();
            if !complete {
                return Ok(false);
            }
            let (packet, message) = self.queue.pop_front().expect("there is a first message");
            match message.is_done() {
                true => {
                    self.counted -= packet.len();
                    unused.push(packet);
                }
                false => self.queue.push_back((packet, message)),
            }
        }
        Ok(true)
    }
}

/// Sends the present fragment of a message. Returns whether the stream has taken all of it. Inlined, which saves 45 instructions of
/// each call.
#[inline(always)]
pub(super) fn send_fragment(
    stream: &Channel,
    packet: &[u8],
    message: &mut OutgoingMessage,
) -> io::Result<bool> {
    loop {
        let mut room = [0; HEADER_LEN];
        let [first, second] = message.next_slices(packet, &mut room);
        let sent = stream.try_send(&[IoSlice::new(first), IoSlice::new(second)])?;
        if sent == 0 {
            return Ok(false);
        }
        message.advance(sent);
        if message.is_between_fragments() {
            return Ok(true);
        }
    }
}
