//! A server's replies, kept to answer retransmitted calls without running their procedures again.
//!
//! Over UDP a caller sends a call again if it has no reply (RFC 5531 §5), and a procedure that is not idempotent must not
//! run twice. The cache knows a call by its peer, xid, program, version and procedure, and by a hash of its contents: a
//! peer that restarts may use an xid again for another call.
//!
//! The cache is bounded in entries and bytes. A reply that was pushed out before it was
//! [old](ReplyCacheLimits::age_max) is [counted](ReplyCache::forgotten_early): if its call comes again, it runs again. The
//! same holds after a restart of the server. At most once can be claimed only as far as this goes.

use crate::message::ProcedureId;
use crate::{Instant, Xid};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher13;

/// What the cache knows a call by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey<P> {
    /// The sender: its address and port; for a stream, the connection.
    pub peer: P,
    /// The xid of the call.
    pub xid: Xid,
    /// What is called.
    pub procedure: ProcedureId,
}

/// Bounds of a cache.
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

/// What to do with a call that has arrived.
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
    /// Bytes of all replies.
    bytes: usize,
    /// Calls that have ended so far.
    ended_count: u64,
    forgotten_early: u64,
}

#[derive(Debug)]
struct Remembered {
    hash: u64,
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
    pub const fn new(limits: ReplyCacheLimits) -> Self {
        ReplyCache {
            limits,
            calls: BTreeMap::new(),
            ended: BTreeMap::new(),
            bytes: 0,
            ended_count: 0,
            forgotten_early: 0,
        }
    }

    /// What to do with a call that has arrived. `contents` are the bytes that a retransmission repeats: the whole
    /// message, or, if its credential changes with each transmission, the arguments.
    pub fn admit(&mut self, now: Instant, key: &CallKey<P>, contents: &[u8]) -> Admission<'_> {
        self.expire(now);
        let hash = hash(contents);
        match self.calls.get(key) {
            Some(Remembered { state: State::Running, .. }) => return Admission::Ignore,
            Some(call) if call.hash == hash => return self.repeat(key),
            // Another call: the peer has begun its xids again.
            Some(_) => self.forget(key),
            None => {}
        }
        if !self.make_room() {
            return Admission::NoRoom;
        }
        self.calls.insert(key.clone(), Remembered { hash, state: State::Running });
        Admission::Run
    }

    /// What to do with a call that has ended.
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
        if !self.is_running(key) {
            return;
        }
        let reply = match reply {
            None => Reply::None,
            Some(bytes) if bytes.len() > self.limits.bytes_max => Reply::TooLarge,
            Some(bytes) => {
                while self.bytes + bytes.len() > self.limits.bytes_max {
                    self.forget_oldest();
                }
                Reply::Kept(bytes.into())
            }
        };
        self.bytes += reply.len();
        let order = self.ended_count;
        self.ended_count += 1;
        self.ended.insert(order, key.clone());
        let call = self.calls.get_mut(key).expect("it is running");
        call.state = State::Ended { order, at: now, reply };
    }

    /// Forgets a call that was [to be run](Admission::Run) and whose procedure did not run.
    pub fn abandon(&mut self, key: &CallKey<P>) {
        if self.is_running(key) {
            self.calls.remove(key);
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
        self.bytes
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

    fn is_running(&self, key: &CallKey<P>) -> bool {
        matches!(self.calls.get(key), Some(Remembered { state: State::Running, .. }))
    }

    fn ended_at(&self, key: &CallKey<P>) -> Option<Instant> {
        match self.calls.get(key)?.state {
            State::Ended { at, .. } => Some(at),
            State::Running => None,
        }
    }

    /// Makes room for one more call. `false` if all calls are running.
    fn make_room(&mut self) -> bool {
        while self.calls.len() >= self.limits.entries_max {
            if !self.forget_oldest() {
                return false;
            }
        }
        true
    }

    /// Forgets the call that ended first. `false` if there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, key)) = self.ended.first_key_value() else { return false };
        let key = key.clone();
        self.forget(&key);
        self.forgotten_early += 1;
        true
    }

    fn forget(&mut self, key: &CallKey<P>) {
        if let Some(Remembered { state: State::Ended { order, reply, .. }, .. }) = self.calls.remove(key) {
            self.ended.remove(&order);
            self.bytes -= reply.len();
        }
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
