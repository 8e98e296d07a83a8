//! Binding, release of bindings, and proofs of address.

use super::hosts::OtherHosts;
use super::lanes::Lanes;
use super::replies::put;
use super::shares::Share;
use super::table::Binding;
use super::{Effect, Peer, Server};
use crate::Instant;
use crate::shares::Owner;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, CHECKSUM, Describe, Description, SEAL_INTERFACE};
use stoop_wire::metadata::BLOCK_MAX;
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId};

/// Time that the caller of a new binding has for its first call, before the binding may be released for another host.
const TIME_TO_CALL: Duration = Duration::from_secs(1);

/// Entries of the table at which the server looks for such a binding, for one bind.
const ENTRIES_SEARCHED: usize = 256;

/// A caller whose handshake has ended well; an anonymous one has no name.
pub struct AuthenticatedCaller<'a> {
    /// By its name, if it has one, it has its share of the server; else its host counts.
    pub owner: Option<Owner>,
    /// Why it may call nothing of the interface with that number; `None`: it may call something.
    pub denial: &'a dyn Fn(usize) -> Option<String>,
}

/// The owner of a binding, and why it may call nothing of an interface.
type Asker<'a> = (Owner, Option<&'a dyn Fn(usize) -> Option<String>>);

/// The answer to a packet of an authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticated {
    /// It grants this binding, or another page of it.
    Bound(BindingId),
    /// It grants none.
    Reply,
    /// There is none.
    Nothing,
}

impl<P: Peer> Server<P> {
    /// Asks the peer to prove that it receives at its address. The server stores nothing: the cookie contains what it
    /// needs.
    #[cold]
    pub(super) fn challenge(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        nonce: u64,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        self.counters.challenges += 1;
        let cookie = self.admission.cookie(now, peer.host(), peer.port(), nonce);
        let challenge = Header::bare(Kind::Challenge, header.binding, header.lane, header.number);
        put(reply, &challenge.with_challenge(Kind::Challenge, cookie), &[]);
        Effect::Reply
    }

    /// Asks a bound caller to prove that it receives at the address from which its packet came.
    #[cold]
    pub(super) fn challenge_caller(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        if let Some(binding) = self.bindings.get_mut(header.binding) {
            binding.others.challenge(&peer);
        }
        self.challenge(now, peer, header, header.binding.0, reply)
    }

    /// Moves a bound caller to another address, if it has proved that it receives there.
    #[cold]
    pub(super) fn on_proof(&mut self, now: Instant, peer: P, header: &Header) -> Effect<P> {
        match self.proven_host(now, &peer, header) {
            Some(host) => {
                if let Some(binding) = self.bindings.get_mut(header.binding) {
                    binding.move_to(host);
                    binding.heard = now;
                }
            }
            None => self.counters.malformed += 1,
        }
        Effect::Nothing
    }

    /// The host at which a proof shows that the binding's caller receives: the one from which the proof comes or, if the caller's
    /// packets take several ways, the one that was challenged.
    fn proven_host(&mut self, now: Instant, peer: &P, header: &Header) -> Option<[u8; 16]> {
        let cookie = header.challenge()?;
        let challenged = self.bindings.get_mut(header.binding)?.others.challenged();
        let places = [Some((peer.host(), peer.port())), challenged];
        let proves = |&(host, port): &_| self.admission.admits(now, host, port, header.binding.0, cookie);
        places.into_iter().flatten().find(proves).map(|(host, _)| host)
    }

    #[cold]
    pub(super) fn on_unbind(&mut self, peer: P, header: &Header) -> Effect<P> {
        match self.bindings.get_mut(header.binding) {
            Some(binding) if binding.is_from(&peer) => {
                self.release(header.binding);
                self.counters.unbound += 1;
                Effect::Unbound(header.binding)
            }
            _ => {
                self.counters.unknown_bindings += 1;
                Effect::Nothing
            }
        }
    }

    #[cold]
    pub(super) fn on_describe(
        &mut self,
        asked_in: &Header,
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        match !self.sealed_only && self.describe(asked_in, payload, reply) {
            true => Effect::Reply,
            false => Effect::Nothing,
        }
    }

    fn describe(&mut self, asked_in: &Header, payload: &[u8], reply: &mut Vec<u8>) -> bool {
        let Some(asked) = Describe::decode(payload) else {
            self.counters.malformed += 1;
            return false;
        };
        let signature = self.interfaces.signature(&asked).into();
        let payload = Description { nonce: asked.nonce, signature }.encode();
        let mut header =
            Header::bare(Kind::Description, asked_in.binding, LaneId(0), CallNumber(asked.nonce as u32));
        header.message_len = payload.len() as u32;
        put(reply, &header, &payload);
        true
    }

    /// Stores nothing before the cookie returns, so that forged addresses cannot fill the table or make the server
    /// amplify.
    #[cold]
    pub(super) fn on_bind(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let Some(request) = BindRequest::decode(payload) else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        if !self.admission.admits(now, peer.host(), peer.port(), request.nonce, request.cookie) {
            return self.challenge(now, peer, header, request.nonce, reply);
        }
        if self.sealed_only && request.interface != SEAL_INTERFACE {
            let reply_to = BindReply { status: BindStatus::SealedOnly, ..BindReply::granting(&request) };
            put_reply(reply, BindingId::NONE, header, &reply_to.encode());
            return Effect::Reply;
        }
        if ((request.required | request.wanted) & CHECKSUM != 0) != header.binding.has_checksum() {
            // Flags and header disagree: one of them is corrupt.
            self.counters.malformed += 1;
            return Effect::Nothing;
        }
        let checksum = header.binding.has_checksum() && self.limits.flags & CHECKSUM != 0;
        let plain = BindingId::NONE.with_checksum(checksum);
        if self.sealed_only {
            self.make_room_for_provisional(now);
        }
        let bound_before = self.counters.bound;
        let Some((binding, answer)) =
            self.bind(now, peer, (Owner::host(peer.host()), None), (header.binding, plain), &request)
        else {
            return Effect::Nothing;
        };
        if self.sealed_only && self.counters.bound > bound_before {
            self.provisional.add(now, binding, peer.host());
        }
        put_reply(reply, binding, header, &answer);
        Effect::Reply
    }

    /// Has the server make sealed bindings only: no others but to the interface at which callers authenticate themselves, and nothing is
    /// described but to callers that have.
    #[must_use]
    pub fn sealed_only(self) -> Self {
        Self { sealed_only: true, ..self }
    }

    /// Answers a packet that asks for a binding, or to describe a procedure, which an authenticated caller has sent by a way that no other
    /// can use. The packet to send back by that way is put into `reply`; the binding that it grants is sealed. Any other packet has no
    /// answer.
    pub fn answer_authenticated(
        &mut self,
        now: Instant,
        peer: P,
        caller: &AuthenticatedCaller<'_>,
        packet: &[u8],
        reply: &mut Vec<u8>,
    ) -> Authenticated {
        let Ok((header, payload)) = Header::parse(packet) else { return Authenticated::Nothing };
        match header.kind {
            Kind::Bind => {
                let Some(request) = BindRequest::decode(payload) else { return Authenticated::Nothing };
                let sealed = BindingId::NONE.sealed();
                let owner = caller.owner.unwrap_or_else(|| Owner::host(peer.host()));
                let asker = (owner, Some(caller.denial));
                let bound = self.bind(now, peer, asker, (header.binding, sealed), &request);
                let Some((binding, answer)) = bound else { return Authenticated::Nothing };
                put_reply(reply, binding, &header, &answer);
                match binding != sealed && self.bindings.get_mut(binding).is_some() {
                    true => Authenticated::Bound(binding),
                    false => Authenticated::Reply,
                }
            }
            Kind::Describe => match self.describe(&header, payload, reply) {
                true => Authenticated::Reply,
                false => Authenticated::Nothing,
            },
            _ => Authenticated::Nothing,
        }
    }

    /// Releases provisional bindings whose time has passed, or that are too many.
    fn make_room_for_provisional(&mut self, now: Instant) {
        let Self { provisional, bindings, limits, .. } = self;
        let is_there = |id| bindings.get_mut(id).is_some();
        for id in provisional.superfluous(now, limits.bindings, is_there) {
            self.release(id);
        }
    }

    /// Releases a binding, as its caller does. Returns whether there was one.
    pub fn end_binding(&mut self, id: BindingId) -> bool {
        let was_there = self.bindings.get_mut(id).is_some();
        self.release(id);
        was_there
    }

    /// Makes the binding, or finds the one that an earlier copy of the request has made. `None`: a late duplicate.
    fn bind(
        &mut self,
        now: Instant,
        peer: P,
        (owner, denial): Asker<'_>,
        (page_of, none): (BindingId, BindingId),
        request: &BindRequest,
    ) -> Option<(BindingId, Vec<u8>)> {
        let (mut status, mut procedures, interface) =
            match self.interfaces.compare(&request.interface, &request.fingerprints) {
                Ok((number, procedures)) => (BindStatus::Bound, procedures, number),
                Err((status, procedures)) => (status, procedures, 0),
            };
        let unknown = request.required & !self.limits.flags;
        if unknown != 0 {
            status = BindStatus::UnknownFlags(unknown);
        }
        if self.shutting_down {
            status = BindStatus::ShuttingDown;
        }
        let mut denied = None;
        if status == BindStatus::Bound {
            denied = denial.map_or_else(|| self.interfaces.denial(interface), |denial| denial(interface));
        }
        if denied.is_some() {
            (status, procedures) = (BindStatus::Denied, Vec::new());
        }
        let mut id = none;
        if status == BindStatus::Bound && request.first > 0 {
            id = page_of;
        } else if status == BindStatus::Bound {
            self.forget_requests(now);
            // A copy of the request for a provisional binding may make another one: by that nothing runs twice, and a flood of them would
            // take the memory of requests from other callers.
            let is_remembered = !self.sealed_only || none.is_sealed();
            let made = is_remembered.then(|| self.admission.made_for(peer.host(), request.nonce));
            match made.flatten() {
                // The binding of this request has been released already: its calls must not run again under a new one.
                Some(made) if self.bindings.get_mut(made).is_none() => return None,
                // The binding of another request, whose checksum flag was corrupted.
                Some(made) if made.trailer_len() != none.trailer_len() => return None,
                Some(made) => id = made,
                None => match self.room_for_bind(now, owner, is_remembered) {
                    Some(share) => {
                        id = self.make_binding(now, peer, share, interface as u16, none, request);
                        if is_remembered {
                            self.admission.remember(now, peer.host(), request.nonce, (id, share.owner));
                        }
                    }
                    None => {
                        self.counters.full += 1;
                        status = BindStatus::Full;
                    }
                },
            }
        }
        let reply = BindReply {
            status,
            nonce: request.nonce,
            incarnation: self.admission.incarnation(),
            chosen: (request.required | request.wanted) & self.limits.flags,
            silence_ms: u32::try_from(self.limits.silence.as_millis()).unwrap_or(u32::MAX),
            max_message: self.limits.max_message,
            window: self.limits.window,
            host: self.host,
            first: request.first,
            procedures,
            text: denied.unwrap_or_else(|| self.interfaces.reply_text(status, &self.host, &request.host)),
            clock: Some(self.clock.read(now)),
            packet_data: id.packet_data() as u32,
            lanes: self.limits.lanes.into(),
            credit: self.credits.initial(),
            metadata: BLOCK_MAX as u32,
        };
        Some((id, reply.encode()))
    }

    /// Takes a binding for a new request of an owner, and a place to remember the request if it is to be.
    fn room_for_bind(&mut self, now: Instant, owner: Owner, is_remembered: bool) -> Option<Share> {
        let share = self.room_for_binding(now, owner)?;
        if !is_remembered || self.shares.take_request(share.owner) {
            return Some(share);
        }
        self.shares.unbind(&share);
        None
    }

    /// Forgets requests whose cookies have expired.
    fn forget_requests(&mut self, now: Instant) {
        while let Some(owner) = self.admission.forget_oldest(now) {
            self.shares.give_request_back(owner);
        }
    }

    /// Takes a binding for an owner. If the server has no more, or the owner its share, but less than its fair share, a binding of an owner
    /// that has more makes room: one on which no call has ever arrived, so that nothing is forgotten with it.
    fn room_for_binding(&mut self, now: Instant, owner: Owner) -> Option<Share> {
        if let Some(share) = self.shares.bind(owner) {
            return Some(share);
        }
        let fair = self.shares.fair_bindings(owner);
        let shares = &self.shares;
        if shares.bindings_of(owner) >= fair {
            return None;
        }
        let is_spare = |binding: &Binding<P>| {
            !binding.was_used()
                && now.since(binding.heard) >= TIME_TO_CALL
                && shares.owners.counts(binding.share.owner).bindings > fair
        };
        let spare = self.bindings.search(ENTRIES_SEARCHED, is_spare)?;
        self.release(spare);
        self.counters.reclaimed += 1;
        Some(self.shares.bind_in_place(owner))
    }

    /// Releases a binding with everything that it holds.
    fn release(&mut self, id: BindingId) {
        if let Some(binding) = self.bindings.remove(id) {
            self.shares.unbind(&binding.share);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn make_binding(
        &mut self,
        now: Instant,
        peer: P,
        share: Share,
        interface: u16,
        none: BindingId,
        request: &BindRequest,
    ) -> BindingId {
        let together = self.host.can_run_together(&request.host);
        let binding = Binding {
            host: peer.host(),
            others: OtherHosts::default(),
            interface,
            together,
            heard: now,
            result_max: request.max_message.clamp(stoop_wire::PACKET_DATA as u32, self.limits.max_message),
            window: request.window.max(stoop_wire::PACKET_DATA as u32),
            longest: 0,
            path: None,
            waiting: None,
            share,
            lanes: Lanes::default(),
        };
        let admission = &mut self.admission;
        let id = self.bindings.insert(binding, || BindingId(admission.draw()).like(none));
        self.counters.bound += 1;
        if self.next_sweep == Instant::NEVER {
            self.next_sweep = now + self.sweep_interval();
        }
        id
    }
}

/// Writes the packet of a bind reply to the request with this header.
fn put_reply(reply: &mut Vec<u8>, binding: BindingId, asked: &Header, payload: &[u8]) {
    let mut header = Header::bare(Kind::BindReply, binding, LaneId(0), asked.number);
    header.message_len = payload.len() as u32;
    put(reply, &header, payload);
}
