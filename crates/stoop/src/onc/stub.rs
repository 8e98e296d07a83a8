//! What emitted stubs name, and what a program written by hand is written against.
//!
//! - *Caller*: a stub holds a [`Client`](crate::onc::Client). Each method calls
//!   [`Client::call_with`](crate::onc::Client::call_with) with the number of the procedure. Arguments of several types are written one
//!   after the other, by [`Arguments`]:
//!
//! ```
//! use stoop::CallError;
//! use stoop::onc::Client;
//! use stoop::onc::stub::Arguments;
//!
//! pub struct OneClient(Client);
//!
//! impl OneClient {
//!     /// `int ADD(int, int) = 1;`
//!     pub fn add(&self, a: i32, b: i32) -> Result<i32, CallError> {
//!         let arguments = Arguments(|writer: &mut stoop::onc::xdr::Writer<'_>| {
//!             writer.value(&a);
//!             writer.value(&b);
//!         });
//!         self.0.call_with(1, &arguments, |results| results.value())
//!     }
//! }
//! ```
//!
//! - *Server*: one version of a program is a [`Program`]. Emitted code implements it for a type that holds an implementation of the
//!   emitted trait:
//!
//! ```
//! use stoop::onc::stub::{IncomingCall, NoResult, Program};
//! use stoop::onc::VersionId;
//!
//! pub trait One { fn add(&self, a: i32, b: i32) -> i32; }
//!
//! pub struct OneServer<T>(pub T);
//!
//! impl<T: One + Send + Sync + 'static> Program for OneServer<T> {
//!     fn version(&self) -> VersionId {
//!         VersionId { program: 0x2000_0099, version: 1 }
//!     }
//!
//!     fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
//!         match call.procedure() {
//!             1 => {
//!                 let (a, b) = (call.arguments().value()?, call.arguments().value()?);
//!                 call.reply(&self.0.add(a, b))
//!             }
//!             _ => Err(NoResult::ProcedureUnavailable),
//!         }
//!     }
//! }
//! ```

use crate::context::Caller;
use crate::onc::address::VersionId;
pub use stoop_onc::auth::Identity;
use stoop_onc::auth::{Auth, AuthStatus};
use stoop_onc::message::{self, Call, Reply};
use stoop_xdr::{DecodeError, Encode, EncodeError, Layout, Reader, Writer, Xdr};

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

    /// Who calls, as the caller says. Nothing proves it.
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
