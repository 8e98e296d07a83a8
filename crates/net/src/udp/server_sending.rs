//! Sends many datagrams at once by a server's socket.

use super::control::Control;
use super::segments;
use super::server::{Peer, ServerSocket};

use crate::packets::SegmentsSending;
use rustix::fd::AsFd;
use std::io::{self, IoSlice};

impl ServerSocket {
    /// Sends several datagrams to `peer` by one system call, from the address that it called: `datagrams` cut every
    /// `segment` bytes, so that the last may be shorter. All are sent or none.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// When they are more than [`MAX_SEGMENTS`](crate::udp::MAX_SEGMENTS) or
    /// [`MAX_SEGMENTS_LEN`](crate::udp::MAX_SEGMENTS_LEN) bytes, or `segment` is 0.
    pub fn send_segments(
        &self,
        datagrams: &[u8],
        segment: usize,
        peer: &Peer,
    ) -> io::Result<SegmentsSending> {
        self.send_gathered(&[IoSlice::new(datagrams)], segment, peer)
    }

    /// [`send_segments`](Self::send_segments), with bytes from one piece of memory after the other, at most 1024.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// As [`send_segments`](Self::send_segments).
    pub fn send_gathered(
        &self,
        pieces: &[IoSlice<'_>],
        segment: usize,
        peer: &Peer,
    ) -> io::Result<SegmentsSending> {
        let control = match &peer.called {
            Some(called) => Control::default().leaving_from(called),
            None => Control::default(),
        };
        segments::send_gathered(self.as_fd(), pieces, segment, Some(&peer.addr), control)
    }
}
