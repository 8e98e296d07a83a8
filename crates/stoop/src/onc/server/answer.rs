//! From the message of a call to the message of its reply.

use crate::context::cancelled::CallId;
use crate::context::identity::claiming;
use crate::context::{self, Caller};
use crate::program::VersionId;
use crate::program::programs::{Programs, dispatch};
use crate::program::{IncomingCall, NoResult};
use stoop_onc::auth::Identity;
use stoop_onc::message::{self, Accepted, BadCall, Call, Denied, Reply};
use stoop_xdr::Reader;

/// The step after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Send the reply, which ends there in the buffer.
    Reply(usize),
    /// Send nothing.
    None,
    /// The sender does not speak the protocol: close its connection.
    Broken,
}

/// Calls have no deadline in Sun RPC.
const NO_DEADLINE_NS: u64 = u64::MAX - 1;

/// Runs the call in `message`, and writes its reply into `reply` behind the first `start` bytes, which has at most `reply_max` bytes.
pub(crate) fn answer(
    programs: &Programs,
    message: &[u8],
    caller: Caller,
    reply: &mut Vec<u8>,
    start: usize,
    reply_max: usize,
) -> Answer {
    let (call, arguments) = match Call::parse(message) {
        Ok(parsed) => parsed,
        Err(bad) => return refuse(&bad, reply, start),
    };
    match run(programs, call, arguments, caller, reply, start) {
        Ok(Some(end)) if end - start <= reply_max => Answer::Reply(end),
        Ok(None) => Answer::None,
        Ok(Some(_)) => put(&Reply::accepted(call.xid, Accepted::SystemError), reply, start),
        Err(refusal) => put(&refusal, reply, start),
    }
}

/// RFC 5531 §9 says in which order the caller, the program, the version, the procedure and the arguments are looked at.
#[inline]
fn run(
    programs: &Programs,
    call: Call<'_>,
    arguments: Reader<'_>,
    caller: Caller,
    reply: &mut Vec<u8>,
    start: usize,
) -> Result<Option<usize>, Reply<'static>> {
    let xid = call.xid;
    let identity =
        Identity::of(call.credential).map_err(|status| Reply::denied(xid, Denied::Auth(status)))?;
    let id = VersionId { program: call.procedure.program, version: call.procedure.version };
    let program = programs.find(id).map_err(|status| Reply::accepted(xid, status))?;
    let mut incoming = IncomingCall { call, identity: &identity, caller, arguments, reply, start, end: None };
    let serve = || claiming(&identity, || dispatch(program, &mut incoming));
    let accepted = match context::serving_call(CallId::NONE, NO_DEADLINE_NS, caller, serve) {
        Ok(()) => return Ok(incoming.end),
        Err(NoResult::NoReply) => return Ok(None),
        Err(NoResult::ProcedureUnavailable) => Accepted::ProcedureUnavailable,
        Err(NoResult::BadArguments(_)) => Accepted::GarbageArguments,
        Err(NoResult::Denied(status)) => return Err(Reply::denied(xid, Denied::Auth(status))),
        Err(NoResult::Failed) => Accepted::SystemError,
    };
    Err(Reply::accepted(xid, accepted))
}

/// Answers a message that is not a valid call.
#[cold]
fn refuse(bad: &BadCall, reply: &mut Vec<u8>, start: usize) -> Answer {
    bad.reply().map_or(Answer::Broken, |refusal| put(&refusal, reply, start))
}

#[cold]
pub(crate) fn put(refusal: &Reply<'_>, reply: &mut Vec<u8>, start: usize) -> Answer {
    let end = message::write(refusal, &(), reply, start).expect("a refusal has a form");
    Answer::Reply(end)
}
