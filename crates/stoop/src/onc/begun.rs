//! A begun call, as its handle holds it.

use crate::client::other_call::OtherCall;
use crate::error::{CallError, UnknownCause};
use crate::onc::caller::carrier::Carrier;
use crate::onc::caller::connection::Connection;
use crate::onc::caller::outstanding::OutstandingCall;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_xdr::{DecodeError, Reader};

/// A call in flight, on its connection.
pub(crate) struct BegunCall {
    pub(crate) carrier: Arc<Carrier>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) call: Arc<OutstandingCall>,
}

/// A call in flight, and the function that makes its value of the results.
pub(crate) struct DecodedCall<D, F, R> {
    /// There until the value has been taken.
    call: Option<BegunCall>,
    decode: Option<(D, F)>,
    results: PhantomData<fn() -> R>,
}

impl<D, F, R> DecodedCall<D, F, R> {
    /// `decode` reads the results, `finish` makes the handle's value of the outcome.
    pub(crate) fn new(call: BegunCall, decode: D, finish: F) -> Self {
        Self { call: Some(call), decode: Some((decode, finish)), results: PhantomData }
    }

    /// The call, as long as this process is the one that has begun it: in a forked child it has ended.
    fn here(&self) -> Option<&BegunCall> {
        self.call.as_ref().filter(|begun| begun.connection.is_of_this_process())
    }
}

impl<D, F, R, V> OtherCall<V> for DecodedCall<D, F, R>
where
    D: FnOnce(&mut Reader<'_>) -> Result<R, DecodeError> + Send + Sync,
    F: FnOnce(Result<R, CallError>) -> V + Send + Sync,
{
    fn is_ready(&self) -> bool {
        self.here().is_none_or(|begun| begun.call.has_ended())
    }

    fn poll(&self, waker: &Waker) -> bool {
        self.here().is_none_or(|begun| begun.call.poll(waker))
    }

    fn wait_until(&self, until: Instant) -> bool {
        self.here().is_none_or(|begun| begun.connection.wait(&begun.call, until.as_nanos()))
    }

    fn take(&mut self) -> Option<V> {
        let begun = self.call.as_ref().expect("the result of this call has been taken already");
        let ended = match begun.connection.is_of_this_process() {
            true => begun.call.take()?,
            false => Err(forked()),
        };
        let begun = self.call.take().expect("it is there");
        let (decode, finish) = self.decode.take().expect("it is there as long as the call");
        Some(finish(begun.carrier.result(ended, decode)))
    }

    fn detach(mut self: Box<Self>) {
        // The background thread drops the reply when it comes. Over UDP the call is sent again as long as the connection is there.
        if let Some(begun) = self.call.take() {
            begun.connection.detach(begun.call);
        }
    }
}

impl<D, F, R> Drop for DecodedCall<D, F, R> {
    fn drop(&mut self) {
        if let Some(begun) = self.here() {
            begun.connection.cancel(&begun.call);
        }
    }
}

#[cold]
fn forked() -> CallError {
    CallError::Unknown { transmissions: 1, waited: Duration::ZERO, cause: UnknownCause::Forked }
}
