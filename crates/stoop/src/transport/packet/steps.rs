//! The exchange's interpreter of a call's steps, over a packet link: a call ends with an error for its caller.

use crate::error::{BindError, CallError, Failure, FailureCode, Refusal, SendError, UnknownCause};
use crate::transport::packet::link::{CallerEndpoint, Sending};
use crate::transport::packet::session::Session;
use std::io;
use std::ops::DerefMut;
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{self, Lost, NoResult};
use stoop_exchange::outcome::Unbound;
use stoop_exchange::{Instant, RoundTrip};
use stoop_wire::{HEADER_LEN, Header};

/// Why a call has ended without a result.
pub(crate) enum Ended {
    /// With this error.
    With(CallError),
    /// The server does not know the binding.
    Unbound(Unbound),
}

/// An endpoint, and the session whose server it leads to.
pub(crate) struct Way<'a, E> {
    pub(crate) session: &'a Session,
    pub(crate) endpoint: &'a E,
}

impl<E: CallerEndpoint> caller::Way for Way<'_, E> {
    /// The system may answer with an error about an earlier packet instead of sending this one; the second attempt sends it.
    #[cold]
    fn send(&mut self, packet: &[u8]) -> bool {
        match self.session.protection.send(self.endpoint, packet) {
            Ok(Sending::Sent) => true,
            Ok(Sending::Refused) => self.session.protection.send(self.endpoint, packet).is_ok(),
            Err(_) => false,
        }
    }

    fn follow_route(&mut self) {
        self.endpoint.follow_route();
    }

    fn path(&mut self, round_trip: RoundTrip) -> impl DerefMut<Target = Path> {
        self.session.path(self.endpoint, round_trip)
    }

    fn known_path(&mut self) -> Option<impl DerefMut<Target = Path>> {
        self.session.known_path()
    }
}

/// One call, for a step of it: short or large, blocking or begun.
pub(crate) type Steps<'a, E> = caller::Steps<'a, Way<'a, E>>;

impl Ended {
    /// By this answer of the server, which is in `packet`.
    #[cold]
    pub(crate) fn by(answer: NoResult, packet: &[u8]) -> Self {
        match answer {
            NoResult::Unbound(refusal) => Self::Unbound(refusal),
            NoResult::Refused(refused) => {
                Self::With(CallError::refused(Refusal::new(refused, detail(packet))))
            }
            NoResult::Failed(code) => Self::With(CallError::failed(Failure { code, detail: detail(packet) })),
        }
    }
}

/// Ends the call, which is lost, and returns its error.
#[cold]
pub(crate) fn give_up<E: CallerEndpoint>(steps: &mut Steps<'_, E>, clock: Instant, lost: Lost) -> CallError {
    let &mut Steps { ref mut lane, way: Way { session, endpoint }, .. } = steps;
    let was_closed = session.shows_closed_port(lane, lost);
    let effort = lane.abandon(clock).expect("a call that is given up is outstanding");
    if was_closed {
        // The error of a byte stream whose server refuses the connection.
        let (server, cause) = (session.uri.clone(), io::ErrorKind::ConnectionRefused.into());
        return CallError::not_sent(SendError::Bind(Box::new(BindError::Unreachable { server, cause })));
    }
    CallError::Unknown {
        transmissions: effort.transmissions,
        waited: effort.waited,
        cause: match lost {
            Lost::DeadlinePassed | Lost::ServerSilent if endpoint.is_cut_off() => UnknownCause::InterfaceDown,
            Lost::DeadlinePassed => UnknownCause::DeadlinePassed,
            Lost::ServerSilent => UnknownCause::ServerSilent,
            Lost::PortClosed => UnknownCause::PortClosed,
        },
        callee: None,
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
    CallError::failed(Failure { code: FailureCode::ResultTooLarge, detail })
}

/// The text that the server adds to a refusal or a failure.
fn detail(packet: &[u8]) -> String {
    let payload =
        Header::parse(packet).map_or(&packet[HEADER_LEN.min(packet.len())..], |(_, payload)| payload);
    // The length of a pipe comes before it.
    let behind = if Header::tells_pipe(packet) { size_of::<u64>() } else { 0 };
    match payload.get(behind..).unwrap_or_default() {
        [] => String::new(),
        text => String::from_utf8_lossy(text).into_owned(),
    }
}
