//! A lane held by a call, and the call until it has ended.

use crate::account::calls::Recorder;
use crate::account::slow::Facts;
use crate::buffers::WriteArguments;
use crate::calling::counters::CallCounters;
use crate::calling::deadline::CallTimes;
use crate::calling::fate::{Ended, Loss};
use crate::calling::lanes::{Counted, LaneGuard};
use crate::calling::recovery::{Attempts, CallTerms, recover};
use crate::error::{BindError, CallError, Callee, SendError};
use crate::intercept::client::Attempt;
use crate::metadata::Metadata;
use crate::metadata::outgoing::{Carried, Outgoing, block_of_result};
use crate::transport::contract::{Binding, Lane};
use crate::transport::remote::arguments::Arguments;
use crate::transport::remote::{Observed, Remote, RemoteBinding, RemoteLane};
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use stoop_calls::life::Why;
use stoop_exchange::Instant;
use stoop_exchange::outcome::Verdict;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::clock;
use stoop_shm::{InPlace, Number};
use stoop_wire::Refused;
use stoop_wire::metadata::{Block, IN_PROCEDURE};

/// A lane held by a call.
pub(crate) struct HeldLane<'a, R: Remote> {
    pub(super) binding: &'a RemoteBinding<R>,
    pub(super) guard: LaneGuard<'a, R::Lane>,
}

impl<R: Remote> Lane for HeldLane<'_, R> {
    const CAN_GATHER: bool = R::Lane::CAN_GATHER;

    fn callee(&self, procedure: u16) -> Callee {
        self.binding.callee(procedure)
    }

    fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        let bound = R::bound(self.made().session());
        if bound.known(made).is_some() { None } else { bound.form(procedure) }
    }

    #[inline]
    fn arguments(&mut self) -> Writer<'_> {
        let limit = self.limit();
        self.lane().arguments(limit)
    }

    #[inline]
    fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        self.call(procedure, Arguments::Written(len, &mut GatherList::none()))
    }

    fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        self.call(procedure, Arguments::Written(len, gather))
    }

    #[cold]
    fn transport_carrying(
        &mut self,
        procedure: u16,
        len: usize,
        gather: &mut GatherList<'_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        self.call_carrying(procedure, Arguments::Written(len, gather), carried)
    }

    fn transport_with_buffers(
        &mut self,
        procedure: u16,
        write: &mut WriteArguments<'_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        let ended = self.call_carrying(procedure, Arguments::ToWrite(write), carried);
        self.lane().release_buffers();
        ended
    }

    #[inline]
    fn result(&self) -> &[u8] {
        self.made().result()
    }

    fn scattered(&self) -> Option<Reader<'_>> {
        self.made().scattered()
    }

    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        self.made().has_shared(buffer)
    }
}

impl<R: Remote> HeldLane<'_, R> {
    #[inline]
    fn lane(&mut self) -> &mut R::Lane {
        self.guard.as_mut().expect("a held lane is there")
    }

    #[inline]
    fn made(&self) -> &R::Lane {
        self.guard.as_ref().expect("a held lane is there")
    }

    /// Longest arguments, in bytes. A message has 32 bits for its length.
    #[inline]
    fn limit(&self) -> usize {
        self.binding.options.max_message.min(u32::MAX as usize)
    }

    #[inline(always)]
    fn call(&mut self, procedure: u16, mut arguments: Arguments<'_, '_, '_>) -> Result<(), CallError> {
        let Some(times) = R::Lane::begin(self.guard.timeout_ns()) else {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        };
        if self.needs_care() {
            return self.call_with_care(procedure, times, arguments, None);
        }
        match self.attempt(times, procedure, &mut arguments) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, times, procedure, arguments),
        }
    }

    /// Whether the call that begins needs more than [`call`](Self::call) does. If only a share of the calls is recorded, the others
    /// need no more: what they pay for the account is here.
    #[inline(always)]
    fn needs_care(&mut self) -> bool {
        let care = &self.binding.care;
        if !R::Lane::IS_SAMPLED || !care.is_any() {
            return care.is_any();
        }
        self.lane().is_due() || self.binding.care.is_of_each() || Recorder::concerns_sample()
    }

    /// Makes a call that was begun, with so many bytes of arguments: it has been through the interceptors, and has its metadata.
    ///
    /// # Errors
    /// There is no result.
    pub(crate) fn make_begun(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        let Some(times) = R::Lane::begin(self.guard.timeout_ns()) else {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        };
        // It counts the call.
        self.needs_care();
        self.call_on_record(procedure, times, Arguments::Written(len, &mut GatherList::none()))
    }

    /// As [`call`](Self::call), of a call that may carry metadata.
    #[cold]
    fn call_carrying(
        &mut self,
        procedure: u16,
        arguments: Arguments<'_, '_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        let Some(times) = R::Lane::begin(self.guard.timeout_ns()) else {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        };
        // It counts the call.
        self.needs_care();
        self.call_with_care(procedure, times, arguments, carried)
    }

    /// As [`call`](Self::call), of a binding that doubts its server's address, keeps an account, or has interceptors, or of a call that may
    /// carry metadata.
    #[inline(never)]
    fn call_with_care(
        &mut self,
        procedure: u16,
        times: CallTimes,
        arguments: Arguments<'_, '_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        if self.other_form(self.binding.interface.base(procedure), procedure).is_some() {
            // Made in that form, it is recorded and goes through the interceptors.
            return self.attempt_and_recover(times, procedure, arguments);
        }
        let Some(interceptors) = &self.binding.care.interceptors else {
            return self.call_with_metadata(procedure, times, arguments, carried, &mut Metadata::new());
        };
        let deadline_ns = times.deadline.latest_ns;
        let mut call = InterceptedCall { held: self, procedure, arguments, times, is_again: false };
        interceptors.around(procedure, deadline_ns, carried, &mut call)
    }

    /// As [`call_on_record`](Self::call_on_record), of a call that carries this if it is something. The metadata of the answer is put into
    /// `answer`, too.
    #[inline]
    fn call_with_metadata(
        &mut self,
        procedure: u16,
        times: CallTimes,
        arguments: Arguments<'_, '_, '_>,
        carried: Option<&Carried>,
        answer: &mut Metadata,
    ) -> Result<(), CallError> {
        let most = R::bound(self.made().session()).metadata as usize;
        let span = self.binding.recorder.as_ref().and_then(Recorder::current_span);
        match Outgoing::new(carried, span.as_ref(), most)? {
            None => self.call_on_record(procedure, times, arguments),
            Some(outgoing) => self.call_with_block(procedure, times, arguments, outgoing.block(), |block| {
                *answer = Metadata::of(block);
                carried.into_iter().for_each(|carried| carried.note_answer(block));
            }),
        }
    }

    #[inline(never)]
    fn call_with_block(
        &mut self,
        procedure: u16,
        times: CallTimes,
        arguments: Arguments<'_, '_, '_>,
        block: &[u8],
        take_answer: impl FnOnce(Block<'_>),
    ) -> Result<(), CallError> {
        let procedure = procedure | IN_PROCEDURE;
        match arguments {
            Arguments::Written(len, gather) => {
                let len = self.append(len, gather.borrowed_len(), block)?;
                self.call_on_record(procedure, times, Arguments::Written(len, gather))?;
            }
            Arguments::ToWrite(write) => {
                let write: &mut WriteArguments<'_> = &mut |arguments, buffers| {
                    write(arguments, buffers);
                    arguments.scalars(block);
                };
                self.call_on_record(procedure, times, Arguments::ToWrite(write))?;
            }
        }
        let (_, brought) = block_of_result(self.made().result())?;
        let len = brought.bytes().len();
        take_answer(brought);
        self.lane().shorten_result(len);
        Ok(())
    }

    /// Writes the block behind the arguments, of which so many bytes are borrowed. Returns the length of both.
    fn append(&mut self, len: usize, borrowed: usize, block: &[u8]) -> Result<usize, CallError> {
        let limit = self.limit();
        let (packet, start) = self.lane().call_packet();
        let mut writer = Writer::new(packet, start, limit).behind(len, borrowed);
        writer.scalars(block);
        writer.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))
    }

    /// As [`call`](Self::call), of a binding that doubts its server's address, or keeps an account.
    #[inline]
    fn call_on_record(
        &mut self,
        procedure: u16,
        times: CallTimes,
        arguments: Arguments<'_, '_, '_>,
    ) -> Result<(), CallError> {
        self.look_elsewhere(times);
        let Some(recorder) = &self.binding.recorder else {
            return self.attempt_and_recover(times, procedure, arguments);
        };
        let is_taken_apart = recorder.is_taken_apart();
        let stands_for = self.lane().stands_for(is_taken_apart);
        if stands_for == 0 {
            return self.attempt_and_recover(times, procedure, arguments);
        }
        let before = self.made().counters();
        let begun_ns = if R::Lane::IS_SAMPLED { clock::now_ns() } else { times.begun_ns };
        let ended = self.attempt_timed_and_recover(times, procedure, arguments);
        match &ended {
            Ok(()) => {
                let facts = self.facts(begun_ns, before);
                let ended_ns = begun_ns + facts.whole_ns;
                let wake_up_ns = || {
                    let age_ns = self.made().age_of_result_ns()?;
                    Some(age_ns.saturating_sub(clock::now_ns().saturating_sub(ended_ns)))
                };
                let slow = recorder.record(procedure, stands_for, facts, wake_up_ns);
                recorder.trace(procedure, &facts, slow.as_ref());
                if is_taken_apart {
                    recorder.note_taken_apart(procedure, facts.server_ns);
                }
            }
            Err(error) => {
                recorder.record_failure(procedure, stands_for);
                recorder.trace_failure(procedure, begun_ns, error);
            }
        }
        ended
    }

    #[inline]
    fn attempt_and_recover(
        &mut self,
        times: CallTimes,
        procedure: u16,
        mut arguments: Arguments<'_, '_, '_>,
    ) -> Result<(), CallError> {
        match self.attempt_apart(times, procedure, &mut arguments) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, times, procedure, arguments),
        }
    }

    /// As [`attempt_and_recover`](Self::attempt_and_recover), of a call whose result is to tell how long it was at the server.
    fn attempt_timed_and_recover(
        &mut self,
        times: CallTimes,
        procedure: u16,
        mut arguments: Arguments<'_, '_, '_>,
    ) -> Result<(), CallError> {
        let attempted = match &mut arguments {
            Arguments::Written(len, gather) => self.lane().attempt::<true>(times, procedure, *len, gather),
            Arguments::ToWrite(_) => self.attempt_apart(times, procedure, &mut arguments),
        };
        match attempted {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, times, procedure, arguments),
        }
    }

    /// The record of a call that began then and has ended with a result.
    #[inline]
    fn facts(&mut self, begun_ns: u64, before: CallCounters) -> Facts {
        let after = self.made().counters();
        let repeated = |counters: CallCounters| counters.packet.retransmissions + counters.packet.probes;
        let Observed { ended_ns, server_ns } = self.lane().observed();
        Facts {
            whole_ns: ended_ns.saturating_sub(begun_ns),
            server_ns,
            wake_up_ns: None,
            repeated: repeated(after) - repeated(before),
            slept: after.slept > before.slept,
        }
    }

    #[inline(always)]
    fn attempt(
        &mut self,
        times: CallTimes,
        procedure: u16,
        arguments: &mut Arguments<'_, '_, '_>,
    ) -> Result<(), Ended> {
        let limit = self.limit();
        match arguments {
            Arguments::Written(len, gather) => self.lane().attempt::<false>(times, procedure, *len, gather),
            Arguments::ToWrite(write) => self.lane().attempt_with_buffers(times, procedure, limit, write),
        }
    }

    /// As [`attempt`](Self::attempt), for all calls but the first attempts of plain ones: a copy of the code in each place would keep
    /// the compiler from inlining what is in it.
    #[inline(never)]
    fn attempt_apart(
        &mut self,
        times: CallTimes,
        procedure: u16,
        arguments: &mut Arguments<'_, '_, '_>,
    ) -> Result<(), Ended> {
        self.attempt(times, procedure, arguments)
    }

    /// The call did not end with a result.
    #[cold]
    #[inline(never)]
    fn recover(
        &mut self,
        ended: Ended,
        times: CallTimes,
        procedure: u16,
        arguments: Arguments<'_, '_, '_>,
    ) -> Result<(), CallError> {
        let CallTimes { begun_ns, deadline } = times;
        let idempotent = self.binding.is_idempotent(procedure);
        let terms = CallTerms { begun_ns, deadline_ns: deadline.latest_ns, idempotent };
        let ended = match ended {
            // The call has not run. Its server may have moved.
            Ended::With(error) if self.binding.may_have_moved(&error) => Ended::Lost { may_have_run: false },
            ended => ended,
        };
        let mut call = Repeated { held: self, procedure, arguments, sent_ns: begun_ns };
        let outcome = recover(&mut call, ended, &terms);
        outcome.inspect_err(|error| {
            self.binding.note_failure(error);
            // It may be made in another form.
            let left_ns = deadline.latest_ns.saturating_sub(clock::now_ns());
            self.guard.spend(self.guard.timeout_ns().saturating_sub(left_ns));
        })
    }

    /// If the binding doubts the server's address: goes over to the server that the name stands for now.
    fn look_elsewhere(&mut self, times: CallTimes) {
        if !self.binding.care.is_doubt() {
            return;
        }
        self.binding.look_elsewhere(Instant::from_nanos(times.deadline.latest_ns));
        self.adopt_present();
    }

    /// Goes over to the present session, if there is another. `false`: that has no lane.
    fn adopt_present(&mut self) -> bool {
        let located = self.binding.located();
        let (plan, session) = (self.binding.plan(&located), Arc::clone(&located.session));
        Arc::ptr_eq(self.made().session(), &session) || self.lane().adopt(&plan, session)
    }
}

/// A call between interceptors.
struct InterceptedCall<'h, 'b, 'r, 'p, 'a, R: Remote> {
    held: &'h mut HeldLane<'b, R>,
    procedure: u16,
    arguments: Arguments<'r, 'p, 'a>,
    times: CallTimes,
    is_again: bool,
}

impl<R: Remote> Attempt for InterceptedCall<'_, '_, '_, '_, '_, R> {
    fn make(&mut self, carried: Option<&Carried>, answer: &mut Metadata) -> Result<(), CallError> {
        let deadline_ns = self.times.deadline.latest_ns;
        // Interceptors may have taken their time.
        if clock::coarse_now_ns() >= deadline_ns {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        if mem::replace(&mut self.is_again, true) {
            self.times = CallTimes::exact(clock::now_ns(), deadline_ns);
        }
        let arguments = self.arguments.reborrow();
        self.held.call_with_metadata(self.procedure, self.times, arguments, carried, answer)
    }

    fn is_repeatable(&self) -> bool {
        !self.arguments.are_overwritten(self.held.made().are_buffers_changed())
    }
}

/// A call that is made once more.
struct Repeated<'h, 'b, 'r, 'p, 'a, R: Remote> {
    held: &'h mut HeldLane<'b, R>,
    procedure: u16,
    arguments: Arguments<'r, 'p, 'a>,
    /// When it was sent on the present session.
    sent_ns: u64,
}

impl<R: Remote> Attempts for Repeated<'_, '_, '_, '_, '_, R> {
    fn bind(&mut self, why: Why, deadline: Instant) -> Result<Verdict, BindError> {
        let (lane, binding) = (self.held.made(), self.held.binding);
        match why {
            Why::Leave => binding.leave(lane.session(), deadline)?,
            Why::Lost => drop(binding.rebind(lane.session(), None, deadline)?),
            Why::Judge(refusal) => {
                let session = binding.rebind(lane.session(), Some(refusal), deadline)?;
                let idempotent = binding.is_idempotent(self.procedure);
                return Ok(lane.judge(self.sent_ns, refusal, &session, idempotent));
            }
        }
        Ok(Verdict::NotRun)
    }

    fn adopt(&mut self) -> bool {
        self.held.adopt_present()
    }

    fn attempt(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Ended> {
        self.sent_ns = now_ns;
        self.held.attempt_apart(CallTimes::exact(now_ns, deadline_ns), self.procedure, &mut self.arguments)
    }

    fn loss(&self) -> Loss {
        self.held.made().loss()
    }

    fn is_overwritten(&self) -> bool {
        self.arguments.are_overwritten(self.held.made().are_buffers_changed())
    }

    fn wait_after(&self, refused: Refused, attempts: u32, left: Duration) -> Option<Duration> {
        // Its lane counts it when it has ended.
        self.held.binding.wait_with(attempts.into(), refused, attempts, left)
    }
}
