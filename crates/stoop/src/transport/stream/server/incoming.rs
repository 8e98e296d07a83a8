//! Messages that arrive on a connection: calls, and the questions by which a caller binds.

use crate::context::cancelled::CallId;
use crate::context::peer::Peer;
use crate::pipes::queue::Disorder;
use crate::serving::binder::{Asker, Bound, Malformed, MissingResource};
use crate::serving::message_memory::NO_MEMORY_FOR_ARGUMENTS;
use crate::serving::terms::earliest_arrival;
use crate::transport::stream::server::StreamEndpoint;
use crate::transport::stream::server::call::{ReceivedCall, StreamCall};
use crate::transport::stream::server::connection::{Connection, Incoming};
use crate::transport::stream::server::numbers::Numbers;
use crate::transport::stream::server::worker::WorkerState;
use std::io::{self, IoSlice};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::stream::{Message, Reassembler, StreamEvent, Violation};
use stoop_net::Patience;
use stoop_net::clock;
use stoop_net::stream::StreamArrival;
use stoop_probe::{Point, stamp};
use stoop_wire::{HEADER_LEN, Header, Kind, RefusalCode, nanos_of_left};

/// The kind of a message.
enum Brought {
    Call(StreamCall),
    /// Something that has been answered.
    Nothing,
    /// The caller gives up its binding.
    End,
    /// It gives up the provisional one: from now on the connection is sealed.
    #[cfg(feature = "seal")]
    Sealed,
}

/// Receives from one connection before the others have their turn.
const ROUNDS: usize = 64;

impl StreamEndpoint {
    /// Receives what there is on a connection, waiting for it about `limit_ns`. Returns whether the connection is open.
    #[inline]
    pub(super) fn read(&self, worker: &mut WorkerState, connection: &Arc<Connection>, limit_ns: u64) -> bool {
        // Another thread reads it, and will not leave anything.
        let Some(mut incoming) = connection.try_incoming() else { return true };
        if incoming.has_ended {
            return false;
        }
        if !incoming.reassembler.has_input() {
            incoming.reassembler.lend_input(&mut worker.unused_input);
        }
        let mut limit_ns = limit_ns;
        for _ in 0..ROUNDS {
            let space = incoming.reassembler.space();
            let space_len = space.len();
            let arrival = match mem::take(&mut limit_ns) {
                0 => connection.stream.recv(space, Patience::DontWait),
                limit_ns => connection.stream.recv_about(space, limit_ns, u64::MAX),
            };
            match arrival {
                Ok(StreamArrival::Bytes(len)) => {
                    stamp(Point::CallSeen);
                    worker.clock_ns = clock::now_ns();
                    worker.came_ns = self.came_ns(worker, incoming.emptied_ns);
                    if connection.stream.has_emptied(len, space_len) {
                        incoming.emptied_ns = worker.clock_ns;
                    }
                    incoming.reassembler.received(len);
                }
                Ok(StreamArrival::Nothing) => return !connection.is_closed(),
                Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                    self.close_malformed(connection);
                    return false;
                }
                Ok(StreamArrival::Closed) | Err(_) => {
                    self.close(connection);
                    return false;
                }
            }
            match self.take_apart(worker, connection, &mut incoming) {
                Ok(true) => {}
                Ok(false) => {
                    self.close(connection);
                    return false;
                }
                Err(Malformed) => {
                    self.close_malformed(connection);
                    return false;
                }
            }
            if worker.found.is_some() {
                break;
            }
            worker.has_part |= !incoming.reassembler.is_at_rest();
            // The rest of a fragment is most likely there already; after a whole message nothing is.
            if !incoming.reassembler.is_in_fragment() {
                break;
            }
        }
        true
    }

    /// When bytes came that have been received at this moment. While workers have no time to receive, that may be as long ago as something
    /// was last received from this connection, or nothing from any.
    #[inline]
    fn came_ns(&self, worker: &WorkerState, emptied_ns: u64) -> u64 {
        match worker.patient {
            true => worker.clock_ns,
            false => {
                let drained_ns = self.drained_ns.load(Ordering::Relaxed);
                earliest_arrival(worker.clock_ns, drained_ns.max(emptied_ns))
            }
        }
    }

    /// Sees to every message that is there. `false`: the connection is to be closed.
    #[inline]
    fn take_apart(
        &self,
        worker: &mut WorkerState,
        connection: &Arc<Connection>,
        incoming: &mut Incoming,
    ) -> Result<bool, Malformed> {
        loop {
            if !self.take_received(worker, connection, incoming)? {
                return Ok(false);
            }
            match connection.stream.take_held(&mut incoming.reassembler) {
                Ok(false) => return Ok(true),
                Ok(true) => {}
                Err(_) => return Err(Malformed),
            }
        }
    }

    #[inline]
    fn take_received(
        &self,
        worker: &mut WorkerState,
        connection: &Arc<Connection>,
        incoming: &mut Incoming,
    ) -> Result<bool, Malformed> {
        let Incoming { reassembler, bound, arrived, .. } = incoming;
        loop {
            let message = match reassembler.poll() {
                Ok(None) => return Ok(true),
                Ok(Some(StreamEvent::Message(message))) => message,
                Err(Violation::Version { answer }) => {
                    // For the last time: what comes behind it cannot be understood.
                    let _ = connection.stream.try_send(&[IoSlice::new(&answer)]);
                    return Err(Malformed);
                }
                Err(_) => return Err(Malformed),
                Ok(Some(data @ StreamEvent::Data(_))) => {
                    self.take_of_pipe(connection, bound, arrived, &data)?;
                    worker.has_part = true;
                    continue;
                }
                Ok(Some(StreamEvent::NotTaken(header, code))) => {
                    arrived.note(&header).ok_or(Malformed)?;
                    self.send_refusal(connection, &header, code, &self.limit(code));
                    continue;
                }
            };
            let brought = match message.header.kind {
                Kind::Call => {
                    arrived.note(&message.header).ok_or(Malformed)?;
                    self.take_call(worker, connection, bound, message)?
                }
                Kind::Cancel => {
                    let cancel = message.header;
                    drop(message);
                    self.take_cancel(connection, bound, arrived, &cancel)?
                }
                Kind::Receipt => {
                    self.take_of_pipe(connection, bound, arrived, &StreamEvent::Message(message))?;
                    worker.has_part = true;
                    // It may let more leave.
                    self.send_pipes(connection);
                    Brought::Nothing
                }
                _ => {
                    let brought = self.take_other(connection, bound, &message)?;
                    drop(message);
                    brought
                }
            };
            match brought {
                Brought::Call(call) => worker.take(call),
                Brought::Nothing => {}
                Brought::End => return Ok(false),
                #[cfg(feature = "seal")]
                Brought::Sealed => {
                    let early = reassembler.take_unread().ok_or(Malformed)?;
                    (*bound, *arrived) = (Some(connection.seal(early)?), Numbers::default());
                }
            }
        }
    }

    /// Takes data of a pipe, or a receipt for some.
    #[cold]
    fn take_of_pipe(
        &self,
        connection: &Connection,
        bound: &Option<Bound>,
        arrived: &Numbers,
        of_pipe: &StreamEvent<'_>,
    ) -> Result<(), Malformed> {
        if bound.is_none_or(|bound| bound.binding != of_pipe.header().binding) {
            return Err(Malformed);
        }
        connection.take_of_pipe(arrived, of_pipe).map_err(|Disorder| Malformed)?;
        self.service.background.note_woken();
        Ok(())
    }

    fn limit(&self, code: RefusalCode) -> String {
        match code {
            RefusalCode::MessageTooLarge => format!("at most {} bytes", self.service.message_max),
            RefusalCode::Overloaded => NO_MEMORY_FOR_ARGUMENTS.into(),
            _ => String::new(),
        }
    }

    #[inline]
    fn take_call(
        &self,
        worker: &mut WorkerState,
        connection: &Arc<Connection>,
        bound: &Option<Bound>,
        message: Message<'_>,
    ) -> Result<Brought, Malformed> {
        let header = message.header;
        let Some(bound) = bound.filter(|bound| bound.binding == header.binding) else {
            return Err(Malformed);
        };
        let procedures = self.service.interfaces.procedure_count(bound.interface.into());
        if usize::from(header.procedure) >= procedures
            && !self.service.interfaces.has_procedure(bound.interface.into(), header.procedure)
        {
            self.send_refusal(connection, &header, RefusalCode::UnknownProcedure, "");
            return Ok(Brought::Nothing);
        }
        #[cfg(feature = "seal")]
        if self.service.handshakes == Some(bound.interface) {
            self.take_handshake(connection, &message);
            return Ok(Brought::Nothing);
        }
        let is_first = worker.found.is_none();
        let is_served = if is_first {
            self.service.activity.begin_call()
        } else {
            !self.service.activity.is_shutting_down()
        };
        if !is_served {
            self.send_refusal(connection, &header, RefusalCode::ShuttingDown, "");
            if is_first {
                self.service.activity.end_call();
            }
            return Ok(Brought::Nothing);
        }
        let mut received = self.take_message(worker, message);
        (received.header, received.procedure) = (header, header.procedure);
        (received.interface, received.together) = (bound.interface, bound.together);
        received.arrived_ns = worker.clock_ns;
        received.deadline_ns = worker.came_ns.saturating_add(nanos_of_left(header.time));
        received.deferred = !is_first;
        Ok(Brought::Call(StreamCall { connection: Arc::clone(connection), received }))
    }

    /// The caller no longer waits for a call. One that has begun is told, one that has not never will.
    #[cold]
    fn take_cancel(
        &self,
        connection: &Connection,
        bound: &Option<Bound>,
        arrived: &mut Numbers,
        header: &Header,
    ) -> Result<Brought, Malformed> {
        if bound.is_none_or(|bound| bound.binding != header.binding) {
            return Err(Malformed);
        }
        if arrived.note(header).is_some() {
            // Not all of it had arrived.
            self.send_refusal(connection, header, RefusalCode::Cancelled, "");
        } else {
            connection.cancel(header);
            // The call may wait for a worker.
            self.service.background.wake_if_asleep();
        }
        Ok(Brought::Nothing)
    }

    /// Takes the packet of a call into memory for the call.
    #[inline]
    fn take_message(&self, worker: &mut WorkerState, message: Message<'_>) -> Box<ReceivedCall> {
        if message.header.message_len as usize > Reassembler::BUFFER_LEN - HEADER_LEN {
            let mut call = ReceivedCall::blank(Vec::new());
            message.take(&mut call.packet);
            return call;
        }
        if worker.found.is_some() {
            // It waits, perhaps with many others: it takes no more room than it needs.
            let mut call = worker.unused_short.pop().unwrap_or_else(|| ReceivedCall::blank(Vec::new()));
            message.copy_to(&mut call.packet);
            return call;
        }
        let mut call = worker.unused_call.take().unwrap_or_else(|| self.blank_call());
        message.take(&mut call.packet);
        call
    }

    #[cold]
    fn blank_call(&self) -> Box<ReceivedCall> {
        let mut packet = self.unused_buffer();
        packet.resize(Reassembler::BUFFER_LEN, 0);
        ReceivedCall::blank(packet)
    }

    #[cold]
    fn take_other(
        &self,
        connection: &Connection,
        bound: &mut Option<Bound>,
        message: &Message<'_>,
    ) -> Result<Brought, Malformed> {
        if message.header.kind == Kind::Unbind {
            #[cfg(feature = "seal")]
            if bound.is_some_and(|bound| self.service.handshakes == Some(bound.interface))
                && connection.granted().is_some()
            {
                return Ok(Brought::Sealed);
            }
            return Ok(Brought::End);
        }
        let was_bound = bound.is_some();
        let question = (&message.header, message.payload());
        // A provisional binding takes no place of a binding: its connection may have to make room for others.
        let is_provisional = |interface| self.service.handshakes == Some(interface);
        let prepare = |interface| match is_provisional(interface) || self.connections.bind(connection) {
            true => Ok(()),
            false => Err(MissingResource::Share),
        };
        let named = Peer::of(&connection.caller, CallId::NONE);
        let asker = (Asker::new(connection.is_allowed), named.as_ref().map(Peer::name));
        let (header, mut packet) = self.service.answer_question(bound, asker, question, prepare)?;
        if let Some(bound) = bound.filter(|bound| !was_bound && !is_provisional(bound.interface)) {
            // If it is closed, another thread has found that, and nobody reads the answer.
            self.connections.if_open(connection, || self.count_binding(connection, bound.binding));
        }
        self.send(connection, header, &mut packet);
        Ok(Brought::Nothing)
    }
}
