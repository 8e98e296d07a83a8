//! From the message of a call to the message of its reply.

use crate::context::cancelled::CallId;
use crate::context::identity::claiming;
use crate::context::{self, Caller};
use crate::onc::server::program_times::ProgramTimes;
use crate::program::VersionId;
use crate::program::programs::{Programs, dispatch};
use crate::program::{IncomingCall, NoResult};
use stoop_net::clock;
use stoop_onc::auth::{AuthStatus, Flavor, Identity};
use stoop_onc::message::{self, Accepted, BadCall, Call, Denied, Reply};
use stoop_wire::{BindingId, CallNumber, LaneId};
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

/// Where a call comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) caller: Caller,
    /// Of a connection under TLS: the number by which its caller is known.
    pub(crate) binding: BindingId,
}

impl Origin {
    /// A caller that has proved nothing but where it is.
    pub(crate) fn plain(caller: Caller) -> Self {
        Self { caller, binding: BindingId::NONE }
    }
}

/// Calls have no deadline in Sun RPC.
const NO_DEADLINE_NS: u64 = u64::MAX - 1;

/// Runs the call in `message`, and writes its reply into `reply` behind the first `start` bytes, which has at most `reply_max` bytes.
pub(crate) fn answer(
    (programs, times): (&Programs, &ProgramTimes),
    message: &[u8],
    origin: Origin,
    reply: &mut Vec<u8>,
    start: usize,
    reply_max: usize,
) -> Answer {
    let (call, arguments) = match Call::parse(message) {
        Ok(parsed) => parsed,
        Err(bad) => return refuse(&bad, reply, start),
    };
    let begun_ns = clock::now_ns();
    let ran = run(programs, call, arguments, origin, reply, start);
    if ran.is_ok() {
        times.of(message).took(clock::now_ns() - begun_ns);
    }
    match ran {
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
    Origin { caller, binding }: Origin,
    reply: &mut Vec<u8>,
    start: usize,
) -> Result<Option<usize>, Reply<'static>> {
    let xid = call.xid;
    let identity = Identity::of(call.credential).map_err(|status| {
        // RFC 9289 §4.1: under TLS, a question for TLS is no valid credential.
        let is_second = call.credential.flavor == Flavor::TLS && binding != BindingId::NONE;
        let status = if is_second { AuthStatus::BAD_CREDENTIAL } else { status };
        Reply::denied(xid, Denied::Auth(status))
    })?;
    let id = VersionId { program: call.procedure.program, version: call.procedure.version };
    let program = programs.find(id).map_err(|status| Reply::accepted(xid, status))?;
    let mut incoming = IncomingCall { call, identity: &identity, caller, arguments, reply, start, end: None };
    let id_of_call = CallId::new(binding, LaneId(0), CallNumber::ZERO);
    let serve = || claiming(&identity, || dispatch(program, &mut incoming));
    let accepted = match context::serving_call(id_of_call, NO_DEADLINE_NS, caller, serve) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Program, VersionId};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;
    use stoop_onc::Xid;
    use stoop_onc::auth::Auth;
    use stoop_onc::message::ProcedureId;

    const ID: VersionId = VersionId { program: 0x2000_0097, version: 1 };
    const SLOW: u32 = 1;
    const QUICK: u32 = 2;

    struct Sleeper;

    impl Program for Sleeper {
        fn version(&self) -> VersionId {
            ID
        }

        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
            match (call.procedure(), call.arguments().value::<u32>()?) {
                (SLOW, millis) => thread::sleep(Duration::from_millis(millis.into())),
                (QUICK, _) => {}
                _ => return Err(NoResult::ProcedureUnavailable),
            }
            call.reply(&())
        }
    }

    #[test]
    fn a_procedure_takes_long_after_two_slow_calls_and_refused_calls_do_not_change_that() {
        let (mut programs, times) = (Programs::default(), ProgramTimes::new());
        programs.add(Arc::new(Sleeper));
        let call_of = |procedure, arguments: &[u32]| {
            let procedure = ProcedureId { program: ID.program, version: ID.version, procedure };
            let call = Call { xid: Xid(7), procedure, credential: Auth::NONE, verifier: Auth::NONE };
            let mut bytes = Vec::new();
            message::append(&call, &(), &mut bytes).unwrap();
            bytes.extend(arguments.iter().flat_map(|number| number.to_be_bytes()));
            let answer =
                answer((&programs, &times), &bytes, Origin::plain(Caller::Local), &mut Vec::new(), 0, 1024);
            assert!(matches!(answer, Answer::Reply(_)));
            times.of(&bytes).is_long()
        };
        assert!(!call_of(SLOW, &[1]));
        assert!(call_of(SLOW, &[1]));
        assert!(call_of(SLOW, &[]), "it did not run");
        assert!(!call_of(QUICK, &[0]));
        assert!(call_of(SLOW, &[1]));
    }
}
