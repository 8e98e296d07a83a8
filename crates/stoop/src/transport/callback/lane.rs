//! A blocking callback.

use crate::calling::message::Message;
use crate::error::{CallError, Callee};
use crate::metadata::Metadata;
use crate::metadata::outgoing::Carried;
use crate::transport::callback::handle::{ARGUMENTS, Handle};
use crate::transport::contract::{Binding, Lane};
use stoop_marshal::{GatherList, Writer};

/// A callback, from its arguments to its result.
pub(crate) struct CallbackLane<'a> {
    handle: &'a Handle,
    timeout_ns: u64,
    message: Message,
}

impl<'a> CallbackLane<'a> {
    pub(super) fn new(handle: &'a Handle, timeout_ns: u64) -> Self {
        Self { handle, timeout_ns, message: Message::new(ARGUMENTS, handle.arguments_max()) }
    }
}

// In a box, and out of line: the lanes of other transports are in the same enum, in the stubs.
impl Lane for Box<CallbackLane<'_>> {
    fn callee(&self, procedure: u16) -> Callee {
        Callee::new(self.handle.interface, procedure, &self.handle.client)
    }

    fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        if self.handle.agreed_number(made).is_some() { None } else { self.handle.form(procedure) }
    }

    #[cold]
    #[inline(never)]
    fn arguments(&mut self) -> Writer<'_> {
        self.message.writer()
    }

    #[cold]
    #[inline(never)]
    fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        self.handle.call(&mut self.message, (procedure, len), self.timeout_ns)
    }

    #[cold]
    #[inline(never)]
    fn transport_carrying(
        &mut self,
        procedure: u16,
        len: usize,
        _: &mut GatherList<'_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        let CallbackLane { handle, timeout_ns, ref mut message } = **self;
        message.make((procedure, len), carried, &mut Metadata::new(), |message, procedure, len| {
            handle.call(message, (procedure, len), timeout_ns)
        })
    }

    #[cold]
    #[inline(never)]
    fn result(&self) -> &[u8] {
        self.message.result()
    }
}
