//! How a worker waits for calls: at the hot bindings, at all of them, or asleep.

use super::ShmEndpoint;
use super::binding::Binding;
use super::call::ShmCall;
use super::desk::Desk;
use super::handshake::Step;
use super::reception::{END, LISTENER, Reception, STIR};
use crate::error::RefusalCode;
use crate::parting;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stoop_net::clock;
use stoop_net::host;
use stoop_net::poller::Events;
use stoop_net::waiting::Crowd;
use stoop_shm::layout::SLOT;
use stoop_shm::{Disorder, Emptying, Request, RequestKind, Requests, Took, Way, attention};
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

/// What a look at a binding brought.
enum Look {
    Call(ShmCall),
    Nothing,
    /// The peer has said something impossible.
    Disorder,
}

impl ShmEndpoint {
    /// Waits until there is a call, or until `stopping` is set.
    #[inline]
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
            for _ in 0..if spinner.is_some() { LOOKS } else { 1 } {
                if let Some(call) = self.look(reception, desk) {
                    desk.wait.arrived(desk.clock_ns);
                    return Some(call);
                }
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
            desk.clock_ns = clock::now_ns();
            if desk.clock_ns.saturating_sub(desk.asked_ns) > ASKS_EVERY_NS {
                self.ask(reception, desk, Some(Duration::ZERO));
                reception.cool(desk.clock_ns);
            }
            // Not for whoever has stopped in the midst of a message.
            let is_moving = desk.clock_ns.saturating_sub(desk.moved_ns) < NEXT_CHUNK_NS;
            if !is_moving && !desk.wait.keeps_spinning(desk.clock_ns, crowd.waiting()) {
                spinner = None;
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
        for _ in 0..hot {
            match self.look_at(&reception.hot[reception.first], desk) {
                Look::Call(call) => {
                    reception.in_a_row += 1;
                    if reception.in_a_row >= IN_A_ROW_MAX {
                        reception.next(hot);
                    }
                    return Some(call);
                }
                Look::Nothing => reception.next(hot),
                Look::Disorder => {
                    let token = reception.hot[reception.first].token;
                    self.counts.malformed.fetch_add(1, Ordering::Relaxed);
                    desk.let_go();
                    self.close(reception, token, Some(UnbindReason::Disorder));
                    return None;
                }
            }
        }
        None
    }

    #[inline]
    fn look_at(&self, binding: &Arc<Binding>, desk: &mut Desk) -> Look {
        match binding.take() {
            (Took::Nothing, _) if !binding.has_transfers() => Look::Nothing,
            (Took::Nothing, _) => match self.advance(desk, binding) {
                Ok(Some(call)) => Look::Call(call),
                Ok(None) => Look::Nothing,
                Err(Disorder) => Look::Disorder,
            },
            (Took::Request(request), ticket) if request.kind == RequestKind::Call => {
                self.take_call(binding, desk, &request, ticket)
            }
            (Took::Request(request), _) => {
                binding.count_cancel();
                self.take_cancel(desk, binding, &request);
                Look::Nothing
            }
            (Took::Disorder, _) => Look::Disorder,
        }
    }

    #[inline]
    fn take_call(&self, binding: &Arc<Binding>, desk: &mut Desk, request: &Request, ticket: u64) -> Look {
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
            return if self.begin_arrival(binding, request) { Look::Nothing } else { Look::Disorder };
        }
        if !self.admit(desk, binding, request) {
            return Look::Nothing;
        }
        let mut arguments = std::mem::take(&mut desk.arguments);
        arguments.clear();
        Requests::message(&binding.segment, ticket, request, &mut arguments);
        Look::Call(ShmCall::new(desk.hold(binding), request, arguments))
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
    pub(super) fn admit(&self, desk: &Desk, binding: &Binding, request: &Request) -> bool {
        // Counted first: whoever shuts down waits for it, or it sees that the server shuts down.
        self.active.fetch_add(1, Ordering::SeqCst);
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
        self.asleep.store(true, Ordering::SeqCst);
        reception.hot.iter().for_each(|binding| attention::look_away(&binding.segment));
        // Whoever came before this was said has not rung.
        let is_needed = |binding: &Arc<Binding>| binding.has_request() || binding.can_move();
        let came = reception.hot.iter().any(is_needed) || self.is_stirred();
        if came {
            reception.hot.iter().for_each(|binding| attention::look(&binding.segment));
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
        desk.clock_ns = clock::now_ns();
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
                    if parting::hear(&binding.stream).is_some() {
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
        let step = handshake.advance(self);
        if let Step::Continue = step {
            return;
        }
        let Some(handshake) = reception.handshakes.remove(&token) else { return };
        match step {
            Step::Attached(bound, segment, bell) => {
                let binding = Binding::new(token, handshake.stream, bell, segment, handshake.caller, bound);
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
