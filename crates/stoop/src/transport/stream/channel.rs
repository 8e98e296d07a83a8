//! A connection as its messages see it: bytes, which are sealed on the way once both ends have keys.
//!
//! Two rules make that invisible to messages. Bytes that a channel has not taken are given to it again, before any others. And a receiver
//! asks for the clear bytes that the channel [holds](Channel::take_held) before it waits for more: the system tells of others only.

#[cfg(feature = "seal")]
pub(crate) mod sealed;

#[cfg(feature = "seal")]
use crate::transport::stream::channel::sealed::{SealedStream, Wait};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(feature = "seal")]
use std::sync::OnceLock;
use stoop_exchange::stream::Reassembler;
use stoop_net::Patience;
use stoop_net::stream::{Stream, StreamArrival};

/// A connection, and what seals it.
pub(crate) struct Channel {
    stream: Stream,
    #[cfg(feature = "seal")]
    sealed: OnceLock<Box<SealedStream>>,
}

impl Channel {
    /// A connection that is not sealed.
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            #[cfg(feature = "seal")]
            sealed: OnceLock::new(),
        }
    }

    /// Seals the connection from now on, in both directions. Called once, by a thread that keeps others from sending and receiving.
    #[cfg(feature = "seal")]
    pub(crate) fn seal(&self, with: SealedStream) {
        let _ = self.sealed.set(Box::new(with));
    }

    /// What seals it.
    #[cfg(feature = "seal")]
    pub(crate) fn sealed(&self) -> Option<&SealedStream> {
        self.sealed.get().map(|sealed| &**sealed)
    }

    /// With which server it is sealed, in words.
    pub(crate) fn sealed_with(&self) -> Option<String> {
        #[cfg(feature = "seal")]
        {
            self.sealed().map(|sealed| crate::security::keys::in_words(sealed.peer))
        }
        #[cfg(not(feature = "seal"))]
        {
            None
        }
    }

    /// As [`Stream::recv`].
    #[inline]
    pub(crate) fn recv(&self, buffer: &mut [u8], patience: Patience) -> io::Result<StreamArrival> {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            return sealed.recv(&self.stream, buffer, Wait::Patience(patience));
        }
        self.stream.recv(buffer, patience)
    }

    /// As [`Stream::recv_about`].
    #[inline(always)]
    pub(crate) fn recv_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<StreamArrival> {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            return sealed.recv(&self.stream, buffer, Wait::About(about_ns, latest_ns));
        }
        self.stream.recv_about(buffer, about_ns, latest_ns)
    }

    /// Gives clear bytes that had no space before to the reassembler. Returns whether there were some.
    ///
    /// # Errors
    /// Bytes behind them do not open.
    #[inline]
    pub(crate) fn take_held(&self, reassembler: &mut Reassembler) -> io::Result<bool> {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            let len = sealed.take_held(reassembler.space())?;
            reassembler.received(len);
            return Ok(len > 0);
        }
        let _ = reassembler;
        Ok(false)
    }

    /// Whether a receive that has put `len` bytes into a buffer of `space` bytes found nothing more.
    #[inline]
    pub(crate) fn has_emptied(&self, len: usize, space: usize) -> bool {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            return sealed.has_emptied();
        }
        len < space
    }

    /// Frees memory of bytes that have been taken.
    pub(crate) fn release_memory(&self) {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            sealed.release_memory();
        }
    }

    /// As [`Stream::try_send`]. Of the bytes that it takes it may hold some, but then it does not take the last.
    #[inline]
    pub(crate) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(feature = "seal")]
        if let Some(sealed) = self.sealed.get() {
            return sealed.try_send(&self.stream, slices);
        }
        self.stream.try_send(slices)
    }

    /// As [`Stream::age_of_last_ns`].
    pub(crate) fn age_of_last_ns(&self) -> Option<u64> {
        self.stream.age_of_last_ns()
    }

    /// As [`Stream::is_stranded`].
    pub(crate) fn is_stranded(&self) -> bool {
        self.stream.is_stranded()
    }

    /// As [`Stream::local_addr`].
    pub(crate) fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.stream.local_addr()
    }

    /// As [`Stream::shutdown`].
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.stream.shutdown()
    }

    /// As [`Stream::finish`].
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.stream.finish()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
