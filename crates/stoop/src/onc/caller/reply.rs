//! The outcome of a call, read from its reply.

use crate::calling::call_table::Payload;
use crate::error::{CallError, SunError, SunFault};
use crate::onc::authentication::Authentication;
use stoop_onc::message::{Accepted, Denied, Reply, ReplyBody};
use stoop_xdr::{DecodeError, Reader};

/// A copy of a reply, to be [kept].
pub(crate) fn copied(message: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(message.len() + size_of::<u32>());
    packet.extend_from_slice(message);
    packet
}

/// A reply, and how often its call was sent, as the table of calls keeps them.
pub(crate) fn kept(mut packet: Vec<u8>, transmissions: u32) -> Payload {
    packet.extend_from_slice(&transmissions.to_le_bytes());
    let len = packet.len();
    Payload::new(packet, 0, len)
}

/// What [`kept`] has kept.
pub(crate) fn of_kept(kept: &[u8]) -> (&[u8], u32) {
    let (message, transmissions) = kept.split_last_chunk().expect("it was kept with this");
    (message, u32::from_le_bytes(*transmissions))
}

/// The results in a reply to a call of the version `asked`.
///
/// # Errors
/// The server refused the call or failed, or the reply is broken.
#[inline]
pub(crate) fn results<'m>(
    message: &'m [u8],
    transmissions: u32,
    asked: u32,
    authentication: &dyn Authentication,
) -> Result<Reader<'m>, CallError> {
    let (reply, results) = match Reply::parse(message) {
        Ok(parsed) => parsed,
        Err(bad) => return Err(failed(SunFault::BadReply(bad.error), transmissions)),
    };
    match reply.body {
        ReplyBody::Accepted { verifier, .. } if !authentication.accepts(verifier) => {
            Err(failed(SunFault::BadVerifier, transmissions))
        }
        ReplyBody::Accepted { status: Accepted::Success, .. } => Ok(results),
        ReplyBody::Accepted { status, .. } => Err(failed(fault(status, asked), transmissions)),
        ReplyBody::Denied(Denied::RpcMismatch(range)) => {
            Err(failed(SunFault::RpcVersion(range), transmissions))
        }
        ReplyBody::Denied(Denied::Auth(status)) => Err(failed(SunFault::Denied(status), transmissions)),
    }
}

/// The results are no value of the type expected.
#[cold]
pub(crate) fn bad_result(why: DecodeError, transmissions: u32) -> CallError {
    failed(SunFault::BadResult(why), transmissions)
}

#[cold]
fn failed(fault: SunFault, transmissions: u32) -> CallError {
    CallError::Sun(SunError { fault, transmissions }, None)
}

fn fault(status: Accepted, asked: u32) -> SunFault {
    match status {
        Accepted::ProgramUnavailable => SunFault::ProgramUnavailable,
        Accepted::ProgramMismatch(range) => SunFault::VersionUnavailable { asked, range },
        Accepted::ProcedureUnavailable => SunFault::ProcedureUnavailable,
        Accepted::GarbageArguments => SunFault::BadArguments,
        Accepted::Success | Accepted::SystemError => SunFault::SystemError,
    }
}
