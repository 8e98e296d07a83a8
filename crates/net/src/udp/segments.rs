//! Many datagrams by one system call: cut apart by the kernel or the network card when they leave (UDP_SEGMENT), put
//! together when they arrive (UDP_GRO).
//!
//! All but the last are of the same length. Over loopback and between namespaces they are never cut apart if the
//! receiver takes them together: one walk through the network layers for all of them.

use super::control::Control;
use super::message::{self, Received};
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, retry_on_intr};
use std::io::{self, IoSlice};
use std::net::SocketAddr;

/// Datagrams that can be sent together.
pub const MAX_SEGMENTS: usize = 64;

/// Bytes that can be sent together: what one datagram over IPv4 has room for.
pub const MAX_SEGMENTS_LEN: usize = 65_507;

/// Datagrams that were received together: one behind the other, all of the same length but for the last, which may be
/// shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of all of them.
    pub len: usize,
    /// Bytes of each; `len` when there is one.
    pub segment: usize,
}

impl Segments {
    /// How many datagrams they are.
    pub fn count(&self) -> usize {
        self.len.div_ceil(self.segment.max(1)).max(1)
    }

    /// Each of them. An empty datagram is none.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than the one they were received into.
    pub fn split<'a>(&self, buffer: &'a [u8]) -> std::slice::Chunks<'a, u8> {
        buffer[..self.len].chunks(self.segment.max(1))
    }
}

/// What became of datagrams handed over together: all of them went the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentsSending {
    /// They are on their way.
    Sent,
    /// They were not sent: something sent earlier found the peer's port closed (ECONNREFUSED). Told once, and only by
    /// a connected socket, which can be used on.
    Refused,
    /// They were not sent: each is longer than the way to the peer is known to carry (EMSGSIZE; of
    /// older kernels EINVAL). Send shorter ones; or one by one, which either works in fragments of the network layer or
    /// says what is wrong.
    TooLong,
    /// They were not sent: this kernel, or what they leave by, cannot cut them apart (EIO, EOPNOTSUPP and the like). Send
    /// one by one, from now on.
    Unsupported,
}

/// Sends `datagrams`, cut every `segment` bytes.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    datagrams: &[u8],
    segment: usize,
    addr: Option<&SocketAddr>,
    control: Control,
) -> io::Result<SegmentsSending> {
    send_gathered(socket, &[IoSlice::new(datagrams)], segment, addr, control)
}

/// Sends what is in `pieces`, one behind the other, cut every `segment` bytes.
pub(super) fn send_gathered(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    segment: usize,
    addr: Option<&SocketAddr>,
    control: Control,
) -> io::Result<SegmentsSending> {
    let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    assert!(segment > 0 && len <= MAX_SEGMENTS_LEN, "bytes that can be sent together");
    assert!(len <= segment.saturating_mul(MAX_SEGMENTS), "datagrams that can be sent together");
    let many = len > segment;
    // A segment that is shorter than all of them together is shorter than 64 KiB.
    let control = if many { control.in_segments(segment as u16) } else { control };
    match retry_on_intr(|| message::send_gathered(socket, pieces, addr, &control)) {
        Ok(_) => Ok(SegmentsSending::Sent),
        Err(Errno::CONNREFUSED) => Ok(SegmentsSending::Refused),
        Err(Errno::MSGSIZE) => Ok(SegmentsSending::TooLong),
        Err(Errno::INVAL) if many => Ok(SegmentsSending::TooLong),
        Err(Errno::IO | Errno::OPNOTSUPP | Errno::NOPROTOOPT) if many => Ok(SegmentsSending::Unsupported),
        Err(error) => Err(error.into()),
    }
}

/// What was received, if all of it was.
#[inline]
pub(super) fn received<T>(
    received: &Received<T>,
    segment: Option<usize>,
    room: usize,
) -> Result<Segments, usize> {
    let len = received.len;
    if len > room { Err(len) } else { Ok(Segments { len, segment: segment.unwrap_or(len) }) }
}

#[cfg(test)]
mod tests;
