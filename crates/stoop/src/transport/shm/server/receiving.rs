//! How a worker waits for calls: at the hot bindings, at all of them, or asleep.

use crate::calling::unbind_notice;
use crate::error::RefusalCode;
use crate::transport::shm::server::ShmEndpoint;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::bindings::{END, LISTENER, Reception, STIR};
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::handshake::Step;
use crate::transport::shm::server::worker::Desk;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_net::host;
use stoop_net::poller::Events;
use stoop_net::waiting::Crowd;
use stoop_shm::layout::SLOT;
use stoop_shm::{Answers, Emptying, Request, RequestKind, Requests, Took, Way, attention};
use stoop_wire::UnbindReason;

/// Looks at the hot bindings before a look at the clock.
const LOOKS: u32 = 16;
/// Nanoseconds after which a receiver that spins asks the poller, which takes a tenth of a microsecond.
const ASKS_EVERY_NS: u64 = 20_000;
/// As long as it asks at least when there is always another call: others want to bind, and ring.
const ASKS_BETWEEN_CALLS_NS: u64 = 200_000;
/// For so long, there is no time to sleep after a chunk of a long message: the next is about to come.
const NEXT_CHUNK_NS: u64 = 100_000;
/// Calls taken from one binding before the others have their turn.
const IN_A_ROW_MAX: u32 = 16;
/// Descriptors told at once.
const EVENTS: usize = 64;

/// Looks at the binding of the last call for the next, where nobody else calls: about as long as an answer travels there and a request
/// back.
const LOOKS_AT_KEPT: u32 = 256;

/// What a look at a binding brought: a call with its arguments.
enum Look {
    Call(Request, Vec<u8>),
    Nothing,
    /// The peer has said something impossible.
    Disorder,
}

impl ShmEndpoint {
    /// Looks whether whoever called last calls again. Like all taking of requests this needs the receive role; the reception is for
    /// everything else.
    #[inline(always)]
    pub(super) fn take_another(&self, desk: &mut Desk) -> Option<ShmCall> {
        let others_wait = desk.in_a_row >= IN_A_ROW_MAX
            || desk.clock_ns.saturating_sub(desk.asked_ns) > ASKS_BETWEEN_CALLS_NS;
        if others_wait {
            return None;
        }
        let binding = desk.take_kept()?;
        // By whoever had the role meanwhile.
        if binding.is_closed() {
            return None;
        }
        for _ in 0..desk.looks_at_kept {
            match self.take_from(&binding, desk) {
                Look::Call(request, arguments) => {
                    desk.in_a_row += 1;
                    desk.wait.came_at_once();
                    return Some(ShmCall::new(binding, &request, arguments));
                }
                // Its chunks are taken where all others are.
                Look::Nothing if binding.has_transfers() => break,
                Look::Nothing => {}
                Look::Disorder => {
                    self.close_disorderly(&mut self.reception(), desk, binding.token);
                    return None;
                }
            }
        }
        desk.keep(binding);
        None
    }

    /// Waits until there is a call, or until `stopping` is set.
    #[inline(never)]
    pub(super) fn wait_for_call(
        &self,
        reception: &mut Reception,
        desk: &mut Desk,
        stopping: &AtomicBool,
    ) -> Option<ShmCall> {
        if desk.clock_ns.saturating_sub(desk.asked_ns) > ASKS_BETWEEN_CALLS_NS {
            self.look_around(reception, desk);
        }
        let crowd = Crowd::of_this_process();
        let mut spinner = desk.begin_waiting(crowd);
        loop {
            for _ in 0..if spinner.is_some() && !desk.yields { LOOKS } else { 1 } {
                // Taking the chunks of a long call is no waiting for it.
                let looked_ns = desk.clock_ns;
                if let Some(call) = self.look(reception, desk) {
                    desk.arrived(looked_ns);
                    let is_alone = spinner.is_some() && !desk.yields && reception.hot.len() == 1;
                    desk.looks_at_kept = if is_alone { LOOKS_AT_KEPT } else { 1 };
                    return Some(call);
                }
            }
            if desk.has_place && self.shutting_down.load(Ordering::SeqCst) {
                self.give_place_back(desk);
            }
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            if self.is_stirred() {
                self.be_stirred(reception, desk);
                continue;
            }
            if spinner.is_none() {
                self.sleep(reception, desk);
                continue;
            }
            if let Some(housekeeper) = self.housekeeper.get() {
                housekeeper.let_runners_run();
            }
            let goes_on = desk.goes_on(crowd);
            if desk.clock_ns.saturating_sub(desk.asked_ns) > ASKS_EVERY_NS {
                self.ask(reception, desk, Some(Duration::ZERO));
                reception.cool(desk.clock_ns);
            }
            // Not for whoever has stopped in the midst of a message.
            let is_moving = desk.clock_ns.saturating_sub(desk.moved_ns) < NEXT_CHUNK_NS;
            if !is_moving && !goes_on {
                spinner = None;
                desk.yields = false;
                desk.wait.sleeps(desk.clock_ns);
            }
        }
    }

    /// There is always something to do for some, and others must not wait for its end.
    #[cold]
    fn look_around(&self, reception: &mut Reception, desk: &mut Desk) {
        self.ask(reception, desk, Some(Duration::ZERO));
        if self.is_stirred() {
            self.be_stirred(reception, desk);
        }
        reception.cool(desk.clock_ns);
    }

    /// Looks once at all hot bindings, from the one that called last on.
    #[inline]
    pub(super) fn look(&self, reception: &mut Reception, desk: &mut Desk) -> Option<ShmCall> {
        let hot = reception.hot.len();
        if desk.in_a_row >= IN_A_ROW_MAX {
            desk.in_a_row = 0;
            reception.next();
        }
        for _ in 0..hot {
            let binding = &reception.hot[reception.first];
            let mut look = self.take_from(binding, desk);
            if matches!(look, Look::Nothing) && binding.has_transfers() {
                look = self.advance(desk, binding).map_or(Look::Disorder, |arrived| match arrived {
                    Some((request, message)) => Look::Call(request, message),
                    None => Look::Nothing,
                });
            }
            match look {
                Look::Call(request, arguments) => {
                    desk.in_a_row += 1;
                    return Some(ShmCall::new(desk.hold(binding), &request, arguments));
                }
                Look::Nothing => {
                    desk.in_a_row = 0;
                    reception.next();
                }
                Look::Disorder => {
                    let token = binding.token;
                    self.close_disorderly(reception, desk, token);
                    return None;
                }
            }
        }
        None
    }

    /// The peer at the other end of a binding has said something impossible.
    #[cold]
    fn close_disorderly(&self, reception: &mut Reception, desk: &mut Desk, token: u64) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
        desk.let_go();
        self.close(reception, token, Some(UnbindReason::Disorder));
    }

    /// Takes the next request of a binding, if there is one.
    #[inline(always)]
    fn take_from(&self, binding: &Binding, desk: &mut Desk) -> Look {
        match binding.take() {
            (Took::Nothing, _) => Look::Nothing,
            (Took::Request(request), ticket) if request.kind != RequestKind::Cancel => {
                self.take_call(binding, desk, &request, ticket)
            }
            (Took::Request(request), _) => {
                self.take_cancel(desk, binding, &request);
                binding.count_cancel();
                Look::Nothing
            }
            (Took::Disorder, _) => Look::Disorder,
        }
    }

    #[inline(always)]
    fn take_call(&self, binding: &Binding, desk: &mut Desk, request: &Request, ticket: u64) -> Look {
        Answers::prepare(&binding.segment, request.lane);
        // One at a time it would take the line from under its caller's hands.
        if desk.has_more
            && let Some(lane) = Requests::look_ahead(&binding.segment, ticket + 1)
        {
            Answers::prepare(&binding.segment, lane);
        }
        if !binding.begin(request.lane, request.number) {
            return Look::Disorder;
        }
        binding.heard_ns.store(desk.clock_ns, Ordering::Relaxed);
        desk.cpu = host::current_cpu() as u16;
        desk.keep_company(binding.together && desk.cpu != request.cpu, self.spinners_max);
        let len = request.len as usize;
        let known =
            usize::from(request.procedure) < self.interfaces.procedure_count(binding.interface.into());
        if !known || len > self.message_max {
            self.refuse_impossible(binding, desk, request, known);
            return Look::Nothing;
        }
        if len > SLOT {
            return self.begin_arrival(binding, request).map_or(Look::Disorder, |()| Look::Nothing);
        }
        if !self.admit(desk, binding, request) {
            return Look::Nothing;
        }
        let mut arguments = std::mem::take(&mut desk.arguments);
        arguments.clear();
        Requests::message(&binding.segment, ticket, request, &mut arguments);
        Look::Call(*request, arguments)
    }

    #[cold]
    fn refuse_impossible(&self, binding: &Binding, desk: &Desk, request: &Request, known: bool) {
        if known {
            let limit = format!("at most {} bytes", self.message_max);
            self.refuse_request(binding, request, RefusalCode::MessageTooLarge, &limit, desk.cpu);
        } else {
            self.refuse_request(binding, request, RefusalCode::UnknownProcedure, "", desk.cpu);
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
    pub(super) fn admit(&self, desk: &mut Desk, binding: &Binding, request: &Request) -> bool {
        // Counted first: whoever shuts down waits for it, or it sees that the server shuts down.
        if !mem::take(&mut desk.has_place) {
            self.active.fetch_add(1, Ordering::SeqCst);
        }
        let admitted = !self.shutting_down.load(Ordering::SeqCst);
        if !admitted {
            self.refuse_request(binding, request, RefusalCode::ShuttingDown, "", desk.cpu);
            self.one_less();
        }
        admitted
    }

    /// Sleeps until something happens.
    #[cold]
    fn sleep(&self, reception: &mut Reception, desk: &mut Desk) {
        desk.let_go();
        self.give_place_back(desk);
        self.asleep.store(true, Ordering::SeqCst);
        reception.hot.iter().for_each(|binding| attention::look_away(&binding.segment));
        // Whoever came before this was said has not rung.
        let is_needed = |binding: &Arc<Binding>| binding.has_request() || binding.can_move();
        let came = reception.hot.iter().any(is_needed) || self.is_stirred();
        if came {
            reception.hot.iter().for_each(|binding| attention::look(&binding.segment));
            // Requests that are no calls (cancels, without end) bring nobody else to look at it.
            desk.read_clock();
            if desk.clock_ns.saturating_sub(desk.asked_ns) > ASKS_BETWEEN_CALLS_NS {
                self.look_around(reception, desk);
            }
        } else {
            reception.hot.clear();
            reception.first = 0;
            let limit = reception.sleep_limit(&self.poller);
            self.ask(reception, desk, limit);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Asks the poller, and does what it tells.
    pub(super) fn ask(&self, reception: &mut Reception, desk: &mut Desk, limit: Option<Duration>) {
        let mut events = desk.events.take().unwrap_or_else(|| Events::with_capacity(EVENTS));
        // Fails for no reason that waiting again would not show.
        let _ = self.poller.wait(&mut events, limit);
        desk.read_clock();
        desk.asked_ns = desk.clock_ns;
        for ready in events.iter() {
            match ready.token {
                LISTENER => reception.accept(&self.poller),
                END => {}
                STIR => {
                    self.stirrer.drain();
                    self.be_stirred(reception, desk);
                }
                token if token % 2 == 1 => {
                    if let Some(binding) = reception.bindings.get(&(token - 1)).map(Arc::clone) {
                        reception.warm(binding, desk.clock_ns);
                    }
                }
                token => {
                    let Some(binding) = reception.bindings.get(&token) else {
                        self.shake_hands(reception, token);
                        continue;
                    };
                    // Of a binding nothing comes by its socket but its end, and why.
                    if unbind_notice::hear(&binding.stream).is_some() {
                        self.counts.given_up.fetch_add(1, Ordering::Relaxed);
                    }
                    desk.let_go();
                    self.close(reception, token, None);
                }
            }
        }
        desk.events = Some(events);
    }

    /// Does what other workers want of whoever receives.
    #[cold]
    fn be_stirred(&self, reception: &mut Reception, desk: &mut Desk) {
        for binding in self.take_stirred() {
            if reception.bindings.contains_key(&binding.token) {
                reception.warm(binding, desk.clock_ns);
            }
        }
        if self.shutting_down.load(Ordering::SeqCst) {
            reception.shut_down(&self.poller);
        }
    }

    #[cold]
    fn shake_hands(&self, reception: &mut Reception, token: u64) {
        let Some(handshake) = reception.handshakes.get_mut(&token) else { return };
        let step = handshake.advance(self, &reception.bindings);
        if let Step::Continue = step {
            return;
        }
        let Some(handshake) = reception.handshakes.remove(&token) else { return };
        match step {
            Step::Attached(bound, segment, arena, bell) => {
                let memory = (segment, arena);
                let binding = Binding::new(token, handshake.stream, bell, memory, handshake.caller, bound);
                if reception.add(&self.poller, binding).is_ok() {
                    self.counts.bindings.fetch_add(1, Ordering::Relaxed);
                }
            }
            Step::Malformed => {
                self.counts.malformed.fetch_add(1, Ordering::Relaxed);
                handshake.end(UnbindReason::Disorder);
            }
            Step::Continue | Step::Close => {}
        }
    }

    /// Ends a binding, and tells its caller why. Its calls that run are cancelled, and finished; those that wait for a worker will not run.
    #[cold]
    pub(super) fn close(&self, reception: &mut Reception, token: u64, why: Option<UnbindReason>) {
        let Some(binding) = reception.remove(&self.poller, token) else { return };
        if binding.close(why) {
            self.counts.bindings.fetch_sub(1, Ordering::Relaxed);
        }
        self.drop_transfers(&binding);
        binding.cancel_all();
        self.announce_end();
    }
}
