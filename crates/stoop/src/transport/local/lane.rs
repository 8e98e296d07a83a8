//! A blocking call to a server of this process whose arguments are marshaled, because it carries metadata, or because interceptors
//! at either end stand between caller and trait. The calling thread runs the procedure.

use crate::calling::message::Message;
use crate::calling::recovery::lacks_form;
use crate::context::{Caller, bounded_deadline, served_call};
use crate::error::{CallError, Callee, SendError};
use crate::intercept::client::Attempt;
use crate::metadata::Metadata;
use crate::metadata::outgoing::Carried;
use crate::serving::dispatch::CallLimits;
use crate::serving::here::{self, result_len};
use crate::transport::contract::{Binding, Lane};
use crate::transport::local::binding::{LocalBinding, Present};
use stoop_marshal::{GatherList, Writer};
use stoop_net::clock;

/// A call, from its arguments to its result.
pub(crate) struct LocalLane<'a> {
    binding: &'a LocalBinding,
    present: Present,
    /// The number of the interface there.
    interface: u16,
    timeout_ns: u64,
    message: Message,
}

impl<'a> LocalLane<'a> {
    pub(crate) fn hold(binding: &'a LocalBinding, timeout_ns: u64) -> Result<Box<Self>, CallError> {
        let (present, interface) = binding.present().map_err(CallError::not_sent)?;
        let message = Message::new(0, present.server.message_max);
        Ok(Box::new(Self { binding, present, interface, timeout_ns, message }))
    }
}

// In a box, and out of line: the lanes of other transports are in the same enum, in the stubs.
impl Lane for Box<LocalLane<'_>> {
    fn callee(&self, procedure: u16) -> Callee {
        self.binding.callee(procedure)
    }

    fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        if self.present.number(made).is_some() { None } else { self.present.form(procedure) }
    }

    #[cold]
    #[inline(never)]
    fn arguments(&mut self) -> Writer<'_> {
        self.message.writer()
    }

    #[cold]
    #[inline(never)]
    fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        self.transport_carrying(procedure, len, &mut GatherList::none(), None)
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
        let deadline_ns = bounded_deadline(clock::now_ns(), self.timeout_ns);
        let binding = self.binding;
        if self.present.number(procedure).is_none() {
            return Err(lacks_form());
        }
        let mut call = LocalCall { lane: self, procedure, len, deadline_ns };
        match &binding.interceptors {
            Some(interceptors) => interceptors.around(procedure, deadline_ns, carried, &mut call),
            None => call.make(carried, &mut Metadata::new()),
        }
    }

    #[cold]
    #[inline(never)]
    fn result(&self) -> &[u8] {
        self.message.result()
    }
}

/// A call with its arguments.
struct LocalCall<'l, 'a> {
    lane: &'l mut LocalLane<'a>,
    procedure: u16,
    len: usize,
    deadline_ns: u64,
}

impl Attempt for LocalCall<'_, '_> {
    fn make(&mut self, carried: Option<&Carried>, answer: &mut Metadata) -> Result<(), CallError> {
        let &mut Self { ref mut lane, procedure, len, deadline_ns } = self;
        let LocalLane { present, interface, message, .. } = &mut **lane;
        message.make((procedure, len), carried, answer, |message, procedure, len| {
            run((present, *interface), message, (procedure, len), deadline_ns)
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

fn run(
    (present, interface): (&Present, u16),
    message: &mut Message,
    (procedure, len): (u16, usize),
    deadline_ns: u64,
) -> Result<(), CallError> {
    if deadline_ns <= clock::now_ns() {
        return Err(CallError::not_sent(SendError::DeadlinePassed));
    }
    let result_max = present.server.message_max;
    let procedure = present.number(procedure).expect("it has been looked up before");
    // A cancel of the call that this thread serves cancels this one, too.
    let (caller, call) = (Caller::Local, served_call().id());
    let limits = CallLimits { deadline_ns, caller, call, result_max, out_limit: result_max };
    let (exports, arguments) = (&present.server.exports, &message.arguments[..len]);
    let ran = here::run(exports, &mut message.packet, limits, |packet| {
        exports.run(interface, procedure, arguments, packet, limits)
    });
    message.set_result_len(result_len(ran)?);
    Ok(())
}
