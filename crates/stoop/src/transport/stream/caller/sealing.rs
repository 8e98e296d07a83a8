//! How a caller makes a sealed binding over a byte stream.

use crate::calling::handshake::{Handshake, NotBound};
use crate::calling::sealing::{Asking, Carrier, Granted, HANDSHAKE_MAX, cannot_seal};
use crate::error::{BindError, CallError, Refusal};
use crate::security::handshake::INTERFACE;
use crate::transport::remote::Plan;
use crate::transport::stream::caller::StreamTransport;
use crate::transport::stream::caller::session::MOST_LANES;
use crate::transport::stream::channel::Channel;
use crate::transport::stream::channel::sealed::SealedStream;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_exchange::stream::{Bounds, Reassembler};
use stoop_net::host::HostFacts;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, RefusalCode, left_of_nanos};

/// A sealed connection, and the binding on it.
pub(super) struct SealedConnection {
    pub(super) channel: Channel,
    pub(super) bound: Bound,
    pub(super) own: HostFacts,
}

/// Connects, and gets a sealed binding from the server.
pub(super) fn connect(
    plan: &Plan<'_, StreamTransport>,
    asking: &Asking,
    deadline: Instant,
) -> Result<SealedConnection, NotBound> {
    let connection =
        crate::calling::handshake::Plan { interface: &INTERFACE, ..plan.handshake(&plan.own.users) };
    let handshake = Handshake::connect(&connection, deadline)?;
    let mut intake = Reassembler::new(Bounds {
        long: Kind::Result,
        message_max: HANDSHAKE_MAX,
        announced_max: HANDSHAKE_MAX,
        lanes: MOST_LANES,
        pipes: false,
    });
    let provisional = handshake.bind(&mut intake).map_err(|why| cannot_seal(plan.uri, why.error))?.binding;
    let mut binder = handshake.binder(plan.interface);
    let mut carrier =
        Calls { handshake: &handshake, intake: &mut intake, provisional, last: CallNumber::ZERO };
    let Granted { bound, keys, server } = asking.converse(plan.interface, &mut carrier, &mut binder)?;
    // The last bytes in the clear, in both directions.
    let unbind = Header::bare(Kind::Unbind, provisional, LaneId(0), CallNumber::ZERO);
    handshake.ask(&unbind.to_bytes())?;
    if !intake.is_at_rest() {
        return Err(handshake.protocol("it sends more than the answers of a handshake").into());
    }
    let Handshake { stream, own, .. } = handshake;
    let channel = Channel::new(stream);
    channel.seal(SealedStream::new(keys.suite, (keys.of_caller, keys.of_server), server, Vec::new()));
    Ok(SealedConnection { channel, bound, own })
}

/// Calls on the provisional binding, one after the other.
struct Calls<'a, 'b> {
    handshake: &'a Handshake<'b>,
    intake: &'a mut Reassembler,
    provisional: BindingId,
    last: CallNumber,
}

impl Carrier for Calls<'_, '_> {
    fn deadline(&self) -> Instant {
        self.handshake.deadline()
    }

    fn uri(&self) -> &str {
        self.handshake.uri()
    }

    fn try_call(&mut self, procedure: u16, bytes: &[u8]) -> Result<Option<Vec<u8>>, BindError> {
        let Self { handshake, provisional, .. } = *self;
        self.last = self.last.next();
        let mut call = Header::bare(Kind::Call, provisional, LaneId(0), self.last);
        (call.procedure, call.message_len) = (procedure, bytes.len() as u32);
        call.time = left_of_nanos(handshake.left_ns());
        handshake.ask(&[&call.to_bytes(), bytes].concat())?;
        let mut packet = Vec::new();
        let answer = loop {
            match handshake.message(self.intake, &mut packet)? {
                Some(header) if header.is_closing_notice() => {}
                Some(header) => break header,
                None if handshake.left_ns() == 0 => return Err(handshake.no_answer()),
                None => {}
            }
        };
        let is_own = (answer.binding, answer.number) == (provisional, self.last);
        match answer.kind {
            Kind::Result if is_own => Ok(Some(packet[HEADER_LEN..][..answer.message_len as usize].to_vec())),
            Kind::Refusal if is_own && answer.refused().code == RefusalCode::Overloaded => Ok(None),
            Kind::Refusal if is_own => {
                let detail = String::from_utf8_lossy(&packet[HEADER_LEN..][..answer.message_len as usize]);
                let why = CallError::refused(Refusal::new(answer.refused(), detail.into_owned()));
                Err(handshake.unreachable(std::io::Error::other(format!("in the handshake: {why}"))))
            }
            _ => Err(handshake.protocol("it sends a message that is no part of a handshake")),
        }
    }
}
