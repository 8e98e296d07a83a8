//! The history of each call, and the check of what Sun RPC promises about it.

use std::collections::BTreeMap;
use std::fmt;
use stoop_onc::Instant;

/// A call, of whichever caller.
pub(super) type CallId = u64;

/// The outcome that its caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The result, which names the call whose it is.
    Result(CallId),
    /// The procedure did not run.
    DidNotRun,
    /// It may have run.
    Perhaps,
}

/// The calls that the server remembers, as far as it matters when a call runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Ends and starts of the server so far.
    pub(super) epoch: u64,
    /// Replies that its cache has pushed out.
    pub(super) forgotten: u64,
    /// Time at which a reply that is kept from now on is old.
    pub(super) old_at: Instant,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    deadline: Option<Instant>,
    /// Epoch in which it began.
    begun: u64,
    is_idempotent: bool,
    runs: u32,
    /// When it last ran.
    memory: Option<Memory>,
    told: Option<Told>,
    /// The network has repeated one of its datagrams.
    is_repeated: bool,
    /// Its caller's process has ended.
    is_orphan: bool,
}

/// Everything that both sides did.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    calls: BTreeMap<CallId, Entry>,
    pub(super) report: SunReport,
}

/// How often each case was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SunReport {
    counts: BTreeMap<&'static str, u64>,
}

/// The one untruth that a caller cannot avoid, see [`stoop_onc::outcome`].
const CROSSED: &str =
    "told that it did not run, and ran: the network repeated a datagram while the server ended or started";

/// The cases that the worlds of the tests meet.
const CASES: &[&str] = &[
    "result",
    "result after several transmissions",
    "did not run: refused",
    "did not run: port closed",
    "perhaps: refused after several transmissions",
    "perhaps: port closed",
    "perhaps: deadline passed",
    "reply sent again",
    "call ignored while it runs",
    "no room to remember a call",
    "ran again: idempotent",
    "ran again: server restarted",
    "ran again: reply pushed out",
    "ran again: reply too old",
    CROSSED,
    "caller restarted",
    "server ended while calls ran",
];

impl SunReport {
    pub(super) fn count(&mut self, case: &'static str) {
        debug_assert!(CASES.contains(&case), "{case} is in the list");
        *self.counts.entry(case).or_default() += 1;
    }

    /// Adds another report.
    pub fn add(&mut self, other: &Self) {
        other.counts.iter().for_each(|(case, count)| *self.counts.entry(case).or_default() += count);
    }

    /// The cases that were never met.
    pub fn never(&self) -> Vec<&'static str> {
        CASES.iter().copied().filter(|case| !self.counts.contains_key(case)).collect()
    }
}

impl fmt::Display for SunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CASES.iter().try_for_each(|case| {
            writeln!(f, "{:>9}  {case}", self.counts.get(case).copied().unwrap_or_default())
        })
    }
}

/// The outcome of a check: what is wrong.
pub(super) type Checked = Result<(), String>;

impl Ledger {
    pub(super) fn begin(&mut self, id: CallId, deadline: Instant, epoch: u64, is_idempotent: bool) {
        let entry = Entry { deadline: Some(deadline), begun: epoch, is_idempotent, ..Entry::default() };
        self.calls.insert(id, entry);
    }

    fn entry(&mut self, id: CallId) -> &mut Entry {
        self.calls.get_mut(&id).expect("a call that has begun")
    }

    pub(super) fn sent(&mut self, id: CallId, is_repeated: bool) {
        self.entry(id).is_repeated |= is_repeated;
    }

    /// The caller's process has ended: no outcome of its calls is reported.
    pub(super) fn orphan(&mut self, id: CallId) {
        self.entry(id).is_orphan = true;
    }

    /// A procedure begins.
    pub(super) fn ran(&mut self, id: CallId, now: Instant, memory: Memory) -> Checked {
        let entry = self.entry(id);
        let (runs, earlier) = (entry.runs, entry.memory.replace(memory));
        entry.runs += 1;
        let is_idempotent = entry.is_idempotent;
        if entry.told == Some(Told::DidNotRun) {
            if !entry.is_repeated || entry.begun == memory.epoch {
                return Err(format!("call {id} runs after its caller was told that it did not"));
            }
            self.report.count(CROSSED);
        }
        let Some(earlier) = earlier.filter(|_| runs > 0) else { return Ok(()) };
        self.report.count(match earlier {
            _ if is_idempotent => "ran again: idempotent",
            earlier if earlier.epoch != memory.epoch => "ran again: server restarted",
            earlier if earlier.forgotten != memory.forgotten => "ran again: reply pushed out",
            earlier if earlier.old_at <= now => "ran again: reply too old",
            _ => return Err(format!("call {id} runs again though the server keeps its reply")),
        });
        Ok(())
    }

    /// The procedure has returned: its reply is kept from now on.
    pub(super) fn returned(&mut self, id: CallId, memory: Memory) {
        // The reply that was pushed out while it ran may have been any but this one.
        let forgotten = self.entry(id).memory.map_or(memory.forgotten, |earlier| earlier.forgotten);
        self.entry(id).memory = Some(Memory { forgotten, ..memory });
    }

    /// The caller learns the outcome.
    pub(super) fn told(
        &mut self,
        id: CallId,
        now: Instant,
        told: Told,
        epoch: u64,
        is_repeated: bool,
    ) -> Checked {
        let entry = self.entry(id);
        entry.is_repeated |= is_repeated;
        let is_late = entry.deadline.is_some_and(|deadline| now > deadline);
        if let Some(before) = entry.told.replace(told) {
            return Err(format!("call {id} ends twice: {before:?}, {told:?}"));
        }
        if is_late || entry.is_orphan {
            return Err(format!("call {id} ends after its deadline or its caller"));
        }
        match told {
            Told::Result(of) if of != id || entry.runs == 0 => {
                Err(format!("call {id} has the result of call {of} and ran {} times", entry.runs))
            }
            Told::DidNotRun if entry.runs > 0 => {
                if !entry.is_repeated || entry.begun == epoch {
                    return Err(format!("the caller of call {id} is told that it did not run, and it ran"));
                }
                self.report.count(CROSSED);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The world is at rest.
    pub(super) fn check_end(&self) -> Checked {
        let open = self.calls.iter().find(|(_, entry)| entry.told.is_none() && !entry.is_orphan);
        open.map_or(Ok(()), |(id, _)| Err(format!("call {id} never ends")))
    }
}
