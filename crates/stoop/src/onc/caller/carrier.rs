//! The carrier of a client's calls to one address: datagrams for blocking calls over UDP, and a shared connection for all others.

use crate::calling::begun::{Outcome, OutstandingCalls};
use crate::calling::deadline::CallTimes;
use crate::error::{CallError, SendError};
use crate::onc::caller::connection::Connection;
use crate::onc::caller::datagrams::DatagramCaller;
use crate::onc::caller::link::Place;
use crate::onc::caller::not_connected::NotConnected;
use crate::onc::caller::reply;
use crate::onc::caller::request::Request;
use crate::onc::caller::sealing::Sealing;
use crate::onc::options::ClientOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_xdr::{DecodeError, Encode, Reader};

/// The way to a server.
pub(crate) struct Carrier {
    place: Place,
    options: ClientOptions,
    /// Its connections are under TLS.
    sealing: Option<Arc<Sealing>>,
    datagrams: Option<DatagramCaller>,
    /// Made when it is first needed, and anew when it was lost.
    connection: Mutex<Option<Arc<Connection>>>,
    /// No server listened at the place: it may have been started again at another.
    is_stale: AtomicBool,
}

impl Carrier {
    pub(crate) fn new(place: Place, options: &ClientOptions, sealing: Option<Arc<Sealing>>) -> Self {
        let datagrams = match &place {
            Place::Datagrams(server) => Some(DatagramCaller::new(*server, options)),
            Place::Stream(_) => None,
        };
        let (connection, is_stale) = (Mutex::default(), AtomicBool::new(false));
        Self { place, options: options.clone(), sealing, datagrams, connection, is_stale }
    }

    /// Where the server listens.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether no server listened there when a call was last made.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed) || self.datagrams.as_ref().is_some_and(DatagramCaller::is_stale)
    }

    /// Replies so far that answered no call.
    pub(crate) fn unmatched(&self) -> u64 {
        let connection = self.present().as_ref().map_or(0, |connection| connection.unmatched());
        connection + self.datagrams.as_ref().map_or(0, DatagramCaller::unmatched)
    }

    fn present(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, made now if there is none that can be used.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub(crate) fn connection(&self, now_ns: u64, deadline_ns: u64) -> Result<Arc<Connection>, NotConnected> {
        let mut present = self.present();
        if let Some(connection) = present.as_ref().filter(|connection| connection.is_usable(now_ns)) {
            return Ok(Arc::clone(connection));
        }
        let limit = Duration::from_nanos(deadline_ns.saturating_sub(now_ns));
        let limit = limit.min(self.options.bind_timeout);
        let connected = Connection::connect(&self.place, &self.options, limit, self.sealing.as_deref());
        let connection = connected.inspect_err(|_| self.is_stale.store(true, Ordering::Relaxed))?;
        *present = Some(Arc::clone(&connection));
        Ok(connection)
    }

    #[inline]
    fn connection_for_call(&self, times: CallTimes) -> Result<Arc<Connection>, CallError> {
        self.connection(times.begun_ns, times.deadline.latest_ns).map_err(|why| self.unreachable(why))
    }

    #[cold]
    fn unreachable(&self, why: NotConnected) -> CallError {
        CallError::not_sent(SendError::Bind(Box::new(why.error(self.place.to_string()))))
    }

    /// Makes a call, and passes its results to `decode`.
    ///
    /// # Errors
    /// As [`Client::call`](crate::onc::Client::call).
    #[inline]
    pub(crate) fn call<A: Encode + ?Sized, R>(
        &self,
        request: Request<'_, A>,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, CallError> {
        if let Some(datagrams) = &self.datagrams {
            return datagrams.call(request, decode);
        }
        let connection = self.connection_for_call(request.times)?;
        let asked = request.procedure.version;
        let call = connection.begin(request, false)?;
        connection.wait_any(&[call], Instant::NEVER);
        let (mut decode, mut result) = (Some(decode), None);
        connection.take(call, &mut |ended| {
            result = decode.take().map(|decode| result_of(ended, &self.options, asked, decode))
        });
        result.expect("a call ends by its deadline")
    }

    /// Begins a call without waiting.
    ///
    /// # Errors
    /// It could not be sent, and will not run.
    pub(crate) fn begin<A: Encode + ?Sized>(
        &self,
        request: Request<'_, A>,
    ) -> Result<(Arc<Connection>, u32), CallError> {
        let connection = self.connection_for_call(request.times)?;
        let call = connection.begin(request, true)?;
        Ok((connection, call))
    }

    /// Sends a call to which no reply is expected.
    ///
    /// # Errors
    /// It could not be sent, and will not run.
    pub(crate) fn queue<A: Encode + ?Sized>(&self, request: Request<'_, A>) -> Result<(), CallError> {
        self.connection_for_call(request.times)?.queue(request)
    }

    /// Sends the calls that wait for the next one.
    ///
    /// # Errors
    /// They could not be sent, and will not run.
    pub(crate) fn flush(&self, deadline_ns: u64) -> Result<(), CallError> {
        let connection = self.present().clone();
        connection.map_or(Ok(()), |connection| connection.send_waiting(deadline_ns))
    }
}

/// The results in the reply to a call of the version `asked`.
pub(crate) fn result_of<R>(
    ended: Outcome<'_>,
    options: &ClientOptions,
    asked: u32,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
) -> Result<R, CallError> {
    let (message, transmissions) = reply::of_kept(ended?.into_payload());
    let mut results = reply::results(message, transmissions, asked, &*options.authentication)?;
    decode(&mut results).map_err(|why| reply::bad_result(why, transmissions))
}
