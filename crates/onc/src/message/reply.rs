//! The header of a reply.

use super::REPLY;
use crate::Xid;
use crate::auth::{Auth, AuthStatus};
use crate::structure::structure;
use core::fmt;
use stoop_xdr::{DecodeError, Encode, Layout, Reader, Writer, Xdr};

structure! {
    /// The versions that a server supports (`mismatch_info`, RFC 5531 §9).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    VersionRange {
        /// The lowest one.
        low: u32,
        /// The highest one. Versions between them may be missing.
        high: u32,
    }
}

/// The header of a reply (`reply_body` and what is before it, RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The call that it answers.
    pub xid: Xid,
    /// The outcome of the call.
    pub body: ReplyBody<'a>,
}

/// The outcome of a call (RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// The server accepted the caller.
    Accepted {
        /// Proves the server's identity, with flavors that do that.
        verifier: Auth<'a>,
        /// Whether the procedure ran.
        status: Accepted,
    },
    /// The server did not accept the caller. The procedure did not run.
    Denied(Denied),
}

/// The outcome of an accepted call (`accept_stat`, RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The procedure ran. The results follow.
    Success,
    /// The server does not have the program. The procedure did not run.
    ProgramUnavailable,
    /// The server has other versions of the program. The procedure did not run.
    ProgramMismatch(VersionRange),
    /// The program does not have the procedure, which did not run.
    ProcedureUnavailable,
    /// The server could not decode the arguments. The procedure did not run.
    GarbageArguments,
    /// The server failed, of memory for example. The procedure may have run.
    SystemError,
}

/// Why a server did not accept a call (`reject_stat`, RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The server speaks other versions of the message protocol.
    RpcMismatch(VersionRange),
    /// The server did not accept the credential or the verifier.
    Auth(AuthStatus),
}

impl Accepted {
    const fn number(self) -> u32 {
        match self {
            Self::Success => 0,
            Self::ProgramUnavailable => 1,
            Self::ProgramMismatch(_) => 2,
            Self::ProcedureUnavailable => 3,
            Self::GarbageArguments => 4,
            Self::SystemError => 5,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u32()? {
            0 => Self::Success,
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch(reader.value()?),
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            found => return Err(reader.unknown_arm("accepted_reply", found)),
        })
    }
}

impl Denied {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => reader.value().map(Self::RpcMismatch),
            1 => reader.u32().map(AuthStatus).map(Self::Auth),
            found => Err(reader.unknown_arm("rejected_reply", found)),
        }
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("the procedure ran"),
            Self::ProgramUnavailable => f.write_str("the server does not have the program"),
            Self::ProgramMismatch(VersionRange { low, high }) => {
                write!(
                    f,
                    "the server has other versions of the program, the lowest {low}, the highest {high}"
                )
            }
            Self::ProcedureUnavailable => f.write_str("the program does not have the procedure"),
            Self::GarbageArguments => f.write_str("the server could not decode the arguments"),
            Self::SystemError => f.write_str("the server failed"),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RpcMismatch(VersionRange { low, high }) => {
                write!(f, "the server speaks versions {low} to {high} of RPC")
            }
            Self::Auth(status) => status.fmt(f),
        }
    }
}

/// Why a message is no reply that a caller could understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply {
    /// The call that it seems to answer, if it is long enough to say. That call is over: the server will not send a
    /// better reply.
    pub xid: Option<Xid>,
    /// The fault.
    pub error: DecodeError,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the header of a reply: {}", self.error)
    }
}

impl core::error::Error for BadReply {}

impl Reply<'_> {
    /// A success, with AUTH_NONE as verifier. The results follow.
    pub const fn success(xid: Xid) -> Self {
        Self::accepted(xid, Accepted::Success)
    }

    /// A reply to a caller that was accepted, with AUTH_NONE as verifier.
    pub const fn accepted(xid: Xid, status: Accepted) -> Self {
        Reply { xid, body: ReplyBody::Accepted { verifier: Auth::NONE, status } }
    }

    /// A reply to a caller that was not accepted.
    pub const fn denied(xid: Xid, denied: Denied) -> Self {
        Reply { xid, body: ReplyBody::Denied(denied) }
    }
}

impl<'a> Reply<'a> {
    /// Splits a message into the header of a reply and a reader of its results.
    ///
    /// # Errors
    /// When the message is not a reply of this protocol.
    pub fn parse(message: &'a [u8]) -> Result<(Self, Reader<'a>), BadReply> {
        let mut reader = Reader::new(message);
        match Self::read(&mut reader) {
            Ok(reply) => Ok((reply, reader)),
            Err(error) => Err(BadReply { xid: Xid::of(message), error }),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let xid = reader.value()?;
        let kind = reader.u32()?;
        if kind != REPLY {
            return Err(reader.unknown_value("msg_type", kind));
        }
        let body = match reader.u32()? {
            0 => ReplyBody::Accepted { verifier: reader.value()?, status: Accepted::read(reader)? },
            1 => ReplyBody::Denied(Denied::read(reader)?),
            found => return Err(reader.unknown_arm("reply_body", found)),
        };
        Ok(Reply { xid, body })
    }
}

impl Xdr for Reply<'_> {
    const LAYOUT: Layout = Layout::variable(20);
}

impl Encode for Reply<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.xid);
        writer.u32(REPLY);
        match &self.body {
            ReplyBody::Accepted { verifier, status } => {
                writer.u32(0);
                writer.value(verifier);
                writer.u32(status.number());
                if let Accepted::ProgramMismatch(range) = status {
                    writer.value(range);
                }
            }
            ReplyBody::Denied(denied) => {
                writer.u32(1);
                match denied {
                    Denied::RpcMismatch(range) => {
                        writer.u32(0);
                        writer.value(range);
                    }
                    Denied::Auth(AuthStatus(status)) => {
                        writer.u32(1);
                        writer.u32(*status);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Flavor;
    use alloc::vec::Vec;
    use stoop_xdr::{Fault, to_vec};

    const XID: Xid = Xid(0x0102_0304);

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Every state of a reply, with its words after the xid and the kind.
    fn every_state() -> [(Reply<'static>, &'static [u32]); 9] {
        let range = VersionRange { low: 1, high: 9 };
        let accepted = |status| Reply::accepted(XID, status);
        let denied = |denied| Reply::denied(XID, denied);
        let verifier = Auth { flavor: Flavor(6), body: b"body" };
        let verified = ReplyBody::Accepted { verifier, status: Accepted::Success };
        [
            (Reply::success(XID), &[0, 0, 0, 0]),
            (Reply { xid: XID, body: verified }, &[0, 6, 4, 0x626f_6479, 0]),
            (accepted(Accepted::ProgramUnavailable), &[0, 0, 0, 1]),
            (accepted(Accepted::ProgramMismatch(range)), &[0, 0, 0, 2, 1, 9]),
            (accepted(Accepted::ProcedureUnavailable), &[0, 0, 0, 3]),
            (accepted(Accepted::GarbageArguments), &[0, 0, 0, 4]),
            (accepted(Accepted::SystemError), &[0, 0, 0, 5]),
            (denied(Denied::RpcMismatch(range)), &[1, 0, 1, 9]),
            (denied(Denied::Auth(AuthStatus::TOO_WEAK)), &[1, 1, 5]),
        ]
    }

    #[test]
    fn every_state_of_a_reply_is_read_as_it_was_written() {
        for (reply, rest) in every_state() {
            let message = words(&[&[XID.0, 1], rest].concat());
            assert_eq!(to_vec(&reply).as_ref(), Ok(&message), "{reply:?}");
            let (parsed, results) = Reply::parse(&message).unwrap();
            assert_eq!((parsed, results.finish()), (reply, Ok(())));
        }
    }

    #[test]
    fn a_truncated_reply_says_which_call_it_answers() {
        for (reply, _) in every_state() {
            let message = to_vec(&reply).unwrap();
            for len in 0..message.len() {
                let bad = Reply::parse(&message[..len]).map(|(reply, _)| reply).unwrap_err();
                assert_eq!(bad.xid, (len >= 4).then_some(XID));
                assert!(matches!(bad.error.fault, Fault::Truncated { .. }), "{bad}");
            }
        }
    }

    #[test]
    fn an_unknown_state_is_named() {
        let fault = |message: &[u32]| Reply::parse(&words(message)).map(drop).unwrap_err().error;
        let unknown_arm = |name, found| Fault::UnknownArm { name, found };
        let at = |position, fault| DecodeError { position, fault };
        assert_eq!(fault(&[1, 0, 0, 0, 0, 0]), at(4, Fault::UnknownValue { name: "msg_type", found: 0 }));
        assert_eq!(fault(&[1, 1, 2]), at(8, unknown_arm("reply_body", 2)));
        assert_eq!(fault(&[1, 1, 0, 0, 0, 6]), at(20, unknown_arm("accepted_reply", 6)));
        assert_eq!(fault(&[1, 1, 1, 2]), at(12, unknown_arm("rejected_reply", 2)));
    }
}
