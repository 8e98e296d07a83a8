//! Binding over a connection: the questions and answers that all transports have for it, over a byte stream.

use crate::calling::unbind_notice;
use crate::error::{BindError, CROWDED, SHUTTING_DOWN, UnbindReason};
use crate::interface::Interface;
use crate::users::Users;
use std::fmt::Display;
use std::io;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::stream::{Reassembler, StreamEvent, Violation};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::stream::{Stream, StreamAddress, StreamArrival};
use stoop_wire::bind::BindStatus;
use stoop_wire::{HEADER_LEN, Header, Kind};

/// The parts of a binding.
pub(crate) struct Plan<'a> {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: &'a str,
    pub(crate) address: &'a StreamAddress,
    /// Of a Unix socket: whose server it may be.
    pub(crate) trusted: &'a Users,
}

/// Why there is no binding.
#[derive(Debug)]
pub(crate) struct NotBound {
    pub(crate) error: BindError,
    /// Where else the server can be reached, if it has said so.
    pub(crate) offers: String,
}

impl From<BindError> for NotBound {
    fn from(error: BindError) -> Self {
        Self { error, offers: String::new() }
    }
}

/// A connection on which a binding is being made.
pub(crate) struct Handshake<'a> {
    plan: &'a Plan<'a>,
    pub(crate) stream: Stream,
    pub(crate) own: HostFacts,
    begun: Instant,
    deadline: Instant,
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

impl<'a> Handshake<'a> {
    /// Connects.
    pub(crate) fn connect(plan: &'a Plan<'a>, deadline: Instant) -> Result<Self, BindError> {
        let begun = now();
        let unreachable = |cause| BindError::Unreachable { server: plan.uri.into(), cause };
        let stream = Stream::connect(plan.address, deadline.since(begun)).map_err(unreachable)?;
        // Before anything is sent: a process of another user that listens there learns nothing.
        if let Some(peer) = stream.peer_credentials().map_err(unreachable)?
            && !plan.trusted.contains(peer.uid)
        {
            let (user, own) = (peer.uid, host::effective_user());
            return Err(BindError::OtherUser { server: plan.uri.into(), user, own });
        }
        Ok(Self { plan, stream, own: HostFacts::gather(), begun, deadline })
    }

    /// Asks for a binding to that interface.
    pub(crate) fn binder(&self, interface: &'static Interface) -> Binder {
        let nonce = u64::from_le_bytes(host::random_bytes());
        let (interface, own) = (interface.for_exchange(), crate::host_facts::to_wire(&self.own));
        Binder::new(self.begun, self.deadline, interface, own, nonce)
    }

    /// Gets a binding from the server. `intake` takes the arriving bytes; later messages of the connection may go on with it.
    pub(crate) fn bind(&self, intake: &mut Reassembler) -> Result<Bound, NotBound> {
        let mut binder = self.binder(self.plan.interface);
        let mut packet = vec![0; Reassembler::BUFFER_LEN];
        loop {
            // Once each: nothing is lost on a stream.
            if binder.transmissions() == 0
                && let Some(question) = binder.transmit(now())
            {
                self.ask(&question)?;
            }
            if now() >= self.deadline {
                return Err(self.no_answer().into());
            }
            let Some(header) = self.message(intake, &mut packet)? else { continue };
            let len = HEADER_LEN + header.message_len as usize;
            match binder.handle_packet(now(), &packet[..len]) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => return Ok(bound),
                BindStep::Refused(status, text) => {
                    let offers = if status == BindStatus::NotAllowed { text.clone() } else { String::new() };
                    return Err(NotBound { error: self.not_bound(BindStep::Refused(status, text)), offers });
                }
                step => return Err(self.not_bound(step).into()),
            }
        }
    }

    /// Sends a packet.
    pub(crate) fn ask(&self, packet: &[u8]) -> Result<(), BindError> {
        // A server that has closed the connection may have said why before.
        let unsent = |cause| match unbind_notice::receive(&self.stream) {
            Some(why) => self.ended(why),
            None => self.unreachable(cause),
        };
        self.stream.send_all(packet, &[]).map_err(unsent)
    }

    /// Waits for a message and puts its packet into `packet`; `None` when there is none yet.
    ///
    /// # Errors
    /// The connection has ended, or the server has ended it and said why.
    pub(crate) fn message(
        &self,
        intake: &mut Reassembler,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Header>, BindError> {
        match self.stream.recv_within(intake.space(), self.limit_ns()) {
            Ok(StreamArrival::Bytes(len)) => intake.received(len),
            Ok(StreamArrival::Nothing) => return Ok(None),
            Ok(StreamArrival::Closed) => return Err(self.closed()),
            Err(cause) => return Err(self.unreachable(cause)),
        }
        match intake.poll().map_err(|why| self.violation(&why))? {
            None => Ok(None),
            Some(StreamEvent::Message(message)) => {
                let header = message.header;
                message.take(packet);
                match header.kind {
                    Kind::Unbind => Err(self.ended(UnbindReason::from_code(header.time))),
                    _ => Ok(Some(header)),
                }
            }
            Some(StreamEvent::NotTaken(..) | StreamEvent::Data(_)) => {
                Err(self.protocol("it sends a result before any call"))
            }
        }
    }

    /// Nanoseconds that are left, at least one.
    fn limit_ns(&self) -> u64 {
        self.left_ns().max(1)
    }

    /// When the caller stops waiting.
    #[cfg(feature = "seal")]
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The server's address.
    #[cfg(feature = "seal")]
    pub(crate) fn uri(&self) -> &str {
        self.plan.uri
    }

    /// Nanoseconds that are left.
    pub(crate) fn left_ns(&self) -> u64 {
        self.deadline.since(now()).as_nanos() as u64
    }

    /// Waits until something can be received, and has the next receive wait no more.
    ///
    /// # Errors
    /// `WouldBlock`: nothing came until the deadline.
    pub(crate) fn await_bytes(&self) -> io::Result<()> {
        while !self.stream.sleep_until_readable(self.limit_ns())? {
            if now() >= self.deadline {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(())
    }

    fn not_bound(&self, step: BindStep) -> BindError {
        crate::calling::refused_bind::not_bound(step, self.plan.interface, self.plan.uri)
    }

    pub(crate) fn unreachable(&self, cause: io::Error) -> BindError {
        BindError::Unreachable { server: self.plan.uri.into(), cause }
    }

    pub(crate) fn protocol(&self, why: impl Display) -> BindError {
        BindError::Protocol { server: self.plan.uri.into(), why: why.to_string() }
    }

    fn violation(&self, why: &Violation) -> BindError {
        match why {
            Violation::OtherVersion(theirs) => self.not_bound(BindStep::OtherVersion(*theirs)),
            why => self.protocol(why),
        }
    }

    pub(crate) fn no_answer(&self) -> BindError {
        BindError::NoAnswer { server: self.plan.uri.into(), waited: now().since(self.begun) }
    }

    /// The server has ended it, and said why.
    pub(crate) fn ended(&self, why: UnbindReason) -> BindError {
        let server = self.plan.uri.into();
        match why {
            UnbindReason::ShuttingDown => BindError::Refused { server, why: SHUTTING_DOWN },
            UnbindReason::NoResources => BindError::Refused {
                server,
                why: "its process has no descriptor or no memory left; raise its limit (ulimit -n)",
            },
            UnbindReason::Crowded => BindError::Refused { server, why: CROWDED },
            why => self.protocol(format!("it ended the connection: {why}; build both ends from one version")),
        }
    }

    /// Why the server has ended the connection, if that was received with an earlier message.
    pub(crate) fn farewell_in(&self, intake: &mut Reassembler) -> Option<BindError> {
        match intake.poll() {
            Ok(Some(StreamEvent::Message(message))) if message.header.kind == Kind::Unbind => {
                Some(self.ended(UnbindReason::from_code(message.header.time)))
            }
            _ => None,
        }
    }

    pub(crate) fn closed(&self) -> BindError {
        let why = "it closed the connection instead of binding; it is no Stoop server, or has too many connections that are not bound yet";
        self.unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }
}
