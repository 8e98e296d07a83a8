//! How a caller gets the memory: it binds over a Unix socket, by the packets of all transports, and then asks for the memory.

use crate::calling::unbind_notice;
use crate::context::{Caller, Credentials};
use crate::serving::binder::{Binder, Bound, MissingResource};
use crate::serving::dispatch::Exports;
use crate::transport::shm::server::binding::Binding;
use crate::users::Users;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use stoop_net::Patience;
use stoop_net::clock;
use stoop_net::host;
use stoop_net::poller::Bell;
use stoop_net::stream::{Stream, StreamArrival};
use stoop_shm::{Arena, Segment, descriptors, layout};
use stoop_wire::bind::{BindRequest, Describe, Description};
use stoop_wire::{
    BindingId, HEADER_LEN, Header, HeaderError, Kind, MAX_DATAGRAM, PACKET_DATA, UnbindReason, Versions,
};

/// A connection that is not a binding yet.
pub(super) struct Handshake {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    /// The server serves its user.
    allowed: bool,
    bound: Option<Bound>,
    /// The memory that it will be asked for.
    made: Option<Made>,
    /// What has arrived and is not a whole packet yet.
    received: Vec<u8>,
}

/// What a binding needs of the system.
struct Made {
    segment: Segment,
    arena: Option<Arc<Arena>>,
    memory: OwnedFd,
    bell: Bell,
}

impl Made {
    fn new(arena_len: usize) -> io::Result<Self> {
        let (segment, arena, memory) = Segment::create_with_arena(arena_len)?;
        Ok(Self { segment, arena, memory, bell: Bell::new()? })
    }
}

/// What the endpoint offers to callers that bind.
pub(super) struct Offer<'a> {
    pub(super) binder: Binder<'a>,
    pub(super) exports: &'a Exports,
    /// Bytes of the arena of a binding whose interface has buffers.
    pub(super) arena_len: usize,
    /// The bindings that there are.
    pub(super) bindings: &'a HashMap<u64, Arc<Binding>>,
}

/// How a handshake goes on.
pub(super) enum Step {
    /// More is to come.
    Continue,
    /// The caller has the memory.
    Attached(Bound, Segment, Option<Arc<Arena>>, Bell),
    /// It is over.
    Close,
    /// It is over, for the peer broke the protocol.
    Malformed,
}

/// Descriptors that a binding takes at the server: of its socket, and of its bell.
const DESCRIPTORS_EACH: u64 = 2;
/// Bindings of one guest take at most one in so many of all descriptors.
const GUEST_SHARE: u64 = 4;

fn user_of(caller: &Caller) -> Option<u32> {
    match caller {
        Caller::Process(process) => Some(process.uid),
        _ => None,
    }
}

/// Whether a caller is served because its user was let in, and not because it is the server's own, or root.
fn is_guest(caller: &Caller) -> bool {
    user_of(caller).is_some_and(|user| user != 0 && user != host::effective_user())
}

/// Whether there are as many bindings of the caller's user as one guest may have: there must be room for the others.
fn has_its_share(caller: &Caller, bindings: &HashMap<u64, Arc<Binding>>) -> bool {
    let held = bindings.values().filter(|binding| user_of(&binding.caller) == user_of(caller)).count();
    held as u64 >= host::descriptors_max() / (DESCRIPTORS_EACH * GUEST_SHARE)
}

impl Handshake {
    /// The user of its peer.
    pub(super) fn user(&self) -> Option<u32> {
        user_of(&self.caller)
    }

    pub(super) fn new(stream: Stream, allowed: &Users) -> io::Result<Self> {
        let peer = stream.peer_credentials()?.ok_or(io::ErrorKind::Unsupported)?;
        let pid = peer.pid.map_or(0, |pid| pid as i32);
        let caller = Caller::Process(Credentials { uid: peer.uid, gid: peer.gid, pid });
        let allowed = allowed.contains(peer.uid);
        Ok(Self { stream, caller, allowed, bound: None, made: None, received: Vec::new() })
    }

    /// Receives some bytes and answers them. If there are more, the poller says so again: a caller that asks without end keeps no other
    /// waiting.
    pub(super) fn advance(&mut self, offer: &Offer<'_>) -> Step {
        let mut buffer = [0; 2 * MAX_DATAGRAM];
        match self.stream.recv(&mut buffer, Patience::DontWait) {
            Ok(StreamArrival::Bytes(len)) => self.received.extend_from_slice(&buffer[..len]),
            Ok(StreamArrival::Nothing) => return Step::Continue,
            Ok(StreamArrival::Closed) | Err(_) => return Step::Close,
        }
        loop {
            let packet = match self.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Step::Continue,
                Err(step) => return step,
            };
            match self.answer(offer, &packet) {
                Step::Continue => {}
                step => return step,
            }
        }
    }

    /// Takes a whole packet out of what was received.
    fn next_packet(&mut self) -> Result<Option<Vec<u8>>, Step> {
        let Some(header) = self.received.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let len = match Header::from_bytes(header) {
            Ok(header) if header.message_len as usize <= PACKET_DATA => {
                HEADER_LEN + header.message_len as usize
            }
            Err(HeaderError::Version(_)) => {
                if let Some(answer) = Versions::answer_to(header) {
                    let _ = self.stream.try_send(&[IoSlice::new(&answer)]);
                }
                return Err(Step::Malformed);
            }
            _ => return Err(Step::Malformed),
        };
        if self.received.len() < len {
            return Ok(None);
        }
        let rest = self.received.split_off(len);
        Ok(Some(std::mem::replace(&mut self.received, rest)))
    }

    fn answer(&mut self, offer: &Offer<'_>, packet: &[u8]) -> Step {
        let Ok((header, payload)) = Header::parse(packet) else { return Step::Malformed };
        match header.kind {
            Kind::Bind => match BindRequest::decode(payload) {
                Some(request) => self.bind(offer, &header, &request),
                None => Step::Malformed,
            },
            Kind::Describe => match Describe::decode(payload) {
                Some(asked) if self.allowed => {
                    let signature = offer.binder.interfaces.signature(&asked).into();
                    let description = Description { nonce: asked.nonce, signature };
                    self.reply(Kind::Description, &header, BindingId::NONE, &description.encode())
                }
                _ => Step::Malformed,
            },
            Kind::Attach => match self.bound {
                Some(bound) if bound.binding == header.binding => self.attach(&header, bound),
                _ => Step::Malformed,
            },
            Kind::Unbind => Step::Close,
            _ => Step::Malformed,
        }
    }

    /// Answers a bind request.
    fn bind(&mut self, offer: &Offer<'_>, header: &Header, request: &BindRequest) -> Step {
        let (made, caller) = (&mut self.made, self.caller);
        // At once: the answer can say that the system has no descriptor or memory left.
        let make = |interface: u16| {
            if is_guest(&caller) && has_its_share(&caller, offer.bindings) {
                return Err(MissingResource::Share);
            }
            let has_buffers = offer.exports.all[usize::from(interface)].interface().has_buffers();
            let arena_len = if has_buffers { offer.arena_len } else { 0 };
            *made = Some(Made::new(arena_len).map_err(|why| match why.kind() {
                io::ErrorKind::FileTooLarge => MissingResource::FileLength,
                _ => MissingResource::Descriptors,
            })?);
            Ok(())
        };
        let Ok(reply) = offer.binder.answer(&mut self.bound, self.allowed, header, request, make) else {
            return Step::Malformed;
        };
        let id = self.bound.map_or(BindingId::NONE, |bound| bound.binding);
        self.reply(Kind::BindReply, header, id, &reply.encode())
    }

    /// Ends it, and tells its peer why.
    pub(super) fn end(self, why: UnbindReason) {
        unbind_notice::send(&self.stream, self.bound.map_or(BindingId::NONE, |bound| bound.binding), why);
    }

    fn reply(&self, kind: Kind, question: &Header, binding: BindingId, payload: &[u8]) -> Step {
        let mut header = Header::bare(kind, binding, question.lane, question.number);
        header.message_len = payload.len() as u32;
        let header = header.to_bytes();
        match self.stream.try_send(&[IoSlice::new(&header), IoSlice::new(payload)]) {
            Ok(sent) if sent == header.len() + payload.len() => Step::Continue,
            // A caller that does not read the answers does not want to bind.
            _ => Step::Close,
        }
    }

    /// Hands the memory over.
    fn attach(&mut self, question: &Header, bound: Bound) -> Step {
        let Some(Made { segment, arena, memory, bell }) = self.made.take() else { return Step::Malformed };
        let mut header = Header::bare(Kind::Attach, bound.binding, question.lane, question.number);
        header.time = layout::VERSION;
        stoop_shm::clock::tell(&segment, clock::now_ns());
        match descriptors::send(&self.stream, &header.to_bytes(), &memory, &bell) {
            Ok(true) => Step::Attached(bound, segment, arena, bell),
            Ok(false) | Err(_) => Step::Close,
        }
    }
}
