//! The callers' process: threads, each with at most one call, and their programs.

use super::PipeSabotage;
use super::ledger::{CallId, Checked, Told, Which, bytes};
use super::plan::Plan;
use super::world::{Event, World};
use core::cell::{Cell, RefCell};
use core::ops::DerefMut;
use std::rc::Rc;
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{Due, Heard, Lane, NoResult, OpenPipes, Steps, Way};
use stoop_exchange::pipe::{Added, Piece, Rest};
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::{BindingId, HEADER_LEN, LaneId, PipeEnd, Receipt, RefusalCode};

/// Bytes that one system call sends.
const BLAST: usize = 64 * 1024;

/// A binding, as its callers know it.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) binding: BindingId,
    pub(super) path: RefCell<Path>,
    lanes: Cell<u16>,
}

impl Bound {
    pub(super) fn new(binding: BindingId, seed: u64) -> Rc<Self> {
        let path = RefCell::new(Path::of(binding, 1440, RoundTrip::default(), seed));
        Rc::new(Self { binding, path, lanes: Cell::new(0) })
    }
}

/// A thread of the callers' process.
#[derive(Debug, Default)]
pub(super) struct Thread {
    bound: Option<Rc<Bound>>,
    lane: Option<Lane>,
    call: Option<Call>,
    calls_left: u32,
    /// When its timer is planned.
    timer: Instant,
}

impl Thread {
    pub(super) fn new(calls: u32) -> Self {
        Self { calls_left: calls, ..Self::default() }
    }
}

/// The thread's call.
#[derive(Debug)]
struct Call {
    id: CallId,
    plan: Plan,
    packet: Vec<u8>,
    is_to_done: bool,
    is_from_done: bool,
    taken: u64,
    /// Its program waits to be woken.
    waits: bool,
    /// The result is here. It counts when all is here that was sent before it.
    has_result: bool,
    is_told: bool,
    /// A server that has answered with a failure is gone before all was here that it had sent before.
    is_rest_lost: bool,
}

/// Collects what leaves.
struct Out<'a> {
    packets: &'a mut Vec<Vec<u8>>,
    path: &'a RefCell<Path>,
}

impl Way for Out<'_> {
    fn send(&mut self, packet: &[u8]) -> bool {
        self.packets.push(packet.to_vec());
        true
    }

    fn path(&mut self, _: RoundTrip) -> impl DerefMut<Target = Path> {
        self.path.borrow_mut()
    }

    fn known_path(&mut self) -> Option<impl DerefMut<Target = Path>> {
        Some(self.path.borrow_mut())
    }
}

impl World {
    /// A thread's program makes its next call.
    pub(super) fn begin(&mut self, thread: usize) -> Checked {
        if self.threads[thread].call.is_some() || self.threads[thread].calls_left == 0 {
            return Ok(());
        }
        let Some(bound) = self.bind() else {
            // The server is down.
            self.plan_after(core::time::Duration::from_millis(20), Event::Begins(thread));
            return Ok(());
        };
        let it = &mut self.threads[thread];
        it.calls_left -= 1;
        if !it.bound.as_ref().is_some_and(|before| Rc::ptr_eq(before, &bound)) {
            (it.lane, it.bound) = (None, Some(bound.clone()));
        }
        let lane = it.lane.get_or_insert_with(|| {
            let number = bound.lanes.get();
            bound.lanes.set(number + 1);
            Lane::new(bound.binding, LaneId(number), RoundTrip::default(), number.into())
        });
        let plan = Plan::draw(&mut self.random, &self.scenario);
        let id = self.ledger.next_id();
        let (window, window_max) = self.scenario.caller_window;
        let mut packet = vec![0; HEADER_LEN];
        packet.extend_from_slice(&id.to_le_bytes());
        packet.extend_from_slice(&u64::from(window).to_le_bytes());
        lane.start(self.now, Instant::NEVER, 0, &mut packet);
        let pipes = OpenPipes {
            to_server: plan.to.map(|_| self.scenario.window),
            from_server: plan.from.map(|_| (window, window_max)),
        };
        lane.open_pipes(pipes, Some(&mut packet));
        let key = (bound.binding, lane.id(), lane.number());
        self.ledger.begin(key, [self.scenario.window.into(), window.into()]);
        self.newest.insert((key.0.0, key.1.0), key.2);
        self.plans.push(plan);
        it.call = Some(Call {
            id,
            plan,
            packet: packet.clone(),
            is_to_done: plan.to.is_none(),
            is_from_done: plan.from.is_none(),
            taken: 0,
            waits: false,
            has_result: false,
            is_told: false,
            is_rest_lost: false,
        });
        if let Some(after) = plan.cancels_after {
            self.plan_after(after, Event::Cancels(thread, id));
        }
        self.send_to_server(thread, packet)?;
        self.step_caller(thread, id)
    }

    /// The program of a thread's call goes on.
    pub(super) fn step_caller(&mut self, thread: usize, id: CallId) -> Checked {
        let (now, it) = (self.now, &mut self.threads[thread]);
        let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) else { return Ok(()) };
        let Some(call) = it.call.as_mut().filter(|call| call.id == id) else { return Ok(()) };
        call.waits = false;
        let mut progress = false;
        let mut pace = (core::time::Duration::ZERO, core::time::Duration::ZERO);
        if let Some(way) = call.plan.to.filter(|_| !call.is_to_done) {
            pace = way.pace;
            let sent = self.ledger.sent_so_far(id, Which::ToServer);
            let room = lane.pipe_room();
            if room.is_none() {
                call.is_to_done = true;
                if !call.is_told && !call.has_result {
                    self.ledger.report.count("sender told that the reader has stopped");
                }
            } else if sent < way.len && room.is_some_and(|room| room <= way.margin) {
                if self.sabotage != PipeSabotage::NeverWants {
                    lane.pipe_want(now, &bound.path.borrow());
                }
            } else if sent < way.len {
                let chunk = bytes(id, Which::ToServer, sent, way.chunk.min(way.len - sent));
                let taken = lane.pipe_send(now, Added::Shared(&Piece::new(chunk))) as u64;
                self.ledger.sent(id, Which::ToServer, taken);
                progress |= taken > 0;
            } else {
                let aborts = way.aborts && self.sabotage != PipeSabotage::DropIsEnd;
                match aborts {
                    true => lane.pipe_abort(now, &mut bound.path.borrow_mut()),
                    false => lane.pipe_finish(now),
                }
                let end = if way.aborts { PipeEnd::Aborted } else { PipeEnd::Finished };
                self.ledger.sender_ends(id, Which::ToServer, end);
                (call.is_to_done, progress) = (true, true);
            }
        }
        let may_read = !call.is_from_done && (!call.plan.reads_late || call.is_told);
        if let Some(way) = call.plan.from.filter(|_| may_read) {
            pace = way.pace;
            let Some((received, rest)) = lane.pipe_received() else { return Ok(()) };
            let most = way.stops_at.unwrap_or(u64::MAX).saturating_sub(call.taken).min(way.chunk);
            let len = received.len().min(most as usize);
            let rest = if len == received.len() { rest } else { Rest::Open };
            self.ledger.delivered(id, Which::FromServer, &received[..len])?;
            lane.pipe_take(len);
            call.taken += len as u64;
            progress |= len > 0;
            if rest != Rest::Open {
                self.ledger.ends(id, Which::FromServer, rest)?;
                call.is_from_done = true;
            } else if way.stops_at.is_some_and(|at| call.taken >= at) {
                self.ledger.stops(id, Which::FromServer);
                lane.pipe_stop(now);
                call.is_from_done = true;
            } else if call.is_told && !lane.is_outstanding() && len == 0 {
                // Nothing more comes: the call has ended otherwise.
                call.is_from_done = true;
            }
        }
        let is_whole = call.has_result && !call.is_told && !lane.is_outstanding();
        call.waits = !progress;
        if is_whole {
            self.end_call(thread, Told::Result)?;
        }
        self.pump_caller(thread)?;
        let it = &self.threads[thread];
        let (Some(lane), Some(call)) = (&it.lane, &it.call) else { return Ok(()) };
        let is_over = call.is_told && call.is_from_done && !lane.is_outstanding();
        if is_over {
            return self.conclude(thread);
        }
        if progress {
            let at = self.now + self.random.between(pace);
            self.plan(at, Event::CallerSteps(thread, id));
        }
        Ok(())
    }

    fn conclude(&mut self, thread: usize) -> Checked {
        let it = &mut self.threads[thread];
        let Some(call) = it.call.take() else { return Ok(()) };
        if call.plan.from.is_some() && self.ledger.is_answer(call.id) && !call.is_rest_lost {
            self.ledger.check_all_delivered(call.id)?;
        }
        self.settle(thread);
        self.plan_after(core::time::Duration::from_millis(1), Event::Begins(thread));
        Ok(())
    }

    fn settle(&mut self, thread: usize) {
        let it = &mut self.threads[thread];
        if let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) {
            match self.sabotage {
                PipeSabotage::KeepsWindow => {
                    lane.settle(&mut Path::of(bound.binding, 1440, RoundTrip::default(), 1))
                }
                _ => lane.settle(&mut bound.path.borrow_mut()),
            }
        }
    }

    /// Sends what the thread's lane has to send, and plans its timer.
    pub(super) fn pump_caller(&mut self, thread: usize) -> Checked {
        let now = self.now;
        loop {
            let it = &mut self.threads[thread];
            let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) else { return Ok(()) };
            let mut path = bound.path.borrow_mut();
            let Some(run) = lane.next_pipe_run(now, &mut path, BLAST) else { break };
            let mut datagrams = Vec::new();
            let segment = lane.frame_pipe_run(now, &run, &path, &mut datagrams);
            drop(path);
            for packet in datagrams.chunks(segment) {
                self.send_to_server(thread, packet.to_vec())?;
            }
        }
        let it = &mut self.threads[thread];
        let Some(lane) = &mut it.lane else { return Ok(()) };
        let mut packet = [0; Receipt::MAX_PACKET];
        let len = lane.pipe_receipt(now, &mut packet);
        if len > 0 {
            self.send_to_server(thread, packet[..len].to_vec())?;
        }
        self.plan_lane_timer(thread);
        self.pump_others(thread)
    }

    /// Threads that share the window may have more to send.
    fn pump_others(&mut self, thread: usize) -> Checked {
        let others = (0..self.threads.len()).filter(|other| *other != thread);
        for other in others.collect::<Vec<_>>() {
            let it = &mut self.threads[other];
            let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) else { continue };
            let mut path = bound.path.borrow_mut();
            let Some(run) = lane.next_pipe_run(self.now, &mut path, BLAST) else { continue };
            let mut datagrams = Vec::new();
            let segment = lane.frame_pipe_run(self.now, &run, &path, &mut datagrams);
            drop(path);
            for packet in datagrams.chunks(segment) {
                self.send_to_server(other, packet.to_vec())?;
            }
            self.plan_lane_timer(other);
        }
        Ok(())
    }

    fn plan_lane_timer(&mut self, thread: usize) {
        let now = self.now;
        let it = &mut self.threads[thread];
        let next = it.lane.as_ref().map_or(Instant::NEVER, Lane::next_timeout);
        if next != Instant::NEVER && (it.timer <= now || next < it.timer) {
            it.timer = next.max(now);
            let at = it.timer;
            self.plan(at, Event::LaneTimer(thread));
        }
    }

    pub(super) fn lane_timer(&mut self, thread: usize) -> Checked {
        let now = self.now;
        let it = &mut self.threads[thread];
        if now < it.timer {
            return Ok(());
        }
        it.timer = Instant::NEVER;
        let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) else { return Ok(()) };
        if now < lane.next_timeout() {
            self.plan_lane_timer(thread);
            return Ok(());
        }
        let mut packet = it.call.as_ref().map_or_else(|| vec![0; HEADER_LEN], |call| call.packet.clone());
        let due = lane.handle_timeout(now, &mut packet);
        let is_nothing = due == Due::Nothing;
        let mut packets = Vec::new();
        let way = Out { packets: &mut packets, path: &bound.path };
        let mut steps = Steps { lane, way, packet: &mut packet, is_large: false, window: 0 };
        let lost = steps.carry_out(now, due);
        if lost.is_some() {
            lane.abandon(now);
            // The session counts as lost: later calls bind again.
            self.bound = None;
            self.end_call(thread, Told::Unknown)?;
        }
        for packet in packets {
            self.send_to_server(thread, packet)?;
        }
        self.pump_caller(thread)?;
        match is_nothing && self.threads[thread].lane.as_ref().is_some_and(|it| it.next_timeout() <= now) {
            true => Err("a timer of a lane is due for ever".into()),
            false => Ok(()),
        }
    }

    /// A packet arrives at a thread.
    pub(super) fn arrive_at_caller(&mut self, thread: usize, packet: &[u8]) -> Checked {
        let now = self.now;
        let it = &mut self.threads[thread];
        let (Some(lane), Some(bound)) = (&mut it.lane, &it.bound) else { return Ok(()) };
        let number = it.call.as_ref().map(|_| lane.number());
        let packet = super::packets::taken(self.sabotage, packet.to_vec(), number);
        let was_outstanding = lane.is_outstanding();
        let heard = lane.handle_packet(now, &packet);
        let mut wakes = false;
        let mut told = None;
        match heard {
            Heard::Ignored => {}
            Heard::Result { len, .. } => {
                let payload = &packet[HEADER_LEN..HEADER_LEN + len];
                let call = it.call.as_mut().ok_or("a result without a call")?;
                let at = if call.plan.from.is_some() { 8 } else { 0 };
                let says = payload.get(at..at + 8).ok_or("a short result")?;
                if says != call.id.to_le_bytes() {
                    return Err(format!("call {} is given the result of another", call.id));
                }
                if lane.is_outstanding() {
                    self.ledger.report.count("result before the end of its pipe");
                }
                if !call.is_to_done {
                    self.ledger.report.count("early result");
                }
                call.has_result = true;
                wakes = true;
            }
            other => {
                self.ledger.report.count_if(matches!(other, Heard::Prove(_)), "proof of a new address");
                let mut call_packet =
                    it.call.as_ref().map_or_else(|| vec![0; HEADER_LEN], |it| it.packet.clone());
                let mut packets = Vec::new();
                let way = Out { packets: &mut packets, path: &bound.path };
                let mut steps = Steps { lane, way, packet: &mut call_packet, is_large: false, window: 0 };
                let result = steps.hear(now, other, &packet);
                told = match result {
                    Ok(_) => None,
                    Err(NoResult::Refused(refused)) => Some(self.refused(thread, refused.code)?),
                    Err(NoResult::Failed(_)) => Some(Told::Failed),
                    Err(NoResult::Unbound(_)) => {
                        self.ledger.report.count("binding lost");
                        let lost = &self.threads[thread].bound;
                        if let (Some(lost), Some(bound)) = (lost, &self.bound)
                            && Rc::ptr_eq(lost, bound)
                        {
                            self.bound = None;
                        }
                        Some(Told::Unknown)
                    }
                };
                for packet in packets {
                    self.send_to_server(thread, packet)?;
                }
            }
        }
        let it = &mut self.threads[thread];
        let Some(lane) = &mut it.lane else { return Ok(()) };
        wakes |= !lane.pipe_news().is_nothing();
        let is_whole = it.call.as_ref().is_some_and(|call| call.has_result) && !lane.is_outstanding();
        told = told.or(is_whole.then_some(Told::Result));
        wakes |= was_outstanding && !lane.is_outstanding();
        if let Some(told) = told {
            self.end_call(thread, told)?;
            wakes = true;
        }
        self.pump_caller(thread)?;
        if wakes {
            self.wake_caller(thread);
        }
        Ok(())
    }

    fn refused(&mut self, thread: usize, code: RefusalCode) -> Result<Told, String> {
        let it = &self.threads[thread];
        let (Some(lane), Some(call)) = (&it.lane, &it.call) else { return Ok(Told::DidNotRun) };
        let sent = self.ledger.sent_so_far(call.id, Which::ToServer);
        if call.plan.to.is_some_and(|way| !way.aborts) && !call.is_told && code == RefusalCode::Overloaded {
            let kept = lane.pipe_kept().map(|bytes| bytes.len());
            if kept != Some(sent as usize) {
                return Err(format!("of {sent} bytes of a refused call {kept:?} are left"));
            }
        }
        Ok(Told::DidNotRun)
    }

    /// The caller of a thread's call is told its outcome.
    fn end_call(&mut self, thread: usize, told: Told) -> Checked {
        let it = &mut self.threads[thread];
        let Some(call) = &mut it.call else { return Ok(()) };
        let id = call.id;
        let is_new = !core::mem::replace(&mut call.is_told, true);
        call.is_to_done = true;
        call.is_rest_lost |= told == Told::Unknown;
        let goes_on = it.lane.as_ref().is_some_and(Lane::is_outstanding);
        if told != Told::Result && told != Told::Cancelled && !goes_on {
            self.settle(thread);
        }
        if told == Told::Unknown {
            // The server may still run it.
            let again = self.sabotage == PipeSabotage::RetriesAfterItems;
            if again && is_new {
                return self.retry(thread);
            }
        }
        if is_new { self.ledger.told(id, told) } else { Ok(()) }
    }

    /// Makes a lost call again, as if nothing of it had been delivered.
    fn retry(&mut self, thread: usize) -> Checked {
        let Some(bound) = self.bind() else { return Ok(()) };
        let it = &mut self.threads[thread];
        let Some(call) = &mut it.call else { return Ok(()) };
        let number = bound.lanes.get();
        bound.lanes.set(number + 1);
        let mut lane = Lane::new(bound.binding, LaneId(number), RoundTrip::default(), number.into());
        let mut packet = call.packet.clone();
        lane.start(self.now, Instant::NEVER, 0, &mut packet);
        let pipes = OpenPipes { to_server: None, from_server: call.plan.from.map(|_| (64, 64)) };
        lane.open_pipes(pipes, Some(&mut packet));
        call.is_told = false;
        (it.lane, it.bound) = (Some(lane), Some(bound));
        self.send_to_server(thread, packet)
    }

    fn wake_caller(&mut self, thread: usize) {
        let Some(call) = self.threads[thread].call.as_mut().filter(|call| call.waits) else { return };
        call.waits = false;
        let id = call.id;
        self.plan(self.now, Event::CallerSteps(thread, id));
    }

    /// A program does not want to wait for its call any longer.
    pub(super) fn cancel(&mut self, thread: usize, id: CallId) -> Checked {
        let it = &mut self.threads[thread];
        let Some(call) = it.call.as_mut().filter(|call| call.id == id && !call.is_told) else {
            return Ok(());
        };
        (call.is_told, call.is_to_done) = (true, true);
        let Some(lane) = &mut it.lane else { return Ok(()) };
        let Some(packet) = lane.cancel(self.now) else { return Ok(()) };
        self.settle(thread);
        self.ledger.told(id, Told::Cancelled)?;
        self.send_to_server(thread, packet.to_vec())?;
        self.pump_caller(thread)?;
        self.wake_caller(thread);
        Ok(())
    }
}
