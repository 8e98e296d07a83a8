//! The history of each callback, and the check of what is promised about it.

use std::collections::BTreeMap;
use std::fmt;
use stoop_calls::callbacks::DEPTH_MAX;
use stoop_exchange::Instant;

/// A callback that was made.
pub(super) type Id = u64;

/// Nothing, or the promise that is broken.
pub(super) type Checked = Result<(), String>;

/// What the server's program was told about a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// This result.
    Result(Id),
    DidNotRun,
    Perhaps,
    /// It is a one-way callback, and was sent.
    Sent,
    /// The server has ended.
    Nobody,
}

#[derive(Debug)]
struct Record {
    session: u64,
    deadline: Instant,
    is_one_way: bool,
    executions: u32,
    is_cancelled: bool,
    told: Option<Told>,
}

/// Everything that both sides did.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: Vec<Record>,
    /// The one-way callback of each session that has run last.
    last_told: BTreeMap<u64, Id>,
    pub(super) report: CallbackReport,
}

/// How often each case was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallbackReport {
    counts: BTreeMap<&'static str, u64>,
}

/// The cases that the worlds of the tests meet.
const CASES: &[&str] = &[
    "result",
    "refused: too deep",
    "no object to be called",
    "deadline passed",
    "ran, and its deadline had passed",
    "client gone",
    "ran, and its client was gone",
    "one-way callback kept",
    "cancelled while it was kept",
    "eight wait",
    "call of a callback lost",
    "connection lost",
    "client ended",
    "server ended",
];

impl CallbackReport {
    pub(super) fn count(&mut self, case: &'static str) {
        debug_assert!(CASES.contains(&case), "{case}");
        *self.counts.entry(case).or_default() += 1;
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        other.counts.iter().for_each(|(case, count)| *self.counts.entry(case).or_default() += count);
    }

    /// Cases that were not met.
    pub fn never(&self) -> Vec<&'static str> {
        CASES.iter().filter(|case| !self.counts.contains_key(*case)).copied().collect()
    }
}

impl fmt::Display for CallbackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(case, count)| writeln!(f, "{count:>9} {case}"))
    }
}

impl Ledger {
    pub(super) fn make(&mut self, session: u64, is_one_way: bool, deadline: Instant) -> Id {
        self.records.push(Record {
            session,
            deadline,
            is_one_way,
            executions: 0,
            is_cancelled: false,
            told: None,
        });
        self.records.len() as Id - 1
    }

    /// A callback begins in its client, in which `begun` have begun and not ended, with this one; `waits`: one of them waits for a call.
    pub(super) fn executes(
        &mut self,
        id: Id,
        is_open: bool,
        (begun, waits): (usize, bool),
        most: usize,
    ) -> Checked {
        let record = self.records.get_mut(id as usize).ok_or("a callback runs that was not made")?;
        record.executions += 1;
        if record.executions > 1 {
            return Err(format!("callback {id} runs a second time"));
        }
        if !is_open {
            return Err(format!("callback {id} begins after its session has ended"));
        }
        if record.is_cancelled {
            return Err(format!("callback {id} was cancelled before, and runs"));
        }
        if record.told == Some(Told::DidNotRun) {
            return Err(format!("callback {id} runs, and its server was told that it has not run"));
        }
        if begun > most + DEPTH_MAX {
            return Err(format!("{begun} callbacks have begun"));
        }
        if record.told == Some(Told::Perhaps) {
            self.report.count("ran, and its deadline had passed");
        }
        if record.is_one_way {
            if waits {
                return Err(format!("one-way callback {id} runs while another waits for a call"));
            }
            let last = self.last_told.insert(record.session, id);
            if last.is_some_and(|last| last > id) {
                return Err(format!("one-way callback {id} runs after a later one"));
            }
        }
        Ok(())
    }

    /// A client has received the cancel of a callback that it has not begun.
    pub(super) fn cancels(&mut self, id: Id) {
        self.records[id as usize].is_cancelled = true;
        self.report.count("cancelled while it was kept");
    }

    pub(super) fn told(&mut self, now: Instant, id: Id, told: Told) -> Checked {
        let record = &mut self.records[id as usize];
        if record.told.replace(told).is_some() {
            return Err(format!("callback {id} ends twice"));
        }
        if now > record.deadline && told != Told::Nobody {
            return Err(format!("callback {id} ends after its deadline"));
        }
        match told {
            Told::Result(of) if of != id || record.executions != 1 => {
                Err(format!("callback {id} is given the result of {of}"))
            }
            Told::DidNotRun if record.executions > 0 => {
                Err(format!("callback {id} has run, and its server is told that it has not"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn has_run(&self, id: Id) -> bool {
        self.records[id as usize].executions > 0
    }

    /// Everything has come to rest.
    pub(super) fn check_end(&self) -> Checked {
        match self.records.iter().position(|record| record.told.is_none()) {
            Some(id) => Err(format!("callback {id} never ends")),
            None => Ok(()),
        }
    }
}
