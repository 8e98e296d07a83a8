//! Binding in a caller's process, and the calls that wait for it.

use super::{BIND_LIMIT, BINDER_PORT};
use crate::events::{Event, ThreadId};
use crate::task::interface;
use crate::world::{Call, CallerProcess, Generation, Stage, Thread};
use crate::{Address, Sabotage, Sim};
use core::time::Duration;
use stoop_calls::life::{self, Ended, Next, Said, Why};
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::bulk::Path;
use stoop_exchange::outcome::Unbound;
use stoop_wire::{HEADER_LEN, Header, Kind, LaneId};

/// Time for which it asks one of two servers.
const ONE_SERVER_LIMIT: Duration = Duration::from_millis(700);

/// Time between a refusal to bind and the next request.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest datagram of UDP over IPv4.
const LARGEST_DATAGRAM: usize = 65_507;

impl Sim {
    pub(super) fn wait_for_binding(&mut self, at: ThreadId) {
        self.waits_until_deadline(at);
        self.bind(at.caller);
    }

    /// The wait of the thread's call for a session, or until it may leave, ends with its deadline.
    pub(super) fn waits_until_deadline(&mut self, at: ThreadId) {
        let deadline = self.call_of(at).expect("it has a call").deadline;
        self.plan_for(at, deadline, Event::WaitEnds);
    }

    pub(super) fn bind(&mut self, caller: usize) {
        let now = self.caller_now(caller);
        let process = &mut self.callers[caller];
        if process.binder.is_none() {
            (process.attempted, process.binds_until) = (now, now + BIND_LIMIT);
            self.ask_for_binding(caller, now);
        }
    }

    /// Begins to ask the server at the caller's place for a binding, from `start` on. Where there is another, it is to have time for that,
    /// too.
    fn ask_for_binding(&mut self, caller: usize, start: Instant) {
        let most = if self.scenario.places > 1 { ONE_SERVER_LIMIT } else { BIND_LIMIT };
        let until = self.callers[caller].binds_until.min(start + most);
        let host = self.facts_of(self.machine_of(caller));
        let revision = caller as u32 % (self.scenario.revisions + 1);
        let interface = interface(self.scenario.procedures, revision);
        let nonce = self.random.nonce();
        let (longest, window) = (self.scenario.longest_result, self.scenario.caller_window());
        let binder = Binder::new(start, until, interface, host, nonce);
        self.callers[caller].binder = Some(binder.accepting(longest as u32, window));
        self.drive_binder(caller);
    }

    /// The server at the caller's place gives no binding: asks the next one, after a pause.
    fn asks_next_server(&mut self, caller: usize) {
        let start = self.caller_now(caller) + PAUSE;
        let process = &mut self.callers[caller];
        process.binder = None;
        if !self.scenario.follows || start >= process.binds_until {
            return self.binding_fails(caller);
        }
        process.place = (process.place + 1) % self.scenario.places;
        self.ask_for_binding(caller, start);
    }

    pub(crate) fn binder_timer(&mut self, caller: usize) {
        let now = self.caller_now(caller);
        let binder = self.callers[caller].binder.as_ref();
        if binder.is_some_and(|binder| binder.next_timeout() <= now) {
            self.drive_binder(caller);
        }
    }

    /// Sends what the binder has to send, and comes back when it has more.
    fn drive_binder(&mut self, caller: usize) {
        let (now, life) = (self.caller_now(caller), self.callers[caller].life);
        let Some(binder) = &mut self.callers[caller].binder else { return };
        if binder.has_expired(now) {
            return self.asks_next_server(caller);
        }
        let packet = binder.transmit(now);
        let timeout = binder.next_timeout();
        self.plan_on(self.machine_of(caller), timeout, Event::BinderTimer { caller, life });
        if let Some(packet) = packet {
            let CallerProcess { host, place, .. } = self.callers[caller];
            self.send_to_server(Address { host, port: BINDER_PORT }, place, &packet);
        }
    }

    pub(super) fn binder_receives(&mut self, caller: usize, packet: &[u8]) {
        let now = self.caller_now(caller);
        let Some(binder) = &mut self.callers[caller].binder else { return };
        match binder.handle_packet(now, packet) {
            BindStep::Continue => self.drive_binder(caller),
            BindStep::Bound(bound) => {
                let path = binder.path();
                let largest = self.scenario.faults.there.largest.iter().max().copied().unwrap_or(usize::MAX);
                let largest = largest.min(LARGEST_DATAGRAM) - HEADER_LEN;
                let bulk = Path::new(largest as u32, path, self.random.bits());
                self.callers[caller].is_bound(now, bound, (path, bulk));
                self.report.bindings += 1;
                self.credit_is_granted(caller);
                let threads = self.threads_of(caller);
                let (leaves, shares) =
                    (self.sabotage == Sabotage::LeavesLostCalls, self.callers[caller].flow.is_some());
                if shares && !leaves {
                    threads.clone().for_each(|at| self.takes_calls_along(at));
                }
                if shares || !leaves {
                    threads.for_each(|at| self.binding_is_there(at));
                }
                self.callers[caller].because = None;
            }
            BindStep::Mismatch { procedure, .. } if !self.ledger.damage => {
                self.ledger.complain(format!("procedure {procedure} does not match itself"));
            }
            BindStep::Refused(..) | BindStep::Mismatch { .. } | BindStep::OtherVersion(_) => {
                self.report.binds_refused += 1;
                self.asks_next_server(caller);
            }
        }
    }

    /// Ends the calls for which the caller has tried to bind in vain. Those that were begun meanwhile have an attempt of their own.
    fn binding_fails(&mut self, caller: usize) {
        let (attempted, ends_all) =
            (self.callers[caller].attempted, self.sabotage == Sabotage::EndsLaterCalls);
        for at in self.threads_of(caller) {
            let ends = |call: &mut Call| call.waits_for_session() && (call.begun <= attempted || ends_all);
            if self.call_of(at).is_some_and(ends) {
                self.has_no_session(at);
            }
        }
        if self.threads_of(caller).any(|at| self.call_of(at).is_some_and(|call| call.waits_for_session())) {
            self.bind(caller);
        }
    }

    /// Ends the thread's call, which is not on its way and does not wait any longer for a session.
    pub(super) fn has_no_session(&mut self, at: ThreadId) {
        self.check_attempt(at);
        let call = self.call_of(at).expect("it waits");
        let transmissions = match &call.stage {
            Stage::Waiting { sent: Some((_, sent)) } => sent.transmissions,
            _ => 0,
        };
        let told = call.why().map_or(life::Told::Latest, |why| call.life.not_bound(why, transmissions));
        let said = if call.refused.is_some() { Said::Refused } else { Said::NotSent };
        self.fail(at, told, said);
    }

    pub(crate) fn wait_ends(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        if self.call_of(at).is_some_and(|call| call.waits_for_session() && call.deadline <= now) {
            self.has_no_session(at);
        }
    }

    /// A binding has been granted: may a call that the server refused under another one be sent under this?
    fn binding_is_there(&mut self, at: ThreadId) {
        let Some(call) = &self.callers[at.caller].threads[at.thread].call else { return };
        let (why, idempotent) = (call.why(), call.idempotent);
        let (lost, sent) = match &call.stage {
            Stage::Waiting { sent: Some((lost, sent)) } if why != Some(Why::Leave) => (lost, sent),
            Stage::Waiting { .. } => return self.send_call(at),
            _ => return,
        };
        let (verdict, transmissions) = (self.verdict(at.caller, lost, sent, idempotent), sent.transmissions);
        let call = self.call_of(at).expect("it waits");
        if let Next::End(told) = call.life.judged(verdict, transmissions, idempotent) {
            self.report.unknown_by_restart += u64::from(told == life::Told::Lost);
            return self.fail(at, told, Said::NotSent);
        }
        self.report.sent_again += 1;
        self.send_call(at);
    }

    /// The server does not know the binding of this thread's lane. Unless another thread has already got a new one, one
    /// is asked for. Until it is there, calls leave on the one that is lost.
    pub(super) fn on_unknown_binding(&mut self, at: ThreadId, refusal: Unbound) {
        let Some(generation) = self.leaves_lost_binding(at, Some(refusal)) else { return };
        let process = &mut self.callers[at.caller];
        if process.binding.is_some() && process.generation != generation {
            return self.binding_is_there(at);
        }
        if process.binder.is_none() {
            process.because = Some(refusal);
        }
        self.wait_for_binding(at);
    }

    /// The thread's call, which was sent on a binding that the server does not know any more, waits for another. `refusal`: of this
    /// call itself. Returns which of the bindings that was, unless the call has ended.
    pub(crate) fn leaves_lost_binding(
        &mut self,
        at: ThreadId,
        refusal: Option<Unbound>,
    ) -> Option<Generation> {
        let CallerProcess { threads, flow, because, .. } = &mut self.callers[at.caller];
        let Thread { own, call: Some(call), .. } = &mut threads[at.thread] else { return None };
        let Stage::Calling { first_sent } = call.stage else { return None };
        let mut own = own.take()?;
        let refused = refusal.or(*because).unwrap_or(Unbound::ANOTHER_VERSION);
        let sent = own.lane().sent(first_sent, refused, refusal.is_some());
        own.lane.abandon(first_sent);
        own.lane.settle(&mut own.path.borrow_mut());
        if let Some(flow) = flow.as_mut().filter(|_| std::mem::take(&mut call.under_way)) {
            flow.on_forgotten(1);
        }
        call.life.after(Ended::Unbound(refused), 0, call.idempotent, |_, _| None);
        call.stage = Stage::Waiting { sent: Some((own.granted, sent)) };
        if call.cancelled {
            self.has_no_session(at);
            return None;
        }
        Some(own.generation)
    }

    /// There is a binding. Of a caller whose calls share an endpoint, those that were sent on the one before, which is lost, go over
    /// together. A server that shuts down goes on with those that it has.
    fn takes_calls_along(&mut self, at: ThreadId) {
        let CallerProcess { threads, generation, .. } = &self.callers[at.caller];
        let Thread { own: Some(own), .. } = &threads[at.thread] else { return };
        if own.generation != *generation && own.granted.closed.get().is_none() {
            self.leaves_lost_binding(at, None);
        }
    }

    /// Sends the unbind packet of an orderly caller.
    pub(crate) fn unbind(&mut self, caller: usize) {
        let process = &mut self.callers[caller];
        if let Some(granted) = process.binding.take() {
            process.threads.iter_mut().for_each(|thread| thread.own = None);
            self.report.unbinds += 1;
            let packet =
                Header::bare(Kind::Unbind, granted.bound.binding, LaneId(0), stoop_wire::CallNumber::ZERO);
            let from = Address { host: process.host, port: BINDER_PORT };
            self.send_to_server(from, granted.place, &packet.to_bytes());
        }
    }
}
