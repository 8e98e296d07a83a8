//! A TLS session of Sun RPC behind its handshake: it encrypts and decrypts the bytes of a stream (RFC 9289).

use crate::locked::locked;
use crate::security::tls::{CallerHandshake, Purpose, ServerHandshake};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{Connection, NoKeyLog};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem;
use std::sync::{Arc, Mutex, OnceLock};
use stoop_net::fork;
use stoop_net::stream::{Stream, StreamArrival};

/// Bytes in front of a buffer into which nothing is received: as many as the session may hold of a record that is incomplete.
pub(crate) const HELD_MAX: usize = 20 << 10;

/// Bytes that are encrypted before they are sent together.
const BATCH_MAX: usize = 64 << 10;

/// Bytes of memory for records that a session keeps.
const KEPT_MAX: usize = 4 << 10;

impl Purpose {
    /// A connection of Sun RPC. An end that names no protocol at all is taken for one of Sun RPC: the Linux kernel's helper for handshakes
    /// names none.
    pub(crate) const SUN_RPC: Self = Self {
        protocol: stoop_onc::tls::PROTOCOL,
        provider,
        log: |keys| match &keys.log {
            Some(log) => Arc::clone(log) as Arc<dyn rustls::KeyLog>,
            None => Arc::new(NoKeyLog {}),
        },
    };
}

/// The cryptography of both ends: with all suites of TLS 1.3, for peers may have only the one that RFC 8446 §9.1 demands.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}

impl CallerHandshake {
    /// The session behind it.
    pub(crate) fn into_session(self) -> Session {
        Session::new(self.connection.into())
    }
}

impl ServerHandshake {
    /// As [`input`](Self::input), up to the end of the handshake. `bytes` loses those that were taken; the session
    /// [opens](Session::open) the others.
    pub(crate) fn input_to_end(&mut self, bytes: &mut &[u8]) -> bool {
        while self.0.is_handshaking() && !bytes.is_empty() {
            let is_taken = self.0.read_tls(bytes).is_ok_and(|len| len > 0);
            if !is_taken || self.0.process_new_packets().is_err() {
                return false;
            }
        }
        true
    }

    /// Whether bytes of the caller are missing.
    pub(crate) fn is_going_on(&self) -> bool {
        self.0.is_handshaking()
    }

    /// The session behind it.
    pub(crate) fn into_session(self) -> Session {
        Session::new(self.0.into())
    }
}

/// One end of a session.
pub(crate) struct Session {
    /// The process that has made it: no other uses its keys.
    generation: u32,
    ends: Mutex<Ends>,
}

struct Ends {
    connection: Connection,
    /// Records that the stream has not taken, behind the first `sent` bytes.
    records: Vec<u8>,
    sent: usize,
    /// The last byte that is in them is not counted as sent: it is given again.
    owes_last: bool,
}

impl Ends {
    /// Sends what is there. Returns whether the stream has taken all.
    fn flush(&mut self, stream: &Stream) -> io::Result<bool> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.records)?;
        }
        while self.sent < self.records.len() {
            match stream.try_send(&[IoSlice::new(&self.records[self.sent..])])? {
                0 => return Ok(false),
                sent => self.sent += sent,
            }
        }
        self.sent = 0;
        self.records.clear();
        self.records.shrink_to(KEPT_MAX);
        Ok(true)
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

impl Session {
    fn new(connection: Connection) -> Self {
        let ends = Ends { connection, records: Vec::new(), sent: 0, owes_last: false };
        Self { generation: fork::generation(), ends: Mutex::new(ends) }
    }

    /// The cipher suite, as the standard names it.
    pub(crate) fn suite(&self) -> String {
        let suite = locked(&self.ends).connection.negotiated_cipher_suite();
        suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()))
    }

    /// Receives as [`Stream::recv_about`]. All clear bytes are given out, so that none are held when the stream is waited for. One thread
    /// at a time receives.
    ///
    /// # Errors
    /// The stream is broken, or a record does not open.
    pub(crate) fn recv(
        &self,
        stream: &Stream,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<StreamArrival> {
        match stream.recv_about(&mut buffer[HELD_MAX..], about_ns, latest_ns)? {
            StreamArrival::Bytes(len) => self.open(stream, buffer, len),
            other => Ok(other),
        }
    }

    /// Opens the `len` bytes of the stream that are in the buffer behind [`HELD_MAX`]. The clear bytes are in its front then: they are
    /// fewer than the records have, so that they reach no byte that is not opened.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub(crate) fn open(&self, stream: &Stream, buffer: &mut [u8], len: usize) -> io::Result<StreamArrival> {
        let mut ends = locked(&self.ends);
        let opened = ends.open(buffer, len);
        // An answer to a new key, or an alert.
        let flushed = ends.flush(stream);
        let arrival = opened?;
        flushed.map(|_| arrival)
    }

    /// Sends as [`Stream::try_send`]. Of the bytes that it takes it may hold some, but then it does not take the last. Bytes that it has not
    /// taken are given to it again, before any others.
    ///
    /// # Errors
    /// The stream is broken.
    pub(crate) fn try_send(&self, stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
        if self.generation != fork::generation() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut ends = locked(&self.ends);
        if !ends.flush(stream)? {
            return Ok(0);
        }
        let owed = usize::from(mem::take(&mut ends.owes_last));
        let end = bytes.len().min(owed + BATCH_MAX);
        let taken = owed + ends.connection.writer().write(&bytes[owed..end])?;
        ends.owes_last = !ends.flush(stream)?;
        Ok(taken - usize::from(ends.owes_last))
    }

    /// Tells the peer that no more bytes follow, if the stream takes that at once.
    pub(crate) fn close(&self, stream: &Stream) {
        if self.generation == fork::generation() {
            let mut ends = locked(&self.ends);
            ends.connection.send_close_notify();
            let _ = ends.flush(stream);
        }
    }
}

impl Ends {
    fn open(&mut self, buffer: &mut [u8], len: usize) -> io::Result<StreamArrival> {
        let (mut given, mut next, end) = (0, HELD_MAX, HELD_MAX + len);
        loop {
            let is_closed = loop {
                match self.connection.reader().read(&mut buffer[given..next]) {
                    // Without space, too, but there is some.
                    Ok(0) => break true,
                    Ok(len) => given += len,
                    Err(why) if why.kind() == ErrorKind::WouldBlock => break false,
                    Err(why) => return Err(why),
                }
            };
            if is_closed || next == end {
                return Ok(match (given, is_closed) {
                    (0, true) => StreamArrival::Closed,
                    (0, false) => StreamArrival::Nothing,
                    _ => StreamArrival::Bytes(given),
                });
            }
            let mut bytes = &buffer[next..end];
            next += self.connection.read_tls(&mut bytes)?;
            self.connection.process_new_packets().map_err(invalid)?;
        }
    }
}
