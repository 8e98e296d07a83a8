//! The answers to bind requests on a connection, by which it becomes a binding.

use crate::host_facts;
use crate::serving::service::Service;
use std::sync::atomic::Ordering;
use stoop_net::clock;
use stoop_net::host;
use stoop_wire::bind::{
    BindReply, BindRequest, BindStatus, Describe, Description, NO_CREDIT_LIMIT, ServerClock,
};
use stoop_wire::metadata::BLOCK_MAX;
use stoop_wire::{BindingId, Header, Kind, STREAM_FRAGMENT};

/// The binding of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) binding: BindingId,
    pub(crate) interface: u16,
    /// Caller and server can run at the same time.
    pub(crate) together: bool,
}

/// A resource that a new binding needs and the server does not have.
#[derive(Clone, Copy)]
pub(crate) enum MissingResource {
    /// The server's process has no descriptor or no memory left.
    Descriptors,
    /// The server's process may make no file as long as the memory of a binding.
    FileLength,
    /// The caller's host or user has as many bindings as it may have.
    Share,
}

impl MissingResource {
    /// In the reply.
    fn text(self) -> &'static str {
        match self {
            Self::Descriptors => crate::calling::refused_bind::NO_DESCRIPTORS,
            Self::FileLength => crate::calling::refused_bind::NO_FILE_LENGTH,
            Self::Share => crate::calling::refused_bind::NO_SHARE,
        }
    }
}

/// The peer that asks, as far as the server knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The server does not serve its user.
    NotAllowed,
    /// The server serves it, and has no proof that it is the same all the time.
    Allowed,
    /// It has proved that it has its key, and asks by a way that no other can use.
    #[cfg(feature = "seal")]
    Authenticated,
}

impl Asker {
    /// A peer that the server serves or does not serve.
    pub(crate) fn new(is_allowed: bool) -> Self {
        if is_allowed { Self::Allowed } else { Self::NotAllowed }
    }

    fn is_authenticated(self) -> bool {
        !matches!(self, Self::NotAllowed | Self::Allowed)
    }
}

/// The peer broke the protocol.
#[derive(Debug)]
pub(crate) struct Malformed;

impl Service {
    /// Answers a question of binding, or about a procedure, of a caller with that name. Returns the answer's header, and the whole packet.
    ///
    /// `prepare` is called once for a new binding to an interface.
    pub(crate) fn answer_question(
        &self,
        bound: &mut Option<Bound>,
        (asker, name): (Asker, Option<&str>),
        (header, payload): (&Header, &[u8]),
        prepare: impl FnOnce(u16) -> Result<(), MissingResource>,
    ) -> Result<(Header, Vec<u8>), Malformed> {
        let (kind, binding, answer) = match header.kind {
            Kind::Bind => {
                let request = BindRequest::decode(payload).ok_or(Malformed)?;
                let reply = self.bind(bound, (asker, name), header, &request, prepare)?;
                (Kind::BindReply, bound.map_or(BindingId::NONE, |bound| bound.binding), reply.encode())
            }
            Kind::Describe if self.describes_to(asker) => {
                let asked = Describe::decode(payload).ok_or(Malformed)?;
                let signature = self.interfaces.signature(&asked).into();
                let description = Description { nonce: asked.nonce, signature };
                (Kind::Description, BindingId::NONE, description.encode())
            }
            _ => return Err(Malformed),
        };
        let mut header = Header::bare(kind, binding, header.lane, header.number);
        header.message_len = answer.len() as u32;
        Ok((header, [&header.to_bytes()[..], &answer].concat()))
    }

    fn describes_to(&self, asker: Asker) -> bool {
        asker.is_authenticated() || asker == Asker::Allowed && self.handshakes.is_none()
    }

    /// Answers a bind request. A connection has one binding, which the first page of fingerprints makes. There is none if the peer is
    /// not served, or if `prepare`, which is called once for a new binding to an interface, reports a [`MissingResource`].
    fn bind(
        &self,
        bound: &mut Option<Bound>,
        (asker, name): (Asker, Option<&str>),
        header: &Header,
        request: &BindRequest,
        prepare: impl FnOnce(u16) -> Result<(), MissingResource>,
    ) -> Result<BindReply, Malformed> {
        let continues = bound.is_some_and(|bound| bound.binding == header.binding);
        if (request.first > 0) != continues || (bound.is_some() && !continues) {
            return Err(Malformed);
        }
        let (mut status, mut procedures, interface) =
            match self.interfaces.compare(&request.interface, &request.fingerprints) {
                Ok((number, procedures)) => (BindStatus::Bound, procedures, number as u16),
                Err((status, procedures)) => (status, procedures, 0),
            };
        let other = bound.is_some_and(|bound| bound.interface != interface);
        if other && status == BindStatus::Bound {
            return Err(Malformed);
        }
        status = self.checked((status, interface), asker, request);
        let denial = if status == BindStatus::Bound { self.denial(interface, name) } else { None };
        status = if denial.is_some() { BindStatus::Denied } else { status };
        let mut missing = None;
        if status == BindStatus::Bound && bound.is_none() {
            missing = prepare(interface).err();
        }
        if missing.is_some() {
            status = BindStatus::Full;
            self.binds_refused.fetch_add(1, Ordering::Relaxed);
        }
        use BindStatus::{Denied, Full, NotAllowed, SealedOnly};
        if matches!(status, NotAllowed | Full | SealedOnly | Denied) {
            procedures.clear();
        }
        if status == BindStatus::Bound && bound.is_none() {
            *bound = Some(self.new_binding(interface, asker, request));
        }
        let text = denial.or_else(|| missing.map(|missing| missing.text().into()));
        Ok(self.reply(request, (status, procedures), text))
    }

    /// Why a caller with that name may call nothing of an interface.
    fn denial(&self, interface: u16, name: Option<&str>) -> Option<String> {
        self.exports.denial(usize::from(interface), name)
    }

    /// The answer to a request that compares as `compared`, with regard to the server's state and the peer's rights.
    fn checked(
        &self,
        (compared, interface): (BindStatus, u16),
        asker: Asker,
        request: &BindRequest,
    ) -> BindStatus {
        let is_handshake = |number| compared == BindStatus::Bound && interface == number;
        match compared {
            _ if asker == Asker::NotAllowed => BindStatus::NotAllowed,
            // One way for each: a handshake in the clear, and all else sealed.
            _ if self.handshakes.is_some_and(|number| is_handshake(number) == asker.is_authenticated()) => {
                BindStatus::SealedOnly
            }
            _ if self.activity.is_shutting_down() => BindStatus::ShuttingDown,
            _ if request.required != 0 => BindStatus::UnknownFlags(request.required),
            compared => compared,
        }
    }

    fn new_binding(&self, interface: u16, asker: Asker, request: &BindRequest) -> Bound {
        // Never zero, which stands for none.
        let number = BindingId(u64::from_le_bytes(host::random_bytes()).max(1));
        Bound {
            binding: if asker.is_authenticated() { number.sealed() } else { number.with_checksum(false) },
            interface,
            together: host::can_run_together(&self.own, &host_facts::from_wire(&request.host)),
        }
    }

    fn reply(
        &self,
        request: &BindRequest,
        (status, procedures): (BindStatus, Vec<u16>),
        text: Option<String>,
    ) -> BindReply {
        let host = host_facts::to_wire(&self.own);
        let now_ns = clock::boot_now_ns();
        BindReply {
            status,
            nonce: request.nonce,
            incarnation: self.incarnation,
            chosen: 0,
            // As long as the connection lives.
            silence_ms: u32::MAX,
            max_message: u32::try_from(self.message_max).unwrap_or(u32::MAX),
            window: 0,
            host,
            first: request.first,
            procedures,
            text: text.unwrap_or_else(|| self.interfaces.reply_text(status, &host, &request.host)),
            clock: Some(ServerClock { now_ns, up_ns: now_ns.saturating_sub(self.started_ns) }),
            packet_data: STREAM_FRAGMENT as u32,
            lanes: self.lanes,
            credit: NO_CREDIT_LIMIT,
            metadata: BLOCK_MAX as u32,
        }
    }
}
