//! Many datagrams by one system call: cut apart by the kernel or the network card when they leave (UDP_SEGMENT), put
//! together when they arrive (UDP_GRO).
//!
//! All but the last are of the same length. Over loopback and between namespaces they are never cut apart if the
//! receiver takes them together: one walk through the network layers for all of them.

use super::control::Control;
use super::message::{self, Received};
use crate::packets::{MAX_SEGMENTS, MAX_SEGMENTS_LEN, Segments, SegmentsSending};
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, retry_on_intr};
use std::io::{self, IoSlice};
use std::net::SocketAddr;

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

/// The received segments, or the number of bytes if they did not fit.
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
