//! A call that arrived over a byte stream, and its answer.

use crate::context::cancelled::{self, CallId};
use crate::context::keeper;
use crate::later::deferred::{Given, Later, ReplyError};
use crate::pipes::contract::Pipes;
use crate::pipes::error::PipeError;
use crate::pipes::waiters::Wakeup;
use crate::serving::dispatch::CallLimits;
use crate::serving::message_memory::{Content, NO_MEMORY_FOR_RESULT};
use crate::serving::one_call::{self, detail_bytes, serve, wipe};
use crate::serving::outcome::{NoRoom, Outcome};
use crate::serving::service::Service;
use crate::serving::workers::Endpoint;
use crate::transport::stream::pipes::CallPipes;
use crate::transport::stream::server::connection::Connection;
use crate::transport::stream::server::worker::{SHORT_MAX, WorkerState};
use crate::transport::stream::server::{BUFFER_MAX, StreamEndpoint};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_exchange::stream::Reassembler;
use stoop_net::clock;
use stoop_probe::{Point, stamp};
use stoop_wire::{
    BindingId, CallNumber, FailureCode, HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM, Refused,
    STREAM_FRAGMENT, time_of_result,
};

/// A call, on its way from the thread that receives it to the one that runs it. It is two words: each function that it is handed
/// on to copies it.
pub(crate) struct StreamCall {
    pub(super) connection: Arc<Connection>,
    pub(super) received: Box<ReceivedCall>,
}

/// What is known of a call, and the packet that brought it. Its memory serves one call after the other.
pub(crate) struct ReceivedCall {
    pub(super) header: Header,
    pub(super) interface: u16,
    pub(super) procedure: u16,
    pub(super) arrived_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) packet: Vec<u8>,
    /// Caller and server can run at the same time.
    pub(super) together: bool,
    /// It did not run as soon as it arrived.
    pub(super) deferred: bool,
    /// Of an open call that has some.
    pipes: Option<Arc<CallPipes>>,
}

/// Calls that one worker runs in a row before it looks at the rest.
const IN_A_ROW_MAX: usize = 63;
/// Answers to short calls that are worth a write of their own while more calls wait.
const TOGETHER_MIN: usize = 16;

impl ReceivedCall {
    /// Memory for a call that comes in `packet`.
    #[cold]
    pub(super) fn blank(packet: Vec<u8>) -> Box<Self> {
        Box::new(Self {
            header: Header::bare(Kind::Call, BindingId::NONE, LaneId(0), CallNumber::ZERO),
            interface: 0,
            procedure: 0,
            arrived_ns: 0,
            deadline_ns: 0,
            packet,
            together: true,
            deferred: false,
            pipes: None,
        })
    }

    /// The header of its result of `len` bytes, of which the procedure began and ended at these times.
    #[inline(always)]
    fn result_header(&self, len: usize, (begun_ns, ended_ns): (u64, u64)) -> Header {
        let Header { binding, lane, number, .. } = self.header;
        let mut header = Header::bare(Kind::Result, binding, lane, number);
        header.message_len = len as u32;
        let at_server_ns = ended_ns.saturating_sub(self.arrived_ns);
        header.time = time_of_result(at_server_ns, begun_ns.saturating_sub(self.arrived_ns));
        header
    }

    /// The name by which its cancel refers to it.
    #[inline]
    pub(super) fn id(&self) -> CallId {
        CallId::new(self.header.binding, self.header.lane, self.header.number)
    }
}

impl StreamCall {
    #[inline(always)]
    fn limits(&self, message_max: usize) -> CallLimits {
        CallLimits::new(self.deadline_ns, self.connection.caller, self.id(), message_max)
    }
}

impl Deref for StreamCall {
    type Target = ReceivedCall;

    #[inline]
    fn deref(&self) -> &ReceivedCall {
        &self.received
    }
}

impl DerefMut for StreamCall {
    #[inline]
    fn deref_mut(&mut self) -> &mut ReceivedCall {
        &mut self.received
    }
}

/// A call that is served, and the packet for its result.
struct Serving<'a> {
    service: &'a Service,
    call: &'a StreamCall,
    result: &'a mut Vec<u8>,
}

impl one_call::ReceivedCall for Serving<'_> {
    #[inline(always)]
    fn limits(&self) -> CallLimits {
        self.call.limits(self.service.message_max)
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.call.connection.is_closed()
    }

    #[inline(always)]
    fn run(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        let call = self.call;
        let arguments = &call.packet[HEADER_LEN..HEADER_LEN + call.header.message_len as usize];
        self.service.exports.run(call.interface, call.procedure, arguments, self.result, limits)
    }

    /// The room of one connection, with the results that its caller has not read, is bounded.
    fn reserve(&mut self, bytes: usize) -> Result<(), &'static str> {
        let has_room = self.call.connection.reserve_result(bytes, self.service.message_max);
        has_room.then_some(()).ok_or(NO_MEMORY_FOR_RESULT)
    }

    fn release(&mut self, bytes: usize) {
        self.call.connection.release_result(bytes);
    }
}

impl StreamEndpoint {
    /// Runs a call's procedure and sends its answer, unless that comes later.
    #[inline]
    pub(super) fn answer(&self, worker: &mut WorkerState, call: &mut StreamCall) -> Option<Box<Later>> {
        let begun_ns = if call.deferred { clock::now_ns() } else { worker.clock_ns };
        let token = call.connection.token;
        if worker.result.is_empty() || worker.result_of != token {
            let unused = || {
                let mut buffer = self.unused_buffer();
                buffer.clear();
                buffer
            };
            wipe(&mut worker.result, &mut worker.result_of, token, unused);
        }
        self.service.activity.calls.fetch_add(1, Ordering::Relaxed);
        let mut serving = Serving { service: &self.service, call, result: &mut worker.result };
        let Some(outcome) = serve(&mut serving, begun_ns) else {
            self.service.activity.calls.fetch_sub(1, Ordering::Relaxed);
            call.connection.note_answered(&call.header);
            return None;
        };
        worker.clock_ns = clock::now_ns();
        if outcome.ran() {
            self.service.exports.time(call.interface, call.procedure).took(worker.clock_ns - begun_ns);
        }
        match outcome.unless_late(call.deadline_ns, worker.clock_ns) {
            Outcome::Result(len) => self.send_result(worker, call, (len, begun_ns)),
            Outcome::Refused(why) => {
                self.service.activity.calls.fetch_sub(1, Ordering::Relaxed);
                self.send_refusal(&call.connection, &call.header, why.0, &why.1);
            }
            Outcome::Failed(why) => self.send_failure(call, why.0, &why.1),
            Outcome::Later(later) => return Some(later),
        }
        if worker.result.len() > BUFFER_MAX {
            worker.result = Vec::new();
        }
        None
    }

    /// Lets a call that has run wait for its answer.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_open(&self, mut call: StreamCall, mut later: Later) {
        let arguments = mem::take(&mut call.packet);
        self.give_packet_back(&call.connection, arguments);
        let (terms, connection) = (self.terms(&call), Arc::clone(&call.connection));
        let pipes = later.pipes();
        if pipes != Pipes::default() {
            call.pipes = Some(self.give_pipes(&connection, (&call.header, call.together), pipes, &mut later));
        }
        self.open_calls.open(call, terms.identity(), later);
        if pipes != Pipes::default() {
            // Says that the call has been taken.
            self.send_pipes(&connection);
        }
        if connection.is_closed() {
            // The thread that closed it may have looked for its open calls before.
            keeper::end_call(terms.call);
        }
    }

    /// Answers a call that has been open.
    pub(super) fn answer_later(&self, call: &StreamCall, given: Given<'_>) -> Result<(), ReplyError> {
        let reached = self.conclude(call, given);
        cancelled::ended(call.id());
        self.service.activity.end_call();
        reached
    }

    fn conclude(&self, call: &StreamCall, given: Given<'_>) -> Result<(), ReplyError> {
        if call.connection.is_closed() {
            call.connection.note_answered(&call.header);
            if let Some(pipes) = &call.pipes {
                pipes.fail(&PipeError::Cancelled).into_iter().for_each(Wakeup::give);
            }
            return Err(ReplyError::CallerGone);
        }
        let (now_ns, limits) = (clock::now_ns(), call.limits(self.service.message_max));
        let mut packet = vec![0; HEADER_LEN];
        let (outcome, reached) =
            one_call::conclude(&self.service.exports, &limits, given, &mut packet, now_ns);
        if let Some(pipes) = &call.pipes {
            // First: data on its way must not be taken for that of a call which has just come, when the table forgets this one.
            call.connection.note_answered(&call.header);
            self.end_pipes(&call.connection, pipes, &outcome, reached);
        }
        match outcome {
            Outcome::Result(len) => {
                let header = call.result_header(len, (call.arrived_ns, now_ns));
                match len > STREAM_FRAGMENT {
                    true => self.send_long_result(&mut packet, call, header),
                    false => self.send(&call.connection, header, &mut packet),
                }
            }
            Outcome::Failed(why) => self.send_failure(call, why.0, &why.1),
            Outcome::Refused(why) => {
                self.service.activity.calls.fetch_sub(1, Ordering::Relaxed);
                self.send_refusal(&call.connection, &call.header, why.0, &why.1);
            }
            Outcome::Later(_) => unreachable!("this is its answer"),
        }
        reached
    }

    /// Takes a call that has arrived on the same connection and takes hardly any time: this worker runs it next, and
    /// their answers leave together.
    #[inline]
    fn take_next(&self, worker: &mut WorkerState, call: &StreamCall) {
        if self.pending.count() > 0 && worker.in_a_row < IN_A_ROW_MAX {
            self.take_next_behind(worker, call);
        }
    }

    #[inline(never)]
    fn take_next_behind(&self, worker: &mut WorkerState, call: &StreamCall) {
        let next = self.pending.take_first(&mut worker.key, |next| {
            Arc::ptr_eq(&next.connection, &call.connection)
                && self.service.exports.time(next.interface, next.procedure).is_short()
        });
        worker.next = next.map(|mut next| {
            // It begins as the present one ends.
            next.deferred = false;
            next
        });
    }

    #[inline]
    fn send_result(&self, worker: &mut WorkerState, call: &StreamCall, (len, begun_ns): (usize, u64)) {
        let header = call.result_header(len, (begun_ns, worker.clock_ns));
        if worker.result.len() < HEADER_LEN {
            worker.result.resize(MAX_DATAGRAM, 0);
        }
        if len > STREAM_FRAGMENT {
            return self.send_long_result(&mut worker.result, call, header);
        }
        self.take_next(worker, call);
        let (poller, hold) = (&self.connections.acceptor.poller, self.holds_answer(worker));
        stamp(Point::ResultLeaves);
        let sent =
            call.connection.send_answer(poller, header, &mut worker.result, self.service.message_max, hold);
        stamp(Point::ResultLeft);
        if sent.is_err() {
            self.close(&call.connection);
        }
    }

    /// Sends a result of several fragments, if there is memory in which it can wait for its reader.
    #[cold]
    fn send_long_result(&self, result: &mut Vec<u8>, call: &StreamCall, header: Header) {
        let (poller, most) = (&self.connections.acceptor.poller, self.service.message_max);
        match call.connection.send_long(poller, header, result, most) {
            Ok(true) => {}
            Ok(false) => self.send_failure(call, FailureCode::ResultTooLarge, NO_MEMORY_FOR_RESULT),
            Err(_) => self.close(&call.connection),
        }
    }

    /// Whether an answer waits for those of the calls that this worker runs next. Half of them leave while the rest still runs, so that
    /// the caller takes those answers and makes its next calls meanwhile.
    #[inline]
    fn holds_answer(&self, worker: &mut WorkerState) -> bool {
        worker.held_back += 1;
        let enough = self.pending.count().max(TOGETHER_MIN);
        let holds = worker.next.is_some() && worker.held_back < enough;
        if !holds {
            worker.held_back = 0;
        }
        holds
    }

    /// Answers that the procedure has not run and will not run for this call.
    #[cold]
    pub(super) fn send_refusal(
        &self,
        connection: &Connection,
        call: &Header,
        refused: impl Into<Refused>,
        detail: &str,
    ) {
        let refused = refused.into();
        self.service.activity.refused.count(refused.code);
        self.send_without_result(connection, call.refuse(refused), detail);
    }

    /// The same of a call that the worker pool refuses. An overloaded server sends many of these: it takes no memory, and refusals of calls
    /// that came together leave together.
    pub(super) fn send_bare_refusal(&self, worker: &mut WorkerState, call: &StreamCall, refused: Refused) {
        self.service.activity.refused.count(refused.code);
        let hold = self.holds_refusal(worker, call);
        // If the reader has not taken the one before, its memory has gone with it.
        worker.refusal.resize(HEADER_LEN, 0);
        let (poller, most) = (&self.connections.acceptor.poller, self.service.message_max);
        let header = call.header.refuse(refused);
        if call.connection.send_answer(poller, header, &mut worker.refusal, most, hold).is_err() {
            self.close(&call.connection);
        }
    }

    /// Whether a refusal is held back, to leave together with the answers to calls that have arrived with it. A refusal
    /// that is held back leaves soon: the background thread sends it whenever it looks for work, and it looks while it receives in place of
    /// the workers, and when one of these calls begins to run.
    fn holds_refusal(&self, worker: &mut WorkerState, call: &StreamCall) -> bool {
        match worker.patient {
            true => {
                let is_alike = |next: &StreamCall| Arc::ptr_eq(&next.connection, &call.connection);
                self.pending.is_first(&mut worker.key, is_alike)
            }
            false => self.pending.count() > 0,
        }
    }

    /// Answers that the procedure ran, but there is no result.
    #[cold]
    fn send_failure(&self, call: &StreamCall, code: FailureCode, detail: &str) {
        let Header { binding, lane, number, .. } = call.header;
        let failure = Header { time: code.code(), ..Header::bare(Kind::Failure, binding, lane, number) };
        self.send_without_result(&call.connection, failure, detail);
    }

    fn send_without_result(&self, connection: &Connection, mut header: Header, detail: &str) {
        let detail = detail_bytes(detail);
        header.message_len = detail.len() as u32;
        let mut packet = vec![0; HEADER_LEN];
        packet.extend_from_slice(detail);
        let poller = &self.connections.acceptor.poller;
        if connection.send_answer(poller, header, &mut packet, self.service.message_max, false).is_err() {
            self.close(connection);
        }
    }

    /// Sends a message without waiting for its reader. A connection that is broken is closed.
    #[inline]
    pub(super) fn send(&self, connection: &Connection, header: Header, packet: &mut Vec<u8>) {
        if connection
            .send(&self.connections.acceptor.poller, header, packet, self.service.message_max)
            .is_err()
        {
            self.close(connection);
        }
    }

    /// Keeps the memory of an answered call for another.
    #[inline]
    pub(super) fn give_back(&self, worker: &mut WorkerState, call: StreamCall) {
        let StreamCall { connection, mut received } = call;
        if received.packet.len() == Reassembler::BUFFER_LEN && worker.unused_call.is_none() {
            worker.unused_call = Some(received);
        } else if received.packet.capacity() <= SHORT_MAX {
            worker.keep_short(received);
        } else {
            self.give_packet_back(&connection, mem::take(&mut received.packet));
        }
    }

    #[cold]
    fn give_packet_back(&self, connection: &Connection, packet: Vec<u8>) {
        // One of another length was made for a call that waited.
        if packet.len() <= Reassembler::BUFFER_LEN {
            if packet.len() == Reassembler::BUFFER_LEN {
                self.recycle_buffer(packet);
            }
            return;
        }
        connection.memory.give_back(Content::Arguments, packet.len());
        // A caller that sent one long message is likely to send another.
        if let Some(mut incoming) = connection.try_incoming() {
            incoming.reassembler.recycle(packet);
        }
    }
}
