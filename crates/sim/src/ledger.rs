//! The checkers: a record of what really happened to every call, and of what its caller was told.
//!
//! The two sides of the protocol cannot see each other; the ledger sees both. Its first complaint ends the run.

use crate::events::Place;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stoop_exchange::Instant;
use stoop_wire::{BindingId, CallNumber, FailureCode, Header, Kind, LaneId};

/// The caller's knowledge when its call ends: did the procedure run?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It ran, and this is its result.
    Result,
    /// It did not run and will not run for this call.
    DidNotRun,
    /// It ran, but there is no result.
    Failed,
    /// It is not known whether it ran.
    Unknown,
    /// Nothing: its program did not want to wait any longer.
    Cancelled,
    /// Nothing: the caller's process crashed.
    Crashed,
}

/// Sessions that a call may use, besides those that it finds when it comes again after a wait.
const SESSIONS_MAX: usize = 3;

/// Names a call of a program, however often and under however many bindings it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

#[derive(Debug, Default)]
struct Record {
    deadline: Instant,
    idempotent: bool,
    executions: u32,
    told: Option<Told>,
    cancelled: bool,
    /// Its program does not want to wait for it any longer.
    unwanted: bool,
    /// How often it was refused and waited to be sent again, and until when.
    waits: (usize, Instant),
    /// The sessions on which it was sent: the server's place, and the binding.
    sessions: BTreeSet<(Place, u64)>,
}

/// A lane as the server sees it: start of the server, binding, lane.
type ServerLane = (u32, u64, u16);

/// A call as its packets name it.
pub(crate) type Identity = (BindingId, LaneId, CallNumber);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    records: Vec<Record>,
    running: BTreeMap<ServerLane, (u32, CallId)>,
    violation: Option<String>,
    /// Packets are taken for what they say after bits in them have changed. Then it cannot be promised that a caller gets
    /// its own result; but no packet makes a number of a lane run twice, and every call ends.
    pub(crate) damage: bool,
    /// How long after its deadline a call may begin to run at most, where that is known: as long as its packet travels, because
    /// the server counts what is left to it from its arrival.
    late_max: Option<Duration>,
    /// Numbers that have run, where there is damage.
    ran: BTreeSet<(ServerLane, u32)>,
    /// How the server has answered calls that have run: by a result, or by this failure.
    answers: BTreeMap<(ServerLane, u32), Option<u32>>,
}

impl Ledger {
    pub(crate) fn new(damage: bool, late_max: Option<Duration>) -> Self {
        Self { damage, late_max, ..Self::default() }
    }

    /// A program makes a call.
    pub(crate) fn begin(&mut self, deadline: Instant, idempotent: bool) -> CallId {
        self.records.push(Record { deadline, idempotent, ..Record::default() });
        CallId(self.records.len() as u64 - 1)
    }

    fn record(&mut self, id: CallId) -> Option<&mut Record> {
        self.records.get_mut(id.0 as usize)
    }

    /// The procedure of a call begins to run, in start `life` of the server, for packets that name it so.
    pub(crate) fn executes(
        &mut self,
        id: CallId,
        life: u32,
        (binding, lane, number): Identity,
        now: Instant,
    ) {
        let (lane, number) = ((life, binding.0, lane.0), number.0);
        if let Some((earlier, other)) = self.running.insert(lane, (number, id)) {
            self.complain(format!(
                "{id:?} (number {number}) runs beside {other:?} (number {earlier}) of its lane"
            ));
        }
        if self.damage {
            if !self.ran.insert((lane, number)) {
                self.complain(format!("number {number} of lane {lane:?} is executed a second time"));
            }
            return;
        }
        let Some(record) = self.record(id) else { return self.complain(format!("{id:?} was never made")) };
        record.executions += 1;
        let (executions, idempotent, told) = (record.executions, record.idempotent, record.told);
        let late = now.since(record.deadline);
        if self.late_max.is_some_and(|most| late > most) {
            self.complain(format!("{id:?} begins to run {late:?} after its deadline"));
        }
        if executions > 1 && !idempotent {
            self.complain(format!("{id:?} is executed a second time"));
        }
        if told == Some(Told::DidNotRun) {
            self.complain(format!("{id:?} is executed after its caller was told that it did not run"));
        }
    }

    /// The procedure returns.
    pub(crate) fn returns(&mut self, life: u32, (binding, lane, _): Identity) {
        self.running.remove(&(life, binding.0, lane.0));
    }

    /// The server sends a packet. Once it has answered a call that has run, it never answers it otherwise; it may only say that the result
    /// is not there any more.
    pub(crate) fn answers(&mut self, life: u32, packet: &[u8]) {
        let Ok((header, _)) = Header::parse(packet) else { return };
        let answer = match (header.kind, FailureCode::from_code(header.time)) {
            (Kind::Result, _) => None,
            (Kind::Failure, code) if code != FailureCode::ResultGone => Some(header.time),
            _ => return,
        };
        let call = ((life, header.binding.0, header.lane.0), header.number.0);
        let before = *self.answers.entry(call).or_insert(answer);
        if before != answer {
            self.complain(format!(
                "call {call:?} is answered a second time, otherwise: {before:?}, then {answer:?}"
            ));
        }
    }

    /// A start of the server ends, and what it ran with it.
    pub(crate) fn server_ends(&mut self, life: u32) {
        self.running.retain(|(of, ..), _| *of != life);
    }

    /// A caller takes a result that says which call it is for.
    pub(crate) fn result(&mut self, id: CallId, says: CallId) {
        if id != says && !self.damage {
            self.complain(format!("{id:?} is given the result of {says:?}"));
        }
    }

    /// A call was refused, and is sent again then at the earliest.
    pub(crate) fn waits(&mut self, id: CallId, until: Instant) {
        self.record(id).into_iter().for_each(|record| record.waits = (record.waits.0 + 1, until));
    }

    /// A packet of a call leaves for the server at `place`.
    pub(crate) fn sends(&mut self, id: CallId, place: Place, packet: &[u8], now: Instant) {
        let Ok((Header { kind: Kind::Call, binding, .. }, _)) = Header::parse(packet) else { return };
        let Some(record) = self.record(id) else { return };
        record.sessions.insert((place, binding.0));
        let (sessions, (waits, until)) = (record.sessions.len(), record.waits);
        let too_early = now < until;
        // A call that has waited leaves on the session that is there.
        if sessions > SESSIONS_MAX + waits {
            self.complain(format!("{id:?} is sent on {sessions} sessions"));
        }
        if too_early {
            self.complain(format!("{id:?} is sent again earlier than its caller was to wait"));
        }
    }

    /// A program does not want to wait for its call any longer.
    pub(crate) fn is_unwanted(&mut self, id: CallId) {
        self.record(id).into_iter().for_each(|record| record.unwanted = true);
    }

    /// A call is cancelled.
    pub(crate) fn cancelled(&mut self, id: CallId, now: Instant) {
        if self.record(id).is_some_and(|record| !record.unwanted) {
            self.complain(format!("{id:?} is cancelled, and its program waits for it"));
        }
        self.ends(id, Told::Cancelled, now);
        if let Some(record) = self.record(id) {
            record.cancelled = true;
        }
    }

    /// The caller's process learns the outcome of a cancelled call when its lane is free again: the same promises hold.
    pub(crate) fn settled(&mut self, id: CallId, told: Told, now: Instant) {
        if let Some(record) = self.record(id) {
            record.told = None;
        }
        self.ends(id, told, now);
    }

    /// A byte of a message is not what was sent.
    pub(crate) fn wrong_byte(&mut self, position: usize, len: usize, of: &str) {
        if !self.damage {
            self.complain(format!("byte {position} of {len} bytes of {of} is not what was sent"));
        }
    }

    /// A call ends for its caller.
    pub(crate) fn ends(&mut self, id: CallId, told: Told, now: Instant) {
        let Some(record) = self.record(id) else { return };
        let (before, executions, deadline) = (record.told.replace(told), record.executions, record.deadline);
        let idempotent = record.idempotent;
        if before.is_some() {
            self.complain(format!("{id:?} ends twice: {before:?}, then {told:?}"));
        }
        let wrong = match told {
            Told::Result | Told::Failed => executions == 0 || executions > 1 && !idempotent,
            Told::DidNotRun => executions > 0,
            Told::Unknown | Told::Crashed | Told::Cancelled => false,
        };
        if wrong && !self.damage {
            self.complain(format!("{id:?} ends with {told:?} after {executions} executions"));
        }
        if now > deadline {
            self.complain(format!("{id:?} ends {:?} after its deadline", now.since(deadline)));
        }
    }

    pub(crate) fn executions(&self, id: CallId) -> u32 {
        self.records[id.0 as usize].executions
    }

    pub(crate) fn told(&self, id: CallId) -> Option<Told> {
        self.records[id.0 as usize].told
    }

    pub(crate) fn calls(&self) -> u64 {
        self.records.len() as u64
    }

    /// Calls that ended otherwise than by a result or by a cancel.
    pub(crate) fn failures(&self) -> usize {
        let fails = |record: &&Record| !record.cancelled && record.told != Some(Told::Result);
        self.records.iter().filter(fails).count()
    }

    /// Calls whose callers still wait.
    pub(crate) fn unfinished(&self) -> usize {
        self.records.iter().filter(|record| record.told.is_none()).count()
    }

    pub(crate) fn complain(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }
}
