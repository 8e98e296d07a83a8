//! A client of one version of a program.

use crate::calling::deadline::CallTimes;
use crate::client::pending::{BegunCall, Pending};
use crate::context::nanos;
use crate::error::MetadataError;
use crate::error::{BindError, CallError, Callee, SendError};
use crate::metadata::Metadata;
use crate::onc::address::{Address, Transport};
use crate::onc::authentication::Authentication;
use crate::onc::caller::carrier::{self, Carrier};
use crate::onc::caller::link::Place;
use crate::onc::caller::not_connected::NotConnected;
use crate::onc::caller::request::Request;
use crate::onc::caller::sealing::Sealing;
use crate::onc::locate;
use crate::onc::options::ClientOptions;
use crate::program::VersionId;
use crate::transports::AnyCalls;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use stoop_net::stream::StreamAddress;
use stoop_net::{clock, fork};
use stoop_onc::message::ProcedureId;
use stoop_xdr::{DecodeError, DecodeOwned, Encode, Reader};

/// A client of one version of a program, at one server.
///
/// Any number of threads may call at once. Over UDP each of them has a socket of its own; over TCP and Unix sockets all share one
/// connection, with many calls in flight. A connection that was lost is made again by the next call.
///
/// Binding sends nothing to the program itself: if it does not exist at the address, the first call says so.
///
/// ```no_run
/// use stoop::onc::Client;
///
/// // How many users are logged in there? RUSERSPROC_NUM of rpc.rusersd.
/// let rusers = Client::bind("onc+udp://host/100002:2")?;
/// let count: u32 = rusers.call(1, &())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is known of a call without a result
///
/// Sun RPC promises less than Stoop's own protocol. [`CallError::ran`] is [`No`](crate::Ran::No) only if that is certain: the call
/// was not sent, the port was closed before the only transmission, or the server refused a call that was sent once. Over UDP a call
/// that was sent again may have run twice, even if it succeeded, unless its server keeps replies.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    timeout_ns: u64,
    /// Its calls are to carry metadata, for which the protocol has no place.
    has_metadata: bool,
}

struct Shared {
    address: Address,
    options: ClientOptions,
    /// Its connections are under TLS.
    sealing: Option<Arc<Sealing>>,
    /// The way to the server; none before the first call of a lazy client.
    carrier: Mutex<Option<Arc<Carrier>>>,
}

/// Between attempts to bind to a server that is not there yet.
const PAUSE: Duration = Duration::from_millis(100);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.shared.address)
    }
}

impl Client {
    /// Binds to `onc+udp://HOST/PROGRAM:VERSION`, `onc+tcp://HOST/PROGRAM:VERSION` (both with `:PORT` behind the host if rpcbind is
    /// not to be asked) or `onc+unix:PATH/PROGRAM:VERSION`. A server's key before the host, `onc+tcp://KEY@HOST`, means TLS.
    ///
    /// # Errors
    /// The text is no address; or the server cannot be reached; or rpcbind does not answer, or does not know the program.
    pub fn bind(uri: &str) -> Result<Self, BindError> {
        Self::bind_with(uri, &ClientOptions::default())
    }

    /// As [`bind`](Self::bind), with options.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_with(uri: &str, options: &ClientOptions) -> Result<Self, BindError> {
        let address = Address::parse(uri).map_err(BindError::Uri)?;
        let sealing = Sealing::of(&address, &options.security)?;
        let shared = Shared { address, options: options.clone(), sealing, carrier: Mutex::default() };
        if !options.lazy {
            shared.find_again(u64::MAX)?;
        }
        Ok(Self { shared: Arc::new(shared), timeout_ns: nanos(options.timeout), has_metadata: false })
    }

    /// The same client with another time-out for its calls.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout_ns: nanos(timeout), ..self.clone() }
    }

    /// The same client, for calls with this metadata: unless it is empty, they fail, because the protocol has no place for it.
    pub(crate) fn with_metadata(&self, metadata: &Metadata) -> Self {
        Self { has_metadata: !metadata.is_empty() || metadata.to_send().is_err(), ..self.clone() }
    }

    /// A client of the same server with another credential. It has sockets of its own.
    #[must_use]
    pub fn with_authentication(&self, authentication: impl Authentication + 'static) -> Self {
        let options = self.shared.options.clone().authentication(authentication);
        let address = self.shared.address.clone();
        let place = self.shared.carrier().map(|carrier| carrier.place().clone());
        let sealing = self.shared.sealing.clone();
        let carrier = Mutex::new(place.map(|place| Arc::new(Carrier::new(place, &options, sealing.clone()))));
        Self { shared: Arc::new(Shared { address, options, sealing, carrier }), ..self.clone() }
    }

    /// The address.
    pub(crate) fn address(&self) -> String {
        self.shared.address.to_string()
    }

    /// In words: the address, and by what its connections are sealed.
    ///
    /// ```
    /// use stoop::onc::{Client, ClientOptions};
    ///
    /// let lazy = ClientOptions::new().lazy();
    /// let client = Client::bind_with("onc+tcp://127.0.0.1:2049/100003:4", &lazy)?;
    /// assert_eq!(client.describe(), "onc+tcp://127.0.0.1:2049/100003:4"); // not sealed
    /// # Ok::<(), stoop::BindError>(())
    /// ```
    pub fn describe(&self) -> String {
        match &self.shared.sealing {
            Some(sealing) => format!("{}: {sealing}", self.shared.address),
            None => self.address(),
        }
    }

    /// The version that it calls.
    pub fn version(&self) -> VersionId {
        self.shared.address.version
    }

    /// Where the server listens; `None` for a Unix socket, and before the first call of a [lazy](ClientOptions::lazy) client.
    pub fn server(&self) -> Option<SocketAddr> {
        match self.shared.carrier()?.place() {
            Place::Datagrams(server) | Place::Stream(StreamAddress::Tcp(server)) => Some(*server),
            Place::Stream(_) => None,
        }
    }

    /// Replies so far that answered no call: late, repeated or forged.
    pub fn unmatched_replies(&self) -> u64 {
        self.shared.carrier().map_or(0, |carrier| carrier.unmatched())
    }

    /// Calls procedure 0, which does nothing: does the program answer?
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn null(&self) -> Result<(), CallError> {
        self.call(0, &())
    }

    /// Calls a procedure and waits for its result.
    ///
    /// # Errors
    /// There is no result. [`CallError::ran`] says whether the procedure ran, as far as [that can be known](Client).
    #[inline]
    pub fn call<A: Encode + ?Sized, R: DecodeOwned>(
        &self,
        procedure: u32,
        arguments: &A,
    ) -> Result<R, CallError> {
        self.call_with(procedure, arguments, |results| results.value())
    }

    /// Calls a procedure and passes its results to `decode`, which may borrow from them.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_with<A: Encode + ?Sized, R>(
        &self,
        procedure: u32,
        arguments: &A,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, CallError> {
        let made = || {
            let times = self.begin_call()?;
            let carrier = self.shared.carrier_for_call(times.deadline.latest_ns)?;
            carrier.call(self.shared.request(procedure, times, arguments), decode)
        };
        made().map_err(|error| self.shared.name(error, procedure))
    }

    fn begin_call(&self) -> Result<CallTimes, CallError> {
        if self.has_metadata {
            return Err(CallError::not_sent(SendError::Metadata(MetadataError::Inexpressible)));
        }
        CallTimes::begin(self.timeout_ns).ok_or(CallError::not_sent(SendError::DeadlinePassed))
    }

    /// Begins a call without waiting for its result: many can be in flight from one thread. The [handle](Pending) gives what
    /// [`call`](Self::call) returns.
    ///
    /// ```
    /// use stoop::onc::{Client, ClientOptions};
    ///
    /// # let lazy = ClientOptions::new().lazy();
    /// let client = Client::bind_with("onc+tcp://127.0.0.1:1/536870912:1", &lazy)?.with_timeout(std::time::Duration::from_millis(10));
    /// let sums: Vec<_> = (0..3).map(|n: u32| client.begin::<_, u32>(1, &n)).collect();
    /// for sum in sums {
    ///     println!("{:?}", sum.wait());
    /// }
    /// # assert!(client.null().is_err() && client.send(1, &2u32).is_err());
    /// # Ok::<(), stoop::BindError>(())
    /// ```
    pub fn begin<A, R>(&self, procedure: u32, arguments: &A) -> Pending<Result<R, CallError>>
    where
        A: Encode + ?Sized,
        R: DecodeOwned + Send + Sync + 'static,
    {
        self.begin_with(procedure, arguments, |results| results.value())
    }

    /// As [`begin`](Self::begin); the thread that takes the result from the handle passes it to `decode`, which may borrow from it.
    pub fn begin_with<A, R>(
        &self,
        procedure: u32,
        arguments: &A,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError> + Send + Sync + 'static,
    ) -> Pending<Result<R, CallError>>
    where
        A: Encode + ?Sized,
        R: Send + Sync + 'static,
    {
        self.begin_mapped(procedure, arguments, decode, |outcome| outcome)
    }

    /// As [`begin_with`](Self::begin_with); the handle gives what `finish` makes of the outcome.
    pub fn begin_mapped<A, R, V>(
        &self,
        procedure: u32,
        arguments: &A,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError> + Send + Sync + 'static,
        finish: impl FnOnce(Result<R, CallError>) -> V + Send + Sync + 'static,
    ) -> Pending<V>
    where
        A: Encode + ?Sized,
        R: 'static,
        V: Send + Sync + 'static,
    {
        match self.try_begin(procedure, arguments) {
            Ok(call) => {
                let mut once = Some((decode, finish));
                let shared = Arc::clone(&self.shared);
                Pending::decoding(
                    call,
                    Box::new(move |outcome| {
                        let (decode, finish) = once.take().expect("a call ends once");
                        let asked = shared.address.version.version;
                        let ended = carrier::result_of(outcome, &shared.options, asked, decode);
                        finish(ended.map_err(|error| shared.name(error, procedure)))
                    }),
                )
            }
            Err(error) => Pending::ready(finish(Err(self.shared.name(error, procedure)))),
        }
    }

    fn try_begin<A: Encode + ?Sized>(&self, procedure: u32, arguments: &A) -> Result<BegunCall, CallError> {
        let times = self.begin_call()?;
        let carrier = self.shared.carrier_for_call(times.deadline.latest_ns)?;
        let (connection, call) = carrier.begin(self.shared.request(procedure, times, arguments))?;
        Ok(BegunCall::new(AnyCalls::Boxed(Arc::new(connection)), call, fork::generation()))
    }

    /// Sends a call to which the server sends no reply, or whose reply is not wanted (batching, RFC 5531 §8.4.1 of its
    /// predecessor RFC 1057). Over TCP and Unix sockets it leaves with the next call, when 32 KiB wait, or with [`flush`](Self::flush) or
    /// the end of the client; over UDP at once, and it may be lost.
    ///
    /// # Errors
    /// It could not be sent, and will not run. That it was sent does not mean that it ran: only a later call with a result shows that
    /// a server which runs calls in their order has run it.
    pub fn send<A: Encode + ?Sized>(&self, procedure: u32, arguments: &A) -> Result<(), CallError> {
        let sent = || {
            let times = self.begin_call()?;
            let carrier = self.shared.carrier_for_call(times.deadline.latest_ns)?;
            carrier.queue(self.shared.request(procedure, times, arguments))
        };
        sent().map_err(|error| self.shared.name(error, procedure))
    }

    /// Sends the calls that wait for the next one.
    ///
    /// # Errors
    /// They could not be sent, and will not run.
    pub fn flush(&self) -> Result<(), CallError> {
        let flushed = || {
            let deadline_ns = self.begin_call()?.deadline.latest_ns;
            self.shared.carrier().map_or(Ok(()), |carrier| carrier.flush(deadline_ns))
        };
        flushed().map_err(|error: CallError| error.at(&self.address()))
    }
}

impl Shared {
    /// The error of a call of that procedure, with its numbers and its server.
    #[cold]
    #[inline(never)]
    fn name(&self, error: CallError, procedure: u32) -> CallError {
        let version = (self.address.version.program, self.address.version.version);
        error.knowing(Callee::numbered(version, procedure, self.address.to_string()))
    }

    #[inline]
    fn request<'a, A: ?Sized>(&self, procedure: u32, times: CallTimes, arguments: &'a A) -> Request<'a, A> {
        let VersionId { program, version } = self.address.version;
        Request { procedure: ProcedureId { program, version, procedure }, times, arguments }
    }

    fn present(&self) -> MutexGuard<'_, Option<Arc<Carrier>>> {
        self.carrier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn carrier(&self) -> Option<Arc<Carrier>> {
        self.present().clone()
    }

    /// The way to the server, found again if it was not there any more.
    #[inline]
    fn carrier_for_call(&self, deadline_ns: u64) -> Result<Arc<Carrier>, CallError> {
        match self.carrier() {
            Some(carrier) if !carrier.is_stale() => Ok(carrier),
            _ => self
                .find_again(deadline_ns)
                .map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why)))),
        }
    }

    /// Finds the server, at most until that time.
    #[cold]
    fn find_again(&self, deadline_ns: u64) -> Result<Arc<Carrier>, BindError> {
        let ClientOptions { wait_for_server, wait_for_restart, bind_timeout, .. } = self.options;
        let is_bound = self.carrier().is_some();
        let patience = wait_for_restart.filter(|_| is_bound).or(wait_for_server);
        let time_to_bind = patience.unwrap_or(bind_timeout);
        let deadline_ns = clock::now_ns().saturating_add(nanos(time_to_bind)).min(deadline_ns);
        let carrier = Arc::new(self.attempt_until(deadline_ns, patience.is_some())?);
        *self.present() = Some(Arc::clone(&carrier));
        Ok(carrier)
    }

    /// Binds; if it is to wait, again and again until the server is there.
    fn attempt_until(&self, deadline_ns: u64, waits: bool) -> Result<Carrier, BindError> {
        loop {
            let now_ns = clock::now_ns();
            let attempt_ns = now_ns.saturating_add(nanos(self.options.bind_timeout)).min(deadline_ns);
            match find(&self.address, &self.options, self.sealing.as_ref(), attempt_ns) {
                Err(why) if waits && why.may_pass() => {
                    let left = Duration::from_nanos(deadline_ns.saturating_sub(clock::now_ns()));
                    if left.is_zero() {
                        return Err(why);
                    }
                    thread::sleep(PAUSE.min(left));
                }
                bound => return bound,
            }
        }
    }
}

/// The way to the program: of its addresses the first one to which a connection can be made.
fn find(
    address: &Address,
    options: &ClientOptions,
    sealing: Option<&Arc<Sealing>>,
    deadline_ns: u64,
) -> Result<Carrier, BindError> {
    let mut last = None;
    for place in locate::places(address, deadline_ns)? {
        let carrier = Carrier::new(place, options, sealing.cloned());
        if address.transport == Transport::Udp {
            return Ok(carrier);
        }
        match carrier.connection(clock::now_ns(), deadline_ns) {
            Ok(_) => return Ok(carrier),
            Err(NotConnected::Io(cause)) => last = Some(cause),
            Err(NotConnected::Bind(why)) => return Err(why),
        }
    }
    let cause = last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
    Err(BindError::Unreachable { server: address.to_string(), cause })
}

/// The middle layer: calls a procedure of a program on a host once, over UDP, by way of its rpcbind. For more than one call, keep a
/// [`Client`].
///
/// ```no_run
/// let users: u32 = stoop::onc::call("host", 100_002, 2, 1, &())?;
/// # Ok::<(), stoop::CallError>(())
/// ```
///
/// # Errors
/// As [`Client::call`]; an error of binding is [`SendError::Bind`].
pub fn call<A: Encode + ?Sized, R: DecodeOwned>(
    host: &str,
    program: u32,
    version: u32,
    procedure: u32,
    arguments: &A,
) -> Result<R, CallError> {
    let options = ClientOptions::new().retransmission(stoop_onc::Retransmission::LIBTIRPC_RPC_CALL);
    let client = Client::bind_with(&format!("onc+udp://{host}/{program}:{version}"), &options);
    client.map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?.call(procedure, arguments)
}
