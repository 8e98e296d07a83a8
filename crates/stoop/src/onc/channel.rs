//! A connection as the records of Sun RPC see it: bytes, in a TLS session if there is one.

#[cfg(feature = "seal")]
use crate::security::session::Session;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(feature = "seal")]
use std::sync::OnceLock;
use stoop_net::clock;
use stoop_net::stream::{Stream, StreamArrival};

/// A connection, and the TLS session on it.
pub(crate) struct Channel {
    stream: Stream,
    #[cfg(feature = "seal")]
    session: OnceLock<Box<Session>>,
}

impl Channel {
    /// A connection in the clear.
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            #[cfg(feature = "seal")]
            session: OnceLock::new(),
        }
    }

    /// The connection without its session, for the bytes of the handshake.
    #[cfg(feature = "seal")]
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// All later bytes are those of the session. Called once, by a thread that keeps others from sending and receiving.
    #[cfg(feature = "seal")]
    pub(crate) fn seal(&self, session: Session) {
        let _ = self.session.set(Box::new(session));
    }

    /// As [`Stream::recv_about`]. In a session, the buffer is longer than [`HELD_MAX`](crate::security::session::HELD_MAX), and there may
    /// be nothing before the time has passed.
    #[inline(always)]
    pub(crate) fn recv_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<StreamArrival> {
        #[cfg(feature = "seal")]
        if let Some(session) = self.session.get() {
            return session.recv(&self.stream, buffer, about_ns, latest_ns);
        }
        self.stream.recv_about(buffer, about_ns, latest_ns)
    }

    /// As [`Stream::try_send`]. In a session, the bytes that it has not taken are given to it again, before any others.
    #[inline]
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "seal")]
        if let Some(session) = self.session.get() {
            return session.try_send(&self.stream, bytes);
        }
        self.stream.try_send(&[IoSlice::new(bytes)])
    }

    /// Sends all of `bytes` by that time. Returns how many left.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(crate) fn send_until(&self, bytes: &[u8], deadline_ns: u64) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.try_send(&bytes[sent..]) {
                Ok(0) => {
                    let left_ns = deadline_ns.saturating_sub(clock::now_ns());
                    if left_ns == 0 {
                        break;
                    }
                    self.sleep_until_writable(left_ns)?;
                }
                Ok(more) => sent += more,
                Err(why) if sent == 0 => return Err(why),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// As [`Stream::shutdown`].
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.end_session();
        self.stream.shutdown()
    }

    /// Tells the peer that no more bytes follow in the session.
    fn end_session(&self) {
        #[cfg(feature = "seal")]
        if let Some(session) = self.session.get() {
            session.close(&self.stream);
        }
    }

    /// As [`Stream::sleep_until_readable`].
    pub(crate) fn sleep_until_readable(&self, limit_ns: u64) -> io::Result<bool> {
        self.stream.sleep_until_readable(limit_ns)
    }

    /// As [`Stream::sleep_until_writable`].
    pub(crate) fn sleep_until_writable(&self, limit_ns: u64) -> io::Result<bool> {
        self.stream.sleep_until_writable(limit_ns)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.end_session();
    }
}
