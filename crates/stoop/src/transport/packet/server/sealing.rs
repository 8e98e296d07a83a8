//! The handshakes of a sealed address: callers authenticate themselves by calls, which one thread of their own answers.
//!
//! No worker runs them: all may be in long procedures. The thread starts with the first handshake and leaves when there has been none for
//! a while. Its time is all that a flood of handshakes takes; calls on sealed bindings do not meet it.

use crate::context::keeper;
use crate::context::peer::Peer as Caller;
use crate::locked::locked;
use crate::security::keys::PublicKey;
use crate::security::tls::{Acceptor, ServerHandshake};
use crate::serving::workers::{Endpoint, WorkerPool};
use crate::transport::packet::handshake::{FINISH, HELLO, INTERFACE};
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::protection::sealed::{SealedBinding, SealedBindings};
use crate::transport::packet::server::call::PacketCall;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::run::ANSWER_MAX;
use crate::transport::packet::server::worker::WorkerState;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;
use stoop_exchange::server::{Authenticated, Server};
use stoop_exchange::{Instant, Interfaces};
use stoop_net::{clock, threads};
use stoop_wire::{BindingId, HEADER_LEN, RefusalCode};

/// Calls that wait for the thread at most.
const QUEUE_MAX: usize = 64;

/// Handshakes that have begun at most; then the oldest is given up.
const HANDSHAKES_MAX: usize = 1024;

/// Time for a handshake.
const HANDSHAKE_NANOS: u64 = 10_000_000_000;

/// Time without a handshake after which the thread leaves.
const LINGER: Duration = Duration::from_secs(10);

/// Time between two looks at the sealed bindings.
const LOOK_NANOS: u64 = 1_000_000_000;

/// Calls of `hello` of one handshake.
const HELLOS: u32 = 2;

/// What a sealed address has for handshakes.
pub(super) struct Sealing<P> {
    acceptor: Acceptor,
    /// Number of the interface of handshakes.
    interface: u16,
    pub(super) bindings: Arc<SealedBindings>,
    queue: Arc<Queue<P>>,
    handshakes: Mutex<HashMap<BindingId, Handshake>>,
    next_look_ns: AtomicU64,
}

/// A handshake on a provisional binding.
struct Handshake {
    tls: ServerHandshake,
    hellos: u32,
    /// The sealed binding that it has led to.
    bound: Option<BindingId>,
    begun_ns: u64,
}

/// Calls on their way to the thread.
struct Queue<P> {
    calls: Mutex<Waiting<P>>,
    arrived: Condvar,
}

struct Waiting<P> {
    calls: VecDeque<PacketCall<P>>,
    has_thread: bool,
}

impl<P> Sealing<P> {
    /// Adds the interface of handshakes to those that the exchange knows.
    pub(super) fn new(acceptor: Acceptor, interfaces: &mut Interfaces) -> Self {
        let calls = Mutex::new(Waiting { calls: VecDeque::new(), has_thread: false });
        Self {
            acceptor,
            interface: interfaces.add(INTERFACE.for_exchange()) as u16,
            bindings: Arc::default(),
            queue: Arc::new(Queue { calls, arrived: Condvar::new() }),
            handshakes: Mutex::default(),
            next_look_ns: AtomicU64::new(0),
        }
    }
}

impl<P> Queue<P> {
    /// The next call; `None`: there has been none for a while, and the thread leaves.
    fn next(&self) -> Option<PacketCall<P>> {
        let waiting = locked(&self.calls);
        let is_empty = |waiting: &mut Waiting<P>| waiting.calls.is_empty();
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
fn serve<S: ServerEndpoint>(queue: &Queue<S::Peer>, pool: &Weak<WorkerPool<PacketEndpoint<S>>>) {
    while let Some(call) = queue.next() {
        // Not while it waits: the address is free again when the server has ended.
        let Some(pool) = pool.upgrade() else { return };
        let mut next = Some(call);
        while let Some(call) = next {
            next = pool.endpoint.answer_handshake(call);
        }
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Whether a call belongs to a handshake.
    #[inline]
    pub(super) fn is_of_handshake(&self, call: &PacketCall<S::Peer>) -> bool {
        self.sealing.as_ref().is_some_and(|sealing| call.assignment.interface == sealing.interface)
    }

    /// Leaves a call that the worker has received by itself to the thread of handshakes.
    #[cold]
    pub(super) fn hand_over(&self, worker: &WorkerState<S>, mut call: PacketCall<S::Peer>) {
        call.keep_packet(&worker.buffers);
        self.enqueue(call);
    }

    /// The same of those among the worker's calls that came together in these packets.
    pub(super) fn hand_over_some(&self, worker: &mut WorkerState<S>, packets: &[u8]) {
        if self.sealing.is_none() || !worker.batch.calls.iter().any(|call| self.is_of_handshake(call)) {
            return;
        }
        for mut call in std::mem::take(&mut worker.batch.calls) {
            if self.is_of_handshake(&call) {
                call.keep_packet_of(packets);
                self.enqueue(call);
            } else {
                worker.batch.calls.push_back(call);
            }
        }
    }

    fn enqueue(&self, call: PacketCall<S::Peer>) {
        let sealing = self.sealing.as_ref().expect("it has handshakes");
        let mut waiting = locked(&sealing.queue.calls);
        if waiting.calls.len() >= QUEUE_MAX {
            drop(waiting);
            let mut next = Some(call);
            while let Some(call) = next {
                next = self.answer_with(call, Err("too many callers bind at this time; bind again"));
            }
            return;
        }
        waiting.calls.push_back(call);
        if !waiting.has_thread {
            let (queue, pool) = (Arc::clone(&sealing.queue), self.open_calls.answers());
            // Without a thread the next call tries again; this one is answered then, or its caller gives up.
            waiting.has_thread = threads::start("stoop-handshakes", move || serve(&queue, &pool)).is_ok();
        }
        drop(waiting);
        sealing.queue.arrived.notify_one();
    }

    /// Answers a call of a handshake. Returns the call of the same lane that has waited for it.
    fn answer_handshake(&self, mut call: PacketCall<S::Peer>) -> Option<PacketCall<S::Peer>> {
        let packet = call.assignment.take_packet();
        let ((binding, ..), procedure, peer) =
            (call.assignment.identity(), call.assignment.procedure, call.assignment.peer);
        let (arguments, _) = call.assignment.arguments_and_result(&packet);
        let answer = match procedure {
            HELLO => self.hello(binding, arguments),
            FINISH => self.finish_handshake(binding, peer, arguments),
            _ => None,
        };
        self.answer_with(call, answer.ok_or("it is no part of a handshake that goes on"))
    }

    fn answer_with(
        &self,
        call: PacketCall<S::Peer>,
        answer: Result<Vec<u8>, &str>,
    ) -> Option<PacketCall<S::Peer>> {
        let PacketCall { mut assignment, .. } = call;
        let now_ns = clock::now_ns();
        match answer {
            Ok(bytes) => {
                let (packet, end) = (assignment.packet_mut(), HEADER_LEN + bytes.len());
                if packet.len() < end {
                    packet.resize(end, 0);
                }
                packet[HEADER_LEN..end].copy_from_slice(&bytes);
                assignment.complete(Instant::from_nanos(now_ns), bytes.len());
            }
            Err(why) => {
                assignment.refuse(RefusalCode::Overloaded, why);
            }
        }
        if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
            assignment.leave_in_parts();
        } else {
            self.send(assignment.answer(), &assignment.peer);
        }
        self.finish_with(now_ns, assignment, |exchange| self.transmit_all(&mut self.worker(), exchange))
    }

    /// Takes the beginning of a caller's handshake, and returns the server's part.
    fn hello(&self, provisional: BindingId, bytes: &[u8]) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_ref()?;
        let (mut handshakes, now_ns) = (locked(&sealing.handshakes), clock::now_ns());
        handshakes.retain(|_, it| now_ns.saturating_sub(it.begun_ns) < HANDSHAKE_NANOS);
        if handshakes.len() >= HANDSHAKES_MAX
            && let Some(oldest) = handshakes.iter().min_by_key(|(_, it)| it.begun_ns).map(|(id, _)| *id)
        {
            handshakes.remove(&oldest);
        }
        let handshake = handshakes.entry(provisional).or_insert_with(|| Handshake {
            tls: sealing.acceptor.begin(),
            hellos: 0,
            bound: None,
            begun_ns: now_ns,
        });
        handshake.hellos += 1;
        let goes_on = handshake.hellos <= HELLOS && handshake.tls.input(bytes);
        let output = handshake.tls.output();
        if !goes_on {
            handshakes.remove(&provisional);
        }
        Some(output)
    }

    /// Takes the end of a caller's handshake, or a message after it, and returns the answer.
    fn finish_handshake(&self, provisional: BindingId, peer: S::Peer, bytes: &[u8]) -> Option<Vec<u8>> {
        let sealing = self.sealing.as_ref()?;
        let mut handshakes = locked(&sealing.handshakes);
        let handshake = handshakes.get_mut(&provisional)?;
        if !handshake.tls.input(bytes) {
            // The caller learns why.
            let mut failed = handshakes.remove(&provisional)?;
            return Some(failed.tls.output());
        }
        let message = handshake.tls.read();
        if message.is_empty() {
            return None;
        }
        let answer = self.grant(sealing, handshake, peer, &message)?;
        handshake.tls.write(&answer);
        Some(handshake.tls.output())
    }

    /// Has the exchange answer a packet of an authenticated caller. The binding that it grants has keys before its caller knows of it.
    fn grant(
        &self,
        sealing: &Sealing<S::Peer>,
        handshake: &mut Handshake,
        peer: S::Peer,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        let (now_ns, mut answer) = (clock::now_ns(), Vec::new());
        let mut exchange = self.exchange();
        match exchange.answer_authenticated(Instant::from_nanos(now_ns), peer, packet, &mut answer) {
            Authenticated::Reply => {}
            Authenticated::Nothing => return None,
            Authenticated::Bound(id) if handshake.bound == Some(id) => {}
            // Of another caller, whose binding this one has named.
            Authenticated::Bound(_) if handshake.bound.is_some() => return None,
            Authenticated::Bound(id) => {
                let caller = handshake.tls.caller();
                let sealed = handshake.tls.seal(id, now_ns).map(|seal| SealedBinding::new(id, seal, caller));
                let Some(sealed) = sealed else {
                    exchange.end_binding(id);
                    return None;
                };
                if !sealing.bindings.add(sealed) {
                    return None;
                }
                handshake.bound = Some(id);
                let named = caller.and_then(|key| Some((key, sealing.acceptor.keys.name_of(&key)?)));
                if let Some((key, name)) = named {
                    Caller::new(name, key.to_string().into()).enter(id);
                }
            }
        }
        self.note_and_wake(exchange);
        Some(answer)
    }

    /// Forgets the keys of bindings that have ended, and ends those of callers that are not served any more.
    pub(super) fn sweep_seals(&self, exchange: &mut Server<S::Peer>, now_ns: u64) {
        let Some(sealing) = &self.sealing else { return };
        if now_ns < sealing.next_look_ns.load(Ordering::Relaxed) {
            return;
        }
        sealing.next_look_ns.store(now_ns + LOOK_NANOS, Ordering::Relaxed);
        let keys = &sealing.acceptor.keys;
        // Read once, for there may be many bindings.
        let listed = keys.callers.as_ref().map(|callers| callers.names());
        let is_listed = |key: &PublicKey| listed.as_ref().is_some_and(|listed| listed.contains_key(key));
        sealing.bindings.retain(|id, binding| {
            let is_served = binding.peer.is_none_or(|key| keys.admits_unlisted(&key) || is_listed(&key));
            if !is_served && exchange.end_binding(id) {
                keeper::end_binding(id);
            }
            let stays = is_served && exchange.is_bound(id);
            if !stays {
                Caller::leave(id);
            }
            stays
        });
    }
}
