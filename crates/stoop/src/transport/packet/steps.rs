//! The interpreter of the exchange's steps for one call at its caller: short or large, blocking or begun.
//!
//! [`caller::Lane`] decides how a packet, a timeout or a closed port changes the call. [`Steps`] sends the packets that it asks for, and
//! returns the rest to the call's driver: to place a part of the result, to end the call, to bind again.

use crate::error::{BindError, CallError, Failure, FailureCode, Refusal, SendError, UnknownCause};
use crate::transport::packet::checksum;
use crate::transport::packet::link::{CallerEndpoint, Sending};
use crate::transport::packet::session::Session;
use std::io;
use stoop_exchange::Instant;
use stoop_exchange::caller::{self, Due, Heard, Lost, Part};
use stoop_exchange::outcome::Unbound;
use stoop_wire::{HEADER_LEN, Header, Receipt};

/// Why a call has ended without a result.
pub(crate) enum Ended {
    /// With this error.
    With(CallError),
    /// The server does not know the binding.
    Unbound(Unbound),
}

/// One call, for a step of it.
pub(crate) struct Steps<'a, E> {
    pub(crate) lane: &'a mut caller::Lane,
    pub(crate) session: &'a Session,
    pub(crate) endpoint: &'a E,
    /// The call packet; of a long call at least the room of a header.
    pub(crate) packet: &'a mut [u8],
    /// The call has many packets.
    pub(crate) is_large: bool,
    /// Bytes of a result that may be on their way to the endpoint.
    pub(crate) window: u32,
}

impl<E: CallerEndpoint> Steps<'_, E> {
    /// Carries out `heard`, the lane's judgement of `packet`, unless that is the whole result. Returns the part of the result that the
    /// packet brought, if any.
    #[cold]
    pub(crate) fn hear(
        &mut self,
        clock: Instant,
        heard: Heard,
        packet: &[u8],
    ) -> Result<Option<Part>, Ended> {
        match heard {
            Heard::Part(part) => return Ok(Some(part)),
            Heard::Receipt => {
                let mut path = self.session.path(self.endpoint, self.lane.path());
                self.lane.take_receipt(clock, packet, &mut path);
            }
            Heard::Prove(proof) => self.prove(clock, &proof),
            // The server has all of the call.
            Heard::Progress if self.is_large && self.lane.last_was_acknowledged() => self.settle(),
            Heard::Result { .. } | Heard::Progress | Heard::Ignored => {}
            Heard::Unbound(refusal) => return Err(Ended::Unbound(refusal)),
            Heard::Refused(refused) => {
                let refusal = Refusal::new(refused, detail(packet));
                return Err(Ended::With(CallError::Refused(refusal)));
            }
            Heard::Failed(code) => {
                let failure = Failure { code, detail: detail(packet) };
                return Err(Ended::With(CallError::Failed(failure)));
            }
        }
        Ok(None)
    }

    /// Proves the caller's address to the server, and sends the call again if it is one packet.
    fn prove(&mut self, clock: Instant, proof: &[u8]) {
        // If this is lost or cannot be sent, the server asks again when the call is sent again.
        let proven = checksum::send(self.endpoint, proof);
        if !self.is_large && proven.is_ok() {
            self.lane.stamp_again(clock, self.packet);
            let _ = checksum::send(self.endpoint, self.packet);
        }
    }

    /// Handles the timeouts that are due at `clock`. Returns why the call is lost, if it is.
    #[cold]
    pub(crate) fn on_timeout(&mut self, clock: Instant) -> Option<Lost> {
        let due = self.lane.handle_timeout(clock, self.packet);
        self.carry_out(clock, due)
    }

    /// Handles the system's report that the server's port is closed. Returns why the call is lost, if it is.
    #[cold]
    pub(crate) fn on_unreachable(&mut self, clock: Instant) -> Option<Lost> {
        let due = self.lane.handle_unreachable(clock);
        self.carry_out(clock, due)
    }

    fn carry_out(&mut self, clock: Instant, due: Due) -> Option<Lost> {
        if !matches!(due, Due::Nothing | Due::Abandon(_)) {
            self.endpoint.follow_route();
        }
        match due {
            Due::Nothing => {}
            // A packet that the system does not send is treated like a lost one: the next timeout sends it again.
            Due::Retransmit => drop(send(self.endpoint, self.packet)),
            Due::Probe(packet) | Due::Cancel(packet) => drop(send(self.endpoint, &packet)),
            Due::Resume => {
                let mut path = self.session.path(self.endpoint, self.lane.path());
                self.lane.resume(clock, &mut path);
            }
            Due::Receipt => self.send_receipt(clock),
            Due::Abandon(lost) => return Some(lost),
        }
        None
    }

    /// Tells the server which parts of the result have arrived. The lane repeats a receipt that is lost.
    pub(crate) fn send_receipt(&mut self, clock: Instant) {
        let mut packet = [0; Receipt::MAX_PACKET];
        let len = self.lane.receipt(clock, self.window, &mut packet);
        if len > 0 {
            let _ = checksum::send(self.endpoint, &packet[..len]);
        }
    }

    /// Returns to the window the bytes of a large call that were on their way.
    pub(crate) fn settle(&mut self) {
        if let Some(mut path) = self.session.known_path() {
            self.lane.settle(&mut path);
        }
    }

    /// Ends the call, which is lost, and returns its error.
    #[cold]
    pub(crate) fn give_up(&mut self, clock: Instant, lost: Lost) -> CallError {
        let was_closed = self.session.shows_closed_port(self.lane, lost);
        let effort = self.lane.abandon(clock).expect("a call that is given up is outstanding");
        if was_closed {
            // The error of a byte stream whose server refuses the connection.
            let (server, cause) = (self.session.uri.clone(), io::ErrorKind::ConnectionRefused.into());
            return CallError::NotSent(SendError::Bind(Box::new(BindError::Unreachable { server, cause })));
        }
        CallError::Unknown {
            transmissions: effort.transmissions,
            waited: effort.waited,
            cause: match lost {
                Lost::DeadlinePassed | Lost::ServerSilent if self.endpoint.is_cut_off() => {
                    UnknownCause::InterfaceDown
                }
                Lost::DeadlinePassed => UnknownCause::DeadlinePassed,
                Lost::ServerSilent => UnknownCause::ServerSilent,
                Lost::PortClosed => UnknownCause::PortClosed,
            },
        }
    }
}

/// Sends one packet, with its checksum if it has one. The system may answer with an error about an earlier packet instead of
/// sending this one; the second attempt sends it.
#[cold]
pub(crate) fn send(endpoint: &impl CallerEndpoint, packet: &[u8]) -> io::Result<()> {
    match checksum::send(endpoint, packet)? {
        Sending::Sent => Ok(()),
        Sending::Refused => checksum::send(endpoint, packet).map(|_| ()),
    }
}

/// Memory of `room` bytes for a result of `len` bytes. The system gives pages only as bytes arrive there.
///
/// # Errors
/// The process has none left.
#[cold]
pub(crate) fn result_memory(len: usize, room: usize) -> Result<Vec<u8>, CallError> {
    stoop_exchange::zeroed(room).ok_or_else(|| too_large(crate::message_buffer::no_memory_for_result(len)))
}

/// Checks the length that a server announces of a result.
///
/// # Errors
/// It is longer than `longest`.
pub(crate) fn check_result_len(len: usize, longest: usize) -> Result<(), CallError> {
    if len <= longest {
        return Ok(());
    }
    Err(too_large(format!("it has {len} bytes, and `BindOptions::max_message` allows {longest}")))
}

fn too_large(detail: String) -> CallError {
    CallError::Failed(Failure { code: FailureCode::ResultTooLarge, detail })
}

/// The text that the server adds to a refusal or a failure.
fn detail(packet: &[u8]) -> String {
    let payload =
        Header::parse(packet).map_or(&packet[HEADER_LEN.min(packet.len())..], |(_, payload)| payload);
    match payload {
        [] => String::new(),
        text => String::from_utf8_lossy(text).into_owned(),
    }
}
