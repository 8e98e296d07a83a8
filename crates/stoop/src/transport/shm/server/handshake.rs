//! How a caller gets the memory: it binds over a Unix socket, by the packets of all transports, and then asks for the memory.

use crate::calling::unbind_notice;
use crate::context::Caller;
use crate::context::cancelled::CallId;
use crate::context::peer::Peer;
use crate::serving::binder::{Asker, Bound, MissingResource};
use crate::serving::service::{Service, caller_of};
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::binding_shares::{BindingShare, BindingShares};
use crate::users::Users;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use stoop_exchange::stream::{Bounds, Reassembler, StreamEvent, Violation};
use stoop_net::Patience;
use stoop_net::clock;
use stoop_net::host;
use stoop_net::poller::Bell;
use stoop_net::stream::{Stream, StreamArrival};
use stoop_shm::{Arena, Segment, descriptors, layout};
use stoop_wire::{BindingId, Header, Kind, UnbindReason};

/// A connection that is not a binding yet.
pub(super) struct Handshake {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    /// The server serves its user.
    allowed: bool,
    bound: Option<Bound>,
    /// The memory that it will be asked for.
    made: Option<Made>,
    intake: Reassembler,
}

/// The system resources of a binding, and its place among the bindings.
struct Made {
    share: BindingShare,
    segment: Segment,
    arena: Option<Arc<Arena>>,
    memory: OwnedFd,
    bell: Bell,
}

/// The bindings of an endpoint, by their tokens.
type All = HashMap<u64, Arc<Binding>>;

impl Made {
    /// Makes it for one more binding of a caller.
    fn new(
        caller: &Caller,
        bindings: &All,
        shares: &Arc<BindingShares>,
        arena_len: usize,
    ) -> Result<Self, MissingResource> {
        if is_guest(caller) && has_its_share(caller, bindings) {
            return Err(MissingResource::Share);
        }
        let share = shares.take(caller).ok_or(MissingResource::Share)?;
        let made = Segment::create_with_arena(arena_len).map_err(|why| match why.kind() {
            io::ErrorKind::FileTooLarge => MissingResource::FileLength,
            _ => MissingResource::Descriptors,
        });
        let (segment, arena, memory) = made?;
        let bell = Bell::new().map_err(|_| MissingResource::Descriptors)?;
        Ok(Self { share, segment, arena, memory, bell })
    }
}

/// How a handshake goes on.
pub(super) enum Step {
    /// More is to come.
    Continue,
    /// The caller has the memory.
    Attached(Bound, (Segment, Option<Arc<Arena>>), Bell, BindingShare),
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
fn has_its_share(caller: &Caller, bindings: &All) -> bool {
    let held = bindings.values().filter(|binding| user_of(&binding.caller) == user_of(caller)).count();
    held as u64 >= host::descriptors_max() / (DESCRIPTORS_EACH * GUEST_SHARE)
}

impl Handshake {
    /// The user of its peer.
    pub(super) fn user(&self) -> Option<u32> {
        user_of(&self.caller)
    }

    pub(super) fn new(stream: Stream, allowed: &Users) -> io::Result<Self> {
        let (caller, allowed) = caller_of(&stream, allowed)?;
        // No call comes this way.
        let bounds = Bounds { long: Kind::Call, message_max: 0, announced_max: 0, lanes: 1, pipes: false };
        Ok(Self { stream, caller, allowed, bound: None, made: None, intake: Reassembler::new(bounds) })
    }

    /// Receives some bytes and answers them. If there are more, the poller says so again: a caller that asks without end keeps no other
    /// waiting.
    pub(super) fn advance(
        &mut self,
        service: &Service,
        shares: &Arc<BindingShares>,
        arena_len: usize,
        bindings: &All,
    ) -> Step {
        match self.stream.recv(self.intake.space(), Patience::DontWait) {
            Ok(StreamArrival::Bytes(len)) => self.intake.received(len),
            Ok(StreamArrival::Nothing) => return Step::Continue,
            Ok(StreamArrival::Closed) | Err(_) => return Step::Close,
        }
        loop {
            let message = match self.intake.poll() {
                Ok(None) => return Step::Continue,
                Ok(Some(StreamEvent::Message(message))) => message,
                Err(Violation::Version { answer }) => {
                    let _ = self.stream.try_send(&[IoSlice::new(&answer)]);
                    return Step::Malformed;
                }
                Ok(Some(StreamEvent::NotTaken(..) | StreamEvent::Data(_))) | Err(_) => {
                    return Step::Malformed;
                }
            };
            let header = message.header;
            match (header.kind, self.bound) {
                (Kind::Unbind, _) => return Step::Close,
                (Kind::Attach, Some(bound)) if bound.binding == header.binding => {
                    return attach(&self.stream, self.made.take(), &header, bound);
                }
                _ => {}
            }
            // At once: the answer can say that the system has no descriptor or memory left.
            let make = |interface: u16| {
                let has_buffers = service.exports.all[usize::from(interface)].interface().has_buffers();
                // One that was made for an earlier question gives its place back first.
                self.made = None;
                let arena_len = if has_buffers { arena_len } else { 0 };
                self.made = Some(Made::new(&self.caller, bindings, shares, arena_len)?);
                Ok(())
            };
            let question = (&header, message.payload());
            let named = Peer::of(&self.caller, CallId::NONE);
            let asker = (Asker::new(self.allowed), named.as_ref().map(Peer::name));
            let Ok((_, answer)) = service.answer_question(&mut self.bound, asker, question, make) else {
                return Step::Malformed;
            };
            // A caller that does not read the answers does not want to bind.
            if self.stream.try_send(&[IoSlice::new(&answer)]).ok() != Some(answer.len()) {
                return Step::Close;
            }
        }
    }

    /// Ends it, and tells its peer why.
    pub(super) fn end(self, why: UnbindReason) {
        unbind_notice::send(&self.stream, self.bound.map_or(BindingId::NONE, |bound| bound.binding), why);
    }
}

/// Hands the memory over.
fn attach(stream: &Stream, made: Option<Made>, question: &Header, bound: Bound) -> Step {
    let Some(Made { share, segment, arena, memory, bell }) = made else { return Step::Malformed };
    let mut header = Header::bare(Kind::Attach, bound.binding, question.lane, question.number);
    header.time = layout::VERSION;
    stoop_shm::clock::tell(&segment, clock::now_ns());
    match descriptors::send(stream, &header.to_bytes(), &memory, &bell) {
        Ok(true) => Step::Attached(bound, (segment, arena), bell, share),
        Ok(false) | Err(_) => Step::Close,
    }
}
