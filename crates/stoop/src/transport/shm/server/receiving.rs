//! How a worker receives calls: it looks at the last binding, polls several, or sleeps until one rings.

use crate::calling::unbind_notice;
use crate::error::RefusalCode;
use crate::serving::acceptor::{END, LISTENER, NOTIFIED};
use crate::serving::workers::Endpoint;
use crate::transport::shm::server::ShmEndpoint;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::bindings::Bindings;
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::handshake::{Handshake, Step};
use crate::transport::shm::server::pipes::BindingPipes;
use crate::transport::shm::server::worker::WorkerState;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_net::host;
use stoop_net::memory;
use stoop_net::poller::Events;
use stoop_probe::{Point, stamp};
use stoop_shm::layout::SLOT;
use stoop_shm::{Answers, Emptying, Request, RequestKind, Requests, Took, Way, attention};
use stoop_wire::UnbindReason;

/// Looks at the polled bindings before a look at the clock.
const LOOKS: u32 = 16;
/// Nanoseconds after which a receiver that spins asks the poller, which takes a tenth of a microsecond.
const ASKS_EVERY_NS: u64 = 20_000;
/// The same while there is always another call: other callers want to bind, and ring.
const ASKS_BETWEEN_CALLS_NS: u64 = 200_000;
/// Calls taken from one binding before the others have their turn.
const IN_A_ROW_MAX: u32 = 16;
/// Events taken from the poller at once.
const EVENTS: usize = 64;

/// Looks for the next call of the last binding, where it is the only one that calls: about as long as an answer and the next request
/// travel.
const LOOKS_AT_LAST: u32 = 256;

/// The state in which a look found a binding.
enum Look {
    Call(Request, Vec<u8>),
    Nothing,
    /// The peer has written values that the protocol does not allow.
    Disorder,
}

impl ShmEndpoint {
    /// Looks whether the last caller calls again. This needs the receive role, like all taking of requests, but not the lock of the
    /// bindings.
    #[inline(always)]
    pub(super) fn take_another(&self, worker: &mut WorkerState) -> Option<ShmCall> {
        let others_wait = worker.in_a_row >= worker.in_a_row_max
            || worker.clock_ns.saturating_sub(worker.asked_ns) > ASKS_BETWEEN_CALLS_NS;
        if others_wait {
            return None;
        }
        let binding = worker.take_last()?;
        // Another receiver may have closed it meanwhile.
        if binding.is_closed() {
            return None;
        }
        for _ in 0..worker.looks_at_last {
            match self.take_from(&binding, worker) {
                Look::Call(request, arguments) => {
                    worker.in_a_row += 1;
                    worker.waiter.came_at_once();
                    return Some(ShmCall::new(binding, &request, arguments));
                }
                // Chunks are taken in `look`.
                Look::Nothing if binding.has_transfers() => break,
                Look::Nothing => {}
                Look::Disorder => {
                    self.close_disorderly(&mut self.bindings(), worker, binding.token);
                    return None;
                }
            }
        }
        worker.set_last(binding);
        None
    }

    /// Waits until there is a call, or until `interrupted` is set.
    #[inline(never)]
    pub(super) fn wait_for_call(
        &self,
        bindings: &mut Bindings,
        worker: &mut WorkerState,
        interrupted: &AtomicBool,
    ) -> Option<ShmCall> {
        if worker.clock_ns.saturating_sub(worker.asked_ns) > ASKS_BETWEEN_CALLS_NS {
            self.look_around(bindings, worker);
        }
        let mut wait = worker.waiter.begin_in_memory(worker.clock_ns);
        loop {
            for _ in 0..if wait.spins() { LOOKS } else { 1 } {
                // The time in which chunks of a long call are taken is no waiting.
                let looked_ns = worker.clock_ns;
                if let Some(call) = self.look(bindings, worker) {
                    worker.waiter.arrived(&wait, looked_ns);
                    let is_alone = bindings.polled.len() == 1;
                    worker.looks_at_last = if is_alone && wait.spins() { LOOKS_AT_LAST } else { 1 };
                    // Others begin to be polled when the poller is asked, which is not long put off.
                    worker.in_a_row_max = if is_alone { u32::MAX } else { IN_A_ROW_MAX };
                    return Some(call);
                }
            }
            if worker.is_counted && self.service.activity.is_shutting_down() {
                self.uncount(worker);
            }
            if interrupted.load(Ordering::Relaxed) {
                return None;
            }
            if self.has_notifications() {
                self.take_notifications(bindings, worker);
                continue;
            }
            if wait.sleeps() {
                wait.uncount();
                self.sleep(bindings, worker);
                continue;
            }
            self.service.background.yield_to_running_procedures();
            worker.pause(&mut wait);
            self.drained_ns.store(worker.clock_ns, Ordering::Relaxed);
            if worker.clock_ns.saturating_sub(worker.asked_ns) > ASKS_EVERY_NS {
                self.ask(bindings, worker, Some(Duration::ZERO));
                bindings.stop_polling_silent(worker.clock_ns);
            }
        }
    }

    /// Looks for a call that is there, at all bindings if there is none at those that are polled.
    pub(super) fn look_without_waiting(
        &self,
        bindings: &mut Bindings,
        worker: &mut WorkerState,
    ) -> Option<ShmCall> {
        let is_due = worker.clock_ns.saturating_sub(worker.asked_ns) > ASKS_EVERY_NS;
        if !is_due && let Some(call) = self.look(bindings, worker) {
            return Some(call);
        }
        self.ask(bindings, worker, Some(Duration::ZERO));
        self.look(bindings, worker)
    }

    /// Whether calls wait that this worker could not begin soon; asked when for a while there has always been another call.
    #[cold]
    pub(super) fn has_many_waiting(&self, worker: &WorkerState, call: &ShmCall) -> bool {
        let is_behind = self.terms(call).is_behind(call.binding.waiting());
        if !is_behind {
            self.drained_ns.store(worker.clock_ns, Ordering::Relaxed);
        }
        is_behind
    }

    /// Some callers always have calls: looks at the others all the same.
    #[cold]
    fn look_around(&self, bindings: &mut Bindings, worker: &mut WorkerState) {
        self.ask(bindings, worker, Some(Duration::ZERO));
        if self.has_notifications() {
            self.take_notifications(bindings, worker);
        }
        bindings.stop_polling_silent(worker.clock_ns);
    }

    /// Looks once at all polled bindings, beginning with the one that called last.
    #[inline]
    pub(super) fn look(&self, bindings: &mut Bindings, worker: &mut WorkerState) -> Option<ShmCall> {
        let count = bindings.polled.len();
        if worker.in_a_row >= IN_A_ROW_MAX {
            worker.in_a_row = 0;
            bindings.next();
        }
        for _ in 0..count {
            let binding = &bindings.polled[bindings.first];
            let mut look = self.take_from(binding, worker);
            if matches!(look, Look::Nothing) && binding.has_transfers() {
                look = self.advance(worker, binding).map_or(Look::Disorder, |arrived| match arrived {
                    Some((request, message)) => Look::Call(request, message),
                    None => Look::Nothing,
                });
            }
            match look {
                Look::Call(request, arguments) => {
                    worker.in_a_row += 1;
                    return Some(ShmCall::new(worker.hold(binding), &request, arguments));
                }
                Look::Nothing => {
                    worker.in_a_row = 0;
                    bindings.next();
                }
                Look::Disorder => {
                    let token = binding.token;
                    self.close_disorderly(bindings, worker, token);
                    return None;
                }
            }
        }
        None
    }

    /// The peer at the other end of a binding has written values that the protocol does not allow.
    #[cold]
    fn close_disorderly(&self, bindings: &mut Bindings, worker: &mut WorkerState, token: u64) {
        self.service.activity.malformed.fetch_add(1, Ordering::Relaxed);
        worker.forget_last();
        self.close(bindings, token, Some(UnbindReason::Disorder));
    }

    /// Takes the next request of a binding, if there is one.
    #[inline(always)]
    fn take_from(&self, binding: &Binding, worker: &mut WorkerState) -> Look {
        match binding.take() {
            (Took::Nothing, _) => Look::Nothing,
            (Took::Request(request), ticket) if request.kind != RequestKind::Cancel => {
                self.take_call(binding, worker, &request, ticket)
            }
            (Took::Request(request), _) => {
                self.take_cancel(worker, binding, &request);
                binding.count_cancel();
                Look::Nothing
            }
            (Took::Disorder, _) => Look::Disorder,
        }
    }

    #[inline(always)]
    fn take_call(&self, binding: &Binding, worker: &mut WorkerState, request: &Request, ticket: u64) -> Look {
        stamp(Point::CallSeen);
        Answers::prepare(&binding.segment, request.lane);
        // A caller that makes one call after the other would lose the line while it writes there.
        if worker.has_more
            && let Some(lane) = Requests::look_ahead(&binding.segment, ticket + 1)
        {
            Answers::prepare(&binding.segment, lane);
        }
        if !binding.begin(request.lane, request.number) {
            return Look::Disorder;
        }
        binding.heard_ns.store(worker.clock_ns, Ordering::Relaxed);
        worker.cpu = host::current_cpu() as u16;
        worker.waiter.set_together(binding.together && worker.cpu != request.cpu);
        let len = request.len as usize;
        let procedures = self.service.interfaces.procedure_count(binding.interface.into());
        let interfaces = &self.service.interfaces;
        let known = usize::from(request.procedure) < procedures
            || interfaces.has_procedure(binding.interface.into(), request.procedure);
        if !known || len > self.service.message_max {
            self.refuse_impossible(binding, worker, request, known);
            return Look::Nothing;
        }
        if len > SLOT {
            return self.begin_arrival(binding, request).map_or(Look::Disorder, |()| Look::Nothing);
        }
        if !self.admit(worker, binding, request) {
            return Look::Nothing;
        }
        let mut arguments = std::mem::take(&mut worker.arguments);
        arguments.clear();
        Requests::message(&binding.segment, ticket, request, &mut arguments);
        stamp(Point::CallFound);
        Look::Call(*request, arguments)
    }

    #[cold]
    fn refuse_impossible(&self, binding: &Binding, worker: &WorkerState, request: &Request, known: bool) {
        if known {
            let limit = format!("at most {} bytes", self.service.message_max);
            self.refuse_request(binding, request, RefusalCode::MessageTooLarge, &limit, worker.cpu);
        } else {
            self.refuse_request(binding, request, RefusalCode::UnknownProcedure, "", worker.cpu);
        }
        let len = request.len as usize;
        if len > SLOT
            && let Some(declined) = Emptying::new(Way::Call, request.channel, request.base, len)
        {
            declined.decline(&binding.segment);
        }
    }

    /// A whole call is there: counts it, unless the server shuts down.
    #[inline]
    pub(super) fn admit(&self, worker: &mut WorkerState, binding: &Binding, request: &Request) -> bool {
        let is_counted = mem::take(&mut worker.is_counted);
        let admitted = if is_counted {
            !self.service.activity.is_shutting_down()
        } else {
            self.service.activity.begin_call()
        };
        if !admitted {
            self.refuse_request(binding, request, RefusalCode::ShuttingDown, "", worker.cpu);
            self.service.activity.end_call();
        }
        admitted
    }

    /// Sleeps until something happens.
    #[cold]
    fn sleep(&self, bindings: &mut Bindings, worker: &mut WorkerState) {
        worker.forget_last();
        self.uncount(worker);
        self.asleep.store(true, Ordering::SeqCst);
        bindings.polled.iter().for_each(|binding| attention::look_away(&binding.segment));
        // Callers that published before this have not rung.
        let is_needed = |binding: &Arc<Binding>| binding.has_request() || binding.can_move();
        let came = bindings.polled.iter().any(is_needed) || self.has_notifications();
        if came {
            bindings.polled.iter().for_each(|binding| attention::look(&binding.segment));
            // A caller that sends nothing but cancels must not keep the others waiting.
            worker.read_clock();
            if worker.clock_ns.saturating_sub(worker.asked_ns) > ASKS_BETWEEN_CALLS_NS {
                self.look_around(bindings, worker);
            }
        } else {
            bindings.polled.clear();
            bindings.first = 0;
            let limit = self.acceptor.sleep_limit();
            self.ask(bindings, worker, limit);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Asks the poller for events, and handles them.
    pub(super) fn ask(&self, bindings: &mut Bindings, worker: &mut WorkerState, limit: Option<Duration>) {
        let mut events = worker.events.take().unwrap_or_else(|| Events::with_capacity(EVENTS));
        // The next wait shows any lasting cause of an error.
        let _ = self.acceptor.poller.wait(&mut events, limit);
        worker.read_clock();
        worker.asked_ns = worker.clock_ns;
        for ready in events.iter() {
            match ready.token {
                LISTENER => bindings.accept(&self.acceptor),
                END => {}
                NOTIFIED => {
                    self.acceptor.notifier.drain();
                    memory::give_back_end_of_arena();
                    self.take_notifications(bindings, worker);
                }
                token if token % 2 == 1 => {
                    if let Some(binding) = bindings.all.get(&(token - 1)).map(Arc::clone) {
                        bindings.start_polling(binding, worker.clock_ns);
                    }
                }
                token => {
                    let Some(binding) = bindings.all.get(&token) else {
                        self.shake_hands(bindings, token);
                        continue;
                    };
                    // All that comes by the socket of a binding is its end, and why.
                    if unbind_notice::receive(&binding.stream).is_some() {
                        self.given_up.fetch_add(1, Ordering::Relaxed);
                    }
                    worker.forget_last();
                    self.close(bindings, token, None);
                }
            }
        }
        worker.events = Some(events);
    }

    /// Looks at the bindings of which other threads have notified the receiver.
    #[cold]
    fn take_notifications(&self, bindings: &mut Bindings, worker: &mut WorkerState) {
        for binding in self.take_notified() {
            if bindings.all.contains_key(&binding.token) {
                bindings.start_polling(binding, worker.clock_ns);
            }
        }
        if self.service.activity.is_shutting_down() {
            self.acceptor.shut_down();
            bindings.announce_end();
        }
    }

    #[cold]
    fn shake_hands(&self, bindings: &mut Bindings, token: u64) {
        let Some(handshake) = bindings.handshakes.get_mut(&token) else { return };
        let step = handshake.advance(&self.service, &self.shares, self.arena_len, &bindings.all);
        if let Step::Continue = step {
            return;
        }
        let Some(handshake) = bindings.handshakes.remove(&token) else { return };
        match step {
            Step::Attached(bound, memory, bell, share) => {
                let Handshake { stream, caller, .. } = handshake;
                let pipes = BindingPipes::new(&self.attended);
                let binding =
                    Binding::new(token, stream, bell, memory, (&self.memory, share, pipes), caller, bound);
                if bindings.add(&self.acceptor.poller, binding).is_ok() {
                    self.service.bindings.fetch_add(1, Ordering::Relaxed);
                }
            }
            Step::Malformed => {
                self.service.activity.malformed.fetch_add(1, Ordering::Relaxed);
                handshake.end(UnbindReason::Disorder);
            }
            Step::Continue | Step::Close => {}
        }
    }

    /// Ends a binding, and tells its caller why. Its running calls are cancelled, and finish; calls that wait for a worker will not run.
    #[cold]
    pub(super) fn close(&self, bindings: &mut Bindings, token: u64, why: Option<UnbindReason>) {
        let Some(binding) = bindings.remove(&self.acceptor.poller, token) else { return };
        if binding.close(why) {
            self.service.bindings.fetch_sub(1, Ordering::Relaxed);
        }
        self.drop_transfers(&binding);
        binding.lose_pipes();
        binding.cancel_all();
        self.service.background.wake_if_asleep();
        self.service.activity.announce_end();
    }
}
