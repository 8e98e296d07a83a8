//! What emitted stubs use. Not for programs: it changes with the emitter.

pub(crate) mod returned;

pub use crate::buffers::{Buffer, Memory, SharedBuffers, put_contents};
pub use crate::client::{Begin, Beginning, Call, CallResult, Client, Local, Remote, Route};
pub use crate::stub::returned::{AnyReturned, Hides, HidesNothing, Returned, check_returned};
use std::any::Any;
pub use stoop_marshal::*;
pub use stoop_shm::Number;

/// An interface as the emitter describes it.
#[derive(Debug)]
pub struct Interface {
    /// Its name.
    pub name: &'static str,
    /// Its procedures, in the order of their declaration.
    pub procedures: &'static [Procedure],
}

/// A procedure as the emitter describes it.
#[derive(Debug)]
pub struct Procedure {
    /// Its name.
    pub name: &'static str,
    /// Its signature, with user types spelled out down to their fields: what both sides compare, but for the names of the
    /// parameters.
    pub signature: fn() -> String,
    /// Whether running it again does no harm.
    pub idempotent: bool,
    /// Whether callers do not wait for it.
    pub one_way: bool,
    /// Bytes of a call's payload before its only argument, if that is an IN-OUT one of scalars: a server can have it written
    /// where it was received, and send it from there.
    pub in_place: Option<u8>,
    /// Whether some argument is an `InPlace` buffer.
    pub buffers: bool,
}

impl Interface {
    /// The interface in the form in which the exchange compares it.
    pub(crate) fn for_exchange(&self) -> stoop_exchange::Interface {
        let procedure =
            |p: &Procedure| stoop_exchange::Procedure { name: p.name.into(), signature: (p.signature)() };
        stoop_exchange::Interface {
            name: self.name.into(),
            procedures: self.procedures.iter().map(procedure).collect(),
        }
    }

    /// Whether some procedure has buffers.
    pub(crate) fn has_buffers(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.buffers)
    }
}

/// The server half of an interface: what the emitted `…Server` implements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported as it is",
    label = "not the server half of an interface",
    note = "wrap the implementation of `trait Greeter` in what `#[stoop::interface]` made for it: `GreeterServer::new(…)`"
)]
pub trait Exported: Send + Sync + 'static {
    /// Describes the interface.
    fn interface(&self) -> &'static Interface;

    /// Runs a procedure with the arguments in `call` and leaves its result in `result`.
    ///
    /// # Errors
    /// Only when the procedure has *not* run.
    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved>;

    /// [`dispatch`](Self::dispatch) of a call of which buffers may lie in `memory`.
    ///
    /// # Errors
    /// Only when the procedure has *not* run.
    fn dispatch_with_memory(
        &self,
        procedure: u16,
        call: Reader<'_>,
        memory: Memory<'_>,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        let _ = memory;
        self.dispatch(procedure, call, result)
    }

    /// [`dispatch`](Self::dispatch) of a procedure that is [in place](Procedure::in_place): `leading` is what the call has
    /// before the argument, which has `len` bytes and is in the packet of `result` already, where the result begins.
    ///
    /// # Errors
    /// Only when the procedure has *not* run.
    fn dispatch_in_place(
        &self,
        procedure: u16,
        leading: &[u8],
        len: usize,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        let _ = (procedure, leading, len, result);
        Err(Unserved::UnknownProcedure)
    }

    /// The implementation as the `local:` stub wants it: an `Arc<dyn Trait + Send + Sync>` in a box.
    fn local(&self) -> Box<dyn Any + Send + Sync>;
}

/// Why a procedure was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The interface has no procedure of that number.
    UnknownProcedure,
    /// The arguments are no values of their types.
    BadArguments(DecodeError),
    /// An OUT argument asks for more than a result may have.
    ResultTooLarge,
}

impl From<DecodeError> for Unserved {
    fn from(why: DecodeError) -> Self {
        Self::BadArguments(why)
    }
}
