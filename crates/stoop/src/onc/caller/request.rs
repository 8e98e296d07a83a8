//! A call that is to be made, and its way into a buffer.

use crate::calling::deadline::CallTimes;
use crate::error::{CallError, SendError};
use crate::onc::authentication::Authentication;
use stoop_onc::Xid;
use stoop_onc::message::{self, Call, ProcedureId};
use stoop_xdr::{Encode, EncodeError};

/// A call that is to be made.
pub(crate) struct Request<'a, A: ?Sized> {
    pub(crate) procedure: ProcedureId,
    pub(crate) times: CallTimes,
    pub(crate) arguments: &'a A,
}

/// Writes a call into `room` behind its first `start` bytes. Returns where it ends.
///
/// # Errors
/// The arguments have no XDR form.
#[inline]
pub(crate) fn write<A: Encode + ?Sized>(
    xid: Xid,
    procedure: ProcedureId,
    authentication: &dyn Authentication,
    arguments: &A,
    room: &mut Vec<u8>,
    start: usize,
) -> Result<usize, CallError> {
    let mut written = Err(EncodeError::NoRoom { needed: 0, room: 0 });
    authentication.authenticate(&mut |credential, verifier| {
        let call = Call { xid, procedure, credential, verifier };
        written = message::write(&call, arguments, room, start);
    });
    written.map_err(no_form)
}

#[cold]
pub(crate) fn no_form(why: EncodeError) -> CallError {
    CallError::not_sent(SendError::Xdr(why))
}
