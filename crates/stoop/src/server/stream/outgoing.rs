//! Answers that a slow reader has not taken yet.

use super::numbers::Numbers;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use stoop_exchange::stream::Departure;
use stoop_net::stream::Stream;
use stoop_wire::HEADER_LEN;

/// What is to be sent on one connection, in the order in which the reader gets it: fragment by fragment, each message in
/// turn. Only the first message may have been interrupted within a fragment.
#[derive(Default)]
pub(super) struct Outgoing {
    queue: VecDeque<(Vec<u8>, Departure)>,
    /// Bytes of the messages in it that have not been sent.
    bytes: usize,
    /// Calls whose answers have begun to leave, or will never.
    pub(super) answered: Numbers,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes held for the reader.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps what the stream has not taken of a message. `packet` is taken away.
    pub(super) fn keep(&mut self, packet: &mut Vec<u8>, departure: Departure) {
        debug_assert!(departure.is_between_fragments() || self.queue.is_empty(), "one fragment at a time");
        self.bytes += departure.left();
        self.queue.push_back((std::mem::take(packet), departure));
    }

    /// Sends as much as the stream takes. Returns whether that is all; messages that have left go to `spares`.
    pub(super) fn flush(&mut self, stream: &Stream, spares: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        while let Some((packet, departure)) = self.queue.front_mut() {
            let before = departure.left();
            let complete = send_fragment(stream, packet, departure)?;
            self.bytes -= before - departure.left();
            if !complete {
                return Ok(false);
            }
            let (packet, departure) = self.queue.pop_front().expect("there is a first message");
            match departure.is_done() {
                true => spares.push(packet),
                false => self.queue.push_back((packet, departure)),
            }
        }
        Ok(true)
    }
}

/// Sends the present fragment of a message. Returns whether the stream has taken all of it.
#[inline]
pub(super) fn send_fragment(stream: &Stream, packet: &[u8], departure: &mut Departure) -> io::Result<bool> {
    loop {
        let mut room = [0; HEADER_LEN];
        let [first, second] = departure.pieces(packet, &mut room);
        let sent = stream.try_send(&[IoSlice::new(first), IoSlice::new(second)])?;
        if sent == 0 {
            return Ok(false);
        }
        departure.advance(sent);
        if departure.is_between_fragments() {
            return Ok(true);
        }
    }
}
