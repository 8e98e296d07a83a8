//! One connection of a server: records that arrive, and replies that leave.

use crate::context::{Caller, owner_on};
use crate::onc::channel::Channel;
#[cfg(feature = "seal")]
use crate::onc::server::stage::{IN_CLEAR, SealedCaller, Stage};
use crate::serving::message_memory::{Content, MemoryShare};
use std::io;
use std::mem;
use std::net::IpAddr;
#[cfg(feature = "seal")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_exchange::shares::Owner;
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::{Stream, StreamArrival};
use stoop_onc::record::{RecordLimits, Records};
use stoop_wire::BindingId;

/// A connection to a caller.
pub(super) struct Connection {
    pub(super) channel: Channel,
    /// Its name in the poller.
    pub(super) token: u64,
    pub(super) caller: Caller,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
    /// Calls of it that have not been answered.
    pub(super) active: AtomicUsize,
    /// The part of the server's memory that its long calls and its unread replies may take.
    memory: Arc<MemoryShare>,
    /// When something was last received or sent.
    pub(super) used_ns: AtomicU64,
    /// When the record began that is incomplete; 0: none is.
    record_since_ns: AtomicU64,
    is_closed: AtomicBool,
    /// When it was accepted.
    #[cfg(feature = "seal")]
    pub(super) begun_ns: u64,
    #[cfg(feature = "seal")]
    requires_tls: bool,
    /// Its caller, once it is under TLS.
    #[cfg(feature = "seal")]
    pub(super) sealed: OnceLock<SealedCaller>,
    /// The name among whose connections it is counted.
    #[cfg(feature = "seal")]
    pub(super) counted_by: OnceLock<Owner>,
}

/// Calls that arrive.
pub(super) struct Incoming {
    pub(super) records: Records,
    #[cfg(feature = "seal")]
    pub(super) stage: Stage,
    /// Bytes of memory of `records` that are counted.
    counted: usize,
}

/// A connection's memory for a call is counted if it is more.
const UNCOUNTED_MAX: usize = 16 << 10;

/// Replies that the caller has not taken.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes of memory that are counted.
    counted: usize,
    /// The poller tells of room to send only, and of nothing that arrives.
    holds_back: bool,
}

/// Bytes of replies for which a connection that reads nothing still gets its calls read.
const UNREAD_MAX: usize = 1 << 20;

/// A wait takes about its limit, and never so many times as long: that needs one system call in place of two.
const ABOUT: u64 = 8;

/// The state in which a look found a connection.
#[derive(Debug, PartialEq, Eq)]
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
    /// There is no memory for its call: its host has its share, or the process has none left.
    NoMemory,
    /// It is not under TLS, and so many calls were refused.
    #[cfg(feature = "seal")]
    Refused(u32),
    /// Bytes of a handshake, for the thread of handshakes. Nothing is read before it has taken them.
    #[cfg(feature = "seal")]
    Handshake(Vec<u8>),
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        token: u64,
        (caller, memory): (Caller, Arc<MemoryShare>),
        (limits, requires_tls): (RecordLimits, bool),
        now_ns: u64,
    ) -> Self {
        #[cfg(feature = "seal")]
        let (limits, stage) = if requires_tls { (IN_CLEAR, Stage::Clear) } else { (limits, Stage::Open) };
        #[cfg(not(feature = "seal"))]
        let _ = requires_tls;
        let incoming = Incoming {
            records: Records::new(limits),
            #[cfg(feature = "seal")]
            stage,
            counted: 0,
        };
        Self {
            channel: Channel::new(stream),
            token,
            caller,
            incoming: Mutex::new(incoming),
            outgoing: Mutex::default(),
            active: AtomicUsize::new(0),
            memory,
            used_ns: AtomicU64::new(now_ns),
            record_since_ns: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            #[cfg(feature = "seal")]
            begun_ns: now_ns,
            #[cfg(feature = "seal")]
            requires_tls,
            #[cfg(feature = "seal")]
            sealed: OnceLock::new(),
            #[cfg(feature = "seal")]
            counted_by: OnceLock::new(),
        }
    }

    /// Whether it has to be under TLS before its first call, and is not.
    pub(super) fn awaits_tls(&self) -> bool {
        #[cfg(feature = "seal")]
        return self.requires_tls && self.sealed.get().is_none();
        #[cfg(not(feature = "seal"))]
        false
    }

    /// The number by which its caller is known, if it is under TLS.
    pub(super) fn binding(&self) -> BindingId {
        #[cfg(feature = "seal")]
        return self.sealed.get().map_or(BindingId::NONE, |caller| caller.binding);
        #[cfg(not(feature = "seal"))]
        BindingId::NONE
    }

    /// The party whose share of the server it takes: its caller by its name, or the host.
    pub(super) fn owner(&self) -> Owner {
        owner_on(self.binding(), &self.caller)
    }

    /// The caller's address without the port; `None` over a Unix socket.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        if let Caller::Network(address) = self.caller { Some(address.ip()) } else { None }
    }

    pub(super) fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives what is there, or waits for that long, and passes each record that is complete to `with`.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        limit_ns: u64,
        now_ns: impl Fn() -> u64,
        with: impl FnMut(&[u8]),
    ) -> Read {
        // One thread at a time: two that look at the same connection must not swap what they received.
        let mut incoming = self.incoming();
        #[cfg(feature = "seal")]
        if matches!(incoming.stage, Stage::AtWork(_)) {
            return Read::Nothing;
        }
        let len = match self.channel.recv_about(buffer, limit_ns, ABOUT * limit_ns) {
            Ok(StreamArrival::Bytes(len)) => len,
            Ok(StreamArrival::Nothing) => return Read::Nothing,
            Ok(StreamArrival::Closed) => return Read::Ended { is_broken: false },
            Err(why) => return Read::Ended { is_broken: why.kind() == io::ErrorKind::InvalidData },
        };
        let now_ns = now_ns();
        self.used_ns.store(now_ns, Ordering::Relaxed);
        #[cfg(feature = "seal")]
        if !matches!(incoming.stage, Stage::Open) {
            return self.read_before_calls(&mut incoming, &buffer[..len]);
        }
        self.take(&mut incoming, &buffer[..len], now_ns, with)
    }

    /// Passes each record that is complete with these bytes to `with`.
    #[inline]
    pub(super) fn take(
        &self,
        incoming: &mut Incoming,
        mut input: &[u8],
        now_ns: u64,
        mut with: impl FnMut(&[u8]),
    ) -> Read {
        // Counted before it is written, which makes the system provide it.
        if incoming.records.is_inside_record()
            && !(incoming.records.reserve(input.len()) && incoming.count(&self.memory))
        {
            return Read::NoMemory;
        }
        loop {
            match incoming.records.next(&mut input) {
                Ok(Some(record)) => {
                    self.record_since_ns.store(0, Ordering::Relaxed);
                    with(record);
                }
                Ok(None) => break,
                Err(_) => return Read::Ended { is_broken: true },
            }
        }
        if incoming.records.memory() > UNCOUNTED_MAX {
            if !incoming.records.is_inside_record() {
                incoming.records.shrink();
            }
            if !incoming.count(&self.memory) {
                return Read::NoMemory;
            }
        }
        if incoming.records.is_inside_record() && self.record_since_ns.load(Ordering::Relaxed) == 0 {
            self.record_since_ns.store(now_ns, Ordering::Relaxed);
        }
        Read::Some
    }

    /// When the incomplete record began, if there is one.
    pub(super) fn record_since_ns(&self) -> Option<u64> {
        Some(self.record_since_ns.load(Ordering::Relaxed)).filter(|since_ns| *since_ns > 0)
    }

    /// Makes room in `message` for the `len` bytes of a call that is to run. The room stays counted until
    /// [`uncount`](Self::uncount). `false`: there is no memory for it.
    pub(super) fn make_room(&self, message: &mut Vec<u8>, len: usize) -> bool {
        message.clear();
        let is_counted = len <= UNCOUNTED_MAX || self.memory.take(Content::Arguments, len);
        let has_room = is_counted && stoop_exchange::reserve(message, len);
        if is_counted && !has_room {
            self.uncount(len);
        }
        has_room
    }

    /// A call of `len` bytes has ended.
    pub(super) fn uncount(&self, len: usize) {
        if len > UNCOUNTED_MAX {
            self.memory.give_back(Content::Arguments, len);
        }
    }

    /// Sends a record, or as much of it as the caller takes; the rest waits for the poller.
    ///
    /// # Errors
    /// The connection is broken, or there is no memory for what the caller does not take.
    pub(super) fn send(&self, record: &[u8], poller: &Poller) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        let mut sent = 0;
        while outgoing.bytes.is_empty() && sent < record.len() {
            match self.channel.try_send(&record[sent..])? {
                0 => break,
                more => sent += more,
            }
        }
        if sent < record.len() {
            outgoing.keep(&record[sent..], &self.memory)?;
            self.watch(&mut outgoing, poller)?;
        }
        Ok(())
    }

    /// Has the poller tell of room, and of calls unless many replies are unread.
    #[cold]
    pub(super) fn watch(&self, outgoing: &mut Outgoing, poller: &Poller) -> io::Result<()> {
        outgoing.holds_back = outgoing.bytes.len() - outgoing.sent > UNREAD_MAX;
        let interest = match (outgoing.bytes.is_empty(), outgoing.holds_back) {
            (true, _) => Interest::READ,
            (false, true) => Interest::WRITE,
            (false, false) => Interest::READ_WRITE,
        };
        poller.modify(&self.channel, self.token, interest)
    }

    /// There is room to send.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&self, poller: &Poller, now_ns: u64) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        while outgoing.sent < outgoing.bytes.len() {
            match self.channel.try_send(&outgoing.bytes[outgoing.sent..])? {
                0 => break,
                more => {
                    outgoing.sent += more;
                    self.used_ns.store(now_ns, Ordering::Relaxed);
                }
            }
        }
        if outgoing.sent == outgoing.bytes.len() {
            (outgoing.bytes, outgoing.sent) = (Vec::new(), 0);
            self.memory.give_back(Content::Results, mem::take(&mut outgoing.counted));
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
            let _ = self.channel.shutdown();
        }
        is_first
    }
}

impl Incoming {
    /// Counts the memory of a long call as it is now. `false`: there may not be so much.
    fn count(&mut self, share: &MemoryShare) -> bool {
        let memory = match self.records.memory() {
            0..=UNCOUNTED_MAX => 0,
            memory => memory,
        };
        if memory < self.counted {
            share.give_back(Content::Arguments, self.counted - memory);
        } else if memory > self.counted && !share.take(Content::Arguments, memory - self.counted) {
            return false;
        }
        self.counted = memory;
        true
    }
}

impl Outgoing {
    /// Keeps a part of a reply, and counts its memory.
    fn keep(&mut self, rest: &[u8], share: &MemoryShare) -> io::Result<()> {
        self.bytes.try_reserve(rest.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let more = self.bytes.capacity() - self.counted;
        if more > 0 && !share.take(Content::Results, more) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.counted += more;
        self.bytes.extend_from_slice(rest);
        Ok(())
    }
}
