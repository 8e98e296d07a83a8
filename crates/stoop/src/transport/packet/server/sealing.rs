//! The handshakes and the sealed bindings of an address of packets.

use crate::context::keeper;
use crate::context::peer::Peer as Caller;
use crate::security::tls::Acceptor;
use crate::serving::counters::HandshakeCounters;
use crate::serving::handshake_thread::Authenticates;
use crate::serving::handshakes::{Handshake, Handshakes, OUT_OF_PLACE, Refused, TOO_MANY};
use crate::serving::identity;
use crate::serving::workers::Endpoint;
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::protection::sealed::{SealedBinding, SealedBindings};
use crate::transport::packet::server::call::PacketCall;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::run::ANSWER_MAX;
use crate::transport::packet::server::worker::WorkerState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_exchange::server::{Authenticated, AuthenticatedCaller, Server};
use stoop_exchange::{Instant, Interfaces};
use stoop_net::clock;
use stoop_seal::Side;
use stoop_wire::{BindingId, HEADER_LEN};

/// Time between two looks at the sealed bindings.
const LOOK_NANOS: u64 = 1_000_000_000;

/// What a sealed address has for handshakes.
pub(super) struct Sealing<P> {
    handshakes: Handshakes<PacketCall<P>>,
    pub(super) bindings: Arc<SealedBindings>,
    /// Calls of handshakes so far.
    calls: AtomicU64,
    next_look_ns: AtomicU64,
}

impl<P: Send + 'static> Sealing<P> {
    /// Adds the interface of handshakes to those that the exchange knows.
    pub(super) fn new(acceptor: Acceptor, interfaces: &mut Interfaces) -> Self {
        Self {
            handshakes: Handshakes::new(acceptor, interfaces),
            bindings: Arc::default(),
            calls: AtomicU64::new(0),
            next_look_ns: AtomicU64::new(0),
        }
    }
}

impl<P> Drop for Sealing<P> {
    /// The name of a caller is known as long as the binding.
    fn drop(&mut self) {
        self.bindings.retain(|id, _| {
            Caller::leave(id);
            false
        });
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Whether a call belongs to a handshake.
    #[inline]
    pub(super) fn is_of_handshake(&self, call: &PacketCall<S::Peer>) -> bool {
        self.sealing.as_ref().is_some_and(|sealing| call.assignment.interface == sealing.handshakes.interface)
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

    /// How handshakes have ended so far.
    pub(super) fn handshake_counters(&self) -> HandshakeCounters {
        self.sealing.as_ref().map_or_else(Default::default, |sealing| sealing.handshakes.counters())
    }

    /// A binding has ended.
    #[cold]
    pub(super) fn forget_handshake(&self, binding: BindingId) {
        if let Some(sealing) = &self.sealing {
            sealing.handshakes.has_ended(binding);
        }
    }

    /// Calls of handshakes so far.
    pub(super) fn handshake_calls(&self) -> u64 {
        self.sealing.as_ref().map_or(0, |sealing| sealing.calls.load(Ordering::Relaxed))
    }

    fn enqueue(&self, call: PacketCall<S::Peer>) {
        let sealing = self.sealing.as_ref().expect("it has handshakes");
        let procedure = call.assignment.procedure;
        let mut refused = sealing.handshakes.enqueue((call, procedure), || self.open_calls.answers());
        while let Some(call) = refused {
            refused = self.answer_with(call, Err(TOO_MANY));
        }
    }

    /// Answers a call of a handshake. Returns the next one of its lane, if that came meanwhile.
    fn answer_with(
        &self,
        call: PacketCall<S::Peer>,
        answer: Result<Vec<u8>, Refused>,
    ) -> Option<PacketCall<S::Peer>> {
        if let Some(sealing) = &self.sealing {
            sealing.calls.fetch_add(1, Ordering::Relaxed);
        }
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
            Err((code, why)) => {
                assignment.refuse(code, why);
            }
        }
        if assignment.answer_len() > ANSWER_MAX && assignment.is_large() {
            assignment.leave_in_parts();
        } else {
            self.send(assignment.answer(), &assignment.peer);
        }
        self.finish_with(now_ns, assignment, |exchange| self.transmit_all(&mut self.worker(), exchange))
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
        let (now, named) =
            (Instant::from_nanos(now_ns), identity::peer(&sealing.handshakes.acceptor.keys, &handshake.tls));
        let name = named.as_ref().map(Caller::name);
        let caller = AuthenticatedCaller {
            owner: named.as_ref().map(Caller::owner),
            denial: &|interface| self.exports.denial(interface, name),
        };
        let mut exchange = self.exchange();
        match exchange.answer_authenticated(now, peer, &caller, packet, &mut answer) {
            Authenticated::Reply => {}
            Authenticated::Nothing => return None,
            Authenticated::Bound(id) if handshake.bound == Some(id) => {}
            // Of another caller, whose binding this one has named.
            Authenticated::Bound(_) if handshake.bound.is_some() => return None,
            Authenticated::Bound(id) => {
                let caller = handshake.tls.caller();
                let seal = handshake.tls.keys(id).map(|keys| keys.seal(Side::Server, now_ns));
                let Some(seal) = seal else {
                    exchange.end_binding(id);
                    return None;
                };
                if !sealing.bindings.add(SealedBinding::new(id, seal, caller)) {
                    return None;
                }
                handshake.bound = Some(id);
                sealing.handshakes.count_bound();
                if let Some(named) = named {
                    named.enter(id);
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
        sealing.handshakes.sweep();
        let serves = identity::served(&sealing.handshakes.acceptor.keys);
        sealing.bindings.retain(|id, binding| {
            let is_served = serves(binding.peer);
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

impl<S: ServerEndpoint> Authenticates for PacketEndpoint<S> {
    fn answer_handshake(&self, mut call: PacketCall<S::Peer>) -> Option<PacketCall<S::Peer>> {
        let sealing = self.sealing.as_ref()?;
        let packet = call.assignment.take_packet();
        let ((binding, ..), procedure, peer) =
            (call.assignment.identity(), call.assignment.procedure, call.assignment.peer);
        let (arguments, _) = call.assignment.arguments_and_result(&packet);
        let grant = |handshake: &mut Handshake, message: &[u8]| self.grant(sealing, handshake, peer, message);
        let answer = sealing.handshakes.answer(binding, procedure, arguments, grant);
        self.answer_with(call, answer.ok_or(OUT_OF_PLACE))
    }
}
