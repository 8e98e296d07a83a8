//! The procedures' ends of the pipes of calls that have arrived over a byte stream.

use crate::context::cancelled::CallId;
use crate::context::keeper;
use crate::later::deferred::{Later, ReplyError};
use crate::pipes::contract::{Close, GRACE_NS, Pipes};
use crate::pipes::ends::{Carrier, QueueEnds, Side};
use crate::pipes::error::PipeError;
use crate::pipes::queue::{Awaited, PipeQueue};
use crate::pipes::waiters::Wakeup;
use crate::serving::outcome::Outcome;
use crate::serving::workers::guest::Guest;
use crate::transport::stream::pipes::CallPipes;
use crate::transport::stream::server::StreamEndpoint;
use crate::transport::stream::server::connection::Connection;
use std::sync::{Arc, Weak};
use stoop_net::clock;
use stoop_net::waiting::Placement;
use stoop_wire::Header;

/// Carries the bytes of the pipes of a procedure.
struct Procedures {
    connection: Arc<Connection>,
    pipes: Arc<CallPipes>,
    guest: Guest<StreamEndpoint>,
    /// Bytes of the longest item.
    item_max: usize,
}

impl Drop for Procedures {
    /// The procedure has returned.
    fn drop(&mut self) {
        self.guest.end();
    }
}

impl Procedures {
    /// Sends what is due of all pipes on the connection.
    fn send_all(&self) {
        // Also if another thread has sent them.
        self.connection.pipes.gathering.looks();
        self.guest.with_pool(|pool| pool.endpoint.send_pipes(&self.connection));
    }
}

impl Carrier for Procedures {
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>> {
        match side {
            Side::Sending => self.pipes.out.as_ref(),
            Side::Receiving => self.pipes.into.as_ref(),
        }
    }

    fn appended(&self, bytes: usize, own: &Weak<QueueEnds<Self>>) {
        let table = &self.connection.pipes;
        table.make_ready(&self.pipes);
        table.gathering.appended(bytes, || own.clone() as _);
    }

    fn granted(&self) {
        self.flush();
    }

    fn ended(&self, side: Side) {
        if side == Side::Receiving {
            self.pipes.stop();
        }
        self.flush();
    }

    fn flush(&self) {
        self.connection.pipes.make_ready(&self.pipes);
        self.send_all();
    }

    fn wait(&self, queue: &Arc<PipeQueue>, awaited: Awaited, until_ns: u64) {
        // Items that gather are not followed by others while this thread waits.
        self.send_all();
        self.guest.wait(until_ns, || queue.has(awaited), || queue.wait(awaited, until_ns));
        if queue.is_over() || queue.closed().is_some() {
            self.guest.end();
        }
    }

    fn item_max(&self) -> usize {
        self.item_max
    }
}

impl StreamEndpoint {
    /// Sends what is due of the pipes of a connection.
    #[cold]
    pub(super) fn send_pipes(&self, connection: &Connection) {
        if connection.pipes.has_ready() && connection.send_pipes(&self.connections.acceptor.poller).is_err() {
            self.close(connection);
        }
    }

    /// The server shuts down: calls with pipes, which may be quiet for ever, end soon.
    pub(super) fn end_pipes_soon(&self, connection: &Connection) {
        let Some(binding) = connection.bound_as() else { return };
        let deadline_ns = clock::now_ns().saturating_add(GRACE_NS);
        for (lane, number) in connection.pipes.keys() {
            keeper::end_call_by(CallId::new(binding, lane, number), deadline_ns);
        }
    }

    /// Gives a call that is about to be open the ends of its pipes.
    #[cold]
    pub(super) fn give_pipes(
        &self,
        connection: &Arc<Connection>,
        (call, together): (&Header, bool),
        pipes: Pipes,
        later: &mut Later,
    ) -> Arc<CallPipes> {
        let pipes = connection.open_pipes(call, pipes);
        let placement = Placement { together, waiting_max: self.service.spinners_max };
        let terms = (self.service.waiting, placement);
        let guest = Guest::new(self.open_calls.answers(), terms);
        let item_max = self.service.message_max;
        let (connection_of, pipes_of) = (Arc::clone(connection), Arc::clone(&pipes));
        let carrier = Procedures { connection: connection_of, pipes: pipes_of, guest, item_max };
        later.give_ends(QueueEnds::of(carrier));
        pipes.say_taken();
        connection.pipes.make_ready(&pipes);
        pipes
    }

    /// A call has ended like this. What its procedure has sent goes on, unless no caller waits for it.
    #[cold]
    pub(super) fn end_pipes(
        &self,
        connection: &Connection,
        pipes: &Arc<CallPipes>,
        outcome: &Outcome,
        reached: Result<(), ReplyError>,
    ) {
        let table = &connection.pipes;
        match outcome {
            _ if reached == Err(ReplyError::Cancelled) => {
                pipes.fail(&PipeError::Cancelled).into_iter().for_each(Wakeup::give);
                table.forget(pipes);
            }
            Outcome::Result(_) => pipes.answer(Close::Whole),
            _ => pipes.answer(Close::Aborted),
        }
        table.make_ready(pipes);
        self.send_pipes(connection);
        table.forget_if_done(pipes);
    }
}
