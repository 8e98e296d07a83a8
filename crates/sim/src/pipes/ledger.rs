//! The history of each pipe, and the check of what is promised about it.

use std::collections::BTreeMap;
use std::fmt;
use stoop_exchange::pipe::Rest;
use stoop_exchange::server::CallKey;
use stoop_wire::PipeEnd;

/// A call that was begun.
pub(super) type CallId = u64;

/// Nothing, or the promise that is broken.
pub(super) type Checked = Result<(), String>;

/// Which pipe of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    ToServer,
    FromServer,
}

/// What a caller was told about its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Result,
    Failed,
    DidNotRun,
    Unknown,
    Cancelled,
}

#[derive(Debug, Default)]
struct Pipe {
    sent: u64,
    delivered: u64,
    /// How the sender has ended it.
    end: Option<PipeEnd>,
    /// The furthest limit that its receiver has told.
    limit: u64,
    is_stopped: bool,
}

#[derive(Debug, Default)]
struct Record {
    executions: u32,
    pipes: [Pipe; 2],
    told: Option<Told>,
    /// Whether the server has answered by a result.
    answered: Option<bool>,
}

/// Everything that both sides did.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: Vec<Record>,
    ids: BTreeMap<(u64, u16, u32), CallId>,
    pub(super) report: PipeReport,
}

/// How often each case was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeReport {
    counts: BTreeMap<&'static str, u64>,
}

/// The cases that the worlds of the tests meet.
const CASES: &[&str] = &[
    "result",
    "failure",
    "refused: no memory",
    "cancelled",
    "lost",
    "end delivered",
    "abort delivered",
    "pipe stopped by its reader",
    "sender told that the reader has stopped",
    "early result",
    "result before the end of its pipe",
    "data of a call that does not run",
    "question",
    "stop said again",
    "window grown",
    "proof of a new address",
    "binding lost",
];

impl PipeReport {
    pub(super) fn count(&mut self, case: &'static str) {
        debug_assert!(CASES.contains(&case), "{case}");
        *self.counts.entry(case).or_default() += 1;
    }

    pub(super) fn count_if(&mut self, is_met: bool, case: &'static str) {
        if is_met {
            self.count(case);
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        other.counts.iter().for_each(|(case, count)| *self.counts.entry(case).or_default() += count);
    }

    /// Cases that were not met.
    pub fn never(&self) -> Vec<&'static str> {
        CASES.iter().filter(|case| !self.counts.contains_key(*case)).copied().collect()
    }

    /// How often a case was met.
    pub fn of(&self, case: &str) -> u64 {
        self.counts.get(case).copied().unwrap_or(0)
    }
}

impl fmt::Display for PipeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(case, count)| writeln!(f, "{count:>12}  {case}"))
    }
}

/// The byte of a pipe at that offset.
fn byte(id: CallId, which: Which, offset: u64) -> u8 {
    let salt = id.wrapping_mul(0x9e37_79b9).wrapping_add(if which == Which::ToServer { 0 } else { 0x55 });
    (salt ^ salt >> 8 ^ offset ^ offset >> 7 ^ offset >> 15) as u8
}

/// The next bytes of a pipe.
pub(super) fn bytes(id: CallId, which: Which, from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(|offset| byte(id, which, offset)).collect()
}

impl Ledger {
    pub(super) fn begin(&mut self, key: CallKey, limits: [u64; 2]) -> CallId {
        let id = self.next_id();
        let pipes = limits.map(|limit| Pipe { limit, ..Pipe::default() });
        self.records.push(Record { pipes, ..Record::default() });
        self.ids.insert((key.0.0, key.1.0, key.2.0), id);
        id
    }

    pub(super) fn next_id(&self) -> CallId {
        self.records.len() as CallId
    }

    pub(super) fn id_of(&self, key: CallKey) -> Option<CallId> {
        self.ids.get(&(key.0.0, key.1.0, key.2.0)).copied()
    }

    fn pipe(&mut self, id: CallId, which: Which) -> &mut Pipe {
        &mut self.records[id as usize].pipes[which as usize]
    }

    pub(super) fn executes(&mut self, id: CallId) -> Checked {
        let Some(record) = self.records.get_mut(id as usize) else {
            return Err(format!("call {id} runs, and was never made"));
        };
        record.executions += 1;
        match (record.executions, record.told) {
            (1, Some(Told::DidNotRun)) => {
                Err(format!("call {id} runs after its caller was told that it did not"))
            }
            (1, _) => Ok(()),
            _ => Err(format!("call {id} is executed a second time")),
        }
    }

    pub(super) fn sent(&mut self, id: CallId, which: Which, len: u64) {
        self.pipe(id, which).sent += len;
    }

    pub(super) fn sent_so_far(&self, id: CallId, which: Which) -> u64 {
        self.records[id as usize].pipes[which as usize].sent
    }

    pub(super) fn sender_ends(&mut self, id: CallId, which: Which, end: PipeEnd) {
        self.pipe(id, which).end.get_or_insert(end);
    }

    /// A program takes bytes.
    pub(super) fn delivered(&mut self, id: CallId, which: Which, bytes: &[u8]) -> Checked {
        let pipe = self.pipe(id, which);
        let from = pipe.delivered;
        pipe.delivered += bytes.len() as u64;
        if pipe.delivered > pipe.sent {
            return Err(format!("call {id}, {which:?}: more bytes are delivered than were sent"));
        }
        match (from..).zip(bytes).find(|&(offset, &is)| is != byte(id, which, offset)) {
            Some((offset, _)) => {
                Err(format!("call {id}, {which:?}: the byte at {offset} is not the one that was sent"))
            }
            None => Ok(()),
        }
    }

    /// A program learns how a pipe ends.
    pub(super) fn ends(&mut self, id: CallId, which: Which, rest: Rest) -> Checked {
        let Pipe { sent, delivered, end, .. } = *self.pipe(id, which);
        let is_right = match rest {
            Rest::Open => return Ok(()),
            Rest::Finished => end == Some(PipeEnd::Finished) && sent == delivered,
            Rest::Aborted => end == Some(PipeEnd::Aborted),
        };
        self.report.count(if rest == Rest::Finished { "end delivered" } else { "abort delivered" });
        match is_right {
            true => Ok(()),
            false => Err(format!(
                "call {id}, {which:?}: {rest:?} after {delivered} bytes; {sent} were sent, and then {end:?}"
            )),
        }
    }

    pub(super) fn stops(&mut self, id: CallId, which: Which) {
        self.pipe(id, which).is_stopped = true;
        self.report.count("pipe stopped by its reader");
    }

    /// A receiver tells a limit. `reserved`: bytes for which it has memory.
    pub(super) fn told_limit(&mut self, id: CallId, which: Which, limit: u64, reserved: u64) -> Checked {
        let pipe = self.pipe(id, which);
        pipe.limit = pipe.limit.max(limit);
        let granted = limit.saturating_sub(pipe.delivered);
        // Behind an end nothing more can be sent.
        let is_whole = match pipe.end {
            Some(PipeEnd::Finished) => pipe.sent == pipe.delivered,
            end => end == Some(PipeEnd::Aborted),
        };
        match granted <= reserved || pipe.is_stopped || is_whole {
            true => Ok(()),
            false => Err(format!(
                "call {id}, {which:?}: {granted} bytes are granted beyond what was taken, and memory is \
                 reserved for {reserved}"
            )),
        }
    }

    /// A sender sends the bytes before `end`.
    pub(super) fn sends(&mut self, id: CallId, which: Which, end: u64) -> Checked {
        let limit = self.pipe(id, which).limit;
        match end <= limit {
            true => Ok(()),
            false => Err(format!("call {id}, {which:?}: bytes before {end} are sent, the limit is {limit}")),
        }
    }

    /// The server answers a call.
    pub(super) fn answers(&mut self, id: CallId, is_result: bool) {
        self.records[id as usize].answered.get_or_insert(is_result);
    }

    pub(super) fn told(&mut self, id: CallId, told: Told) -> Checked {
        let record = &mut self.records[id as usize];
        if let Some(before) = record.told.replace(told) {
            return Err(format!("call {id} ends twice: {before:?}, then {told:?}"));
        }
        let is_right = match told {
            Told::Result => record.answered == Some(true),
            Told::Failed => record.executions == 1 && record.answered != Some(true),
            Told::DidNotRun => record.executions == 0,
            Told::Unknown | Told::Cancelled => true,
        };
        self.report.count(match told {
            Told::Result => "result",
            Told::Failed => "failure",
            Told::DidNotRun => "refused: no memory",
            Told::Unknown => "lost",
            Told::Cancelled => "cancelled",
        });
        match is_right {
            true => Ok(()),
            false => Err(format!("call {id} ends with {told:?}; {record:?}")),
        }
    }

    /// Whether the caller has been told the server's answer.
    pub(super) fn is_answer(&self, id: CallId) -> bool {
        matches!(self.records[id as usize].told, Some(Told::Result | Told::Failed))
    }

    /// The program at the caller has its answer and has read to the end: it has all that was sent, unless it wanted no more.
    pub(super) fn check_all_delivered(&self, id: CallId) -> Checked {
        let Pipe { sent, delivered, is_stopped, .. } = &self.records[id as usize].pipes[1];
        match *is_stopped || sent == delivered {
            true => Ok(()),
            false => Err(format!("call {id} has its answer, and {delivered} of {sent} bytes sent before it")),
        }
    }

    /// Nothing more happens.
    pub(super) fn check_end(&self) -> Checked {
        match self.records.iter().position(|record| record.told.is_none()) {
            Some(id) => Err(format!("call {id} never ends: {:?}", self.records[id])),
            None => Ok(()),
        }
    }
}
