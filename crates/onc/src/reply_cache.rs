//! A server's replies, kept to answer retransmitted calls without running their procedures again.
//!
//! Over UDP a caller sends a call again if it has no reply (RFC 5531 §5), and a procedure that is not idempotent must not
//! run twice. The cache knows a call by its peer, xid, program, version and procedure, and by a hash of its contents: a
//! peer that restarts may use an xid again for another call.
//!
//! The cache is bounded in entries and bytes, which the callers' hosts [share](stoop_exchange::shares): a host that makes
//! more calls than its share pushes out its own replies. A reply that was pushed out before it was
//! [old](ReplyCacheLimits::age_max) is [counted](ReplyCache::forgotten_early): if its call comes again, it runs again. The
//! same holds after a restart of the server. At most once can be claimed only as far as this goes.

use crate::message::ProcedureId;
use crate::{Instant, Xid};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher13;
use stoop_exchange::shares::{Owner, OwnerId, Owners, Pool};

/// The key of a call in the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey<P> {
    /// The sender: its address and port; for a stream, the connection.
    pub peer: P,
    /// The xid of the call.
    pub xid: Xid,
    /// The procedure that is called.
    pub procedure: ProcedureId,
}

/// Bounds of a cache. One host has at most three quarters of the entries and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyCacheLimits {
    /// Calls, running or with their replies.
    pub entries_max: usize,
    /// Bytes of all replies together.
    pub bytes_max: usize,
    /// How long a reply is kept, if there is room.
    pub age_max: Duration,
}

impl Default for ReplyCacheLimits {
    /// 4096 calls, 4 MiB, two minutes: longer than usual callers go on with one call.
    fn default() -> Self {
        ReplyCacheLimits { entries_max: 4096, bytes_max: 4 << 20, age_max: Duration::from_secs(120) }
    }
}

/// The step for a call that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<'a> {
    /// It is new. Run the procedure, then call [`ReplyCache::complete`] or [`ReplyCache::abandon`].
    Run,
    /// It has run, and this was the reply: send it again.
    Replay(&'a [u8]),
    /// It is running, or has run and has no reply. Do nothing.
    Ignore,
    /// It has run, and its reply was too large to be kept. RFC 5531 §9 has SYSTEM_ERR for that.
    ReplyLost,
    /// It is new, and there is no room to remember it, since too many calls are running. Do nothing: the caller sends it
    /// again.
    NoRoom,
}

/// The replies of a server to the calls of peers `P`.
#[derive(Debug)]
pub struct ReplyCache<P> {
    limits: ReplyCacheLimits,
    calls: BTreeMap<CallKey<P>, Remembered>,
    /// The calls that have run, by the order in which they ended.
    ended: BTreeMap<u64, CallKey<P>>,
    owners: Owners<Held>,
    entries: Pool,
    bytes: Pool,
    /// Calls that have ended so far.
    ended_count: u64,
    forgotten_early: u64,
}

/// The remembered calls of one owner.
#[derive(Debug, Default)]
struct Held {
    entries: usize,
    bytes: usize,
    /// Its calls that have run, by the order in which they ended.
    ended: BTreeSet<u64>,
}

#[derive(Debug)]
struct Remembered {
    hash: u64,
    owner: OwnerId,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Ended { order: u64, at: Instant, reply: Reply },
}

#[derive(Debug)]
enum Reply {
    Kept(Box<[u8]>),
    TooLarge,
    None,
}

impl Reply {
    fn len(&self) -> usize {
        if let Self::Kept(bytes) = self { bytes.len() } else { 0 }
    }
}

impl<P: Ord + Clone> ReplyCache<P> {
    /// An empty cache.
    pub fn new(limits: ReplyCacheLimits) -> Self {
        ReplyCache {
            limits,
            calls: BTreeMap::new(),
            ended: BTreeMap::new(),
            owners: Owners::default(),
            entries: Pool::new(limits.entries_max),
            bytes: Pool::new(limits.bytes_max),
            ended_count: 0,
            forgotten_early: 0,
        }
    }

    /// The step for a call of this owner that has arrived. `contents` are the bytes that a retransmission repeats: the
    /// whole message, or, if its credential changes with each transmission, the arguments.
    pub fn admit(&mut self, now: Instant, key: &CallKey<P>, owner: Owner, contents: &[u8]) -> Admission<'_> {
        self.expire(now);
        let hash = hash(contents);
        match self.calls.get(key) {
            Some(Remembered { state: State::Running, .. }) => return Admission::Ignore,
            Some(call) if call.hash == hash => return self.repeat(key),
            // Another call: the peer has begun its xids again.
            Some(_) => self.forget(key),
            None => {}
        }
        let owner = self.owners.enter(owner);
        while !self.entries.take(&mut self.owners.counts_mut(owner).entries, 1) {
            let has_share = self.owners.counts(owner).entries >= self.entries.fair_share(self.owners.len());
            if !self.make_room(owner, has_share) {
                self.owners.leave(owner);
                return Admission::NoRoom;
            }
        }
        self.calls.insert(key.clone(), Remembered { hash, owner, state: State::Running });
        Admission::Run
    }

    /// The step for a call that has ended.
    fn repeat(&self, key: &CallKey<P>) -> Admission<'_> {
        match self.calls.get(key).map(|call| &call.state) {
            Some(State::Ended { reply: Reply::Kept(bytes), .. }) => Admission::Replay(bytes),
            Some(State::Ended { reply: Reply::TooLarge, .. }) => Admission::ReplyLost,
            _ => Admission::Ignore,
        }
    }

    /// Keeps the reply of a call that was [to be run](Admission::Run): the whole message, or `None` if none is sent. Of a
    /// call that is not running, nothing is kept.
    pub fn complete(&mut self, now: Instant, key: &CallKey<P>, reply: Option<&[u8]>) {
        self.expire(now);
        let Some(owner) = self.owner_of_running(key) else { return };
        let reply = match reply {
            None => Reply::None,
            Some(bytes) if self.take_bytes(owner, bytes.len()) => Reply::Kept(bytes.into()),
            Some(_) => Reply::TooLarge,
        };
        let order = self.ended_count;
        self.ended_count += 1;
        self.ended.insert(order, key.clone());
        self.owners.counts_mut(owner).ended.insert(order);
        let call = self.calls.get_mut(key).expect("it is running");
        call.state = State::Ended { order, at: now, reply };
    }

    /// Takes bytes for a reply. `false`: it is longer than its owner may have.
    fn take_bytes(&mut self, owner: OwnerId, len: usize) -> bool {
        while !self.bytes.take(&mut self.owners.counts_mut(owner).bytes, len) {
            let has_share = self.owners.counts(owner).bytes >= self.bytes.fair_share(self.owners.len());
            if len > self.limits.bytes_max || !self.make_room(owner, has_share) {
                return false;
            }
        }
        true
    }

    /// Forgets a call that was [to be run](Admission::Run) and whose procedure did not run.
    pub fn abandon(&mut self, key: &CallKey<P>) {
        if self.owner_of_running(key).is_some() {
            self.forget(key);
        }
    }

    /// Calls that are remembered.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call is remembered.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Bytes of all replies.
    pub fn bytes(&self) -> usize {
        self.bytes.held()
    }

    /// Replies so far that were pushed out before they were old.
    pub fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_expiry(&self) -> Option<Instant> {
        let (_, key) = self.ended.first_key_value()?;
        self.ended_at(key).map(|at| at + self.limits.age_max)
    }

    /// Forgets what is old. The other functions do so, too: this is for a server without calls.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.ended.first_key_value()
            && self.ended_at(key).is_some_and(|at| at + self.limits.age_max <= now)
        {
            let key = key.clone();
            self.forget(&key);
        }
    }

    fn owner_of_running(&self, key: &CallKey<P>) -> Option<OwnerId> {
        match self.calls.get(key) {
            Some(Remembered { state: State::Running, owner, .. }) => Some(*owner),
            _ => None,
        }
    }

    fn ended_at(&self, key: &CallKey<P>) -> Option<Instant> {
        match self.calls.get(key)?.state {
            State::Ended { at, .. } => Some(at),
            State::Running => None,
        }
    }

    /// Forgets the reply that is to make room for this owner: its own oldest one if it has its fair share, or else the
    /// oldest of all. `false` if there is none.
    fn make_room(&mut self, owner: OwnerId, has_share: bool) -> bool {
        let oldest = match has_share {
            true => self.owners.counts(owner).ended.first().copied(),
            false => self.ended.first_key_value().map(|(order, _)| *order),
        };
        let Some(key) = oldest.and_then(|order| self.ended.get(&order).cloned()) else { return false };
        self.forget(&key);
        self.forgotten_early += 1;
        true
    }

    fn forget(&mut self, key: &CallKey<P>) {
        let Some(Remembered { owner, state, .. }) = self.calls.remove(key) else { return };
        let held = self.owners.counts_mut(owner);
        self.entries.give_back(&mut held.entries, 1);
        if let State::Ended { order, reply, .. } = state {
            self.bytes.give_back(&mut held.bytes, reply.len());
            held.ended.remove(&order);
            self.ended.remove(&order);
        }
        self.owners.leave(owner);
    }
}

/// Without a key: a peer that finds a collision has its own call answered by its own earlier reply.
fn hash(contents: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(contents);
    hasher.finish()
}

#[cfg(test)]
mod tests;
