//! The handshakes of a sealed address: callers authenticate themselves by calls, which one thread of their own answers.
//!
//! No worker runs them: all may be in long procedures. The thread starts with the first handshake and leaves when there has been none for
//! a while. Its time is all that a flood of handshakes takes; calls on sealed bindings do not meet it.

use crate::context::peer::Peer;
use crate::locked::locked;
use crate::security::handshake::{FINISH, HELLO, INTERFACE};
use crate::security::keys::PublicKey;
use crate::security::tls::{Acceptor, ServerHandshake};
use crate::serving::workers::{Endpoint, WorkerPool};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;
use stoop_exchange::Interfaces;
use stoop_net::{clock, threads};
use stoop_wire::BindingId;

/// Calls that wait for the thread at most.
const QUEUE_MAX: usize = 64;

/// Handshakes that have begun at most; then the oldest is given up.
const HANDSHAKES_MAX: usize = 1024;

/// Time for a handshake.
const HANDSHAKE_NANOS: u64 = 10_000_000_000;

/// Time without a handshake after which the thread leaves.
const LINGER: Duration = Duration::from_secs(10);

/// Calls of `hello` of one handshake.
const HELLOS: u32 = 2;

/// What a caller is told whose call the thread has no time for.
pub(crate) const TOO_MANY: &str = "too many callers bind at this time; bind again";

/// What a caller is told whose call is out of place.
pub(crate) const OUT_OF_PLACE: &str = "it is no part of a handshake that goes on";

/// The handshakes at an address, and the calls by which they are made.
pub(crate) struct Handshakes<C> {
    pub(crate) acceptor: Acceptor,
    /// Number of their interface.
    pub(crate) interface: u16,
    queue: Arc<Queue<C>>,
    begun: Mutex<HashMap<BindingId, Handshake>>,
}

/// A handshake on a provisional binding.
pub(crate) struct Handshake {
    pub(crate) tls: ServerHandshake,
    hellos: u32,
    /// The sealed binding that it has led to.
    pub(crate) bound: Option<BindingId>,
    begun_ns: u64,
}

/// An endpoint at which callers authenticate themselves.
pub(crate) trait Authenticates: Endpoint {
    /// Answers a call of a handshake. Returns the call that has waited for it, if there is one.
    fn answer_handshake(&self, call: Self::Call) -> Option<Self::Call>;
}

/// Calls on their way to the thread.
struct Queue<C> {
    calls: Mutex<Waiting<C>>,
    arrived: Condvar,
}

struct Waiting<C> {
    calls: VecDeque<C>,
    has_thread: bool,
}

impl<C> Queue<C> {
    /// The next call; `None`: there has been none for a while, and the thread leaves.
    fn next(&self) -> Option<C> {
        let waiting = locked(&self.calls);
        let is_empty = |waiting: &mut Waiting<C>| waiting.calls.is_empty();
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(waiting, LINGER, is_empty)
            .unwrap_or_else(PoisonError::into_inner);
        let call = waiting.calls.pop_front();
        waiting.has_thread = call.is_some();
        call
    }
}

/// The thread of handshakes.
fn serve<E: Authenticates>(queue: &Queue<E::Call>, pool: &Weak<WorkerPool<E>>) {
    while let Some(call) = queue.next() {
        // Not while it waits: the address is free again when the server has ended.
        let Some(pool) = pool.upgrade() else { return };
        let mut next = Some(call);
        while let Some(call) = next {
            next = pool.endpoint.answer_handshake(call);
        }
    }
}

impl<C: Send + 'static> Handshakes<C> {
    /// Adds the interface of handshakes to those of the address.
    pub(crate) fn new(acceptor: Acceptor, interfaces: &mut Interfaces) -> Self {
        let calls = Mutex::new(Waiting { calls: VecDeque::new(), has_thread: false });
        Self {
            acceptor,
            interface: interfaces.add(INTERFACE.for_exchange()) as u16,
            queue: Arc::new(Queue { calls, arrived: Condvar::new() }),
            begun: Mutex::default(),
        }
    }

    /// Leaves a call to the thread. Returns the call if too many wait, or the system gives no thread.
    pub(crate) fn enqueue<E: Authenticates<Call = C>>(
        &self,
        call: C,
        pool: impl FnOnce() -> Weak<WorkerPool<E>>,
    ) -> Option<C> {
        let mut waiting = locked(&self.queue.calls);
        if waiting.calls.len() >= QUEUE_MAX {
            return Some(call);
        }
        waiting.calls.push_back(call);
        if !waiting.has_thread {
            let (queue, pool) = (Arc::clone(&self.queue), pool());
            if threads::start("stoop-handshakes", move || serve(&queue, &pool)).is_err() {
                // Nothing would answer it, and a server that shuts down would wait for it.
                return waiting.calls.pop_back();
            }
            waiting.has_thread = true;
        }
        drop(waiting);
        self.queue.arrived.notify_one();
        None
    }

    /// The answer to a call on a provisional binding; `None`: the call is out of place. `grant` answers messages of a caller that has
    /// authenticated itself.
    pub(crate) fn answer(
        &self,
        provisional: BindingId,
        procedure: u16,
        bytes: &[u8],
        grant: impl FnOnce(&mut Handshake, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        match procedure {
            HELLO => Some(self.hello(provisional, bytes)),
            FINISH => self.finish(provisional, bytes, grant),
            _ => None,
        }
    }

    /// Takes the beginning of a caller's handshake, and returns the server's part.
    fn hello(&self, provisional: BindingId, bytes: &[u8]) -> Vec<u8> {
        let (mut begun, now_ns) = (locked(&self.begun), clock::now_ns());
        begun.retain(|_, it| now_ns.saturating_sub(it.begun_ns) < HANDSHAKE_NANOS);
        if begun.len() >= HANDSHAKES_MAX
            && let Some(oldest) = begun.iter().min_by_key(|(_, it)| it.begun_ns).map(|(id, _)| *id)
        {
            begun.remove(&oldest);
        }
        let handshake = begun.entry(provisional).or_insert_with(|| Handshake {
            tls: self.acceptor.begin(),
            hellos: 0,
            bound: None,
            begun_ns: now_ns,
        });
        handshake.hellos += 1;
        let goes_on = handshake.hellos <= HELLOS && handshake.tls.input(bytes);
        let output = handshake.tls.output();
        if !goes_on {
            begun.remove(&provisional);
        }
        output
    }

    /// Takes the end of a caller's handshake, or a message after it, and returns the answer.
    fn finish(
        &self,
        provisional: BindingId,
        bytes: &[u8],
        grant: impl FnOnce(&mut Handshake, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut begun = locked(&self.begun);
        let handshake = begun.get_mut(&provisional)?;
        if !handshake.tls.input(bytes) {
            // The caller learns why.
            let mut failed = begun.remove(&provisional)?;
            return Some(failed.tls.output());
        }
        let message = handshake.tls.read();
        if message.is_empty() {
            return None;
        }
        let answer = grant(handshake, &message)?;
        handshake.tls.write(&answer);
        Some(handshake.tls.output())
    }

    /// The caller of a handshake, if its key or certificate has a name.
    pub(crate) fn peer(&self, handshake: &Handshake) -> Option<Peer> {
        if let Some(name) = handshake.tls.certified_name() {
            return Some(Peer::new(name, None));
        }
        let key = handshake.tls.caller()?;
        Some(Peer::new(self.acceptor.keys.name_of(&key)?, Some(key.to_string().into())))
    }

    /// Tells which callers are served now.
    pub(crate) fn served(&self) -> impl Fn(Option<PublicKey>) -> bool {
        let keys = &self.acceptor.keys;
        // Read once, for there may be many bindings.
        let listed = keys.callers.as_ref().map(|callers| callers.names());
        move |caller| {
            let is_listed = |key: &PublicKey| listed.as_ref().is_some_and(|listed| listed.contains_key(key));
            caller.is_none_or(|key| keys.admits_unlisted(&key) || is_listed(&key))
        }
    }
}
