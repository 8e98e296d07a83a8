//! A blocking call to a server of this process whose arguments are marshaled, because it carries metadata, or because interceptors
//! at either end stand between caller and trait. The calling thread runs the procedure.

use crate::calling::recovery::lacks_form;
use crate::context::{Caller, bounded_deadline, is_too_late, noting_asked, served_call};
use crate::error::{CallError, Callee, FailureCode, SendError};
use crate::intercept::client::Attempt;
use crate::later::deferred::{AtDeadline, Given, Open, ReplyError};
use crate::locked::locked;
use crate::metadata::Metadata;
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::serving::dispatch::{CallLimits, Outcome};
use crate::serving::one_call;
use crate::transport::contract::{Binding, Lane};
use crate::transport::local::begun::result_len;
use crate::transport::local::binding::{LocalBinding, Present};
use crate::transport::local::server::LocalServer;
use std::cell::Cell;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use stoop_marshal::{GatherList, Writer};
use stoop_net::clock;
use stoop_wire::HEADER_LEN;
use stoop_wire::metadata::{BLOCK_MAX, IN_PROCEDURE};

/// Bytes of memory that a thread keeps of a call for its next one, each for arguments and for the result.
const KEPT_MAX: usize = 64 * 1024;

thread_local! {
    /// Memory for the arguments and the result of this thread's next call.
    static UNUSED: Cell<Option<(Vec<u8>, Vec<u8>)>> = const { Cell::new(None) };
}

/// New memory for the arguments and the result of a call.
fn memory() -> (Vec<u8>, Vec<u8>) {
    (Vec::new(), vec![0; HEADER_LEN])
}

/// A call, from its arguments to its result.
pub(crate) struct LocalLane<'a> {
    binding: &'a LocalBinding,
    present: Present,
    /// The number of the interface there.
    interface: u16,
    timeout_ns: u64,
    arguments: Vec<u8>,
    /// The result, behind the place of a header.
    packet: Vec<u8>,
    result_len: usize,
}

impl<'a> LocalLane<'a> {
    pub(crate) fn hold(binding: &'a LocalBinding, timeout_ns: u64) -> Result<Box<Self>, CallError> {
        let (present, interface) = binding.present().map_err(CallError::not_sent)?;
        // A thread that ends has none.
        let (arguments, packet) = UNUSED.try_with(Cell::take).ok().flatten().unwrap_or_else(memory);
        Ok(Box::new(Self { binding, present, interface, timeout_ns, arguments, packet, result_len: 0 }))
    }
}

impl Drop for LocalLane<'_> {
    fn drop(&mut self) {
        let (arguments, packet) = (mem::take(&mut self.arguments), mem::take(&mut self.packet));
        if arguments.capacity().max(packet.capacity()) <= KEPT_MAX && packet.len() >= HEADER_LEN {
            // A thread that ends has no place for them any more.
            let _ = UNUSED.try_with(|unused| unused.set(Some((arguments, packet))));
        }
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
        Writer::new(&mut self.arguments, 0, self.present.server.message_max)
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
        &self.packet[HEADER_LEN..HEADER_LEN + self.result_len]
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
        let Some(outgoing) = Outgoing::new(carried, None, BLOCK_MAX)? else {
            return self.run(self.procedure, self.len);
        };
        let lane = &mut *self.lane;
        let mut arguments =
            Writer::new(&mut lane.arguments, 0, lane.present.server.message_max).behind(self.len, 0);
        arguments.scalars(outgoing.block());
        let len = arguments.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))?;
        self.run(self.procedure | IN_PROCEDURE, len)?;
        let lane = &mut *self.lane;
        let (result, block) = block_of_result(&lane.packet[HEADER_LEN..HEADER_LEN + lane.result_len])?;
        *answer = Metadata::of(block);
        carried.into_iter().for_each(|carried| carried.note_answer(block));
        lane.result_len = result.len();
        Ok(())
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl LocalCall<'_, '_> {
    fn run(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        let &mut Self { ref mut lane, deadline_ns, .. } = self;
        if deadline_ns <= clock::now_ns() {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let result_max = lane.present.server.message_max;
        let procedure = lane.present.number(procedure).expect("it has been looked up before");
        // A cancel of the call that this thread serves cancels this one, too.
        let (caller, call) = (Caller::Local, served_call().id());
        let limits = CallLimits { deadline_ns, caller, call, result_max, out_limit: result_max };
        let exports = &lane.present.server.exports;
        let (arguments, packet) = (&lane.arguments[..len], &mut lane.packet);
        let run = || exports.run(lane.interface, procedure, arguments, packet, limits);
        let (ran, asked) = noting_asked(run);
        let ran = match ran.unwrap_or_else(|why| why.refused(result_max)) {
            Outcome::Later(mut later) => {
                // Until the caller has the answer.
                let _held = later.take_held();
                let waiting = Arc::new(WaitingCaller::new(&lane.present.server, limits, later.at_deadline()));
                later.goes_to(Arc::clone(&waiting) as Arc<dyn Open>);
                let (ran, packet) = waiting.wait();
                lane.packet = packet;
                ran
            }
            Outcome::Result(_) if is_too_late(deadline_ns, asked) => too_late(),
            ran => ran,
        };
        lane.result_len = result_len(ran)?;
        Ok(())
    }
}

fn too_late() -> Outcome {
    Outcome::failed(FailureCode::FinishedTooLate, String::new())
}

/// A caller that waits for an answer that comes later.
struct WaitingCaller {
    server: Arc<LocalServer>,
    limits: CallLimits,
    at_deadline: AtDeadline,
    state: Mutex<State>,
    given: Condvar,
}

enum State {
    Open,
    /// The outcome, with its packet.
    Given(Outcome, Vec<u8>),
    /// The caller waits no longer.
    Over,
}

impl WaitingCaller {
    fn new(server: &Arc<LocalServer>, limits: CallLimits, at_deadline: AtDeadline) -> Self {
        let (state, given) = (Mutex::new(State::Open), Condvar::new());
        Self { server: Arc::clone(server), limits, at_deadline, state, given }
    }

    /// The outcome at the deadline.
    fn late(&self) -> Outcome {
        let (exports, now_ns) = (&self.server.exports, self.limits.deadline_ns);
        one_call::conclude(exports, &self.limits, self.at_deadline.given(), &mut Vec::new(), now_ns).0
    }

    /// Waits for the answer, until the deadline.
    fn wait(&self) -> (Outcome, Vec<u8>) {
        let mut state = locked(&self.state);
        loop {
            let left_ns = self.limits.deadline_ns.saturating_sub(clock::now_ns());
            match mem::replace(&mut *state, State::Over) {
                State::Given(outcome, packet) => return (outcome, packet),
                _ if left_ns == 0 => return (self.late(), vec![0; HEADER_LEN]),
                before => *state = before,
            }
            let waited = self.given.wait_timeout(state, Duration::from_nanos(left_ns));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Open for WaitingCaller {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        if self.is_over() {
            return Err(ReplyError::DeadlinePassed);
        }
        let mut packet = vec![0; HEADER_LEN];
        let exports = &self.server.exports;
        let (ran, reached) = one_call::conclude(exports, &self.limits, given, &mut packet, clock::now_ns());
        let mut state = locked(&self.state);
        if let State::Open = *state {
            *state = State::Given(ran, packet);
            self.given.notify_all();
        }
        reached
    }

    fn is_over(&self) -> bool {
        !matches!(*locked(&self.state), State::Open)
    }
}
