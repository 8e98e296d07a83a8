//! The items that emitted stubs name, and those that a program written by hand uses.
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

use crate::later::deferred::Deferred;
use crate::later::tasks;
#[doc(hidden)]
pub use crate::program::run;
pub use crate::program::{Arguments, IncomingCall, NoResult, Program};
pub use stoop_onc::auth::Identity;

/// The answer of a procedure that is an `async fn`: this thread polls it, and waits between.
pub fn wait_for<R>(answer: impl Future<Output = R>) -> R {
    tasks::wait_for(answer)
}

/// The answer of a procedure that has left it for later: this thread waits for it.
///
/// # Errors
/// Nothing is left that could give it.
pub fn answer<R: Send + 'static>(deferred: Deferred<R>) -> Result<R, NoResult> {
    deferred.wait(u64::MAX).map_err(|_| NoResult::Failed)
}
