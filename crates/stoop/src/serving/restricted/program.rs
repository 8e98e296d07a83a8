//! Programs of Sun RPC of which only some callers may call some procedures.

use crate::context::peer::Peer;
use crate::context::{served_call, serving_caller};
use crate::program::{IncomingCall, NoResult, Program, VersionId};
use crate::serving::restricted::Restricted;
use stoop_onc::auth::AuthStatus;

/// Callers by Sun RPC have a name under TLS and over Unix sockets. Others claim who they are (`AUTH_SYS`) and prove nothing: they call no
/// interface with a list.
impl Program for Restricted {
    fn version(&self) -> VersionId {
        self.inner.program().expect("it is one").version()
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        // Procedure 0 does nothing: callers and rpcbind ask by it whether the program is there.
        if call.procedure() == 0 {
            return call.reply(&());
        }
        if Peer::of(&serving_caller(), served_call().id()).is_none() {
            return Err(NoResult::Denied(AuthStatus::TOO_WEAK));
        }
        let program = self.inner.program().expect("it is one");
        let place = program.place_of(call.procedure()).ok_or(NoResult::ProcedureUnavailable)?;
        match self.check(place) {
            Ok(()) => program.dispatch(call),
            Err(_) => Err(NoResult::Denied(AuthStatus::REJECTED_CREDENTIAL)),
        }
    }

    fn is_idempotent(&self, procedure: u32) -> bool {
        self.inner.program().is_some_and(|program| program.is_idempotent(procedure))
    }
}
