//! The handshakes and the sealed connections of an address of byte streams.
//!
//! A connection begins in the clear. A caller binds to the interface of handshakes, authenticates itself by calls, and is granted a binding
//! in the last of them. Then it releases the provisional binding: all bytes behind that message, in both directions, are sealed.

use crate::context::peer::Peer;
use crate::serving::binder::{Asker, Bound, Malformed, MissingResource};
use crate::serving::handshake_thread::Authenticates;
use crate::serving::handshakes::{Handshake, OUT_OF_PLACE, Refused, TOO_MANY};
use crate::serving::identity;
use crate::transport::stream::server::StreamEndpoint;
use crate::transport::stream::server::call::{ReceivedCall, StreamCall};
use crate::transport::stream::server::connection::Connection;
use crate::transport::stream::server::sealed::{Granted, Sealing};
use std::sync::Arc;
use stoop_exchange::stream::Message;
use stoop_wire::{HEADER_LEN, Header, Kind, RefusalCode};

/// Bytes of a message of a handshake at most.
const MESSAGE_MAX: usize = 32 << 10;

impl StreamEndpoint {
    /// Leaves a call of a handshake to the thread that answers such calls.
    #[cold]
    pub(super) fn take_handshake(&self, connection: &Arc<Connection>, message: &Message<'_>) {
        let header = message.header;
        if message.payload().len() > MESSAGE_MAX {
            return self.send_refusal(connection, &header, RefusalCode::MessageTooLarge, "");
        }
        if !self.service.activity.begin_call() {
            self.send_refusal(connection, &header, RefusalCode::ShuttingDown, "");
            return self.service.activity.end_call();
        }
        let mut received = ReceivedCall::blank(Vec::new());
        message.copy_to(&mut received.packet);
        (received.header, received.procedure) = (header, header.procedure);
        let call = StreamCall { connection: Arc::clone(connection), received };
        let sealing = self.sealing.as_ref().expect("it has handshakes");
        if let Some(call) = sealing.handshakes.enqueue((call, header.procedure), || self.open_calls.answers())
        {
            self.answer_in_clear(&call, Err(TOO_MANY));
        }
    }

    fn answer_in_clear(&self, call: &StreamCall, answer: Result<Vec<u8>, Refused>) {
        let header = call.header;
        match answer {
            Ok(bytes) => {
                let mut result = Header::bare(Kind::Result, header.binding, header.lane, header.number);
                result.message_len = bytes.len() as u32;
                self.send(&call.connection, result, &mut [&[0; HEADER_LEN], &bytes[..]].concat());
            }
            Err((code, why)) => self.send_refusal(&call.connection, &header, code, why),
        }
        self.service.activity.end_call();
    }

    /// Answers a packet of an authenticated caller. A connection is granted one binding.
    fn grant(
        &self,
        sealing: &Sealing<StreamCall>,
        connection: &Connection,
        handshake: &mut Handshake,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        let (header, payload) = Header::parse(packet).ok()?;
        let mut granted = connection.granted();
        let mut bound = granted.as_ref().map(|granted| granted.bound);
        let named = identity::peer(&sealing.handshakes.acceptor.keys, &handshake.tls);
        let bind = || match &named {
            Some(named) => self.connections.bind_for(connection, named.owner()),
            None => self.connections.bind(connection),
        };
        let prepare = |_| if bind() { Ok(()) } else { Err(MissingResource::Share) };
        let asked = (&header, payload);
        let asker = (Asker::Authenticated, named.as_ref().map(Peer::name));
        let answer = self.service.answer_question(&mut bound, asker, asked, prepare);
        let (_, answer) = answer.ok()?;
        if let Some(bound) = bound.filter(|_| granted.is_none()) {
            let keys = handshake.tls.keys(bound.binding)?;
            handshake.bound = Some(bound.binding);
            sealing.handshakes.count_bound();
            *granted = Some(Granted { bound, keys, caller: handshake.tls.caller() });
            let is_open = self.connections.if_open(connection, || {
                if let Some(named) = named {
                    named.enter(bound.binding);
                }
                self.count_binding(connection, bound.binding);
            });
            if !is_open {
                return None;
            }
        }
        Some(answer)
    }

    /// When callers of sealed connections are looked at.
    pub(super) fn next_look_ns(&self) -> u64 {
        self.sealing.as_ref().map_or(u64::MAX, Sealing::next_look_ns)
    }

    /// Ends the connections of callers that are not served any more.
    #[cold]
    pub(super) fn look_at_callers(&self, now_ns: u64) {
        let Some(sealing) = &self.sealing else { return };
        sealing.looks_at(now_ns);
        sealing.handshakes.sweep();
        let serves = identity::served(&sealing.handshakes.acceptor.keys);
        let is_sealed_for_other = |connection: &Arc<Connection>| {
            connection.stream.sealed().is_some_and(|sealed| !serves(sealed.peer))
        };
        for connection in self.connections.all().iter().filter(|connection| is_sealed_for_other(connection)) {
            self.close(connection);
        }
    }

    /// A connection has ended.
    pub(super) fn forget_caller(&self, connection: &Connection) {
        if let Some(binding) = connection.bound_as().filter(|_| self.sealing.is_some()) {
            Peer::leave(binding);
        }
    }
}

impl Connection {
    /// Seals the connection, whose caller has released the provisional binding; `early`: bytes received behind that.
    ///
    /// # Errors
    /// No binding was granted, or the caller has not taken its answers: an honest one has.
    pub(super) fn seal(&self, early: Vec<u8>) -> Result<Bound, Malformed> {
        let granted = self.granted().take().ok_or(Malformed)?;
        let bound = granted.bound;
        self.seal_with(granted.into_sealed(early))?;
        Ok(bound)
    }
}

impl Authenticates for StreamEndpoint {
    fn answer_handshake(&self, call: StreamCall) -> Option<StreamCall> {
        let sealing = self.sealing.as_ref()?;
        let grant = |handshake: &mut Handshake, message: &[u8]| {
            self.grant(sealing, &call.connection, handshake, message)
        };
        let bytes = &call.packet[HEADER_LEN..HEADER_LEN + call.header.message_len as usize];
        let answer = sealing.handshakes.answer(call.header.binding, call.procedure, bytes, grant);
        self.answer_in_clear(&call, answer.ok_or(OUT_OF_PLACE));
        None
    }
}
