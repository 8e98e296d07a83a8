//! Interfaces as the emitter describes them, and the server half of an interface.

use crate::buffers::Memory;
use crate::error::{CallError, Callee};
pub use crate::forms::Revisions;
use crate::later::room::OpenRoom;
use crate::later::tasks::Tasks;
use crate::later::unserved::Unserved;
use crate::program::Program;
use std::any::Any;
use std::sync::Arc;
use stoop_marshal::{Description, Documented, Reader, Writer};

/// Description of an interface, emitted with its stubs.
#[derive(Debug)]
pub struct Interface {
    /// Its name.
    pub name: &'static str,
    /// The first paragraph of its documentation.
    pub docs: &'static str,
    /// Its procedures, in the order of their declaration.
    pub procedures: &'static [Procedure],
    /// The revisions that it understands.
    pub revisions: Revisions,
    /// The interface that callers may offer, if it has callbacks; its last procedure carries them.
    pub callback: Option<fn() -> &'static Interface>,
}

/// Description of a procedure.
#[derive(Debug)]
pub struct Procedure {
    /// Its name.
    pub name: &'static str,
    /// The first paragraph of its documentation.
    pub docs: &'static str,
    /// Its signature, with user types spelled out down to their fields. Binding compares it, without the parameters' names.
    pub signature: Signature,
    /// Whether it may run more than once for a call (`#[idempotent]`).
    pub idempotent: bool,
    /// Whether callers do not wait for it to return (`#[one_way]`).
    pub one_way: bool,
    /// For a procedure whose only argument is an IN-OUT array or slice of scalars: the bytes of a call's payload before that argument.
    /// The server can let such a procedure write into the memory that received the call, and send that memory as the result.
    pub in_place: Option<u8>,
    /// Whether some argument is an `InPlace` buffer.
    pub buffers: bool,
    /// With which revision it came; 0: with the first.
    pub since: u32,
}

/// The signature of a procedure.
#[derive(Debug)]
pub enum Signature {
    /// Of emitted stubs: adds its text to a description.
    Emitted(fn(&mut Description)),
    /// Of an interface that is known at run time only.
    Text(&'static str),
}

impl Procedure {
    /// Whether some argument is a pipe.
    #[cold]
    pub(crate) fn has_pipes(&self) -> bool {
        self.signature().contains(": pipe ")
    }

    /// The text of its signature.
    pub fn signature(&self) -> String {
        self.described(Description::new()).0
    }

    /// The same, with the documentation of its types.
    pub(crate) fn documented(&self) -> (String, Vec<Documented>) {
        self.described(Description::with_docs())
    }

    fn described(&self, mut description: Description) -> (String, Vec<Documented>) {
        self.describe(&mut description);
        description.finish_with_docs()
    }

    /// Adds its signature to a description.
    pub(crate) fn describe(&self, description: &mut Description) {
        match self.signature {
            Signature::Emitted(describe) => describe(description),
            Signature::Text(text) => _ = description.text(text),
        }
    }
}

impl Interface {
    /// Whether it is known at run time only, so that calls cannot go through its trait.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.procedures.iter().all(|procedure| matches!(procedure.signature, Signature::Text(_)))
    }

    /// The interface in the form in which the exchange compares it.
    pub(crate) fn for_exchange(&self) -> stoop_exchange::Interface {
        self.forms().compared.clone()
    }

    /// Whether some procedure has buffers.
    pub(crate) fn has_buffers(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.buffers)
    }
}

/// The server half of an interface, which the emitted `…Server` implements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported as it is",
    label = "not the server half of an interface",
    note = "wrap the implementation of `trait Greeter` in what `#[stoop::interface]` made for it: `GreeterServer::new(…)`"
)]
pub trait Exported: Send + Sync + 'static {
    /// Describes the interface.
    fn interface(&self) -> &'static Interface;

    /// The interface that this wraps, if it does. It lends, closes and tells for this one.
    fn inner(&self) -> Option<&dyn Exported> {
        None
    }

    /// Runs a procedure with the arguments in `call` and leaves its result in `result`.
    ///
    /// # Errors
    /// Only when the procedure has *not* run.
    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved>;

    /// [`dispatch`](Self::dispatch) for a call whose buffers may lie in `memory`.
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

    /// [`dispatch`](Self::dispatch) for a procedure that runs [in place](Procedure::in_place). `leading` holds the call's bytes before
    /// the argument; the argument's `len` bytes are already in the packet of `result`, at the beginning of the result.
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

    /// The room for calls whose answers [come later](crate::Deferred). An interface with such procedures [asks](OpenRoom::check) it before
    /// it runs one.
    fn lend_room(&self, room: &Arc<OpenRoom>) {
        self.inner().into_iter().for_each(|inner| inner.lend_room(room));
    }

    /// The means to run tasks, for an interface with an `async fn`.
    fn lend_tasks(&self, tasks: &Arc<Tasks>) {
        self.inner().into_iter().for_each(|inner| inner.lend_tasks(tasks));
    }

    /// Why the caller with that name may call nothing of the interface; `None`: it may call something.
    fn denial(&self, name: Option<&str>) -> Option<String> {
        let _ = name;
        None
    }

    /// Whether calls of the same process must not go through the trait: the server has [interceptors](crate::intercept), or callers may
    /// offer objects.
    fn is_marshaled(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_marshaled())
    }

    /// The server shuts down: the calls in whose pipes callbacks travel end.
    fn close(&self) {
        self.inner().into_iter().for_each(|inner| inner.close());
    }

    /// The same as a program of Sun RPC, if it is one.
    fn program(&self) -> Option<&dyn Program> {
        self.inner()?.program()
    }

    /// The implementation for `local:` stubs: an `Arc<dyn Trait + Send + Sync>` in a box.
    fn local(&self) -> Box<dyn Any + Send + Sync>;
}

impl Callee {
    /// The procedure of that number in an interface.
    pub(crate) fn of(interface: &'static Interface, procedure: u16) -> Self {
        let base = usize::from(interface.base(procedure));
        let name = interface.procedures.get(base).map(|procedure| procedure.name);
        Self::named(interface.name, name)
    }

    /// The procedure of that number in an interface, at that server.
    pub(crate) fn new(interface: &'static Interface, procedure: u16, server: &str) -> Self {
        Self::of(interface, procedure).at_server(server)
    }
}

impl CallError {
    /// For stubs: the same error, of a call of the procedure of that number.
    #[cold]
    #[doc(hidden)]
    #[must_use]
    pub fn of(self, interface: &'static Interface, procedure: u16) -> Self {
        self.knowing(Callee::of(interface, procedure))
    }
}
