//! A thread of a caller's process makes a call on its lane.

use super::BINDER_PORT;
use crate::events::{Event, Place, ThreadId};
use crate::ledger::CallId;
use crate::scenario::Wish;
use crate::task::{RESULT_LEN, TASK_LEN, Task};
use crate::world::{Call, CallerProcess, Granted, Outbox, OwnLane, Stage, Thread};
use crate::{Address, Sabotage, Sim};
use std::rc::Rc;
use stoop_calls::life::{self, Life, Said};
use stoop_exchange::Instant;
use stoop_exchange::caller::{Due, Heard, Lane, NoResult, Steps};
use stoop_wire::{BindingId, HEADER_LEN, Header, PACKET_DATA};

/// Calls of a lane in one phase of a sealed binding, if there are phases: in the two of which packets open, fewer than 2³¹ calls.
const CALLS_OF_PHASE: u32 = (1 << 30) - (1 << 20);

impl Sim {
    pub(crate) fn begin_call(&mut self, at: ThreadId, wish: Wish) -> CallId {
        let begun = self.caller_now(at.caller);
        let deadline = begun + wish.limit;
        let id = self.ledger.begin(deadline, wish.idempotent);
        let mut packet = vec![0; HEADER_LEN + wish.arguments.max(TASK_LEN)];
        let result_len = wish.result.max(RESULT_LEN);
        let task = Task { id, work: wish.work, manner: wish.manner, result_len };
        task.write(&mut packet[HEADER_LEN..]);
        let procedure = self.random.below(u64::from(self.scenario.procedures)) as u16;
        self.thread(at).call = Some(Call::new(id, (begun, deadline), procedure, wish.idempotent, packet));
        self.goes_on(at);
        id
    }

    /// Gives the thread a lane of the present binding, which it returns.
    fn lane_for(&mut self, at: ThreadId) -> Rc<Granted> {
        let now = self.caller_now(at.caller);
        let process = &mut self.callers[at.caller];
        let (generation, thread) = (process.generation, &mut process.threads[at.thread]);
        let granted = Rc::clone(process.binding.as_ref().expect("a lane is one of a binding"));
        if thread.own.as_ref().is_some_and(|own| own.generation == generation) {
            return granted;
        }
        let lane = process.lanes.take(now, u16::MAX, |number| {
            self.report.lanes_opened = self.report.lanes_opened.max(usize::from(number.0) + 1);
            let mut lane = Lane::new(granted.bound.binding, number, process.path, self.random.bits());
            lane.set_silence_limit(self.scenario.silence_limit);
            lane
        });
        let path = Rc::clone(process.bulk.as_ref().expect("a binding has a path"));
        thread.own = Some(OwnLane::new(generation, Rc::clone(&granted), path, lane));
        granted
    }

    /// Sends the thread's call, or has it wait until it may leave.
    pub(super) fn send_call(&mut self, at: ThreadId) {
        if self.must_be_held(at) {
            return self.hold(at);
        }
        self.send_now(at);
    }

    /// Sends the thread's call on its lane.
    pub(super) fn send_now(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        let Granted { bound, .. } = &*self.lane_for(at);
        let phase = self.phase_of(bound.binding);
        let process = &mut self.callers[at.caller];
        let Thread { own: Some(own), call: Some(call), .. } = &mut process.threads[at.thread] else { return };
        // Encoded again each time, in the form that this server knows.
        let form = bound.form(call.procedure).expect("every server has the procedure");
        let procedure = bound.known(form).expect("it is the form that the server knows");
        self.report.older_forms += u64::from(form != call.procedure);
        call.stage = Stage::Calling { first_sent: now };
        if self.sabotage != Sabotage::KeepsRefusal {
            call.refused = None;
        }
        // So many sessions are used without an attempt that may have run the call.
        if self.sabotage == Sabotage::ForgetsSessions && !call.life.may_have_run() {
            call.life = Life::default();
        }
        let len = call.packet.len() - HEADER_LEN;
        if len > bound.max_message as usize {
            self.report.too_long += 1;
            return self.fail(at, life::Told::Latest, Said::NotSent);
        }
        if len > PACKET_DATA {
            self.report.large_calls += 1;
            call.limit = bound.window as usize;
            let window = if self.sabotage == Sabotage::IgnoresLimits { u32::MAX } else { bound.window };
            own.lane().start_large(now, call.deadline, procedure, len as u32, window);
            own.lane.update_compact(&mut own.compact);
            return self.pump(at);
        }
        if own.phase != phase {
            own.phase = phase;
            own.lane().skip(CALLS_OF_PHASE);
            own.lane.update_compact(&mut own.compact);
        }
        if process.flow.is_some() || own.compact.number().0.is_multiple_of(2) {
            own.way = if process.flow.is_some() { process.path } else { own.lane.path() };
            own.compact.start(now, call.deadline, procedure, &mut call.packet);
        } else {
            own.lane().start(now, call.deadline, procedure, &mut call.packet);
            own.lane.update_compact(&mut own.compact);
        }
        let mut packet = call.packet.clone();
        self.takes_off(at, &mut packet);
        self.send_from(at, &packet);
        self.plan_lane_timer(at);
    }

    pub(super) fn send_from(&mut self, at: ThreadId, packet: &[u8]) {
        let port = BINDER_PORT + 1 + at.thread as u16;
        let now = self.caller_now(at.caller);
        let CallerProcess { host, threads, .. } = &self.callers[at.caller];
        let place = threads[at.thread].own.as_ref().map_or(0, |own| own.granted.place);
        if let Some(call) = &threads[at.thread].call {
            self.ledger.sends(call.id, place, packet, now);
        }
        self.send_to_server(Address { host: *host, port }, place, packet);
    }

    pub(super) fn plan_lane_timer(&mut self, at: ThreadId) {
        let Thread { own: Some(own), timer_at, .. } = self.thread(at) else { return };
        let timeout = own.next_timeout();
        if timer_at.replace(timeout) != Some(timeout) {
            self.plan_for(at, timeout, Event::LaneTimer);
        }
    }

    pub(crate) fn thread_receives(&mut self, at: ThreadId, packet: &mut [u8]) {
        let own = self.thread(at).own.as_ref().map(|own| own.granted.bound.binding);
        match own {
            Some(own) if !self.opens_at_caller(own, packet) => return,
            // What is not opened is not for another thread either.
            None if self.scenario.bundles > 0 => return,
            _ => {}
        }
        for mut packet in self.unbundled(packet) {
            let at = if self.scenario.bundles > 0 { self.thread_of(at, &packet) } else { at };
            let answered = self.answered_by(at, &packet);
            self.hears(at, &mut packet);
            self.check_answered(at, answered);
        }
    }

    /// The thread of a caller whose lane a packet names, which came to one of its threads: its call left with those of that one.
    fn thread_of(&self, at: ThreadId, packet: &[u8]) -> ThreadId {
        let of_lane = |thread: &Thread| {
            thread.own.as_ref().is_some_and(|own| {
                let binding = own.granted.bound.binding;
                packet.first_chunk().is_some_and(|header| BindingId::of_header(header) == binding)
                    && packet[4..6] == own.lane.id().0.to_le_bytes()
            })
        };
        let thread = self.callers[at.caller].threads.iter().position(of_lane);
        ThreadId { thread: thread.unwrap_or(at.thread), ..at }
    }

    fn hears(&mut self, at: ThreadId, packet: &mut [u8]) {
        let now = self.caller_now(at.caller);
        let CallerProcess { threads, generation, .. } = &mut self.callers[at.caller];
        let Some(own) = &mut threads[at.thread].own else { return };
        if self.sabotage == Sabotage::FormerSessionNotHeard && own.generation != *generation {
            return;
        }
        if let Some((len, at_server_ns)) = own.compact.take_result(packet) {
            own.compact.sample(now, at_server_ns, &mut own.way);
            self.report.compact += 1;
            let measured = own.way;
            self.callers[at.caller].learn_path(measured, true);
            self.lands(at);
            return self.takes_result(at, &packet[HEADER_LEN..HEADER_LEN + len]);
        }
        if own.granted.closed.get().is_none() && Header::tells_shutdown(packet, own.granted.bound.binding) {
            own.granted.closed.set(Some(now));
            self.report.heard_closing += 1;
        }
        let before = own.next_timeout();
        let heard = own.lane().handle_packet(now, packet);
        self.report.count_heard(&heard);
        let (next, path) = (own.next_timeout(), own.lane.path());
        self.callers[at.caller].learn_path(path, matches!(heard, Heard::Result { .. }));
        if heard != Heard::Ignored {
            self.lands(at);
        }
        if let Heard::Result { len, .. } = heard {
            self.takes_grant(at, packet);
            return self.takes_result(at, &packet[HEADER_LEN..HEADER_LEN + len]);
        }
        match self.does(at, |steps| steps.hear(now, heard, packet)) {
            Ok(Some(part)) => self.takes_part(at, part, packet),
            Ok(None) if heard != Heard::Ignored => self.goes_on_after(at, heard, packet),
            Ok(None) if next != before => {
                self.ledger.complain("a packet that is ignored moves a timer".into())
            }
            Ok(None) => {}
            Err(NoResult::Unbound(refusal)) => self.on_unknown_binding(at, refusal),
            Err(NoResult::Refused(refused)) => self.on_refusal(at, refused),
            Err(NoResult::Failed(_)) => self.fail(at, life::Told::Latest, Said::Other),
        }
    }

    /// Does a step of the thread's call, and sends the packets that it leaves.
    pub(super) fn does<T>(&mut self, at: ThreadId, step: impl FnOnce(&mut Steps<'_, Outbox>) -> T) -> T {
        let window = self.scenario.caller_window();
        let Thread { own, call, .. } = &mut self.callers[at.caller].threads[at.thread];
        let own = own.as_mut().expect("a step is one of a lane");
        own.lane();
        let (way, mut none) = (Outbox { path: Rc::clone(&own.path), packets: Vec::new() }, Vec::new());
        let packet = call.as_mut().map_or(&mut none, |call| &mut call.packet);
        let is_large = packet.len() > HEADER_LEN + PACKET_DATA;
        let mut steps = Steps { lane: &mut own.lane, way, packet, is_large, window };
        let outcome = step(&mut steps);
        for packet in steps.way.packets {
            self.send_from(at, &packet);
        }
        outcome
    }

    pub(crate) fn lane_timer(&mut self, at: ThreadId) {
        let now = self.caller_now(at.caller);
        let Thread { own: Some(own), call: Some(call), timer_at, .. } = self.thread(at) else { return };
        if own.next_timeout() > now {
            return;
        }
        *timer_at = None;
        if now < call.deadline && !self.may_repeat(at, now) || !self.check_timer(at, now) {
            return;
        }
        let Thread { own: Some(own), call: Some(call), .. } = self.thread(at) else { return };
        let due = own.lane().handle_timeout(now, &mut call.packet);
        self.carries_out(at, now, due);
    }

    fn carries_out(&mut self, at: ThreadId, now: Instant, due: Due) {
        self.report.count_due(&due);
        match self.does(at, |steps| steps.carry_out(now, due)) {
            Some(lost) => {
                self.report.count_lost(lost);
                self.fail(at, life::Told::Latest, Said::Unknown(1));
            }
            None => {
                self.notes_loss(at, now);
                self.pump(at);
            }
        }
    }

    /// An ICMP message tells the caller's machine that the server's port is closed.
    pub(crate) fn port_is_closed(&mut self, to: Address, from: Place) {
        let Some((caller, Some(at))) = self.socket_at(to) else { return };
        let now = self.caller_now(caller);
        let Some(own) = self.thread(at).own.as_mut().filter(|own| own.granted.place == from) else { return };
        let due = own.lane().handle_unreachable(now);
        self.carries_out(at, now, due);
    }
}
