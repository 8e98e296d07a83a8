//! Programs of Sun RPC at a server: one version of a program, and the calls that it runs.

pub(crate) mod programs;

use crate::context::Caller;
use crate::context::identity::is_serving;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use stoop_net::host;
use stoop_onc::auth::{Auth, AuthStatus, Identity};
use stoop_onc::message::{self, Call, Reply};
use stoop_wire::RefusalCode;
use stoop_xdr::{DecodeError, Encode, EncodeError, Layout, Reader, Writer, Xdr};

/// A version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId {
    /// The number of the program.
    pub program: u32,
    /// The number of the version.
    pub version: u32,
}

/// The numbers of transient programs (RFC 5531 §13).
const TRANSIENT: Range<u32> = 0x4000_0000..0x6000_0000;

impl VersionId {
    /// This version of a transient program, whose number is drawn at random from those for programs that a process serves for a while:
    /// a client serves one to be called back by its server. The number goes to the server as an argument of a call.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use stoop::Server;
    /// use stoop::onc::VersionId;
    ///
    /// #[stoop::interface(program = 0x2000_0080, version = 1)]
    /// trait Progress {
    ///     fn note(&self, percent: u32);
    /// }
    ///
    /// #[derive(Default)]
    /// struct Bar(AtomicU32);
    ///
    /// impl Progress for Bar {
    ///     fn note(&self, percent: u32) {
    ///         self.0.store(percent, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // The client:
    /// let version = VersionId::transient(1);
    /// let own = Server::new().export_as(ProgressServer::new(Bar::default()), version).listen("onc+tcp://127.0.0.1")?.start()?;
    ///
    /// // The server, when it has got `version.program` and the address:
    /// let caller = ProgressClient::bind(&format!("{}/{version}", own.uris()[0]))?;
    /// caller.note(40)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn transient(version: u32) -> Self {
        let drawn = u32::from_le_bytes(host::random_bytes());
        Self { program: TRANSIENT.start + drawn % (TRANSIENT.end - TRANSIENT.start), version }
    }

    /// Whether the program is a transient one.
    pub fn is_transient(&self) -> bool {
        TRANSIENT.contains(&self.program)
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.program, self.version)
    }
}

/// Arguments or results that a function writes, one value after the other.
pub struct Arguments<F>(pub F);

impl<F> Xdr for Arguments<F> {
    const LAYOUT: Layout = Layout::variable(0);
}

impl<F: Fn(&mut Writer<'_>)> Encode for Arguments<F> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        (self.0)(writer);
    }
}

/// One version of a program, as a server runs it. Several threads call [`dispatch`](Self::dispatch) at once.
pub trait Program: Send + Sync + 'static {
    /// The numbers of the program and of the version.
    fn version(&self) -> VersionId;

    /// Runs a procedure: reads its arguments, and [replies](IncomingCall::reply). The server itself answers procedure 0 if this says
    /// that it is not there.
    ///
    /// # Errors
    /// Why the caller gets no result.
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult>;

    /// Whether running a procedure twice does the same as running it once. Over UDP the replies of such procedures are not kept:
    /// a call that is sent again runs again.
    fn is_idempotent(&self, procedure: u32) -> bool {
        procedure == 0
    }

    /// For lists of callers: the place of a procedure in the interface that this is the program of.
    #[doc(hidden)]
    fn place_of(&self, procedure: u32) -> Option<u16> {
        let _ = procedure;
        None
    }
}

/// Why a caller gets no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoResult {
    /// The version has no such procedure (PROC_UNAVAIL).
    ProcedureUnavailable,
    /// The arguments cannot be decoded (GARBAGE_ARGS).
    BadArguments(DecodeError),
    /// The caller's credential does not allow the call (AUTH_ERROR).
    Denied(AuthStatus),
    /// The procedure sends no reply: its calls are batched.
    NoReply,
    /// The server failed, or the result has no XDR form (SYSTEM_ERR).
    Failed,
}

impl From<DecodeError> for NoResult {
    fn from(why: DecodeError) -> Self {
        Self::BadArguments(why)
    }
}

/// Ends the running procedure: its caller may not make this call. The caller gets AUTH_ERROR with the status, over Stoop's own protocol
/// [`RefusalCode::Denied`]; for both that means that the procedure has not run, so deny before anything is done.
///
/// ```
/// use stoop::current_call;
/// use stoop::onc::{AuthStatus, Identity, deny};
///
/// #[stoop::interface(program = 0x2000_0081, version = 1)]
/// trait Shutdown {
///     fn halt(&self) -> u32;
/// }
///
/// struct Machine;
///
/// impl Shutdown for Machine {
///     fn halt(&self) -> u32 {
///         match current_call().expect("a procedure runs in a call").identity() {
///             Identity::Sys(user) if user.uid == 0 => 60,
///             Identity::Sys(_) => deny(AuthStatus::REJECTED_CREDENTIAL),
///             Identity::None => deny(AuthStatus::TOO_WEAK),
///         }
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(ShutdownServer::new(Machine)).listen("onc+tcp://127.0.0.1")?.start()?;
/// let nobody = ShutdownClient::bind(&server.uris()[0])?;
/// assert!(nobody.halt().unwrap_err().to_string().contains("stronger authentication"));
/// # Ok(())
/// # }
/// ```
///
/// The thread unwinds as in a panic, without the message of one: values that the procedure holds are dropped. So in a program
/// that is built with `panic = "abort"` it ends the process.
///
/// # Panics
/// Outside of a procedure.
pub fn deny(status: AuthStatus) -> ! {
    end_with(NoResult::Denied(status))
}

/// Ends the running procedure: the server does not have it. The caller gets PROC_UNAVAIL, over Stoop's own protocol
/// [`RefusalCode::UnknownProcedure`]. Procedure 0 is answered all the same.
///
/// It is the body of all procedures of a trait that was made from an interface file (`stoop::x!`): a server implements those that it
/// has. The thread unwinds, as [`deny`] says.
///
/// # Panics
/// Outside of a procedure.
pub fn unavailable() -> ! {
    end_with(NoResult::ProcedureUnavailable)
}

fn end_with(why: NoResult) -> ! {
    assert!(is_serving(), "there is no call to refuse: this thread does not serve one");
    resume_unwind(Box::new(why))
}

/// The refusal of a caller by Stoop's own protocol; `None`: the procedure has panicked.
pub(crate) fn refusal(panic: &(dyn Any + Send)) -> Option<(RefusalCode, String)> {
    match panic.downcast_ref()? {
        NoResult::Denied(status) => Some((RefusalCode::Denied, status.to_string())),
        _ => Some((RefusalCode::UnknownProcedure, "the server does not implement it".into())),
    }
}

/// A call that a server runs.
pub struct IncomingCall<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) identity: &'a Identity<'a>,
    pub(crate) caller: Caller,
    pub(crate) arguments: Reader<'a>,
    /// The reply is written here behind the first `start` bytes,
    pub(crate) reply: &'a mut Vec<u8>,
    pub(crate) start: usize,
    /// and ends there.
    pub(crate) end: Option<usize>,
}

impl<'a> IncomingCall<'a> {
    /// The number of the procedure.
    #[inline]
    pub fn procedure(&self) -> u32 {
        self.call.procedure.procedure
    }

    /// The program and its version.
    pub fn version(&self) -> VersionId {
        VersionId { program: self.call.procedure.program, version: self.call.procedure.version }
    }

    /// The caller's name for itself. Nothing proves it.
    pub fn identity(&self) -> &Identity<'a> {
        self.identity
    }

    /// The credential as it came.
    pub fn credential(&self) -> Auth<'a> {
        self.call.credential
    }

    /// Where the call comes from. Over UDP nothing proves it.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// The arguments: read one after the other. Bytes behind the last are ignored, as by all known servers.
    #[inline]
    pub fn arguments(&mut self) -> &mut Reader<'a> {
        &mut self.arguments
    }

    /// Replies with a result: the last reply counts.
    ///
    /// # Errors
    /// The result has no XDR form; to be passed on.
    #[inline]
    pub fn reply<T: Encode + ?Sized>(&mut self, result: &T) -> Result<(), NoResult> {
        let header = Reply::success(self.call.xid);
        match message::write(&header, result, self.reply, self.start) {
            Ok(end) => {
                self.end = Some(end);
                Ok(())
            }
            Err(why) => Err(no_form(why)),
        }
    }
}

#[cold]
fn no_form(_: EncodeError) -> NoResult {
    NoResult::Failed
}

/// Runs a procedure on the form of its arguments. Returns the form of its result. For tests of emitted code.
#[doc(hidden)]
pub fn run(program: &dyn Program, procedure: u32, arguments: &[u8]) -> Result<Vec<u8>, NoResult> {
    let VersionId { program: number, version } = program.version();
    let procedure = message::ProcedureId { program: number, version, procedure };
    let (credential, verifier) = (Auth::NONE, Auth::NONE);
    let call = Call { xid: stoop_onc::Xid(0), procedure, credential, verifier };
    let (identity, mut reply) = (Identity::None, Vec::new());
    let (arguments, caller) = (Reader::new(arguments), Caller::Local);
    let reply = &mut reply;
    let mut call = IncomingCall { call, identity: &identity, caller, arguments, reply, start: 0, end: None };
    program.dispatch(&mut call)?;
    let end = call.end.ok_or(NoResult::NoReply)?;
    let header = stoop_xdr::encoded_len(&Reply::success(call.call.xid)).expect("a header has a form");
    Ok(reply[header..end].to_vec())
}
