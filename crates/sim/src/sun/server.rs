//! A server process: it runs procedures and keeps replies, until it ends.

use super::SunSabotage;
use super::ledger::{CallId, Memory};
use crate::network::Address;
use core::time::Duration;
use std::collections::BTreeMap;
use stoop_exchange::server::Peer;
use stoop_exchange::shares::Owner;
use stoop_onc::Instant;
use stoop_onc::message::{self, Accepted, Call, ProcedureId, Reply};
use stoop_onc::reply_cache::{Admission, CallKey, ReplyCache, ReplyCacheLimits};

pub(super) const PROGRAM: u32 = 7;
/// A procedure of which replies are kept, and one that is idempotent.
pub(super) const KEPT: u32 = 1;
pub(super) const IDEMPOTENT: u32 = 2;
/// Its first run fails with SYSTEM_ERR.
pub(super) const FAILS: u32 = 3;

/// From one start to the next end.
pub(super) struct Server {
    cache: ReplyCache<Address>,
    limits: ReplyCacheLimits,
    has_program: bool,
    /// Calls that run, by a number of the run.
    running: BTreeMap<u64, Running>,
    runs: u64,
    epoch: u64,
    sabotage: SunSabotage,
}

struct Running {
    key: CallKey<Address>,
    id: CallId,
    is_kept: bool,
}

/// The fate of a datagram.
pub(super) enum Step {
    /// Nothing; why, if that is a case.
    Nothing(Option<&'static str>),
    Reply(Vec<u8>, Option<&'static str>),
    /// The procedure of this call begins; the number of the run.
    Runs(CallId, u64),
}

/// A procedure that has returned.
pub(super) struct Returned {
    pub(super) id: CallId,
    pub(super) to: Address,
    pub(super) reply: Vec<u8>,
}

impl Server {
    pub(super) fn start(
        limits: ReplyCacheLimits,
        has_program: bool,
        epoch: u64,
        sabotage: SunSabotage,
    ) -> Self {
        let (cache, running) = (ReplyCache::new(limits), BTreeMap::new());
        Self { cache, limits, has_program, running, runs: epoch << 32, epoch, sabotage }
    }

    pub(super) fn memory(&self, now: Instant) -> Memory {
        Memory {
            epoch: self.epoch,
            forgotten: self.cache.forgotten_early(),
            old_at: now + self.limits.age_max,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// The bounds of the cache.
    pub(super) fn is_bounded(&self) -> bool {
        self.cache.len() <= self.limits.entries_max && self.cache.bytes() <= self.limits.bytes_max
    }

    pub(super) fn handle(&mut self, now: Instant, from: Address, datagram: &[u8]) -> Step {
        let (call, mut arguments) = Call::parse(datagram).expect("callers send calls");
        if !self.has_program {
            return Step::Reply(reply(&Reply::accepted(call.xid, Accepted::ProgramUnavailable), None), None);
        }
        let id: CallId = arguments.value().expect("calls have numbers");
        let key = CallKey { peer: from, xid: call.xid, procedure: call.procedure };
        let is_kept = call.procedure.procedure != IDEMPOTENT && self.sabotage != SunSabotage::KeepsNoReplies;
        if is_kept {
            match self.cache.admit(now, &key, Owner::host(from.host()), datagram) {
                Admission::Run => {}
                Admission::Replay(kept) => return Step::Reply(kept.to_vec(), Some("reply sent again")),
                Admission::Ignore => return Step::Nothing(Some("call ignored while it runs")),
                Admission::NoRoom => return Step::Nothing(Some("no room to remember a call")),
                Admission::ReplyLost => {
                    return Step::Reply(reply(&Reply::accepted(call.xid, Accepted::SystemError), None), None);
                }
            }
        }
        self.runs += 1;
        self.running.insert(self.runs, Running { key, id, is_kept });
        Step::Runs(id, self.runs)
    }

    /// A procedure returns. `None`: the server that ran it has ended.
    pub(super) fn returns(&mut self, now: Instant, run: u64) -> Option<Returned> {
        let Running { key, id, is_kept } = self.running.remove(&run)?;
        let ProcedureId { procedure, .. } = key.procedure;
        let reply = match procedure {
            FAILS => reply(&Reply::accepted(key.xid, Accepted::SystemError), None),
            _ => reply(&Reply::success(key.xid), Some(id)),
        };
        if is_kept {
            self.cache.complete(now, &key, Some(&reply));
        }
        Some(Returned { id, to: key.peer, reply })
    }
}

fn reply(header: &Reply<'_>, result: Option<CallId>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = match result {
        Some(id) => message::append(header, &id, &mut bytes),
        None => message::append(header, &(), &mut bytes),
    };
    written.expect("it has a form");
    bytes
}

/// How long the network takes to report that the port is closed.
pub(super) const REPORT: Duration = Duration::from_micros(500);
