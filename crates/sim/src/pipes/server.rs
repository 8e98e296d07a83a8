//! The server's process: the exchange, and the procedures that run.

use super::PipeSabotage;
use super::ledger::{CallId, Checked, Which, bytes};
use super::plan::Plan;
use super::world::{Event, World};
use crate::Address;
use core::time::Duration;
use std::collections::BTreeMap;
use stoop_exchange::pipe::Rest;
use stoop_exchange::server::{Assignment, CallKey, Effect, Limits, Next, Server};
use stoop_exchange::{Instant, Interface, Interfaces, Procedure as Exported};
use stoop_wire::bind::HostFacts;
use stoop_wire::{Data, FailureCode, HEADER_LEN, Header, Kind, PipeEnd};

/// Bytes that one system call sends.
const BLAST: usize = 64 * 1024;

/// A start of the server.
pub(super) struct Process {
    pub(super) server: Server<Address>,
    procedures: BTreeMap<(u64, u16, u32), Procedure>,
    /// When its timer is planned.
    timer: Instant,
}

/// A procedure that runs.
struct Procedure {
    id: CallId,
    assignment: Assignment<Address>,
    plan: Plan,
    taken: u64,
    is_from_done: bool,
    is_to_done: bool,
    waits: bool,
    /// It tries again soon whether there is memory.
    retries: bool,
    /// Bytes that a sabotaged driver has taken before the procedure.
    ahead: Vec<u8>,
}

fn place((binding, lane, number): CallKey) -> (u64, u16, u32) {
    (binding.0, lane.0, number.0)
}

pub(super) fn interface() -> Interface {
    let procedure =
        Exported { name: "pipes".into(), signature: "pipes(a: pipe in u8, b: pipe out u8)".into() };
    Interface { name: "I".into(), procedures: vec![procedure], ..Interface::default() }
}

impl Process {
    pub(super) fn new(now: Instant, window: u32, memory: usize, secret: u64) -> Self {
        let limits = Limits { window, pipes: memory, silence: Duration::from_secs(5), ..Limits::default() };
        let interfaces = Interfaces::new([interface()]);
        let server = Server::new(now, interfaces, limits, HostFacts::default(), [secret, 7]);
        Self { server, procedures: BTreeMap::new(), timer: Instant::NEVER }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.procedures.is_empty() && self.server.pipe_bytes() == 0
    }
}

impl World {
    pub(super) fn arrive_at_server(&mut self, from: Address, packet: &[u8]) -> Checked {
        let newest = Header::parse(packet)
            .ok()
            .and_then(|(header, _)| self.newest.get(&(header.binding.0, header.lane.0)).copied());
        let mut packet = super::packets::taken(self.sabotage, packet.to_vec(), newest);
        let Some(process) = &mut self.server else { return Ok(()) };
        if self.sabotage == PipeSabotage::DataBeginsCalls && packet[2] == Kind::Data as u8 {
            let key = Header::parse(&packet).map(|(header, _)| (header.binding, header.lane, header.number));
            if key.is_ok_and(|key| !process.procedures.contains_key(&place(key))) {
                packet.truncate(HEADER_LEN);
                (packet[2], packet[3]) = (Kind::Call as u8, 0x60);
                packet[6..8].fill(0);
                packet[20..28].fill(0);
            }
        }
        let mut reply = Vec::new();
        let is_data = Header::parse(&packet).is_ok_and(|(header, _)| Data::of(&header).is_some());
        match process.server.handle_packet(self.now, &from, &packet, &mut reply) {
            Effect::Run(assignment) => self.runs(assignment, &packet)?,
            Effect::Reply => self.send_to_caller(from, reply)?,
            Effect::Cancelled(binding, lane, number) => {
                self.send_to_caller(from, reply)?;
                self.wake_procedure((binding, lane, number));
            }
            Effect::Pipe(key, _) => {
                if self.sabotage == PipeSabotage::GrantsWhatArrived {
                    self.take_ahead(key);
                }
                self.wake_procedure(key);
            }
            Effect::Nothing if is_data => {
                let header = Header::parse(&packet).expect("it was parsed").0;
                let key = (header.binding, header.lane, header.number);
                let runs = self.server.as_ref().is_some_and(|it| it.procedures.contains_key(&place(key)));
                self.ledger.report.count_if(!runs, "data of a call that does not run");
            }
            Effect::Transmit | Effect::Unbound(_) | Effect::Nothing => {}
        }
        self.pump_server()
    }

    /// A sabotaged driver takes what has arrived into memory of its own.
    fn take_ahead(&mut self, key: CallKey) {
        let Some(Process { server, procedures, .. }) = &mut self.server else { return };
        let Some(procedure) = procedures.get_mut(&place(key)) else { return };
        let Some((received, _)) = server.pipe_received(key) else { return };
        procedure.ahead.extend_from_slice(received);
        let len = received.len();
        server.pipe_take(key, len);
    }

    fn runs(&mut self, mut assignment: Assignment<Address>, packet: &[u8]) -> Checked {
        let key = assignment.identity();
        let stored = assignment.take_packet();
        let packet = if stored.is_empty() { packet } else { &stored };
        let (arguments, _) = assignment.arguments_and_result(packet);
        let Some((id, window)) = arguments.split_first_chunk::<8>() else {
            return Err("a call begins without its arguments".into());
        };
        let id = u64::from_le_bytes(*id);
        self.ledger.executes(id)?;
        let window = window.first_chunk().map_or(0, |window| u64::from_le_bytes(*window));
        let plan = self.plans[id as usize];
        let Some(Process { server, procedures, .. }) = &mut self.server else { return Ok(()) };
        server.pipe_allow(key, window);
        procedures.insert(
            place(key),
            Procedure {
                id,
                assignment,
                plan,
                taken: 0,
                is_from_done: plan.to.is_none(),
                is_to_done: plan.from.is_none(),
                waits: false,
                retries: false,
                ahead: Vec::new(),
            },
        );
        self.plan(self.now, Event::ProcedureSteps(key));
        Ok(())
    }

    fn wake_procedure(&mut self, key: CallKey) {
        let Some(Process { procedures, .. }) = &mut self.server else { return };
        let Some(procedure) = procedures.get_mut(&place(key)).filter(|procedure| procedure.waits) else {
            return;
        };
        procedure.waits = false;
        self.plan(self.now, Event::ProcedureSteps(key));
    }

    /// A procedure goes on.
    pub(super) fn step_procedure(&mut self, key: CallKey) -> Checked {
        let now = self.now;
        let Some(Process { server, procedures, .. }) = &mut self.server else { return Ok(()) };
        let Some(procedure) = procedures.get_mut(&place(key)) else { return Ok(()) };
        let (id, plan) = (procedure.id, procedure.plan);
        procedure.waits = false;
        let (mut progress, mut lacks_memory) = (false, false);
        let mut pace = (Duration::ZERO, Duration::ZERO);
        if let Some(way) = plan.to.filter(|_| !procedure.is_from_done) {
            pace = way.pace;
            match server.pipe_received(key) {
                // The call was cancelled.
                None => procedure.is_from_done = true,
                Some((received, rest)) => {
                    let most = way.stops_at.unwrap_or(u64::MAX).saturating_sub(procedure.taken);
                    let most = most.min(way.chunk) as usize;
                    let is_ahead = self.sabotage == PipeSabotage::GrantsWhatArrived;
                    let source = if is_ahead { &procedure.ahead[..] } else { received };
                    let len = source.len().min(most);
                    let rest = if len == source.len() { rest } else { Rest::Open };
                    self.ledger.delivered(id, Which::ToServer, &source[..len])?;
                    match is_ahead {
                        true => drop(procedure.ahead.drain(..len)),
                        false => {
                            let reserved = server.pipe_bytes();
                            server.pipe_take(key, len);
                            self.ledger.report.count_if(server.pipe_bytes() > reserved, "window grown");
                        }
                    }
                    procedure.taken += len as u64;
                    progress |= len > 0;
                    if rest != Rest::Open {
                        self.ledger.ends(id, Which::ToServer, rest)?;
                        procedure.is_from_done = true;
                    } else if way.stops_at.is_some_and(|at| procedure.taken >= at) {
                        self.ledger.stops(id, Which::ToServer);
                        server.pipe_stop(now, key);
                        procedure.is_from_done = true;
                    }
                }
            }
        }
        if let Some(way) = plan.from.filter(|_| !procedure.is_to_done) {
            pace = way.pace;
            let sent = self.ledger.sent_so_far(id, Which::FromServer);
            match server.pipe_room(key) {
                None => procedure.is_to_done = true,
                Some(room) if sent < way.len && room <= way.margin => {
                    if self.sabotage != PipeSabotage::NeverWants {
                        server.pipe_want(now, key);
                    }
                }
                Some(room) if sent < way.len => {
                    let chunk = bytes(id, Which::FromServer, sent, way.chunk.min(way.len - sent));
                    let taken = server.pipe_send(now, key, &chunk) as u64;
                    self.ledger.sent(id, Which::FromServer, taken);
                    progress |= taken > 0;
                    lacks_memory = taken == 0 && room > 0;
                }
                Some(_) => procedure.is_to_done = true,
            }
        }
        let waits_for_room = self.sabotage == PipeSabotage::ResultWaitsForRoom
            && server.pipe_room(key).is_some_and(|room| room == 0);
        let is_over = procedure.is_to_done && (procedure.is_from_done || plan.is_early);
        procedure.waits = true;
        if is_over && !waits_for_room {
            self.answer(key)?;
        } else if progress {
            procedure.waits = false;
            let at = self.now + self.random.between(pace);
            self.plan(at, Event::ProcedureSteps(key));
        } else if lacks_memory && !core::mem::replace(&mut procedure.retries, true) {
            self.plan_after(Duration::from_millis(20), Event::ProcedureRetries(key));
        }
        self.pump_server()
    }

    /// A procedure that lacked memory tries again.
    pub(super) fn retry_procedure(&mut self, key: CallKey) -> Checked {
        if let Some(process) = &mut self.server
            && let Some(procedure) = process.procedures.get_mut(&place(key))
        {
            procedure.retries = false;
        }
        self.step_procedure(key)
    }

    /// Ends procedures whose callers are gone.
    fn end_quiet(&mut self) -> Checked {
        let now = self.now;
        let Some(Process { server, procedures, .. }) = &mut self.server else { return Ok(()) };
        let mut gone = Vec::new();
        for procedure in procedures.values_mut() {
            let key = procedure.assignment.identity();
            if server.is_quiet(now, key.0, Instant::default()) {
                procedure.plan.fails = true;
                gone.push(key);
            }
        }
        gone.into_iter().try_for_each(|key| self.answer(key))
    }

    fn answer(&mut self, key: CallKey) -> Checked {
        let now = self.now;
        let Some(Process { server, procedures, .. }) = &mut self.server else { return Ok(()) };
        let Some(procedure) = procedures.remove(&place(key)) else { return Ok(()) };
        let Procedure { id, mut assignment, plan, .. } = procedure;
        let len = server.pipe_close(key);
        self.ledger.sender_ends(id, Which::FromServer, PipeEnd::Finished);
        if plan.fails && plan.from.is_some() {
            assignment.fail_behind_pipe(FailureCode::Panicked, "", len);
        } else if plan.fails {
            assignment.fail(FailureCode::Panicked, "");
        } else {
            let mut result = if plan.from.is_some() { len.to_le_bytes().to_vec() } else { Vec::new() };
            result.extend_from_slice(&id.to_le_bytes());
            assignment.packet_mut()[HEADER_LEN..HEADER_LEN + result.len()].copy_from_slice(&result);
            assignment.complete(now, result.len());
        }
        self.ledger.answers(id, !plan.fails);
        let (peer, packet) = (assignment.peer, assignment.answer().to_vec());
        let next = server.finish(now, assignment);
        if self.sabotage == PipeSabotage::AnswersTwice {
            let mut other = Header::bare(Kind::Failure, key.0, key.1, key.2);
            other.time = FailureCode::Panicked.code();
            self.send_to_caller(peer, other.to_bytes().to_vec())?;
        }
        self.send_to_caller(peer, packet)?;
        match next {
            Next::Nothing => Ok(()),
            Next::Run(assignment, packet) => self.runs(assignment, &packet),
            Next::Reply(peer, packet) => self.send_to_caller(peer, packet),
        }
    }

    /// Sends what the server has to send, and plans its timer.
    fn pump_server(&mut self) -> Checked {
        let now = self.now;
        for turn in 0.. {
            let Some(Process { server, .. }) = &mut self.server else { return Ok(()) };
            if turn == 0 {
                server.drained();
            }
            let mut datagrams = Vec::new();
            let Some(transmission) = server.next_transmission(now, BLAST, &mut datagrams) else { break };
            if turn > 10_000 {
                return Err("the server sends without an end".into());
            }
            for datagram in datagrams.chunks(transmission.segment) {
                self.send_to_caller(transmission.peer, datagram.to_vec())?;
            }
        }
        let Some(Process { server, timer, .. }) = &mut self.server else { return Ok(()) };
        if server.pipe_bytes() > self.scenario.memory {
            return Err(format!("pipes hold {} bytes", server.pipe_bytes()));
        }
        let _consistent: usize = server.bytes_held();
        let next = server.next_timeout();
        if next != Instant::NEVER && (*timer <= now || next < *timer) {
            *timer = next.max(now);
            let at = *timer;
            self.plan(at, Event::ServerTimer);
        }
        Ok(())
    }

    pub(super) fn server_timer(&mut self) -> Checked {
        let now = self.now;
        let Some(Process { server, timer, .. }) = &mut self.server else { return Ok(()) };
        if now < *timer {
            return Ok(());
        }
        *timer = Instant::NEVER;
        server.handle_timeout(now);
        if server.next_timeout() <= now && !server.may_transmit() {
            return Err("a timer of the server is due for ever".into());
        }
        self.end_quiet()?;
        self.pump_server()
    }
}
