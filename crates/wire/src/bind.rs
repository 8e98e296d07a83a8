//! The messages that make a binding: an interface is asked for by name and by the fingerprints of its procedures,
//! and the server answers with its numbers for them.
//!
//! A request is at least as long as its reply, so that nobody can use a server to multiply traffic: eight bytes of
//! fingerprint go up, two bytes of procedure number come down, and what else the reply says is padded for.
//!
//! Behind the fields that every version has come extensions, each with its type and length. A peer passes over those that
//! it does not know, so that both messages can gain fields.

use crate::cursor::{Cursor, put_text};
use crate::extensions::{self, Extensions};
use crate::{Challenge, PACKET_DATA, PACKET_DATA_CHECKED};
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the longest interface or procedure name that travels.
pub const MAX_NAME: usize = 255;

/// Fingerprints that one bind request carries; an interface of more procedures is bound page by page.
pub const FINGERPRINTS_PER_PAGE: usize = 128;

/// Stands for "no such procedure" among the server's numbers.
pub const NO_PROCEDURE: u16 = u16::MAX;

/// Lanes of a binding where neither side says otherwise.
pub const LANES: u32 = 16_384;

/// The binding flag for checksums: each packet of the binding has one behind its data, and the number of the binding has its top bit
/// set ([`BindingId::CHECKSUM`](crate::BindingId::CHECKSUM)).
pub const CHECKSUM: u32 = 1;

/// Initial credit that is no limit.
pub const NO_CREDIT_LIMIT: u32 = u32::MAX;

const REQUEST_FIXED: usize = 8 + 8 + 4 + 4 + 4 + 4 + HostFacts::LEN + 4;
const REPLY_FIXED: usize = 1 + 8 + 8 + 4 + 4 + 4 + 4 + HostFacts::LEN + 4;
/// Room that every request leaves for the reply's names of other interfaces.
const REPLY_TEXT: usize = 256;
/// Room that every request leaves for the reply's extensions, those of later versions included.
const REPLY_EXTENSIONS: usize = 128;
/// Bytes that the extensions of the longest request may have.
const REQUEST_EXTENSIONS: usize = 92;

const _: () = assert!(
    REQUEST_FIXED + 2 + MAX_NAME + 8 * FINGERPRINTS_PER_PAGE + REQUEST_EXTENSIONS <= PACKET_DATA_CHECKED
);

/// Bytes of the longest reply with the numbers of so many procedures, and so of the shortest request.
const fn reply_max(procedures: usize) -> usize {
    REPLY_FIXED + 2 + REPLY_TEXT + 2 * procedures + REPLY_EXTENSIONS
}

/// What one side tells the other about its machine, so that both know whether they can run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Differs from boot to boot and from machine to machine.
    pub boot_id: [u8; 16],
    /// Processors that the process may use at once.
    pub cpus: u16,
    /// The processor, if it is only one; else [`SEVERAL`](Self::SEVERAL).
    pub only_cpu: u16,
}

impl HostFacts {
    /// Stands for the processor of a process that may use more than one.
    pub const SEVERAL: u16 = u16::MAX;

    const LEN: usize = 20;

    /// Whether both run on one kernel, as far as that is known.
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0; 16]
    }

    /// Whether two processes can run at the same instant: not if both are held to one processor of one machine. Where
    /// they cannot, waiting by spinning keeps the other from running.
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

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Drawn by the caller; a repeated request carries the same, so that it gives one binding.
    pub nonce: u64,
    /// The cookie of the server's challenge; zero in the first request.
    pub cookie: Challenge,
    /// The binding flags without which the caller does not want the binding; zero is the fast path (Peregrine §3.1). A
    /// server that does not know one of them refuses. Only [`CHECKSUM`] has a meaning.
    pub required: u32,
    /// Binding flags that the caller can do with or without. A server passes over those that it does not know.
    pub wanted: u32,
    /// Bytes of the longest result that the caller takes.
    pub max_message: u32,
    /// Bytes of a result that it can be sent before it asks for more.
    pub window: u32,
    /// About the caller's machine.
    pub host: HostFacts,
    /// Which of the interface's procedures come first in `fingerprints`.
    pub first: u16,
    /// Name of the interface.
    pub interface: String,
    /// Of the procedures from `first` on, at most [`FINGERPRINTS_PER_PAGE`].
    pub fingerprints: Vec<u64>,
    /// Bytes of data in a packet that the caller would like, if it is not [`PACKET_DATA`].
    pub packet_data: Option<u32>,
    /// Lanes that the caller would like, if they are not [`LANES`].
    pub lanes: Option<u32>,
}

impl BindRequest {
    /// The first request for an interface: without cookie and flags, for messages of one packet, of nothing known about the
    /// caller's machine.
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

    /// Reads the payload of a bind packet. `None` for anything that [`encode`](Self::encode) cannot have written, in this
    /// version or in one that knows more extensions and flags.
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
        // Padding to the reply's length is the caller's duty: a shorter request would be an amplifier.
        (payload.len() >= reply_max(count)).then_some(request)
    }
}

/// How a server answers a bind request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindStatus {
    /// Bound; the header has the binding.
    Bound,
    /// No interface of that name; the reply's text names those that there are.
    NoSuchInterface,
    /// Too many bindings.
    Full,
    /// The server is shutting down.
    ShuttingDown,
    /// Of the binding flags that the caller requires, these are unknown to the server.
    UnknownFlags(u32),
    /// A procedure that the caller has is missing or declared otherwise: [`NO_PROCEDURE`] marks it. Nothing is bound.
    Mismatch,
    /// The caller's user is not one of those that the server serves.
    NotAllowed,
    /// A status of a later version. Nothing is bound.
    Other(u8),
}

impl BindStatus {
    /// The number that travels.
    fn code(self) -> u8 {
        match self {
            Self::Bound => 0,
            Self::NoSuchInterface => 1,
            Self::Full => 2,
            Self::ShuttingDown => 3,
            Self::UnknownFlags(_) => 4,
            Self::Mismatch => 5,
            Self::NotAllowed => 6,
            Self::Other(code) => code,
        }
    }

    /// The status with this number; `flags` is the word that holds the unknown ones if there are some.
    fn from_code(code: u8, flags: u32) -> Self {
        match code {
            0 => Self::Bound,
            1 => Self::NoSuchInterface,
            2 => Self::Full,
            3 => Self::ShuttingDown,
            4 => Self::UnknownFlags(flags),
            5 => Self::Mismatch,
            6 => Self::NotAllowed,
            other => Self::Other(other),
        }
    }
}

/// The server's clock when it answered a bind request, by which a caller can tell how much time has passed for the
/// server between two bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// Nanoseconds of a clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`); where its zero lies means nothing.
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

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindReply {
    /// How it went.
    pub status: BindStatus,
    /// The request's.
    pub nonce: u64,
    /// Drawn by the server when it starts: tells a restarted server from one that released a silent peer.
    pub incarnation: u64,
    /// The binding flags that hold: of those that the caller asked for, those that the server knows.
    pub chosen: u32,
    /// After this many milliseconds without a packet the server releases the binding.
    pub silence_ms: u32,
    /// Bytes of the longest message that the server takes on this transport.
    pub max_message: u32,
    /// Bytes of a call that it can be sent before it asks for more.
    pub window: u32,
    /// About the server's machine.
    pub host: HostFacts,
    /// The request's first procedure.
    pub first: u16,
    /// The server's numbers of the procedures asked for; [`NO_PROCEDURE`] where no fingerprint agrees.
    pub procedures: Vec<u16>,
    /// [`BindStatus::NoSuchInterface`]: what there is. [`BindStatus::Bound`] and [`BindStatus::NotAllowed`], on the server's own machine:
    /// where else it can be reached.
    pub text: String,
    /// The server's clock; `None` if the server does not tell it.
    pub clock: Option<ServerClock>,
    /// Bytes of data in a packet of the binding.
    pub packet_data: u32,
    /// Lanes that the binding may have.
    pub lanes: u32,
    /// Calls that the caller may have under way before the server has granted more; [`NO_CREDIT_LIMIT`] at present.
    pub credit: u32,
}

impl BindReply {
    /// Grants what a request asks for, by the numbers 0, 1 and so on, without flags, for messages of one packet, for as long as
    /// can be said; of nothing known about the server.
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
        debug_assert!(out.len() <= reply_max(self.procedures.len()));
        out
    }

    /// Reads the payload of a bind reply. `None` for anything that [`encode`](Self::encode) cannot have written, in this
    /// version or in one that knows more extensions, flags and statuses.
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
    /// The payload of a describe packet, as long as a packet may be: the signature comes back in as many bytes.
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
    /// The payload of a description; a signature that does not fit is cut.
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
