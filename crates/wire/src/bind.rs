//! The messages that make a binding: a caller asks for an interface by its name and the fingerprints of its procedures,
//! and the server answers with its numbers for them.
//!
//! A request is at least as long as its reply, so that a server cannot be used to amplify traffic: a fingerprint takes
//! eight bytes of the request, a procedure number two bytes of the reply, and padding makes up for the reply's other
//! fields.
//!
//! Extensions follow the fields that every version has. Each has a type and a length. A peer ignores those that it does
//! not know, so that later versions can add fields to both messages.

use crate::cursor::{Cursor, put_text};
use crate::extensions::{self, Extensions};
use crate::metadata::BLOCK_MAX;
use crate::{Challenge, PACKET_DATA, PACKET_DATA_CHECKED};
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the longest interface or procedure name on the wire.
pub const MAX_NAME: usize = 255;

/// Fingerprints that one bind request carries; an interface of more procedures is bound page by page.
pub const FINGERPRINTS_PER_PAGE: usize = 128;

/// Stands for "no such procedure" among the server's numbers.
pub const NO_PROCEDURE: u16 = u16::MAX;

/// Lanes of a binding if neither side says otherwise.
pub const LANES: u32 = 16_384;

/// The binding flag for checksums: each packet of the binding has one behind its data, and the number of the binding has its top bit
/// set ([`BindingId::CHECKSUM`](crate::BindingId::CHECKSUM)).
pub const CHECKSUM: u32 = 1;

/// The binding flag for Ethernet frames without a checksum: from the grant on, neither end computes the checksums that frames have
/// beside those of [`CHECKSUM`].
pub const UNCHECKED_FRAMES: u32 = 2;

/// Name of the interface at which callers of a sealed address authenticate themselves. It is not told to callers that ask for the names of
/// interfaces.
pub const SEAL_INTERFACE: &str = "StoopSeal";

/// Initial credit that means no limit.
pub const NO_CREDIT_LIMIT: u32 = u32::MAX;

const REQUEST_FIXED: usize = 8 + 8 + 4 + 4 + 4 + 4 + HostFacts::LEN + 4;
const REPLY_FIXED: usize = 1 + 8 + 8 + 4 + 4 + 4 + 4 + HostFacts::LEN + 4;
/// Bytes of each request reserved for the reply's list of other interfaces.
const REPLY_TEXT: usize = 256;
/// Bytes of each request reserved for the reply's extensions, those of later versions included.
const REPLY_EXTENSIONS: usize = 128;
/// Most bytes of the extensions of the longest request.
const REQUEST_EXTENSIONS: usize = 92;

const _: () = assert!(
    REQUEST_FIXED + 2 + MAX_NAME + 8 * FINGERPRINTS_PER_PAGE + REQUEST_EXTENSIONS <= PACKET_DATA_CHECKED
);

/// Length of the longest reply with the numbers of so many procedures, which is the length of the shortest request.
const fn reply_max(procedures: usize) -> usize {
    REPLY_FIXED + 2 + REPLY_TEXT + 2 * procedures + REPLY_EXTENSIONS
}

/// Facts about one side's machine, from which the other side sees whether both can run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Differs from boot to boot and from machine to machine.
    pub boot_id: [u8; 16],
    /// Processors that the process may use at once.
    pub cpus: u16,
    /// The processor, if the process may use only one; otherwise [`SEVERAL`](Self::SEVERAL).
    pub only_cpu: u16,
}

impl HostFacts {
    /// Value of `processor` for a process that may use more than one.
    pub const SEVERAL: u16 = u16::MAX;

    const LEN: usize = 20;

    /// Whether both run on one kernel. `false` if that is not known.
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0; 16]
    }

    /// Whether two processes can run at the same time. They cannot if both are bound to the same processor of one
    /// machine; then a process that spins keeps the other from running.
    pub fn can_run_together(&self, other: &Self) -> bool {
        !(self.shares_kernel_with(other) && self.only_cpu == other.only_cpu && self.only_cpu != Self::SEVERAL)
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.boot_id);
        out.extend_from_slice(&self.cpus.to_le_bytes());
        out.extend_from_slice(&self.only_cpu.to_le_bytes());
    }

    fn get(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { boot_id: cursor.array()?, cpus: cursor.u16()?, only_cpu: cursor.u16()? })
    }
}

/// A request for a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Random number from the caller. A repeated request carries the same number, so that it makes only one binding.
    pub nonce: u64,
    /// The cookie of the server's challenge; zero in the first request.
    pub cookie: Challenge,
    /// The binding flags that the caller requires; zero is the fast path (Peregrine §3.1). A server that does not know
    /// one of them refuses. Only [`CHECKSUM`] and [`UNCHECKED_FRAMES`] have a meaning.
    pub required: u32,
    /// Binding flags that the caller wants but does not require. A server ignores those that it does not know.
    pub wanted: u32,
    /// Bytes of the longest result that the caller accepts.
    pub max_message: u32,
    /// Bytes of a result that the server may send before the caller's first receipt.
    pub window: u32,
    /// Facts about the caller's machine.
    pub host: HostFacts,
    /// Position in the interface of the first procedure in `fingerprints`.
    pub first: u16,
    /// Name of the interface.
    pub interface: String,
    /// Fingerprints of the procedures from `first` on, at most [`FINGERPRINTS_PER_PAGE`].
    pub fingerprints: Vec<u64>,
    /// Bytes of data in a packet that the caller wants, if not [`PACKET_DATA`].
    pub packet_data: Option<u32>,
    /// Lanes that the caller wants, if not [`LANES`].
    pub lanes: Option<u32>,
}

impl BindRequest {
    /// The first request for an interface: without cookie, flags or facts about the caller's machine, for messages of
    /// one packet.
    pub fn new(nonce: u64, interface: &str, fingerprints: Vec<u64>) -> Self {
        Self {
            nonce,
            cookie: Challenge(0),
            required: 0,
            wanted: 0,
            max_message: PACKET_DATA as u32,
            window: PACKET_DATA as u32,
            host: HostFacts::default(),
            first: 0,
            interface: interface.into(),
            fingerprints,
            packet_data: None,
            lanes: None,
        }
    }

    /// The payload of a bind packet, padded to the length of the longest reply.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PACKET_DATA);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.cookie.0.to_le_bytes());
        out.extend_from_slice(&self.required.to_le_bytes());
        out.extend_from_slice(&self.wanted.to_le_bytes());
        out.extend_from_slice(&self.max_message.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        self.host.put(&mut out);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&(self.fingerprints.len() as u16).to_le_bytes());
        put_text(&mut out, &self.interface, MAX_NAME);
        for fingerprint in &self.fingerprints {
            out.extend_from_slice(&fingerprint.to_le_bytes());
        }
        extensions::put_u32(&mut out, extensions::PACKET_DATA, self.packet_data);
        extensions::put_u32(&mut out, extensions::LANES, self.lanes);
        extensions::pad(&mut out, reply_max(self.fingerprints.len()));
        out
    }

    /// Reads the payload of a bind packet. `None` for bytes that [`encode`](Self::encode) cannot have written, in this
    /// version or in a later one with more extensions and flags.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let cursor = &mut Cursor(payload);
        let nonce = cursor.u64()?;
        let cookie = Challenge(cursor.u64()?);
        let required = cursor.u32()?;
        let wanted = cursor.u32()?;
        let max_message = cursor.u32()?;
        let window = cursor.u32()?;
        let host = HostFacts::get(cursor)?;
        let first = cursor.u16()?;
        let count = usize::from(cursor.u16()?);
        let interface = cursor.text()?;
        if count > FINGERPRINTS_PER_PAGE || interface.len() > MAX_NAME {
            return None;
        }
        let fingerprints = (0..count).map(|_| cursor.u64()).collect::<Option<_>>()?;
        let extensions = Extensions::parse(cursor.0)?;
        let request = Self {
            nonce,
            cookie,
            required,
            wanted,
            max_message,
            window,
            host,
            first,
            interface: interface.into(),
            fingerprints,
            packet_data: extensions.u32(extensions::PACKET_DATA),
            lanes: extensions.u32(extensions::LANES),
        };
        // The caller must pad to the reply's length: a shorter request would amplify traffic.
        (payload.len() >= reply_max(count)).then_some(request)
    }
}

/// How a server answers a bind request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindStatus {
    /// Bound; the header has the binding.
    Bound,
    /// There is no interface of that name; the reply's text names the interfaces that exist.
    NoSuchInterface,
    /// Too many bindings.
    Full,
    /// The server is shutting down.
    ShuttingDown,
    /// These required binding flags are unknown to the server.
    UnknownFlags(u32),
    /// One of the caller's procedures is missing or has another signature; [`NO_PROCEDURE`] marks it. Nothing is bound.
    Mismatch,
    /// The server does not serve this caller's user.
    NotAllowed,
    /// The server makes sealed bindings only.
    SealedOnly,
    /// The caller may call no procedure of the interface; the reply's text says who may.
    Denied,
    /// A status of a later version. Nothing is bound.
    Other(u8),
}

impl BindStatus {
    /// The number on the wire.
    fn code(self) -> u8 {
        match self {
            Self::Bound => 0,
            Self::NoSuchInterface => 1,
            Self::Full => 2,
            Self::ShuttingDown => 3,
            Self::UnknownFlags(_) => 4,
            Self::Mismatch => 5,
            Self::NotAllowed => 6,
            Self::SealedOnly => 7,
            Self::Denied => 8,
            Self::Other(code) => code,
        }
    }

    /// The status with this number; `flags` contains the unknown flags, if the status has them.
    fn from_code(code: u8, flags: u32) -> Self {
        match code {
            0 => Self::Bound,
            1 => Self::NoSuchInterface,
            2 => Self::Full,
            3 => Self::ShuttingDown,
            4 => Self::UnknownFlags(flags),
            5 => Self::Mismatch,
            6 => Self::NotAllowed,
            7 => Self::SealedOnly,
            8 => Self::Denied,
            other => Self::Other(other),
        }
    }
}

/// The server's clock when it answered a bind request. It tells a caller how much time has passed at the server between
/// two bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// Nanoseconds of a clock that does not stop while the machine sleeps (`CLOCK_BOOTTIME`). Its zero has no meaning.
    pub now_ns: u64,
    /// Nanoseconds of that clock since this server began to receive at its address.
    pub up_ns: u64,
}

impl ServerClock {
    fn put(self, out: &mut Vec<u8>) {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.now_ns.to_le_bytes());
        value[8..].copy_from_slice(&self.up_ns.to_le_bytes());
        extensions::put(out, extensions::SERVER_CLOCK, &value);
    }

    fn get(extensions: Extensions<'_>) -> Option<Self> {
        let value: [u8; 16] = extensions.get(extensions::SERVER_CLOCK)?;
        let cursor = &mut Cursor(&value);
        Some(Self { now_ns: cursor.u64()?, up_ns: cursor.u64()? })
    }
}

/// An answer to a bind request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindReply {
    /// The outcome.
    pub status: BindStatus,
    /// Nonce of the request.
    pub nonce: u64,
    /// Random number from the start of the server: tells a restarted server from one that released a silent caller.
    pub incarnation: u64,
    /// The binding flags that hold: those that the caller asked for and the server knows.
    pub chosen: u32,
    /// After this many milliseconds without a packet the server releases the binding.
    pub silence_ms: u32,
    /// Bytes of the longest message that the server accepts on this transport.
    pub max_message: u32,
    /// Bytes of a call that the caller may send before the server's first receipt.
    pub window: u32,
    /// Facts about the server's machine.
    pub host: HostFacts,
    /// The request's first procedure.
    pub first: u16,
    /// The server's numbers of the procedures asked for; [`NO_PROCEDURE`] where no fingerprint matches.
    pub procedures: Vec<u16>,
    /// For [`BindStatus::NoSuchInterface`], the interfaces that exist. For [`BindStatus::Bound`] and
    /// [`BindStatus::NotAllowed`] on the server's own machine, other addresses of the server.
    pub text: String,
    /// The server's clock; `None` if the server does not tell it.
    pub clock: Option<ServerClock>,
    /// Bytes of data in a packet of the binding.
    pub packet_data: u32,
    /// Lanes that the binding may have.
    pub lanes: u32,
    /// Calls that the caller may have outstanding before the server grants more; [`NO_CREDIT_LIMIT`] at present.
    pub credit: u32,
    /// Bytes of the longest block of [metadata](crate::metadata) that the server takes; 0 if it knows none.
    pub metadata: u32,
}

impl BindReply {
    /// A reply that grants what a request asks for, with the procedure numbers 0, 1 and so on, without flags or facts
    /// about the server, for messages of one packet, with the longest silence that can be expressed.
    pub fn granting(request: &BindRequest) -> Self {
        Self {
            status: BindStatus::Bound,
            nonce: request.nonce,
            incarnation: 0,
            chosen: 0,
            silence_ms: u32::MAX,
            max_message: PACKET_DATA as u32,
            window: PACKET_DATA as u32,
            host: HostFacts::default(),
            first: request.first,
            procedures: (0..request.fingerprints.len() as u16)
                .map(|i| request.first.wrapping_add(i))
                .collect(),
            text: String::new(),
            clock: None,
            packet_data: PACKET_DATA as u32,
            lanes: LANES,
            credit: NO_CREDIT_LIMIT,
            metadata: BLOCK_MAX as u32,
        }
    }

    /// The payload of a bind reply, no longer than the request that it answers.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(reply_max(self.procedures.len()));
        out.push(self.status.code());
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        let flags = match self.status {
            BindStatus::UnknownFlags(unknown) => unknown,
            _ => self.chosen,
        };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.silence_ms.to_le_bytes());
        out.extend_from_slice(&self.max_message.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        self.host.put(&mut out);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&(self.procedures.len() as u16).to_le_bytes());
        put_text(&mut out, &self.text, REPLY_TEXT);
        for procedure in &self.procedures {
            out.extend_from_slice(&procedure.to_le_bytes());
        }
        if let Some(clock) = self.clock {
            clock.put(&mut out);
        }
        extensions::put_u32(&mut out, extensions::PACKET_DATA, Some(self.packet_data));
        extensions::put_u32(&mut out, extensions::LANES, Some(self.lanes));
        extensions::put_u32(&mut out, extensions::CREDIT, Some(self.credit));
        extensions::put_u32(&mut out, extensions::METADATA, Some(self.metadata).filter(|bytes| *bytes > 0));
        debug_assert!(out.len() <= reply_max(self.procedures.len()));
        out
    }

    /// Reads the payload of a bind reply. `None` for bytes that [`encode`](Self::encode) cannot have written, in this
    /// version or in a later one with more extensions, flags and statuses.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let cursor = &mut Cursor(payload);
        let [status] = cursor.array()?;
        let nonce = cursor.u64()?;
        let incarnation = cursor.u64()?;
        let flags = cursor.u32()?;
        let status = BindStatus::from_code(status, flags);
        let chosen = if matches!(status, BindStatus::UnknownFlags(_)) { 0 } else { flags };
        let silence_ms = cursor.u32()?;
        let max_message = cursor.u32()?;
        let window = cursor.u32()?;
        let host = HostFacts::get(cursor)?;
        let first = cursor.u16()?;
        let count = usize::from(cursor.u16()?);
        if count > FINGERPRINTS_PER_PAGE {
            return None;
        }
        let text = cursor.text()?.into();
        let procedures = (0..count).map(|_| cursor.u16()).collect::<Option<_>>()?;
        let extensions = Extensions::parse(cursor.0)?;
        Some(Self {
            status,
            nonce,
            incarnation,
            chosen,
            silence_ms,
            max_message,
            window,
            host,
            first,
            procedures,
            text,
            clock: ServerClock::get(extensions),
            packet_data: extensions.u32(extensions::PACKET_DATA).unwrap_or(PACKET_DATA as u32),
            lanes: extensions.u32(extensions::LANES).unwrap_or(LANES),
            credit: extensions.u32(extensions::CREDIT).unwrap_or(NO_CREDIT_LIMIT),
            metadata: extensions.u32(extensions::METADATA).unwrap_or(0),
        })
    }
}

/// Asks how the server declares one procedure, to explain a mismatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// Drawn by the caller.
    pub nonce: u64,
    /// Name of the interface.
    pub interface: String,
    /// Name of the procedure.
    pub procedure: String,
}

impl Describe {
    /// The payload of a describe packet, padded to the longest packet, because the signature in the answer may be as
    /// long.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PACKET_DATA);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_text(&mut out, &self.interface, MAX_NAME);
        put_text(&mut out, &self.procedure, MAX_NAME);
        out.resize(PACKET_DATA_CHECKED, 0);
        out
    }

    /// Reads the payload of a describe packet; `None` if it is none.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let cursor = &mut Cursor(payload);
        let nonce = cursor.u64()?;
        let (interface, procedure) = (cursor.text()?.into(), cursor.text()?.into());
        (payload.len() == PACKET_DATA_CHECKED).then_some(Self { nonce, interface, procedure })
    }
}

/// How the server declares a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The request's.
    pub nonce: u64,
    /// The signature, or empty if the server has no procedure of that name.
    pub signature: String,
}

impl Description {
    /// The payload of a description. A signature that does not fit is truncated.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PACKET_DATA);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_text(&mut out, &self.signature, PACKET_DATA_CHECKED - 10);
        out
    }

    /// Reads the payload of a description; `None` if it is none.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let cursor = &mut Cursor(payload);
        Some(Self { nonce: cursor.u64()?, signature: cursor.text()?.into() })
    }
}

#[cfg(test)]
#[path = "bind/tests.rs"]
mod tests;
