//! The server's process in the simulation: what the runtime does around [`stoop_exchange::server::Server`].

mod grants;
mod large;
mod memory;
mod open;

use crate::clock::SERVERS;
use crate::events::Event;
use crate::task::{Manner, Task, interface};
use crate::world::{Job, ServerProcess};
use crate::{Address, Sabotage, Side, Sim};
use core::time::Duration;
use stoop_exchange::server::{Assignment, Authenticated, AuthenticatedCaller, Effect, Next, Server};
use stoop_exchange::{Instant, Interfaces};
use stoop_wire::{FailureCode, HEADER_LEN, Header, Kind, MAX_DATAGRAM, RefusalCode, Refused, RetryAfter};

/// Time for which a server that has shut down still answers late packets.
const LINGER: Duration = Duration::from_millis(50);

/// When an overloaded server asks callers to call again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Sim {
    /// Starts the server, with a secret that no start before it had.
    pub(crate) fn server_starts(&mut self) {
        if self.server.server.is_some() {
            return;
        }
        self.server_lives += 1;
        let life = self.server_lives;
        let secret = match self.sabotage {
            Sabotage::SameSecret => [1, 2],
            _ => [self.random.bits(), self.random.bits()],
        };
        let revision = life % (self.scenario.revisions + 1);
        let interfaces = Interfaces::new([interface(self.scenario.procedures, revision)]);
        let (now, facts, limits) = (self.server_now(), self.facts_of(SERVERS), self.scenario.limits.clone());
        let server = Server::new(now, interfaces, limits, facts, secret);
        let server = if self.scenario.sealed { server.sealed_only() } else { server };
        let place = self.server.place;
        self.server = ServerProcess { life, place, server: Some(server), ..ServerProcess::default() };
        self.report.server_starts += 1;
        if let Some(up) = self.scenario.server_up
            && self.has_traffic()
        {
            let ends = self.now + self.random.between(up);
            let event = match self.random.chance(self.scenario.shut_downs) {
                true => Event::ServerShutsDown(life),
                false => Event::ServerCrashes(life),
            };
            self.events.plan(ends, event);
        }
    }

    /// The server's address leads to another server, which starts if it has not, and later back again.
    pub(crate) fn address_wanders(&mut self) {
        self.exchange_servers();
        self.report.wanderings += 1;
        if self.server.server.is_none() {
            self.server_starts();
        }
    }

    /// The next events happen to the other server.
    pub(crate) fn exchange_servers(&mut self) {
        std::mem::swap(&mut self.server, &mut self.other_server);
    }

    /// Ends the server's process at once.
    pub(crate) fn server_ends(&mut self) {
        let ServerProcess { life, place, .. } = self.server;
        self.server = ServerProcess { life, place, ..ServerProcess::default() };
        self.ledger.server_ends(life);
        if self.scenario.server_up.is_some() {
            self.plan_within(self.scenario.server_down, Event::ServerStarts(place));
        }
    }

    pub(crate) fn server_shuts_down(&mut self) {
        self.server.shutting_down = true;
        if let Some(server) = &mut self.server.server {
            server.shut_down();
            self.report.shut_downs += 1;
        }
        self.announce_end();
        self.linger_if_idle();
    }

    /// Tells callers that their next calls are refused.
    fn announce_end(&mut self) {
        let notices = self.server.server.as_ref().map(|server| server.closing_notices(usize::MAX));
        for (to, notice) in notices.into_iter().flatten() {
            self.send_to_caller(to, notice.to_vec());
        }
    }

    pub(crate) fn linger_if_idle(&mut self) {
        let idle = self.server.server.as_ref().is_some_and(|server| server.running() == 0);
        if self.server.shutting_down && idle {
            self.announce_end();
            self.events.plan(self.now + LINGER, Event::ServerLingered(self.server.life));
        }
    }

    /// A packet reaches the server's machine, and waits in its socket if the process is slow.
    pub(crate) fn reaches_server(&mut self, from: Address, packet: Vec<u8>) {
        let (room, drain) = (self.scenario.server_buffer, self.scenario.server_drain);
        if drain.is_zero() || self.server.server.is_none() {
            return self.server_receives(from, &packet, self.now);
        }
        match self.server.socket.arrives(self.now, packet.len(), room, drain) {
            Some(taken) => {
                let (life, came) = (self.server.life, self.now);
                self.events.plan(taken, Event::ServerTakes { life, came, from, packet })
            }
            None => self.report.overflows += 1,
        }
    }

    /// The server's process takes a packet. What is left to a call counts from when the packet `came`, as the kernel's time stamp
    /// says.
    pub(crate) fn server_receives(&mut self, from: Address, packet: &[u8], came: Instant) {
        let now = match self.sabotage {
            Sabotage::CountsFromReading => self.server_now(),
            _ => self.clocks[SERVERS].at(came),
        };
        let mut opened = packet.to_vec();
        if self.server.server.is_some() && !self.opens_at_server(&mut opened) {
            return;
        }
        let packets = match self.server.server {
            Some(_) => self.unbundled(&opened),
            None => vec![opened],
        };
        self.came_together(&packets);
        for packet in packets {
            self.server_hears(from, &packet, (came, now));
        }
    }

    /// The server's process takes a packet that it has opened.
    fn server_hears(&mut self, from: Address, packet: &[u8], (came, now): (Instant, Instant)) {
        let sabotaged = (self.sabotage == Sabotage::DuplicatesAsNew).then(|| self.renumbered(packet));
        let packet = sabotaged.as_deref().unwrap_or(packet);
        let Some(server) = &mut self.server.server else {
            if self.scenario.port_closed {
                let arrives = self.now + self.network.travel(&mut self.random);
                self.events.plan(arrives, Event::PortClosed { to: from, from: self.server.place });
            }
            return;
        };
        let mut reply = std::mem::take(&mut self.reply);
        // Every second call is taken as if it had come together with others: that leads to the same, or to nothing.
        let mut together = None;
        if packet.get(CALL_NUMBER).is_some_and(|number| number % 2 == 0) {
            server.take_calls(now, &from, packet, packet.len(), |call, _| together = Some(call));
        }
        let arrival = match together {
            Some(assignment) => Effect::Run(assignment),
            None if self.scenario.sealed && packet.get(2) == Some(&(Kind::Bind as u8)) => {
                let anybody = AuthenticatedCaller { owner: None, denial: &|_| None };
                match server.answer_authenticated(now, from, &anybody, packet, &mut reply) {
                    Authenticated::Bound(binding) => {
                        self.server_seals(binding);
                        Effect::Reply
                    }
                    Authenticated::Reply => Effect::Reply,
                    Authenticated::Nothing => Effect::Nothing,
                }
            }
            None => server.handle_packet(now, &from, packet, &mut reply),
        };
        let bindings = self.server.server.as_ref().map_or(0, Server::bindings);
        self.server.peak_bindings = self.server.peak_bindings.max(bindings);
        match arrival {
            Effect::Run(assignment) => {
                self.note_asking(&assignment, packet, came);
                self.dispatch(assignment, packet);
            }
            Effect::Reply => {
                self.check_reply(&reply, packet);
                self.send_to_caller(from, reply.clone());
            }
            Effect::Cancelled(binding, lane, number) => {
                self.send_to_caller(from, reply.clone());
                self.cancel_assigned((binding, lane, number));
            }
            Effect::Unbound(binding) => self.end_open_of(binding),
            Effect::Transmit | Effect::Pipe(..) | Effect::Nothing => {}
        }
        self.reply = reply;
        self.server_transmits();
        self.server_may_be_drained();
        self.plan_server_timer();
    }

    /// The packet as a server without any checks would take it.
    fn renumbered(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        if packet[2] == Kind::Call as u8 {
            self.server.jobs += 1;
            packet[16..20].copy_from_slice(&(self.server.jobs as u32).to_le_bytes());
        }
        packet
    }

    /// A peer that has not proved its address gets no more bytes than it sent.
    fn check_reply(&mut self, reply: &[u8], to: &[u8]) {
        let (header, _) = Header::parse(reply).expect("the server sends packets");
        let code = RefusalCode::from_code(header.time);
        self.report.count_reply(&header);
        let to_unproven = match header.kind {
            Kind::Challenge | Kind::BindReply | Kind::Description => true,
            Kind::Refusal => code == RefusalCode::UnknownBinding,
            _ => false,
        };
        if to_unproven && reply.len() > to.len() {
            self.ledger.complain(format!(
                "{} bytes answer {} from an unproven address: {header:?}",
                reply.len(),
                to.len()
            ));
        }
    }

    /// The packet for an answer holds nothing of another binding: it has been wiped, or comes from the same lane.
    fn check_packet_is_clean(&mut self, assignment: &mut Assignment<Address>) {
        let (binding, ..) = assignment.identity();
        let told = assignment.packet_mut().get(BINDING).unwrap_or_default();
        if told.iter().any(|byte| *byte != 0) && told != binding.0.to_le_bytes() {
            self.ledger.complain(format!("the packet for an answer to {binding:?} holds one to {told:x?}"));
        }
    }

    /// Gives a call to a free worker, as the runtime's receive role does.
    fn dispatch(&mut self, mut assignment: Assignment<Address>, packet: &[u8]) {
        self.check_packet_is_clean(&mut assignment);
        let (arguments, _) = assignment.arguments_and_result(packet);
        let task = Task::read(arguments);
        if let Some(position) = task.and_then(|task| task.wrong_argument(arguments)) {
            self.ledger.wrong_byte(position, arguments.len(), "arguments");
        }
        let job = Job { assignment, task: task.unwrap_or(Task::NONE) };
        if job.task.manner == Manner::BadArguments {
            return self.refuse(job, RefusalCode::BadArguments);
        }
        if job.assignment.left(self.server_now()).is_zero() {
            self.report.too_late += 1;
            return self.refuse(job, RefusalCode::DeadlinePassed);
        }
        if job.task.work.is_zero() {
            self.ledger.executes(job.task.id, self.server.life, job.assignment.identity(), self.now);
            return self.procedure_returns(job);
        }
        if self.server.running.len() < self.scenario.workers {
            return self.work_begins(job);
        }
        if self.server.queue.len() < self.scenario.queue {
            self.report.queued += 1;
            return self.server.queue.push_back(job);
        }
        if self.sabotage == Sabotage::RefuseButRun {
            return self.refuses_but_runs(job, RefusalCode::Overloaded);
        }
        self.refuse(job, RefusalCode::Overloaded);
    }

    /// Refuses a call and runs it all the same: a fault that no server may have.
    pub(crate) fn refuses_but_runs(&mut self, mut job: Job, code: RefusalCode) {
        let refusal = job.assignment.refuse(code, "").to_vec();
        self.send_to_caller(job.assignment.peer, refusal);
        self.server.queue.push_back(job);
    }

    fn work_begins(&mut self, job: Job) {
        self.ledger.executes(job.task.id, self.server.life, job.assignment.identity(), self.now);
        self.server.jobs += 1;
        let number = self.server.jobs;
        let returns = Event::JobReturns { life: self.server.life, job: number };
        self.events.plan(self.now + job.task.work, returns);
        self.server.running.insert(number, job);
    }

    pub(crate) fn refuse(&mut self, mut job: Job, code: RefusalCode) {
        let detail = if code == RefusalCode::BadArguments { "argument 1: not a task" } else { "" };
        let retry_after = match code {
            RefusalCode::Overloaded => RetryAfter::from_nanos(AGAIN_AFTER.as_nanos() as u64),
            _ => RetryAfter::NOT_SAID,
        };
        let refusal = job.assignment.refuse(Refused { code, retry_after }, detail).to_vec();
        self.send_to_caller(job.assignment.peer, refusal);
        self.finish(job);
    }

    /// A worker is free again.
    pub(crate) fn worker_returns(&mut self, number: u64) {
        let Some(job) = self.server.running.remove(&number) else { return };
        self.procedure_returns(job);
        while self.server.running.len() < self.scenario.workers {
            let Some(job) = self.server.queue.pop_front() else { break };
            if job.assignment.left(self.server_now()).is_zero() {
                self.report.too_late += 1;
                self.refuse(job, RefusalCode::DeadlinePassed);
            } else {
                self.work_begins(job);
            }
        }
        self.linger_if_idle();
    }

    fn procedure_returns(&mut self, job: Job) {
        match self.answers_later(&job) {
            true => self.leave_open(job),
            false => self.job_returns(job),
        }
    }

    /// Makes the answer of a job, and returns its packet.
    fn make_answer(&mut self, job: &mut Job) -> Vec<u8> {
        let now = self.server_now();
        let packet = if job.task.manner == Manner::Panics {
            job.assignment.fail(FailureCode::Panicked, "the task panicked")
        } else if job.task.result_len > job.assignment.result_max as usize {
            job.assignment.fail(FailureCode::ResultTooLarge, "")
        } else {
            let len = job.task.result_len;
            let packet = job.assignment.packet_mut();
            packet.resize(packet.len().max(HEADER_LEN + len), 0);
            job.task.write_result(&mut packet[HEADER_LEN..HEADER_LEN + len]);
            job.assignment.complete(now, len)
        };
        packet.to_vec()
    }

    fn job_returns(&mut self, mut job: Job) {
        self.ledger.returns(self.server.life, job.assignment.identity());
        let packet = self.make_answer(&mut job);
        if packet.len() <= MAX_DATAGRAM {
            self.check_grant(&packet);
            self.send_to_caller(job.assignment.peer, packet);
        } else {
            self.report.large_results += 1;
        }
        self.finish(job);
        self.server_transmits();
        self.plan_server_timer();
    }

    pub(crate) fn finish(&mut self, job: Job) {
        let now = self.server_now();
        let Some(server) = &mut self.server.server else { return };
        let mut next = Next::Nothing;
        server.finish_all(now, [job.assignment], |other| next = other);
        match next {
            Next::Nothing => {}
            Next::Run(assignment, packet) => {
                self.report.parked += 1;
                self.dispatch(assignment, &packet);
            }
            Next::Reply(to, packet) => self.send_to_caller(to, packet),
        }
    }

    pub(crate) fn server_timer(&mut self) {
        let now = self.server_now();
        if let Some(server) = &mut self.server.server
            && server.next_timeout() <= now
        {
            server.handle_timeout(now);
            if server.next_timeout() <= now {
                self.ledger.complain("the server's timer does not advance".into());
            }
            self.server_transmits();
            self.plan_server_timer();
        }
    }

    pub(crate) fn plan_server_timer(&mut self) {
        let server = self.server.server.as_ref().map_or(Instant::NEVER, Server::next_timeout);
        if self.server.timer_at != Some(server) {
            self.server.timer_at = Some(server);
            self.plan_on(SERVERS, server, Event::ServerTimer(self.server.life));
        }
    }

    pub(crate) fn send_to_caller(&mut self, to: Address, packet: Vec<u8>) {
        self.ledger.answers(self.server.life, &packet);
        let Some(packet) = self.sealed(Side::Server, packet) else { return };
        self.is_seen(Side::Server, (to, self.server.place), &packet);
        let arriving = self.network.send(self.now, Side::Server, packet, &mut self.random);
        if self.traced && arriving.is_empty() {
            println!(
                "{:>16} ns  what the server sends to {}:{} is lost",
                self.now.as_nanos(),
                to.host,
                to.port
            );
        }
        for (at, packet) in arriving {
            self.events.plan(at, Event::ToCaller { to, packet });
        }
    }
}

/// Where in a packet its binding is.
const BINDING: std::ops::Range<usize> = 8..16;

/// Where in a packet the lowest byte of its call's number is.
const CALL_NUMBER: usize = 16;
