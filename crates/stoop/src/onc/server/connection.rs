//! One connection of a server: records that arrive, and replies that leave.

use crate::context::Caller;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::{Stream, StreamArrival};
use stoop_onc::record::{RecordLimits, Records};

/// A connection to a caller.
pub(super) struct Connection {
    pub(super) stream: Stream,
    /// Its name in the poller.
    pub(super) token: u64,
    pub(super) caller: Caller,
    records: Mutex<Records>,
    outgoing: Mutex<Outgoing>,
    /// Calls of it that have not been answered.
    pub(super) active: AtomicUsize,
    /// When something was last received or sent.
    pub(super) used_ns: AtomicU64,
    /// When the record began that is incomplete; 0: none is.
    record_since_ns: AtomicU64,
    is_closed: AtomicBool,
}

/// Replies that the caller has not taken.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// The poller tells of room to send only, and of nothing that arrives.
    holds_back: bool,
}

/// Bytes of replies for which a connection that reads nothing still gets its calls read.
const UNREAD_MAX: usize = 1 << 20;

/// A wait takes about its limit, and never so many times as long: that needs one system call in place of two.
const ABOUT: u64 = 8;

/// The state in which a look found a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes, with or without a whole record.
    Some,
    /// Nothing.
    Nothing,
    /// It has ended, or broke the protocol.
    Ended {
        /// It broke the protocol.
        is_broken: bool,
    },
}

impl Connection {
    pub(super) fn new(stream: Stream, token: u64, caller: Caller, limits: RecordLimits, now_ns: u64) -> Self {
        Self {
            stream,
            token,
            caller,
            records: Mutex::new(Records::new(limits)),
            outgoing: Mutex::default(),
            active: AtomicUsize::new(0),
            used_ns: AtomicU64::new(now_ns),
            record_since_ns: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The caller's address without the port; `None` over a Unix socket.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        if let Caller::Network(address) = self.caller { Some(address.ip()) } else { None }
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives what is there, or waits for that long, and passes each record that is complete to `with`.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        limit_ns: u64,
        now_ns: impl Fn() -> u64,
        mut with: impl FnMut(&[u8]),
    ) -> Read {
        // One thread at a time: two that look at the same connection must not swap what they received.
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let len = match self.stream.recv_about(buffer, limit_ns, ABOUT * limit_ns) {
            Ok(StreamArrival::Bytes(len)) => len,
            Ok(StreamArrival::Nothing) => return Read::Nothing,
            Ok(StreamArrival::Closed) | Err(_) => return Read::Ended { is_broken: false },
        };
        let now_ns = now_ns();
        self.used_ns.store(now_ns, Ordering::Relaxed);
        let mut input = &buffer[..len];
        loop {
            match records.next(&mut input) {
                Ok(Some(record)) => {
                    self.record_since_ns.store(0, Ordering::Relaxed);
                    with(record);
                }
                Ok(None) => break,
                Err(_) => return Read::Ended { is_broken: true },
            }
        }
        if records.is_inside_record() && self.record_since_ns.load(Ordering::Relaxed) == 0 {
            self.record_since_ns.store(now_ns, Ordering::Relaxed);
        }
        Read::Some
    }

    /// When the incomplete record began, if there is one.
    pub(super) fn record_since_ns(&self) -> Option<u64> {
        Some(self.record_since_ns.load(Ordering::Relaxed)).filter(|since_ns| *since_ns > 0)
    }

    /// Gives memory of the last record back.
    pub(super) fn shrink(&self) {
        if let Ok(mut records) = self.records.try_lock()
            && !records.is_inside_record()
        {
            records.shrink();
        }
    }

    /// Sends a record, or as much of it as the caller takes; the rest waits for the poller.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send(&self, record: &[u8], poller: &Poller) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        let mut sent = 0;
        while outgoing.bytes.is_empty() && sent < record.len() {
            match self.stream.try_send(&[IoSlice::new(&record[sent..])])? {
                0 => break,
                more => sent += more,
            }
        }
        if sent < record.len() {
            outgoing.bytes.extend_from_slice(&record[sent..]);
            self.watch(&mut outgoing, poller)?;
        }
        Ok(())
    }

    /// Has the poller tell of room, and of calls unless many replies are unread.
    #[cold]
    fn watch(&self, outgoing: &mut Outgoing, poller: &Poller) -> io::Result<()> {
        outgoing.holds_back = outgoing.bytes.len() - outgoing.sent > UNREAD_MAX;
        let interest = match (outgoing.bytes.is_empty(), outgoing.holds_back) {
            (true, _) => Interest::READ,
            (false, true) => Interest::WRITE,
            (false, false) => Interest::READ_WRITE,
        };
        poller.modify(&self.stream, self.token, interest)
    }

    /// There is room to send.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&self, poller: &Poller, now_ns: u64) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        while outgoing.sent < outgoing.bytes.len() {
            match self.stream.try_send(&[IoSlice::new(&outgoing.bytes[outgoing.sent..])])? {
                0 => break,
                more => {
                    outgoing.sent += more;
                    self.used_ns.store(now_ns, Ordering::Relaxed);
                }
            }
        }
        if outgoing.sent == outgoing.bytes.len() {
            (outgoing.bytes, outgoing.sent) = (Vec::new(), 0);
        }
        self.watch(&mut outgoing, poller)
    }

    /// Bytes of replies that the caller has not taken.
    pub(super) fn unread(&self) -> usize {
        let outgoing = self.outgoing();
        outgoing.bytes.len() - outgoing.sent
    }

    /// Whether its calls are not read, since its replies are not.
    pub(super) fn holds_back(&self) -> bool {
        self.outgoing().holds_back
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Ends the connection. Returns whether it was this that ended it.
    pub(super) fn close(&self) -> bool {
        let is_first = !self.is_closed.swap(true, Ordering::AcqRel);
        if is_first {
            let _ = self.stream.shutdown();
        }
        is_first
    }
}
