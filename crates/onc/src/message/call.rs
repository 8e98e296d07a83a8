//! The header of a call.

use super::reply::{Denied, Reply, ReplyBody, VersionRange};
use super::{CALL, RPC_VERSION};
use crate::Xid;
use crate::auth::{Auth, AuthStatus};
use core::fmt;
use stoop_xdr::{DecodeError, Encode, Fault, Layout, Reader, Writer, Xdr};

/// A procedure, as a call names it (RFC 5531 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureId {
    /// The number of the program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The number of the procedure in that version. Procedure 0 does nothing, by convention (RFC 5531 §12.1).
    pub procedure: u32,
}

impl fmt::Display for ProcedureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "procedure {} of program {} version {}", self.procedure, self.program, self.version)
    }
}

/// The header of a call (`call_body` and what is before it, RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Matches the reply to the call.
    pub xid: Xid,
    /// The procedure that is called.
    pub procedure: ProcedureId,
    /// The caller's credential.
    pub credential: Auth<'a>,
    /// The verifier of the credential.
    pub verifier: Auth<'a>,
}

/// Why a message is no call that a server could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// It is a reply, or its kind is unknown. No reply would be understood.
    NotACall {
        /// The kind found.
        kind: u32,
    },
    /// The header is not all there. No reply would be understood.
    Truncated(DecodeError),
    /// It is of another version of the message protocol.
    RpcVersion {
        /// The call.
        xid: Xid,
        /// The version found.
        version: u32,
    },
    /// Its credential or verifier is longer than allowed.
    Auth {
        /// The call.
        xid: Xid,
        /// Which of them.
        status: AuthStatus,
    },
}

impl BadCall {
    /// The reply, if the protocol has one. Without one, a server ignores a datagram, and closes a connection.
    ///
    /// libtirpc never replies here; RFC 5531 §9 has the replies.
    pub fn reply(&self) -> Option<Reply<'static>> {
        let (xid, denied) = match *self {
            Self::NotACall { .. } | Self::Truncated(_) => return None,
            Self::RpcVersion { xid, .. } => {
                (xid, Denied::RpcMismatch(VersionRange { low: RPC_VERSION, high: RPC_VERSION }))
            }
            Self::Auth { xid, status } => (xid, Denied::Auth(status)),
        };
        Some(Reply { xid, body: ReplyBody::Denied(denied) })
    }
}

impl fmt::Display for BadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACall { kind } => write!(f, "expected a call, found a message of kind {kind}"),
            Self::Truncated(error) => write!(f, "the header of a call: {error}"),
            Self::RpcVersion { xid, version } => {
                write!(f, "call {xid} is of version {version} of RPC, and {RPC_VERSION} is spoken here")
            }
            Self::Auth { xid, status } => write!(f, "call {xid} is refused: {status}"),
        }
    }
}

impl core::error::Error for BadCall {}

impl<'a> Call<'a> {
    /// Splits a message into the header of a call and a reader of its arguments.
    ///
    /// # Errors
    /// When the message is not a call of this version of the protocol.
    pub fn parse(message: &'a [u8]) -> Result<(Self, Reader<'a>), BadCall> {
        let mut reader = Reader::new(message);
        let call = Self::read(&mut reader)?;
        Ok((call, reader))
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, BadCall> {
        let xid: Xid = reader.value().map_err(BadCall::Truncated)?;
        let kind = reader.u32().map_err(BadCall::Truncated)?;
        if kind != CALL {
            return Err(BadCall::NotACall { kind });
        }
        // RFC 5531 §9: the version comes first and its place is fixed, so that other versions can be told.
        let version = reader.u32().map_err(BadCall::Truncated)?;
        if version != RPC_VERSION {
            return Err(BadCall::RpcVersion { xid, version });
        }
        let mut number = || reader.u32().map_err(BadCall::Truncated);
        let procedure = ProcedureId { program: number()?, version: number()?, procedure: number()? };
        let credential = read_auth(reader, xid, AuthStatus::BAD_CREDENTIAL)?;
        let verifier = read_auth(reader, xid, AuthStatus::BAD_VERIFIER)?;
        Ok(Call { xid, procedure, credential, verifier })
    }
}

fn read_auth<'a>(reader: &mut Reader<'a>, xid: Xid, status: AuthStatus) -> Result<Auth<'a>, BadCall> {
    reader.value().map_err(|error| match error.fault {
        Fault::TooLong { .. } => BadCall::Auth { xid, status },
        _ => BadCall::Truncated(error),
    })
}

impl Xdr for Call<'_> {
    const LAYOUT: Layout = Layout::variable(40);
}

impl Encode for Call<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.xid);
        writer.u32(CALL);
        writer.u32(RPC_VERSION);
        writer.u32(self.procedure.program);
        writer.u32(self.procedure.version);
        writer.u32(self.procedure.procedure);
        writer.value(&self.credential);
        writer.value(&self.verifier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Flavor;
    use crate::message;
    use alloc::vec::Vec;
    use stoop_xdr::to_vec;

    const PROCEDURE: ProcedureId = ProcedureId { program: 100_000, version: 2, procedure: 3 };

    fn call<'a>() -> Call<'a> {
        let credential = Auth { flavor: Flavor(77), body: b"12345" };
        Call { xid: Xid(0x0102_0304), procedure: PROCEDURE, credential, verifier: Auth::NONE }
    }

    #[test]
    fn a_call_is_read_as_it_was_written() {
        let mut message = Vec::new();
        message::append(&call(), &7_u32, &mut message).unwrap();
        let words = [0x0102_0304, 0, 2, 100_000, 2, 3, 77, 5].map(u32::to_be_bytes).concat();
        assert_eq!(message[..32], words);
        assert_eq!(message[32..], *b"12345\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07");
        let (parsed, mut arguments) = Call::parse(&message).unwrap();
        assert_eq!(parsed, call());
        assert_eq!(arguments.value(), Ok(7_u32));
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn a_truncated_header_and_a_reply_have_no_answer() {
        let message = to_vec(&call()).unwrap();
        for len in 0..message.len() {
            let bad = Call::parse(&message[..len]).map(|(call, _)| call).unwrap_err();
            assert!(matches!(bad, BadCall::Truncated(_)), "{bad}");
            assert_eq!(bad.reply(), None);
        }
        let mut reply = message.clone();
        reply[7] = 1;
        let bad = Call::parse(&reply).map(|(call, _)| call).unwrap_err();
        assert_eq!((bad, bad.reply()), (BadCall::NotACall { kind: 1 }, None));
    }

    #[test]
    fn another_version_of_rpc_is_told_the_version_spoken() {
        let mut message = to_vec(&call()).unwrap();
        message[11] = 3;
        let bad = Call::parse(&message[..12]).map(|(call, _)| call).unwrap_err();
        let range = VersionRange { low: 2, high: 2 };
        let body = ReplyBody::Denied(Denied::RpcMismatch(range));
        assert_eq!(bad.reply(), Some(Reply { xid: Xid(0x0102_0304), body }));
    }

    #[test]
    fn a_credential_that_is_too_long_is_refused_as_such() {
        let mut message = to_vec(&call()).unwrap();
        message[30..32].copy_from_slice(&404_u16.to_be_bytes());
        message.resize(message.len() + 404, 0);
        let bad = Call::parse(&message).map(|(call, _)| call).unwrap_err();
        let body = ReplyBody::Denied(Denied::Auth(AuthStatus::BAD_CREDENTIAL));
        assert_eq!(bad.reply(), Some(Reply { xid: Xid(0x0102_0304), body }));
    }
}
